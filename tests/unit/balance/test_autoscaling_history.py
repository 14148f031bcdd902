"""What is remembered of recommendations, and that it is as good as all of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.balance.autoscaling import trend
from pulsar_operator.balance.autoscaling.forecast import MOST_GROWTH, Profile, growth
from pulsar_operator.balance.autoscaling.history import (
    LONGEST,
    Expected,
    State,
    covers,
    extreme,
    from_status,
    remembered,
    scaled,
    to_status,
)
from pulsar_operator.balance.autoscaling.values import Policy
from tests.support.balancing.autoscaling import MINUTE, POLICY


def of(numbers: list[int], policy: Policy = POLICY) -> State:
    state = State()
    for minute, number in enumerate(numbers):
        state = remembered(state, minute * MINUTE, number, policy)
    return state


@settings(max_examples=150, deadline=None)
@given(numbers=st.lists(st.integers(1, 9), min_size=1, max_size=60), minutes=st.integers(0, 15))
def test_extremes_are_those_of_all_recommendations(numbers: list[int], minutes: int) -> None:
    """A number holds from its look until the next one."""
    state, now = of(numbers), (len(numbers) - 1) * MINUTE
    begin = now - minutes * MINUTE
    inside = [n for at, n in enumerate(numbers) if (at + 1) * MINUTE > begin or at == len(numbers) - 1]
    assert extreme(state.highs, begin) == max(inside)
    assert extreme(state.lows, begin) == min(inside)


@settings(max_examples=100, deadline=None)
@given(numbers=st.lists(st.integers(1, 1024), min_size=1, max_size=200), known=st.none() | st.integers(0, 1024))
def test_status_keeps_it_whole_and_small(numbers: list[int], known: int | None) -> None:
    now = len(numbers) * MINUTE
    expected = Expected(60.0, 2000, 150, 2500)
    marks = {
        "came": True,
        "pressed": 0.0,
        "saturated": 60.0,
        "saturated_pods": 3,
        "trust": 25,
    }
    state = replace(scaled(of(numbers), now, upwards=True, known=known), expected=expected, **marks)
    assert from_status(json.loads(json.dumps(to_status(state))), now) == state
    assert max(len(state.highs), len(state.lows)) <= LONGEST


def test_too_many_entries_delay_and_never_make_a_change() -> None:
    """The most of a window is at least the true one, the least at most."""
    hour = replace(POLICY, down=replace(POLICY.down, window=3600.0))
    now = 99 * MINUTE
    falling = of([*range(100, 0, -1)], hour)
    assert len(falling.highs) == LONGEST
    assert 1 + 60 <= extreme(falling.highs, now - 3600) <= 100
    rising = of([*range(1, 101)], hour)
    assert 1 <= extreme(rising.lows, now - 3600) <= 100 - 60


def test_nothing_is_written_while_nothing_changes() -> None:
    """But for the time last seen, every fifth interval."""
    written = {json.dumps(to_status(of([5] * looks))) for looks in range(1, 61)}
    assert len(written) == 12


def test_a_window_is_covered_from_its_begin_on() -> None:
    state = of([5] * 16)
    assert covers(state.highs, 900.0, 900.0)
    assert not covers(state.highs, 899.0, 900.0)
    assert not covers(State().highs, 900.0, 0.0)


@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        {"since": "x"},
        {"since": 0, "observed": 60, "highs": [], "lows": []},
        {"since": 0, "observed": 60, "highs": [{"since": 0}], "lows": [{"since": 0, "replicas": 3}]},
        {"since": 0, "observed": 9000, "highs": [{"since": 0, "replicas": 3}], "lows": [{"since": 0, "replicas": 3}]},
        {
            "since": 0,
            "observed": 60,
            "highs": [{"since": 60, "replicas": 3}, {"since": 0, "replicas": 2}],
            "lows": [{"since": 0, "replicas": 3}],
        },
        {"since": 0, "observed": 60, "highs": 7, "lows": 7},
        {"since": -5, "observed": 60},
        {"scaled": 60, "upwards": True, "known": "x"},
    ],
)
def test_what_is_no_state_is_forgotten(status: dict[str, Any] | None) -> None:
    assert from_status(status, 3600.0) == State()


def test_the_last_change_outlives_the_rest() -> None:
    assert from_status({"scaled": 60.0, "upwards": True}, 3600.0) == State(scaled=60.0, upwards=True)
    guessed = {"scaled": 60.0, "upwards": True, "known": 6}
    assert from_status(guessed, 3600.0) == State(scaled=60.0, upwards=True, known=6, guessed=60.0)


DAY = Profile(3600.0, (1.0,) * 8 + (2.0,) + (4.0,) * 8 + (1.0,) * 7)
"""By the hour: a rise between seven and nine."""


@pytest.mark.parametrize(
    ("hour", "minutes", "factor"),
    [
        (3, 60, 1.0),
        (7, 15, 1.25),
        (7, 60, 2.0),
        (7, 120, MOST_GROWTH),  # four times, which is not believed
        (8, 30, 1.5),
        (10, 60, 1.0),
        (16, 60, 1.0),  # falls
        (23, 60, 1.0),  # over midnight
        (24 + 7, 60, 2.0),  # the next day
    ],
)
def test_growth(hour: int, minutes: int, factor: float) -> None:
    assert growth(DAY, hour * 3600.0, minutes * 60.0) == pytest.approx(factor)


def test_growth_from_nothing_or_by_nothing() -> None:
    assert growth(None, 0.0, 3600.0) == 1.0
    assert growth(Profile(60.0, (0.0, 0.0, 5.0)), 0.0, 180.0) == 1.0


@pytest.mark.parametrize(
    ("step", "weights"), [(0.0, (1.0, 2.0)), (60.0, (1.0,)), (60.0, (1.0, -1.0)), (60.0, (1.0, float("nan")))]
)
def test_no_profile(step: float, weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="a profile must have"):
        Profile(step, weights)


def test_trend_of_days_is_none_and_of_growth_is_growth() -> None:
    """48 hours: the ups and downs of a day are no growth, a byte a second is one."""

    def samples(rate: float) -> trend.Samples:
        found: trend.Samples = ()
        for minute in range(0, 48 * 60, 10):
            now = minute * 60.0
            wave = 1e6 * ((minute // 60 % 24) - 12) ** 2
            found = trend.sampled(found, now, 1e9 + wave + rate * now)
        return found

    assert len(samples(0.0)) == trend.KEPT
    assert trend.slope(samples(0.0)) == pytest.approx(0.0, abs=1e-6)
    assert trend.slope(samples(7.0)) == pytest.approx(7.0)
    assert trend.slope(samples(7.0)[:3]) is None
    assert trend.from_status(json.loads(json.dumps(trend.to_status(samples(7.0)))), 1e9) == samples(7.0)
    assert trend.from_status([{"time": "x"}, {"time": 1e12, "usedBytes": 1}, 7, {"time": 5, "usedBytes": 1}], 9.0) == (
        (5, 1),
    )


@pytest.mark.parametrize("used", [-1.0, 2.0**63, float("nan"), float("inf")])
def test_what_is_no_amount_is_no_sample(used: float) -> None:
    assert trend.sampled(((5.0, 3.0),), 9000.0, used) == ((5.0, 3.0),)
    assert trend.from_status([{"time": 5, "usedBytes": 3}, {"time": 7, "usedBytes": used}], 9.0) == ((5.0, 3.0),)


def test_samples_of_one_time_are_one() -> None:
    """As no operator writes them, and a status that somebody put there may have them."""
    found = trend.from_status([{"time": 5, "usedBytes": used} for used in range(4)], 9.0)
    assert found == ((5.0, 3.0),) and trend.slope(found) is None
