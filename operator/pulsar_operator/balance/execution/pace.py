"""Pace of the steps of a proposal, and how long all of them take. Pure.

A constant pace is too slow for thousands of idle bundles and too fast for one with ten thousand clients. So the pace
follows from what is measured: the time from the request of a move until the bundle's new broker has it. For as long the
clients of the bundle reconnect; then for as long no client does, unless brokers join or leave, which is urgent. A step
that disconnects no client is neither waited for nor measured: it says nothing about the next one that does.

The executor (controllers/rebalance/execution.py) takes its times from here, and so does what is expected of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pulsar_operator.balance.execution.steps import Step, disconnects
from pulsar_operator.balance.planner.proposal import Split

RECONNECTING: Final = 0.5
"""Share of the time in which clients of some bundle may be reconnecting."""
LONGEST_PAUSE: Final = 30.0
"""Seconds between the end of one move and the next, at most: a slow move of the past is no reason to stop."""
FIRST_UNLOAD: Final = 1.4
"""Seconds that a move of a bundle with clients is expected to take before one was measured."""
IDLE_UNLOAD: Final = 0.5
"""Seconds from the request of a move of a bundle without clients until it is unloaded."""
SPLIT_SECONDS: Final = 0.7
"""Seconds from the request of a split until its boundary is read back."""
COUNTING: Final = 0.15
"""Seconds in which a verified step is recorded and the next one is checked, before it is asked for."""
ASK_FOR: Final = 2.0
"""Seconds until the cluster's status is checked again for Pulsar's own balancer being off, at most."""
HOLD_SECONDS: Final = 3.0
"""Seconds from the approval until Pulsar's own balancer is known to be off: the cluster's controller begins a second
later, and keeps what was set before it changes anything."""
CONNECTED_SECONDS: Final = 1.5
"""As HOLD_SECONDS, where Pulsar's balancer is off already, for another rebalance or all the time."""
SOON: Final = 0.2
"""Seconds until a step that was asked for is checked for the first time."""
LATER: Final = 1.0
"""Seconds between two checks of it, at most."""
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
        """Returns the seconds from the request of one step to that of the next, for moves that take so long; None if
        not known."""
        least = 60.0 / self.moves_per_minute
        if unload is None:
            return least
        return max(least, min(unload / self.share, unload + LONGEST_PAUSE))

    def after(self, step: Step, unload: float | None) -> float:
        """As `apart`, between this step and the next one."""
        return self.apart(unload if disconnects(step) else None)


def next_check(waited: float) -> float:
    """Returns the seconds until the next check of a step requested ``waited`` seconds ago: a slow one may take a little
    more."""
    return min(max(waited / 4, SOON), LATER)


def averaged(before: float | None, seconds: float) -> float:
    """Returns the seconds that a move takes, after one more was measured."""
    return seconds if before is None else before + LATEST * (seconds - before)


def expected_seconds(
    steps: Sequence[Step], pace: Pace, unload: float | None = None, *, connected: bool = False
) -> float:
    """Returns the seconds from the approval until the last step is verified; 0 where there is none.

    ``unload`` is what the last moves of the cluster took; None where none was measured. ``connected``: whether
    Pulsar's own balancer is off already.
    """
    if not steps:
        return 0.0
    known = FIRST_UNLOAD if unload is None else unload
    *before, last = steps
    waited = sum(max(_seconds(step, known), pace.after(step, known)) + COUNTING for step in before)
    return (CONNECTED_SECONDS if connected else HOLD_SECONDS) + waited + _seconds(last, known)


def _seconds(step: Step, unload: float) -> float:
    """From the request of a step until it is verified."""
    if isinstance(step, Split):
        return SPLIT_SECONDS
    return unload if disconnects(step) else min(IDLE_UNLOAD, unload)


def duration_text(seconds: float) -> str:
    """Returns a duration as Kubernetes writes it: 45s, 3m20s, 2h5m."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours}h{minutes}m" if minutes else f"{hours}h"


def about(seconds: float) -> str:
    """Returns an estimate of a duration as text, no more exact than it is: about 45s, about 3m20s, about 2h5m."""
    steps = ((30.0, 1), (120.0, 5), (600.0, 10), (3600.0, 60))
    step = next((step for limit, step in steps if seconds < limit), 300)
    return f"about {duration_text(max(round(seconds / step), 1) * step)}"
