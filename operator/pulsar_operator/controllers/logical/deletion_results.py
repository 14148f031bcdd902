"""What a step of a deletion in Pulsar may come to, besides that the object is gone there."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_operator.api.constants import Reason


@dataclass(frozen=True)
class Blocker:
    """What keeps an object from being deleted in Pulsar."""

    reason: Reason
    message: str


@dataclass(frozen=True)
class Progress:
    """A part is deleted, and the next pass goes on with what Pulsar still lists."""

    message: str


@dataclass(frozen=True)
class NotOurs:
    """Pulsar has something of that name that the object never managed: it stays."""

    why: str


Unfinished = Blocker | Progress | NotOurs
