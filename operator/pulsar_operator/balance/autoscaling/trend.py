"""Growth of stored data: means of two halves of the samples. Pure.

The halves are whole days once two of them are sampled, so that a day's ups and downs are no growth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

Samples = tuple[tuple[float, float], ...]
"""Time and used bytes of all bookies, ascending by time."""

HOUR = 3600.0
KEPT = 48
"""Samples, one an hour."""
LARGEST = 2.0**62
"""Bytes; more are an error of who says it, and status has no room for them (`StoredStatus`)."""
LEAST = 4
"""Samples from which growth is derived."""
RECENT = 6
"""The last ones, which show whether it still grows, and whether faster."""
EXTRAPOLATED = 1.5
"""Growth is reckoned to continue for so many times what was sampled of it: hours of an import are not three days."""


def sampled(samples: Samples, now: float, used: float) -> Samples:
    """Returns the samples with one more, if the last one is an hour old; without old ones. Invalid values are
    skipped."""
    kept = tuple(each for each in samples if now - KEPT * HOUR <= each[0] <= now)
    if (kept and now - kept[-1][0] < HOUR) or not 0 <= used <= LARGEST:
        return kept
    return (*kept, (now, used))[-KEPT:]


@dataclass(frozen=True, slots=True)
class Trend:
    """Growth as it was sampled."""

    slope: float
    """Bytes a second, over all samples."""
    seconds: float
    """Between the first and the last sample."""
    recent: float
    """Bytes a second, over the last hours."""
    recent_seconds: float
    """Between the samples of these."""

    def ahead(self, seconds: float) -> float:
        """Returns the bytes that are stored on top within so many seconds, as far as what was sampled reaches; 0 where
        it no longer grows. What grows faster lately does so for some hours."""
        if self.recent <= 0:
            return 0.0
        long = max(self.slope, 0.0) * min(seconds, EXTRAPOLATED * self.seconds)
        return max(long, self.recent * min(seconds, EXTRAPOLATED * self.recent_seconds))


def trend(samples: Samples) -> Trend | None:
    """Returns the growth of all samples, and of the last ones; None = too little was sampled to say."""
    found, last = slope(samples), samples[-RECENT:]
    recent = slope(last)
    if found is None or recent is None:
        return None
    return Trend(found, samples[-1][0] - samples[0][0], recent, last[-1][0] - last[0][0])


def slope(samples: Samples) -> float | None:
    """Returns the bytes a second; None = too little was sampled to say. Below 0 where less and less is stored."""
    if len(samples) < LEAST:
        return None
    middle = (samples[0][0] + samples[-1][0]) / 2
    early = [each for each in samples if each[0] <= middle]
    late = [each for each in samples if each[0] > middle]
    seconds = _mean(time for time, _ in late) - _mean(time for time, _ in early)
    return (_mean(used for _, used in late) - _mean(used for _, used in early)) / seconds


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return fsum(found) / len(found)


def to_status(samples: Samples) -> list[dict[str, float]]:
    """As they stand in status."""
    return [{"time": time, "usedBytes": used} for time, used in samples]


def from_status(status: Sequence[Any] | None, now: float) -> Samples:
    """Read back; what is no sample of the past is left out, and so is a second one of a time."""
    found: dict[float, float] = {}
    for each in status or ():
        try:
            time, used = float(each["time"]), float(each["usedBytes"])
        except (TypeError, ValueError, KeyError):
            continue
        if 0 <= time <= now and 0 <= used <= LARGEST:
            found[time] = used
    return tuple(sorted(found.items()))[-KEPT:]
