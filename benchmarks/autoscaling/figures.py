"""What is counted of a week."""

from __future__ import annotations

from dataclasses import dataclass

FLAP_LOAD = 0.1


@dataclass(frozen=True)
class Run:
    """One scaler's week."""

    world: str
    trace: str
    seed: int
    scaler: str
    violated: int
    """Minutes in which a server had more than it can carry well."""
    hours: float
    """Of servers."""
    flaps: int
    changes: int
    bundles: int
    """Moved from one broker to another."""
    copied: float
    """Between bookies, in disks."""
    bound: float
    """Hours of one who knows the week."""


class Flaps:
    """Counts changes, and those that take the last one back for nothing: within so many minutes, with the load within a
    tenth of what it was then, and as many pods away."""

    def __init__(self, minutes: int) -> None:
        self._minutes = minutes
        self.changes = self.flaps = 0
        self._last: tuple[int, int, float, int] | None = None

    def change(self, minute: int, direction: int, load: float, away: int) -> None:
        """One change, with the load as it is and not as it was measured."""
        self.changes += 1
        if self._last is not None:
            then, before, was, gone = self._last
            same = abs(load - was) <= FLAP_LOAD * was and away == gone
            self.flaps += same and direction == -before and minute - then <= self._minutes
        self._last = minute, direction, load, away
