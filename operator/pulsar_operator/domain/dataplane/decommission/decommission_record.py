"""The record of a decommission or a volume replacement, in a znode of the cluster's metadata store. It outlives the
operator, the custom resource and a restored status. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from pulsar_operator.domain.bookkeeper.ledger_scan import Handles
from pulsar_operator.domain.conditions import parse_time, timestamp

DECOMMISSION_RECORD_PATH: Final = "/pulsar-operator/decommission"
COPIES_PATH: Final = "/pulsar-operator/asked-copies"
"""Bookies that were kept after a copy was requested: the lowest ledger that the copy may have closed, for each."""


class Cause(StrEnum):
    """Why a bookie gets a new volume."""

    LOST = "Lost"
    """Its volume is missing, or is another one than before."""
    ASKED = "Asked"
    """A user requested it by annotation."""


@dataclass(frozen=True)
class Renewal:
    """The replacement of the volume of a bookie that stays."""

    cause: Cause
    why: str
    """What is wrong with the volume, as a message."""
    pod: str = ""
    """UID of the pod that was annotated."""
    claims: Mapping[str, str] = field(default_factory=dict, hash=False)
    """UIDs of the deleted claims, by name. Once there are any, the replacement cannot be undone."""
    ending: str = ""
    """UID of the pod that uses these claims; empty if there was none."""
    cookie: int | None = None
    """The transaction that created its cookie (ports.Node.created); None if it had none."""
    accepted: bool = False
    """Whether a user confirmed that ledgers with entries on no other bookie are lost."""

    def fields(self) -> dict[str, Any]:
        """Returns the stored form."""
        return {
            "cause": self.cause.value,
            "why": self.why,
            "pod": self.pod,
            "claims": dict(self.claims),
            "ending": self.ending,
            "cookie": self.cookie,
            "accepted": self.accepted,
        }


@dataclass(frozen=True)
class DecommissionRecord:
    """See the module. At most one bookie is decommissioned, or gets a new volume, at a time."""

    bookie: str
    """Its id."""
    ordinal: int
    since: datetime
    ensemble: int = 1
    """Number of writable bookies that a new ledger needs."""
    asked: str | None = None
    """UID of the auto-recovery pod that was asked for the copy."""
    asked_at: datetime | None = None
    """When it was asked, or last observed to make progress."""
    naming: int | None = None
    """Number of ledgers that referenced the bookie then."""
    restored: bool = False
    """Whether the bookie was made writable again since."""
    stopped: int | None = None
    """Generation of the specification at which the decommission was abandoned."""
    why: str = ""
    """Why, as a message."""
    renewal: Renewal | None = None
    """The volume replacement of a bookie that stays; None for a decommission."""
    handles: Handles = field(default_factory=Handles)
    """Topics that must still be unloaded."""
    through: int | None = None
    """Highest ledger id that this round of unloading covers; None if the round has not begun."""
    missed: bool = False
    """Whether a topic of this round could not be unloaded."""
    run: str = ""
    """The process of the bookie that was made read-only."""
    last_ledger: int | None = None
    """Highest ledger id when that process was last observed to be read-only."""
    forgot: bool = False
    """Whether no ledger referenced the bookie, so that its cookie is being deleted or is deleted."""
    stalled: bool = False
    """Whether the last requested copy made no progress."""
    tried_at: datetime | None = None
    """When unloading of the missed topics was last tried again."""
    restoring: bool = False
    """Whether it is about to be made writable: from now on it may take entries, whatever it reports."""

    @property
    def copied_from(self) -> int | None:
        """Lowest ledger id that a requested copy may close although the bookie created it after it became writable
        again: a copy cannot be cancelled. None if no copy was requested."""
        found = [each for each in (self.handles.suspect, self.last_ledger) if each is not None]
        return min(found, default=None)

    def before_restore(self) -> DecommissionRecord:
        """Returns the record to write before the bookie is made writable. If the operator is killed in between, the
        record shows that the bookie may have taken entries."""
        return replace(self, restoring=True, restored=False)

    def after_restore(self) -> DecommissionRecord:
        """Returns the record once the bookie is writable."""
        return replace(self, restoring=False, restored=True)

    def data(self) -> bytes:
        """Returns the content of the znode."""
        found = {
            "bookie": self.bookie,
            "ordinal": self.ordinal,
            "since": timestamp(self.since),
            "ensemble": self.ensemble,
            "asked": self.asked,
            "askedAt": timestamp(self.asked_at) if self.asked_at is not None else None,
            "naming": self.naming,
            "restored": self.restored or None,
            "restoring": self.restoring or None,
            "stopped": self.stopped,
            "why": self.why,
            "renewal": self.renewal.fields() if self.renewal is not None else None,
            "stalled": self.stalled or None,
            "triedAt": timestamp(self.tried_at) if self.tried_at is not None else None,
            "after": self.handles.after or None,
            "unloaded": self.handles.unloaded if self.handles.unloaded >= 0 else None,
            "suspect": self.handles.suspect,
            "through": self.through,
            "missed": self.missed or None,
            "run": self.run or None,
            "lastLedger": self.last_ledger,
            "forgot": self.forgot or None,
        }
        return json.dumps({key: value for key, value in found.items() if value or value == 0}).encode()


def parse_decommission_record(data: bytes) -> DecommissionRecord | None:
    """Returns the record in the znode; None if it cannot be read, which means that no operation is known."""
    try:
        found = json.loads(data)
        since = parse_time(str(found["since"]))
        stopped, naming = found.get("stopped"), found.get("naming")
        if since is None:
            return None
        return DecommissionRecord(
            bookie=str(found["bookie"]),
            ordinal=int(found["ordinal"]),
            since=since,
            ensemble=int(found.get("ensemble", 1)),
            asked=found.get("asked"),
            asked_at=_moment(found.get("askedAt")),
            naming=None if naming is None else int(naming),
            restored=bool(found.get("restored")),
            restoring=bool(found.get("restoring")),
            stopped=None if stopped is None else int(stopped),
            why=str(found.get("why", "")),
            renewal=_renewal(found.get("renewal")),
            stalled=bool(found.get("stalled")),
            tried_at=_moment(found.get("triedAt")),
            handles=Handles(
                after=str(found.get("after", "")),
                unloaded=int(found.get("unloaded", -1)),
                suspect=_number(found.get("suspect")),
            ),
            through=_number(found.get("through")),
            missed=bool(found.get("missed")),
            run=str(found.get("run", "")),
            last_ledger=_number(found.get("lastLedger")),
            forgot=bool(found.get("forgot")),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def _moment(text: str | None) -> datetime | None:
    """Parses a time. Raises ValueError if it cannot be read."""
    found = parse_time(text)
    if text and found is None:
        raise ValueError(f"{text} is not a time")
    return found


def parse_copies(data: bytes) -> dict[str, int] | None:
    """Parses znode COPIES_PATH into ledger ids by bookie id; None for one that cannot be read, which means any
    ledger."""
    try:
        return {str(bookie): int(ledger) for bookie, ledger in json.loads(data or b"{}").items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def copies_data(copies: Mapping[str, int]) -> bytes:
    """Returns the content of the znode."""
    return json.dumps(dict(sorted(copies.items()))).encode()


def _number(found: Any) -> int | None:
    return None if found is None else int(found)


def _renewal(found: Any) -> Renewal | None:
    """Parses a volume replacement. Raises the error of a wrong value: an unreadable replacement must not pass for a
    decommission."""
    if found is None:
        return None
    cookie = found["cookie"]
    return Renewal(
        cause=Cause(found["cause"]),
        why=str(found["why"]),
        pod=str(found["pod"]),
        claims={str(name): str(uid) for name, uid in found["claims"].items()},
        ending=str(found["ending"]),
        cookie=None if cookie is None else int(cookie),
        accepted=bool(found["accepted"]),
    )
