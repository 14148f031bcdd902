"""Nothing is written once the Lease may be another process's.

The process ends when the Lease is lost, and its passes are cancelled. Until then a pass may be anywhere, and the
process may have stood still for a minute while the next holder began to work. So whatever may change something asks
directly before it is sent, at each attempt, by the monotonic clock of the last renewal (lease.py). What was sent before
is out of reach: servers do not know the Lease.
"""

from __future__ import annotations

from collections.abc import Callable

from pulsar_operator.ports import UnavailableError

Fence = Callable[[str], None]
"""Told what is about to be written, in words without contents. Raises UnavailableError where it must not be."""


def fence_of(held: Callable[[], bool]) -> Fence:
    """A fence that is open as long as ``held`` says that nobody else can hold the Lease."""

    def check(what: str) -> None:
        if not held():
            raise UnavailableError(f"not sent, another process may hold the Lease by now: {what}")

    return check


def open_fence(what: str) -> None:
    """For whoever writes without a Lease: tools, tests."""
