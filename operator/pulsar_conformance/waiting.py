"""Waiting for what the broker does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pulsar_conformance.admin import AdminError
from pulsar_conformance.model import CheckFailed

T = TypeVar("T")
MARGIN = 40.0
"""Seconds that a broker may be late for what it does in intervals."""


@dataclass(frozen=True)
class Interval:
    """How often brokers do something periodically."""

    seconds: float

    @property
    def within(self) -> float:
        """Seconds in which it has been done."""
        return self.seconds + MARGIN

    @property
    def every(self) -> float:
        """Seconds between two checks whether it is done, scaled to the interval."""
        return min(1.0, max(0.2, self.seconds / 20))


def eventually(probe: Callable[[], T], what: str, *, within: float = 20, every: float = 0.2) -> T:
    """What the probe returns once that is true. Raises CheckFailed with the last error at the deadline."""
    deadline = time.monotonic() + within
    while True:
        last_error = ""
        try:
            found = probe()
            if found:
                return found
        except (AdminError, CheckFailed, OSError) as error:
            last_error = f" ({error})"
        if time.monotonic() > deadline:
            raise CheckFailed(f"not within {within:.0f} s: {what}{last_error}")
        time.sleep(every)
