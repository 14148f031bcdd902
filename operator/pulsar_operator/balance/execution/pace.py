"""How far apart the steps of a proposal are, and how long all of them take. Pure.

A constant pace is too slow for thousands of idle bundles and too fast for one with ten thousand clients. So the pace
follows from what is measured: the time from the request of a move until the bundle's new broker has it. For as long the
clients of the bundle reconnect; then for as long nobody does, unless brokers join or leave, which is urgent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RECONNECTING: Final = 0.5
"""Share of the time in which clients of some bundle may be reconnecting."""
LONGEST_PAUSE: Final = 30.0
"""Seconds between the end of one move and the next, at most: a slow move of the past is no reason to stop."""
FIRST_UNLOAD: Final = 1.0
"""Seconds that a move is expected to take before one was measured."""
SPLIT_SECONDS: Final = 0.7
"""Seconds from the request of a split until its boundary is read back."""
HOLD_SECONDS: Final = 3.0
"""Seconds from the approval until Pulsar's own balancer is known to be off."""
SOON: Final = 0.2
"""Seconds until a step that was asked for is looked at for the first time."""
LATER: Final = 1.0
"""Seconds between two looks at it, at most."""
LATEST: Final = 0.3
"""Share of the last move in the average of the moves."""


@dataclass(frozen=True)
class Pace:
    """The rules for one rebalance."""

    moves_per_minute: int
    """Upper bound."""
    share: float = RECONNECTING
    """Share of the time in which bundles may be on their way; 1 = the next one as soon as the last one is there."""

    def apart(self, unload: float | None) -> float:
        """Seconds from the request of one step to that of the next, for moves that take so long; None = not known."""
        least = 60.0 / self.moves_per_minute
        if unload is None:
            return least
        return max(least, min(unload / self.share, unload + LONGEST_PAUSE))


def next_look(waited: float) -> float:
    """Seconds until a step that was asked for so long ago is looked at again: a slow one may take a little more."""
    return min(max(waited / 4, SOON), LATER)


def averaged(before: float | None, seconds: float) -> float:
    """Seconds that a move takes, after one more was measured."""
    return seconds if before is None else before + LATEST * (seconds - before)


def expected_seconds(splits: int, moves: int, pace: Pace, unload: float | None = None) -> float:
    """Seconds from the approval until the last step is verified.

    ``unload`` is what the last moves of the cluster took; None where none was measured.
    """
    took = FIRST_UNLOAD if unload is None else unload
    cuts = splits * max(SPLIT_SECONDS, pace.apart(None))
    return HOLD_SECONDS + cuts + max(moves - 1, 0) * pace.apart(took) + (took if moves else 0.0)


def in_words(seconds: float) -> str:
    """A duration as Kubernetes writes it: 45s, 3m20s, 2h5m."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours}h{minutes}m" if minutes else f"{hours}h"
