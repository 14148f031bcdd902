"""Pace of the steps of a proposal, and how long all of them take. Pure.

A constant pace is too slow for thousands of idle bundles and too fast for one with ten thousand clients. So the pace
follows from what is measured: the time from the request of a move until the bundle's new broker has it. During that
time the clients of the bundle reconnect; then, for the same time, no client does, unless brokers join or leave, which
is urgent. A step that disconnects no client is neither waited for nor measured: it does not predict the next one that
does. The executor (controllers/rebalance/execution.py) and its estimates take their times from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pulsar_operator.balance.execution.steps import Step, disconnects
from pulsar_operator.balance.planner.proposal import Split

RECONNECTING: Final = 0.5
"""Maximum share of the time in which clients of some bundle reconnect."""
LONGEST_PAUSE: Final = 30.0
"""Maximum seconds between the end of one move and the next: an earlier slow move must not stop the execution."""
FIRST_UNLOAD: Final = 1.4
"""Expected seconds of a move of a bundle with clients before one was measured."""
IDLE_UNLOAD: Final = 0.5
"""Seconds from the request of a move of a bundle without clients until it is unloaded."""
SPLIT_SECONDS: Final = 0.7
"""Seconds from the request of a split until its boundary is read back."""
COUNTING: Final = 0.15
"""Seconds in which a verified step is recorded and the next one is checked, before it is requested."""
ASK_FOR: Final = 2.0
"""Maximum seconds until the cluster's status is checked again for Pulsar's own balancer being off."""
HOLD_SECONDS: Final = 3.0
"""Seconds from the approval until Pulsar's own balancer is known to be off: the cluster's controller begins a second
later, and stores the previous settings before it changes any."""
CONNECTED_SECONDS: Final = 1.5
"""Like HOLD_SECONDS, if Pulsar's balancer is off already, for another rebalance or continuously."""
SOON: Final = 0.2
"""Seconds until a requested step is checked for the first time."""
LATER: Final = 1.0
"""Maximum seconds between two checks of a step."""
LATEST: Final = 0.3
"""Share of the last move in the moving average."""


@dataclass(frozen=True)
class Pace:
    """The rules for one rebalance."""

    moves_per_minute: int
    """Upper bound."""
    share: float = RECONNECTING
    """Share of the time in which bundles may be moving; 1 if the next one follows as soon as the last one arrived."""

    def apart(self, unload: float | None) -> float:
        """Returns the seconds from the request of one step to that of the next, for moves of this duration; None if not
        known."""
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
    """Returns the seconds from the approval until the last step is verified; 0 without steps.

    ``unload`` is the duration of the cluster's last moves; None if none was measured. ``connected``: whether Pulsar's
    own balancer is off already.
    """
    if not steps:
        return 0.0
    known = FIRST_UNLOAD if unload is None else unload
    *before, last = steps
    waited = sum(max(_seconds(step, known), pace.after(step, known)) + COUNTING for step in before)
    return (CONNECTED_SECONDS if connected else HOLD_SECONDS) + waited + _seconds(last, known)


def _seconds(step: Step, unload: float) -> float:
    """Returns the seconds from the request of a step until it is verified."""
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
    """Returns an estimate of a duration as text, rounded to its accuracy: about 45s, about 3m20s, about 2h5m."""
    steps = ((30.0, 1), (120.0, 5), (600.0, 10), (3600.0, 60))
    step = next((step for limit, step in steps if seconds < limit), 300)
    return f"about {duration_text(max(round(seconds / step), 1) * step)}"
