"""Recommendations within the windows, small enough to be stored in the status. Pure.

The status is not written at every observation: consecutive equal recommendations are one entry, and `observed` is
updated in steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from pulsar_operator.balance.autoscaling.values import Policy

Runs = tuple[tuple[float, int], ...]
"""Times and numbers of recommendations. Each applies until the next one."""

LONGEST = 32
"""Maximum number of entries for each direction."""
OBSERVED_INTERVALS = 5
"""Age in intervals at which `State.observed` is updated."""
GAP_INTERVALS = 10
"""Intervals without a recommendation after which the windows restart, since the time in between is unknown."""


FULL = 100
"""Full trust in percent."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A forecast, and the load that followed."""

    since: float
    base: int
    """Highest need in the first minutes, in thousandths of a pod."""
    promised: int
    """Predicted growth of the load within the hour, in percent."""
    most: int
    """Highest need since, in thousandths of a pod."""


@dataclass(frozen=True)
class State:
    """State of the decisions on one component."""

    since: float | None = None
    """Time of the first recommendation since the last gap."""
    observed: float | None = None
    """Time of a recommendation, at most `OBSERVED_INTERVALS` older than the last one."""
    highs: Runs = ()
    """Falling numbers: the highest recommendation from each time on."""
    lows: Runs = ()
    """Rising numbers: the lowest recommendation from each time on."""
    scaled: float | None = None
    """Time of the last change of the number."""
    upwards: bool = False
    """Whether that was a scale-out."""
    known: int | None = None
    """Replicas that the measured load needed when more were decided, while there are more; None if all are needed for
    measured load."""
    guessed: float | None = None
    """Time of that decision."""
    came: bool = False
    """Whether the measured load has needed all of them since."""
    pressed: float | None = None
    """Time at which CPU began to require more replicas; None if it does not."""
    saturated: float | None = None
    """Time at which pods became saturated; None if they are not."""
    saturated_pods: int = 0
    """Number of ready pods at that time."""
    trust: int = FULL
    """Trusted percent of a forecast (trust.py)."""
    expected: Expected | None = None
    """The last forecast, until its hour has passed."""


def remembered(state: State, now: float, recommended: int, policy: Policy, high: int | None = None) -> State:
    """Returns the state with one more recommendation. ``high`` is the number that counts against a scale-in, if it
    differs."""
    since, observed, high = state.since, state.observed, recommended if high is None else high
    if since is None or observed is None or not 0 <= now - observed <= GAP_INTERVALS * policy.interval:
        return replace(state, since=now, observed=now, highs=((now, high),), lows=((now, recommended),))
    if now - observed >= OBSERVED_INTERVALS * policy.interval:
        observed = now
    oldest = now - max(policy.up.window, policy.down.window)
    return replace(
        state,
        observed=observed,
        highs=_shortened(_added(state.highs, now, high, 1), oldest),
        lows=_shortened(_added(state.lows, now, recommended, -1), oldest),
    )


def begun(state: State, now: float, policy: Policy) -> float:
    """Returns the time of the first recommendation after the last gap; ``now`` after a gap."""
    if state.observed is None or not 0 <= now - state.observed <= GAP_INTERVALS * policy.interval:
        return now
    return now if state.since is None else state.since


def _added(runs: Runs, now: float, recommended: int, sign: int) -> Runs:
    """Adds a recommendation and drops those that it exceeds: none of them is the extreme of any window that ends now.
    The new entry gets the time of the oldest dropped one, so that nothing changes while the number is the same."""
    kept, since = list(runs), now
    while kept and sign * kept[-1][1] <= sign * recommended:
        since = kept.pop()[0]
    return (*kept, (since, recommended))


def _shortened(runs: Runs, oldest: float) -> Runs:
    """Drops entries from before the longest window. If there are too many, the two oldest are merged into one that
    applies for longer, which may delay a change but never causes one."""
    first = 0
    while first + 1 < len(runs) and runs[first + 1][0] <= oldest:
        first += 1
    runs = runs[first:]
    return runs if len(runs) <= LONGEST else (runs[0], *runs[2:])


