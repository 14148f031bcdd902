"""Growth of stored data, from the means of two halves of the samples. Pure.

The halves are whole days once two days are sampled, so that daily fluctuations do not count as growth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

Samples = tuple[tuple[float, float], ...]
"""Time and used bytes of all bookies, sorted by time."""

HOUR = 3600.0
KEPT = 48
"""Maximum number of samples, one per hour."""
LARGEST = 2.0**62
"""Maximum bytes; more is an error of the source, and the status has no room for it (`StoredStatus`)."""
LEAST = 4
"""Minimum number of samples from which growth is derived."""
RECENT = 6
"""Number of the last samples that show whether the data still grows, and whether faster."""
EXTRAPOLATED = 1.5
"""Multiple of the sampled time for which growth is extrapolated: hours of an import do not predict three days."""


def sampled(samples: Samples, now: float, used: float) -> Samples:
    """Returns the samples with one more, if the last one is an hour old. Old samples are dropped, and invalid values
    are skipped."""
    kept = tuple(each for each in samples if now - KEPT * HOUR <= each[0] <= now)
    if (kept and now - kept[-1][0] < HOUR) or not 0 <= used <= LARGEST:
        return kept
    return (*kept, (now, used))[-KEPT:]


@dataclass(frozen=True, slots=True)
class Trend:
    """Sampled growth."""

    slope: float
    """Bytes per second, over all samples."""
    seconds: float
    """Seconds between the first and the last sample."""
    recent: float
    """Bytes per second, over the last hours."""
    recent_seconds: float
    """Seconds between these samples."""

    def ahead(self, seconds: float) -> float:
        """Returns the additional bytes after ``seconds``, as far as the samples allow; 0 if the data no longer grows.
        Recent faster growth is extrapolated for some hours."""
        if self.recent <= 0:
            return 0.0
        long = max(self.slope, 0.0) * min(seconds, EXTRAPOLATED * self.seconds)
        return max(long, self.recent * min(seconds, EXTRAPOLATED * self.recent_seconds))


def trend(samples: Samples) -> Trend | None:
    """Returns the growth of all samples, and of the last ones; None if there are too few."""
    found, last = slope(samples), samples[-RECENT:]
    recent = slope(last)
    if found is None or recent is None:
        return None
    return Trend(found, samples[-1][0] - samples[0][0], recent, last[-1][0] - last[0][0])


def slope(samples: Samples) -> float | None:
    """Returns the slope in bytes per second; None if there are too few samples. It is negative if the data shrinks."""
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
    """Returns the samples for the status."""
    return [{"time": time, "usedBytes": used} for time, used in samples]


def from_status(status: Sequence[Any] | None, now: float) -> Samples:
    """Parses samples of a status. Invalid and future ones are left out, and only one is kept for each time."""
    found: dict[float, float] = {}
    for each in status or ():
        try:
            time, used = float(each["time"]), float(each["usedBytes"])
        except (TypeError, ValueError, KeyError):
            continue
        if 0 <= time <= now and 0 <= used <= LARGEST:
            found[time] = used
    return tuple(sorted(found.items()))[-KEPT:]
