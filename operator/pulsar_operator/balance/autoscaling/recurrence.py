"""Load that comes back every hour or two, as of a job in a schedule: what it needs stays for the next time. Pure.

Each time costs the clients of half the bundles a reconnect when brokers come and another when they leave, and a few
minutes of overload until they are there.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Final

from pulsar_operator.balance.autoscaling.history import MEMORY, State, extreme

DIP: Final = 0.75
"""Of the most that was recommended: load that falls to this, and rises again, came back."""
BACK: Final = 0.9
"""Of the most that was recommended: so high load is back."""
APART: Final = 600.0
"""Seconds between two peaks at least; less is one that wavers."""
MARGIN: Final = 1.25
"""Of the longest time between two peaks: so long the next one is waited for."""
KEPT: Final = 3
"""Peaks that are remembered."""


def noted(state: State, now: float, wanted: int) -> State:
    """The state with one recommendation more, of measured load, before it is among the highs."""
    if not state.highs:
        return replace(state, dip=wanted)
    peak = extreme(state.highs, now - MEMORY)
    if wanted < BACK * peak:
        return replace(state, dip=wanted if state.dip is None else min(state.dip, wanted))
    back = state.dip is not None and state.dip <= DIP * peak
    if back and not (state.peaks and now - state.peaks[-1] < APART):
        state = replace(state, peaks=(*state.peaks, now)[-KEPT:])
    return replace(state, dip=wanted)


def patience(state: State, now: float) -> float:
    """Seconds for which the next peak is waited for; 0 = none is expected: it never came back twice, or was too long in
    coming."""
    gaps = [right - left for left, right in pairwise(state.peaks)]
    if not gaps or MARGIN * max(gaps) > MEMORY:
        return 0.0
    longest = MARGIN * max(gaps)
    return longest if 0 <= now - state.peaks[-1] <= longest else 0.0
