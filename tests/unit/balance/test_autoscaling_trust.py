"""Load that comes back: what it needs stays for the window; and forecasts that fail are believed less."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from pulsar_operator.balance.autoscaling.forecast import Profile
from pulsar_operator.balance.autoscaling.history import FULL, State
from pulsar_operator.balance.autoscaling.trust import believed, judged
from tests.support.balancing.autoscaling import DEFAULTS, MINUTE, TARGET, Brokers


def batches(hours: int, every: int, minutes: int, *, height: float = 2.5, base: float = 4.0) -> list[float]:
    """Load in brokers that are fully used: a job of so many minutes every so many minutes."""
    return [base * TARGET * (height if minute % every < minutes else 1.0) for minute in range(hours * 60)]


def changes(found: list[int]) -> int:
    return sum(left != right for left, right in pairwise(found))


@pytest.mark.parametrize("every", [60, 80, 120])
@pytest.mark.parametrize("held", [True, False])
def test_what_a_job_needs_stays_for_the_window_and_no_longer(every: int, held: bool) -> None:
    """Whoever wants it to stay until the job comes back makes the window longer than that takes."""
    policy = replace(DEFAULTS, down=replace(DEFAULTS.down, window=75.0 * every)) if held else DEFAULTS
    world = Brokers(replicas=5, limited=True, policy=policy)
    found = world.week(batches(48, every, 15))
    settled = found[6 * every :]
    assert (changes(settled) == 0) is held
    assert (min(settled) * 1.1 >= 10) is held
    if not held:
        window = int(DEFAULTS.down.window / MINUTE)
        assert max(found[every + 15 + window + 3 : 2 * every]) == 5, "they leave once the window is over"
    after = world.week([4.0 * TARGET] * 60 * 8)
    assert after[-1] == 5, "once it comes no more they leave"


def test_one_minute_is_no_peak() -> None:
    """Of all CPU, every other hour: nobody is added, and so nobody stays."""
    world = Brokers(replicas=5, limited=True, traffic=1.0)
    loads = [3.0] * 48 * 60
    for minute in range(0, len(loads), 120):
        loads[minute] = 5.0
    assert set(world.week(loads)) == {5}


@pytest.mark.parametrize(
    ("rises", "trust"),
    [([1.0], 50), ([1.0] * 3, 12), ([1.5], FULL), ([1.0, 1.0, 1.5], 50), ([1.24], 50), ([1.26], FULL), ([1.0] * 7, 0)],
)
def test_a_forecast_is_believed_by_what_came_of_it(rises: list[float], trust: int) -> None:
    state, now = State(), 0.0
    for rise in rises:
        for minute in range(61):
            state = judged(state, 4.0 * (rise if minute > 15 else 1.0), 1.5 if minute < 30 else 1.0, now)
            now += MINUTE
    assert state.trust == trust


def test_none_is_blamed_for_what_nobody_watched() -> None:
    state = judged(State(), 4.0, 1.5, 0.0)
    assert state.expected is not None
    assert judged(state, 4.0, 1.0, 2 * 3600.0) == State()
    full = judged(State(), 4.0, 1.5, 0.0)
    for minute in range(1, 61):
        full = judged(full, 4.0, 1.0, minute * MINUTE, saturated=True)
    assert full.trust == FULL, "nobody knows how much more it was"


def test_a_week_of_jobs_that_are_gone_costs_next_to_nothing() -> None:
    """Two a day on record, and none comes: the first ones are waited for, and no other."""
    weights = [1e9] * 168
    for day in range(7):
        for hour in (3, 4, 15, 16):
            weights[24 * day + hour] = 2e9
    world = Brokers(replicas=4, profile=Profile(3600.0, tuple(weights), 1800.0))
    found = world.week([3.9 * TARGET] * 7 * 1440)
    assert max(found) > 4, "it is a forecast"
    assert sum(found) <= 1.02 * 4 * len(found)
    assert world.state.trust < 25
    assert believed(2.0, world.state.trust) < 1.25
    assert set(found[3 * 1440 :]) == {4}
