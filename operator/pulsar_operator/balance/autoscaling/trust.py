"""Trust in a forecast: each hour for which it predicted a rise is compared with the actual load. Pure.

A record of another week may contain a job that no longer runs. Each wrong prediction halves the trust, and each correct
one restores a part.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Final

from pulsar_operator.balance.autoscaling.history import FULL, Expected, State

LARGEST: Final = 2**52
"""Maximum in thousandths of a pod; the status has no room for more."""
PROMISE: Final = 1.1
"""Minimum growth within the hour that counts as a prediction; less is within normal fluctuation."""
BEGIN: Final = 600.0
"""Seconds in which the base of the growth is measured."""
HOUR: Final = 3600.0
LOST: Final = 1.5 * HOUR
"""Seconds after which a prediction that was not observed is dropped."""
HALF: Final = 0.5
"""Share of a predicted rise above which the prediction counts as correct."""
LEAST: Final = 25
"""Minimum percent that a correct prediction restores."""


def judged(state: State, pods: float, promised: float, now: float, *, saturated: bool = False) -> State:
    """Returns the state after one observation of the measured load, in pods at their target. ``promised`` is the
    predicted growth within the hour, 1 for none. ``saturated`` means that the load may exceed the measured one by any
    amount."""
    load, expected = min(ceil(1000 * pods), LARGEST), state.expected
    if expected is not None and not 0 <= now - expected.since <= LOST:
        expected = None
    if expected is not None:
        expected = _observed(expected, load, now)
        if saturated:
            expected = replace(expected, most=max(expected.most, min(2 * load, LARGEST)))
        if now - expected.since < HOUR:
            return state if expected == state.expected else replace(state, expected=expected)
        kept = expected.most - expected.base >= HALF * expected.base * expected.promised / 100
        trust = min(max(2 * state.trust, LEAST), FULL) if kept else state.trust // 2
        state = replace(state, trust=trust, expected=None)
    if promised < PROMISE or load <= 0:
        return replace(state, expected=None) if state.expected is not None else state
    return replace(state, expected=Expected(now, load, int(100 * (promised - 1)), load))


def _observed(expected: Expected, load: int, now: float) -> Expected:
    if now - expected.since <= BEGIN:
        expected = replace(expected, base=max(expected.base, load))
    return replace(expected, most=max(expected.most, load))


def believed(times: float, trust: int) -> float:
    """Returns the trusted part of a predicted growth."""
    return 1 + (times - 1) * trust / FULL
