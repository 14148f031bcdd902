"""The interface of every controller to the engine, and the result of a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pulsar_operator.ports import Key


@dataclass(frozen=True)
class Outcome:
    """What the queue does next with the key."""

    requeue_after: float | None = None
    """Seconds until the next pass; None to wait for events and the periodic resync."""
    backoff: bool = False
    """Whether the pass failed. The queue then chooses an exponentially growing delay."""
    gone: bool = False
    """Whether the API server has no such object. The engine then updates what depends on it."""


DONE = Outcome()
GONE = Outcome(gone=True)


class Reconciler(Protocol):
    """Level-triggered reconciliation of one kind."""

    async def reconcile(self, key: Key) -> Outcome:
        """Brings the live state one step closer to the specification. It can be stopped at any await and run again."""
