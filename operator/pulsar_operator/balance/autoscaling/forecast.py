"""Forecast from recorded traffic, in proportion to the present load. Pure.

A recorded day is in bytes or messages, what is judged live may be CPU: so the record shows by how much the load grows,
not how high it will be, and what it grows from is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_GROWTH = 3.0
"""A record may not ask for more than this many times the load of now: today may not be like the days recorded."""


@dataclass(frozen=True)
class Profile:
    """Traffic of a day, or of a week, that repeats itself."""

    step: float
    """Seconds between two weights."""
    weights: tuple[float, ...]
    """The first is at time ``begin`` of the clock that decisions use, and again after all of them."""
    begin: float = 0.0

    def __post_init__(self) -> None:
        """Raises ValueError for an invalid profile."""
        if not self.step > 0 or len(self.weights) < 2 or not all(0 <= weight <= 1e19 for weight in self.weights):
            raise ValueError("a profile has a step above 0 and two weights at least, none of them below 0")

    def at(self, time: float) -> float:
        """Returns the weight at a time, interpolated."""
        place = (time - self.begin) / self.step % len(self.weights)
        left = int(place) % len(self.weights)
        right = (left + 1) % len(self.weights)
        return self.weights[left] + (self.weights[right] - self.weights[left]) * (place - int(place))

    def peak(self, begin: float, seconds: float) -> float:
        """Returns the largest weight within some seconds."""
        first = int((begin - self.begin) // self.step) + 1
        last = int((begin + seconds - self.begin) // self.step)
        inside = (self.weights[number % len(self.weights)] for number in range(first, min(last, first + 10**5) + 1))
        return max(self.at(begin), self.at(begin + seconds), *inside)


def growth(profile: Profile | None, now: float, seconds: float, back: float = 0.0) -> float:
    """Returns the load at its highest within so many seconds, over that of now, or over the highest of the ``back``
    seconds before; 1 = no more than that, or nothing recorded."""
    if profile is None:
        return 1.0
    present = profile.peak(now - back, back)
    return min(max(profile.peak(now, seconds) / present, 1.0), MOST_GROWTH) if present > 0 else 1.0


def gain(profile: Profile | None, now: float, seconds: float, back: float = 0.0) -> float:
    """By how much that is more, in the unit of the profile."""
    if profile is None:
        return 0.0
    return max(profile.peak(now, seconds) - profile.peak(now - back, back), 0.0)
