"""What is remembered of a bookie that leaves, in a znode of the cluster's metadata store: it survives the operator, the
custom resource and a restored status. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pulsar_operator.domain.conditions import parse_time, timestamp

MEMO_PATH: Final = "/pulsar-operator/leaving-bookie"


@dataclass(frozen=True)
class LeavingMemo:
    """See the module. One bookie leaves at a time."""

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
    freed: bool = False
    """Whether it was made writable again since."""
    stopped: int | None = None
    """Generation of the specification at which it was given up."""
    why: str = ""
    """Why, in words."""

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
            "freed": self.freed or None,
            "stopped": self.stopped,
            "why": self.why,
        }
        return json.dumps({key: value for key, value in found.items() if value or value == 0}).encode()


def parse_leaving_memo(data: bytes) -> LeavingMemo | None:
    """What the znode says; None where that cannot be read: then nothing is known to be under way."""
    try:
        found = json.loads(data)
        since = parse_time(str(found["since"]))
        stopped, naming = found.get("stopped"), found.get("naming")
        if since is None:
            return None
        return LeavingMemo(
            bookie=str(found["bookie"]),
            ordinal=int(found["ordinal"]),
            since=since,
            ensemble=int(found.get("ensemble", 1)),
            asked=found.get("asked"),
            asked_at=parse_time(found.get("askedAt")),
            naming=None if naming is None else int(naming),
            freed=bool(found.get("freed")),
            stopped=None if stopped is None else int(stopped),
            why=str(found.get("why", "")),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