def extreme(runs: Runs, begin: float) -> int:
    """Returns the highest (of highs) or the lowest (of lows) number since ``begin``. Runs must not be empty."""
    ends = (*(since for since, _ in runs[1:]), inf)
    return next(number for (_, number), end in zip(runs, ends, strict=True) if end > begin)


def covers(runs: Runs, now: float, window: float) -> bool:
    """Whether recommendations are known for a whole window. Entries older than the longest window are dropped, so a
    window that was extended is complete only later."""
    return bool(runs) and now - runs[0][0] >= window


def scaled(state: State, now: float, *, upwards: bool, known: int | None = None) -> State:
    """Returns the state after a change. ``known`` is the need of the measured load if the change exceeds it."""
    guessed = None if known is None else state.guessed if not upwards else now
    came = state.came and known is not None and not upwards
    return replace(state, scaled=now, upwards=upwards, known=known, guessed=guessed, came=came)


def to_status(state: State) -> dict[str, Any]:
    """Returns the state in the form of the status, with times in seconds since the epoch."""
    expected = state.expected
    found: dict[str, Any] = {
        "since": state.since,
        "observed": state.observed,
        "highs": [{"since": since, "replicas": number} for since, number in state.highs],
        "lows": [{"since": since, "replicas": number} for since, number in state.lows],
        "scaled": state.scaled,
        "upwards": state.upwards,
        "known": state.known,
        "guessed": state.guessed,
        "came": state.came or None,
        "pressed": state.pressed,
        "saturated": state.saturated,
        "saturatedPods": state.saturated_pods or None,
        "trustPercent": None if state.trust == FULL else state.trust,
        "expected": None
        if expected is None
        else {
            "since": expected.since,
            "baseMilli": expected.base,
            "promisedPercent": expected.promised,
            "mostMilli": expected.most,
        },
    }
    return {key: value for key, value in found.items() if value is not None}


def from_status(status: Mapping[str, Any] | None, now: float) -> State:
    """Parses the state in a status. An invalid one, or one with future times, is dropped, which only delays the next
    change."""
    try:
        found = dict(status or {})
        state = State(
            _time(found.get("since"), now),
            _time(found.get("observed"), now),
            _runs(found.get("highs"), now),
            _runs(found.get("lows"), now),
            _time(found.get("scaled"), now),
            found.get("upwards") is True,
            _number(found.get("known")),
            _time(found.get("guessed"), now),
            found.get("came") is True,
            _time(found.get("pressed"), now),
            _time(found.get("saturated"), now),
            _number(found.get("saturatedPods")) or 0,
            min(max(int(found.get("trustPercent", FULL)), 0), FULL),
            _expected(found.get("expected"), now),
        )
    except (TypeError, ValueError, KeyError, AttributeError):
        return State()
    if state.known is not None and state.guessed is None:
        # Of an operator that did not write when it was: it was with the last change.
        state = replace(state, guessed=state.scaled)
    if state.since is None or state.observed is None or not state.highs or not state.lows:
        return replace(
            State(scaled=state.scaled, upwards=state.upwards), known=state.known, guessed=state.guessed, came=state.came
        )
    return state


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _expected(value: Any, now: float) -> Expected | None:
    if value is None:
        return None
    since = _time(value["since"], now)
    if since is None:
        raise ValueError("the forecast has no time")
    return Expected(since, int(value["baseMilli"]), int(value["promisedPercent"]), int(value["mostMilli"]))


def _time(value: Any, now: float) -> float | None:
    if value is None:
        return None
    time = float(value)
    if not 0 <= time <= now:
        raise ValueError(f"{time} is not a time in the past")
    return time


def _runs(value: Any, now: float) -> Runs:
    found = tuple((_time(each["since"], now) or 0.0, int(each["replicas"])) for each in value or ())
    if sorted(found, key=lambda each: each[0]) != list(found):
        raise ValueError("the recommendations are not in order")
    return found
