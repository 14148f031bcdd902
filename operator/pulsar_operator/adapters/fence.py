"""Refuses writes once another process may hold the Lease.

The process ends when the Lease is lost, and its passes are cancelled. Until then a pass may be at any point, and the
process may have been suspended for a minute while the next holder began to work. So each write is checked directly
before it is sent, at each attempt, by the monotonic clock of the last renewal (lease.py). Writes that were sent before
cannot be stopped, since servers do not know the Lease.
"""

from __future__ import annotations

from collections.abc import Callable

from pulsar_operator.ports import UnavailableError

Fence = Callable[[str], None]
"""Receives a description of the write, without contents. Raises UnavailableError if it must not be sent."""


def fence_of(is_leader: Callable[[], bool]) -> Fence:
    """Returns a fence that is open while ``is_leader`` returns True, so that no other process can hold the Lease."""

    def check(what: str) -> None:
        if not is_leader():
            raise UnavailableError(f"{what} was not sent, because another process may hold the Lease")

    return check


def open_fence(what: str) -> None:
    """Allows every write. For tools and tests, which write without a Lease."""
