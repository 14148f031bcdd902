"""What is remembered of a bookie that leaves, or gets a new volume, in a znode of the cluster's metadata store: it
survives the operator, the custom resource and a restored status. Pure."""

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
"""Bookies that stayed after a copy of what they have was asked for: from which ledger on it may have closed some."""


class Cause(StrEnum):
    """Why a bookie gets a new volume."""

    LOST = "Lost"
    """It has another volume than before, or none."""
    ASKED = "Asked"
    """Somebody wants it, by annotation."""


@dataclass(frozen=True)
class Renewal:
    """That a bookie stays and gets a new volume."""

    cause: Cause
    why: str
    """What is wrong with the volume, in words."""
    pod: str = ""
    """UID of the pod that was annotated."""
    claims: Mapping[str, str] = field(default_factory=dict, hash=False)
    """UIDs of the claims that are deleted, by name; once there are any, there is no way back."""
    ending: str = ""
    """UID of the pod that has them; empty = there was none."""
    cookie: int | None = None
    """The transaction that created its cookie (ports.Node.created); None = it had none."""
    accepted: bool = False
    """Whether somebody confirmed that ledgers with entries on no other bookie are lost."""

    def fields(self) -> dict[str, Any]:
        """As stored."""
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
    """See the module. One bookie leaves, or gets a new volume, at a time."""

    bookie: str
    """Its id."""
    ordinal: int
    since: datetime
    ensemble: int = 1
    """Writable bookies that new ledgers take."""
    asked: str | None = None
    """UID of the auto-recovery pod that was asked for the copy."""
    asked_at: datetime | None = None
    """When, or when it was last seen to make progress."""
    naming: int | None = None
    """Ledgers that named it then."""
    restored: bool = False
    """Whether it was made writable again since."""
    stopped: int | None = None
    """Generation of the specification at which it was given up."""
    why: str = ""
    """Why, in words."""
    renewal: Renewal | None = None
    """Of a bookie that stays and gets a new volume; None of one that leaves."""
    handles: Handles = field(default_factory=Handles)
    """Which topics are to be unloaded still."""
    through: int | None = None
    """Ledgers up to this id are done once the topics are through; None = the round has not begun."""
    missed: bool = False
    """Whether a topic of this round could not be unloaded."""
    run: str = ""
    """The process of the bookie that was made read-only."""
    last_ledger: int | None = None
    """The highest id of a ledger when that process was last seen to be read-only."""
    forgot: bool = False
    """Whether no ledger named it, so that its cookie is deleted, or was."""
    stalled: bool = False
    """Whether the last time that a copy was asked for brought nothing."""
    tried_at: datetime | None = None
    """When topics that could not be unloaded were last tried again."""
    restoring: bool = False
    """Whether it is about to be made writable: it may take entries, whatever it says."""

    @property
    def copied_from(self) -> int | None:
        """From this id on a copy that was asked for may close ledgers that are made on the bookie once it takes entries
        again: nobody can end it. None = none was asked for."""
        found = [each for each in (self.handles.suspect, self.last_ledger) if each is not None]
        return min(found, default=None)

    def before_restore(self) -> DecommissionRecord:
        """The memo to be written before the bookie is made writable: an operator that is killed in between knows that
        the bookie may have taken entries."""
        return replace(self, restoring=True, restored=False)

    def after_restore(self) -> DecommissionRecord:
        """The memo once the bookie is writable."""
        return replace(self, restoring=False, restored=True)

    def data(self) -> bytes:
        """Content of the znode."""
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
    """What the znode says; None where that cannot be read: then nothing is known to be under way."""
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
    """Raises ValueError for a time that cannot be read."""
    found = parse_time(text)
    if text and found is None:
        raise ValueError(f"no time: {text}")
    return found


def parse_copies(data: bytes) -> dict[str, int] | None:
    """What znode COPIES_PATH says, by the bookie's id; None where it cannot be read: any ledger may be meant."""
    try:
        return {str(bookie): int(ledger) for bookie, ledger in json.loads(data or b"{}").items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def copies_data(copies: Mapping[str, int]) -> bytes:
    """Content of the znode."""
    return json.dumps(dict(sorted(copies.items()))).encode()


def _number(found: Any) -> int | None:
    return None if found is None else int(found)


def _renewal(found: Any) -> Renewal | None:
    """Raises what a wrong value raises: a renewal that cannot be read must not pass for a removal."""
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
