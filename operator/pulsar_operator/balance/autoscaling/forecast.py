"""Forecast from recorded traffic, in proportion to the current load. Pure.

A record is in bytes or messages, while the live signal may be CPU. So the record provides the growth of the load, and
the level from which it grows is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_GROWTH = 3.0
"""Maximum growth that a record may predict, as a multiple of the current load: today may differ from the recorded
days."""


@dataclass(frozen=True)
class Profile:
    """Traffic of a day, or of a week, that repeats."""

    step: float
    """Seconds between two weights."""
    weights: tuple[float, ...]
    """Weights by step; the first is at time ``begin`` of the clock of the decisions, and they repeat after the last."""
    begin: float = 0.0

    def __post_init__(self) -> None:
        """Raises ValueError for an invalid profile."""
        if not self.step > 0 or len(self.weights) < 2 or not all(0 <= weight <= 1e19 for weight in self.weights):
            raise ValueError("a profile must have a step above 0 and at least two weights, none of them below 0")

    def at(self, time: float) -> float:
        """Returns the weight at a time, interpolated."""
        place = (time - self.begin) / self.step % len(self.weights)
        left = int(place) % len(self.weights)
        right = (left + 1) % len(self.weights)
        return self.weights[left] + (self.weights[right] - self.weights[left]) * (place - int(place))

    def peak(self, begin: float, seconds: float) -> float:
        """Returns the largest weight within ``seconds`` from ``begin``."""
        first = int((begin - self.begin) // self.step) + 1
        last = int((begin + seconds - self.begin) // self.step)
        inside = (self.weights[number % len(self.weights)] for number in range(first, min(last, first + 10**5) + 1))
        return max(self.at(begin), self.at(begin + seconds), *inside)


def growth(profile: Profile | None, now: float, seconds: float, back: float = 0.0) -> float:
    """Returns the highest load within ``seconds``, divided by the current one or by the highest of the ``back`` seconds
    before; 1 if it does not grow, or if nothing is recorded."""
    if profile is None:
        return 1.0
    present = profile.peak(now - back, back)
    return min(max(profile.peak(now, seconds) / present, 1.0), MOST_GROWTH) if present > 0 else 1.0


def gain(profile: Profile | None, now: float, seconds: float, back: float = 0.0) -> float:
    """Returns the growth as a difference, in the unit of the profile."""
    if profile is None:
        return 0.0
    return max(profile.peak(now, seconds) - profile.peak(now - back, back), 0.0)
