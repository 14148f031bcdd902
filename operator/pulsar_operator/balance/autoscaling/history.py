"""What was recommended within the windows, so small that it lives in status: who reads it back decides the same. Pure.

Status is not written at every look: a run of equal recommendations is one entry, and `seen` moves in steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from pulsar_operator.balance.autoscaling.values import Policy

Runs = tuple[tuple[float, int], ...]
"""Since when a number was recommended, each until the next one's time."""

LONGEST = 32
"""Entries kept in each direction."""
SEEN_INTERVALS = 5
"""`State.seen` moves when it is so many intervals old."""
GAP_INTERVALS = 10
"""After so many intervals without a recommendation the windows begin anew: what happened meanwhile is not known."""


FULL = 100
"""Percent."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a forecast said at a time, and what came."""

    since: float
    base: int
    """Thousandths of a pod: the most that the load asked for in the first minutes."""
    promised: int
    """By how many percent the load was to grow within the hour."""
    most: int
    """Thousandths of a pod: the most that the load asked for since."""


@dataclass(frozen=True)
class State:
    """What one component's decisions remember."""

    since: float | None = None
    """Begin of the recommendations without a gap."""
    seen: float | None = None
    """A time of a recommendation, at most `SEEN_INTERVALS` older than the last."""
    highs: Runs = ()
    """Numbers fall: the most that was recommended from each time on."""
    lows: Runs = ()
    """Numbers rise: the least that was recommended from each time on."""
    scaled: float | None = None
    """When the number was last changed."""
    upwards: bool = False
    """Whether that was to more."""
    known: int | None = None
    """Replicas that the measured load asked for when more than that were decided, while there are more; None = all are
    there for measured load."""
    guessed: float | None = None
    """When that was."""
    came: bool = False
    """Whether the measured load asked for all of them since."""
    pressed: float | None = None
    """Since when CPU asks for more; None = it does not."""
    saturated: float | None = None
    """Since when pods use all that they can; None = they do not."""
    saturated_pods: int = 0
    """How many of them were ready then."""
    trust: int = FULL
    """Percent of what a forecast says that is believed (trust.py)."""
    expected: Expected | None = None
    """What a forecast said, while its hour is not over."""


def remembered(state: State, now: float, wanted: int, policy: Policy, high: int | None = None) -> State:
    """The state with one recommendation more. ``high`` is what counts against fewer replicas, where that is another."""
    since, seen, high = state.since, state.seen, wanted if high is None else high
    if since is None or seen is None or not 0 <= now - seen <= GAP_INTERVALS * policy.interval:
        return replace(state, since=now, seen=now, highs=((now, high),), lows=((now, wanted),))
    if now - seen >= SEEN_INTERVALS * policy.interval:
        seen = now
    oldest = now - max(policy.up.window, policy.down.window)
    return replace(
        state,
        seen=seen,
        highs=_shortened(_added(state.highs, now, high, 1), oldest),
        lows=_shortened(_added(state.lows, now, wanted, -1), oldest),
    )


def begun(state: State, now: float, policy: Policy) -> float:
    """Since when recommendations are known without a gap; ``now`` after a gap."""
    if state.seen is None or not 0 <= now - state.seen <= GAP_INTERVALS * policy.interval:
        return now
    return now if state.since is None else state.since


def _added(runs: Runs, now: float, wanted: int, sign: int) -> Runs:
    """Without those that the new one outdoes: no window that ends now has one of them as its extreme. It takes the time
    of the oldest of them, so that nothing changes while it stays the same."""
    kept, since = list(runs), now
    while kept and sign * kept[-1][1] <= sign * wanted:
        since = kept.pop()[0]
    return (*kept, (since, wanted))


def _shortened(runs: Runs, oldest: float) -> Runs:
    """Without those that ended before the longest window. Of too many the two oldest become one that counts for
    longer, which delays a change and never makes one."""
    first = 0
    while first + 1 < len(runs) and runs[first + 1][0] <= oldest:
        first += 1
    runs = runs[first:]
    return runs if len(runs) <= LONGEST else (runs[0], *runs[2:])


def extreme(runs: Runs, begin: float) -> int:
    """What is the most (of highs) or the least (of lows) from a time on. Runs must not be empty."""
    ends = (*(since for since, _ in runs[1:]), inf)
    return next(number for (_, number), end in zip(runs, ends, strict=True) if end > begin)


def covers(runs: Runs, now: float, window: float) -> bool:
    """Whether recommendations are known for a whole window. Of what was recommended before the window that was the
    longest then nothing is kept, so that one that was made longer is seen whole only later."""
    return bool(runs) and now - runs[0][0] >= window


def scaled(state: State, now: float, *, upwards: bool, known: int | None = None) -> State:
    """The state after a change; ``known``: to more than the measured load asks for, which is so many."""
    guessed = None if known is None else state.guessed if not upwards else now
    came = state.came and known is not None and not upwards
    return replace(state, scaled=now, upwards=upwards, known=known, guessed=guessed, came=came)


def to_status(state: State) -> dict[str, Any]:
    """As it stands in status: times in seconds since the epoch."""
    expected = state.expected
    found: dict[str, Any] = {
        "since": state.since,
        "observed": state.seen,
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
    """Read back; what is no state, or is of times to come, is forgotten, which only makes the next change wait."""
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
    if state.since is None or state.seen is None or not state.highs or not state.lows:
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
        raise ValueError("a forecast has no time")
    return Expected(since, int(value["baseMilli"]), int(value["promisedPercent"]), int(value["mostMilli"]))


def _time(value: Any, now: float) -> float | None:
    if value is None:
        return None
    time = float(value)
    if not 0 <= time <= now:
        raise ValueError(f"{time} is no time of the past")
    return time


def _runs(value: Any, now: float) -> Runs:
    found = tuple((_time(each["since"], now) or 0.0, int(each["replicas"])) for each in value or ())
    if sorted(found, key=lambda each: each[0]) != list(found):
        raise ValueError("the recommendations are not in order")
    return found
