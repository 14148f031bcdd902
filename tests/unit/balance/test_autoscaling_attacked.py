"""One look after a gap, figures that come and go, clocks that jump, statuses that somebody edited."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_operator.balance.autoscaling import bookies, brokers, trend
from pulsar_operator.balance.autoscaling.bookies import BookieFacts, BookieTargets, Disk
from pulsar_operator.balance.autoscaling.brokers import BrokerFacts
from pulsar_operator.balance.autoscaling.forecast import Profile
from pulsar_operator.balance.autoscaling.history import State, from_status, to_status
from pulsar_operator.balance.autoscaling.values import Policy, Ramp, Workload
from tests.support.balancing.autoscaling import DOUBLED, MINUTE, POLICY, Brokers, cpu, pods

BOOKIES = Policy(3, 30, 0.1, Ramp(600.0, 2, 50, 3600.0), Ramp(86400.0, 1, 1, 21600.0))
GB = 1e9


@pytest.mark.parametrize("gap", [11, 60, 600])
@pytest.mark.parametrize("limited", [True, False])
def test_two_observations_with_hours_between_them_are_two_single_observations(gap: int, limited: bool) -> None:
    """The operator was away: a collection of garbage before, and another one after, add nothing."""
    world = Brokers(restarts=True, limited=limited, traffic=1.0)
    world.week([2.0] * 30)
    assert world.look(4.0).desired == 4, "one look adds nothing"
    world.now += gap * MINUTE
    assert world.look(4.0).desired == 4, "neither does the first one after a gap"
    assert world.look(4.0).desired > 4, "the second one does"


@pytest.mark.parametrize("gap", [11, 60])
def test_two_observations_with_figures_missing_for_long_between_them(gap: int) -> None:
    world = Brokers(restarts=True, limited=True, traffic=1.0)
    world.week([2.0] * 30)
    world.look(4.0)
    for _ in range(gap):
        world.look(2.0, age=1000.0)  # too old to be believed
    assert world.look(4.0).desired == 4
    assert world.look(4.0).desired > 4


def test_load_that_stays_is_served_although_every_other_observation_has_no_figures() -> None:
    world = Brokers(restarts=True, limited=True, traffic=1.0)
    world.week([2.0] * 30)
    for minute in range(20):
        world.look(4.0, age=1000.0 if minute % 2 else 30.0)
    assert world.replicas > 4


@pytest.mark.parametrize("times", [1.2, 100.0, 1e6])
def test_a_single_observation_with_a_little_more_traffic_than_hardly_any(times: float) -> None:
    """An idle cluster: a message more a minute bears out no CPU, by however many times that is more."""
    world = Brokers(traffic=1.0, carried=20.0 / times)
    world.week([0.4] * 60)
    before = world.replicas
    world.traffic = times
    world.look(4.5)
    world.traffic = 1.0
    assert world.replicas == before
    world.look(4.5)
    assert world.replicas == 6, "the second look adds them: little traffic is no reason against load that stays"


@pytest.mark.parametrize(("times", "most"), [(1.09, 4), (1.1, 5), (1.5, 7), (1.9, 9), (10.0, 12)])
def test_a_single_observation_adds_no_more_than_the_traffic_that_rose(times: float, most: int) -> None:
    """A collection of garbage in the minute in which traffic rises a little adds a little."""
    world = Brokers(traffic=1.0)
    world.week([2.6] * 60)
    world.traffic = times
    assert world.replicas == 4
    world.policy = replace(POLICY, up=Ramp(0.0, 20, 100, 60.0))
    world.look(8.0)
    assert world.replicas == most


@pytest.mark.parametrize("back", [60.0, 3600.0, 86400.0])
def test_a_clock_that_is_set_back_neither_doubles_nor_freezes(back: float) -> None:
    world = Brokers(restarts=True, limited=True, traffic=1.0, now=10 * 86400.0)
    world.week([2.0] * 60)
    world.now -= back
    world.look(4.0)
    assert world.replicas == 4
    world.week([4.0] * 10)
    assert world.replicas > 4
    world.week([1.0] * 600)
    assert world.replicas < 4


@pytest.mark.parametrize(
    "edit",
    [
        {"peaks": [0] * 100},
        {"peaks": [3000, 60, 3000]},
        {"trustPercent": -5},
        {"trustPercent": 1000},
        {"known": -1, "guessed": 0},
        {"known": 2**62, "guessed": 1},
        {"saturatedPods": -7},
        {"expected": {"since": 0, "baseMilli": 0, "promisedPercent": 2**31, "mostMilli": 0}},
        {"expected": {"since": 0, "baseMilli": -5, "promisedPercent": -100, "mostMilli": -9}},
        {"highs": [{"since": 0, "replicas": 2**20}]},
        {"lows": [{"since": 0, "replicas": -4}]},
        {"highs": [], "lows": []},
        {"since": 2**60},
        {"observed": None},
        {"upwards": "yes"},
        {"scaled": "x"},
    ],
)
def test_an_edited_history_neither_grows_nor_freezes(edit: dict[str, Any]) -> None:
    world = Brokers(restarts=True, traffic=1.0)
    world.week([2.0] * 60)
    world.state = from_status({**to_status(world.state), **edit}, world.now)
    world.look(2.0)
    assert world.replicas <= 4
    world.week([2.6] * 3)
    world.week([1.0] * 800)
    assert world.replicas == 2
    world.week([6.0] * 30)
    assert world.replicas >= 8


def test_a_forecast_that_never_comes_true_keeps_no_broker_without_end() -> None:
    """Each hour it promises three times the load."""
    weights = tuple(30.0 if hour % 2 else 10.0 for hour in range(24))
    world = Brokers(restarts=True, traffic=1.0, profile=Profile(3600.0, weights))
    world.week([2.0] * 60 * 24 * 2)
    assert world.replicas <= 4


def stored(
    share: float, count: int = 8, *, samples: trend.Samples = (), jump: dict[int, float] | None = None
) -> BookieFacts:
    disks = {f"bookie-{n}": Disk((jump or {}).get(n, share) * 100 * GB, 100 * GB, True) for n in range(count)}
    workload = Workload(count, frozenset(disks))
    return BookieFacts(workload, disks, 30.0, trend.trend(samples), BookieTargets(writable=3))


def test_a_wrong_figure_of_one_observation_adds_no_bookie() -> None:
    count, state = 8, State()
    for minute in range(200):
        jump = {0: 1.0, 1: 1.0} if minute == 100 else None
        verdict, state = bookies.decide(stored(0.3, count, jump=jump), BOOKIES, state, minute * MINUTE)
        count = verdict.desired
    assert count == 8


def test_an_import_that_stops_is_no_reason_to_grow_on() -> None:
    count, state, samples = 8, State(), trend.Samples()
    used = 0.2 * 800 * GB
    now = 0.0
    for minute in range(60 * 72):
        now = minute * MINUTE
        if 60 * 24 <= minute < 60 * 32:
            used += 250 * GB / (8 * 60)
        samples = trend.sampled(samples, now, used)
        verdict, state = bookies.decide(stored(used / (count * 100 * GB), count, samples=samples), BOOKIES, state, now)
        count = verdict.desired
    assert count <= 9, count


@pytest.mark.parametrize(
    "samples",
    [
        ((0.0, 1.0), (1.0, 1e18), (2.0, 1.0), (3.0, 1e18)),
        ((0.0, 0.0), (1e-9, 1.0), (2e-9, 2.0), (3e-9, 4e18)),
        tuple((float(n), 2.0**62 * (n % 2)) for n in range(48)),
    ],
)
def test_edited_samples_add_one_at_a_time_at_most(samples: trend.Samples) -> None:
    found = bookies.need(stored(0.61, samples=samples), BOOKIES)
    assert found.replicas is None or found.replicas <= 9


def test_figures_of_pods_that_are_not_there_are_not_judged() -> None:
    signal = cpu([0.4] * 4)
    strange = replace(signal, values={**signal.values, "broker-99": 1e18, "x": float("nan")})
    facts = BrokerFacts(Workload(4, frozenset(pods(4))), (strange,), traffic=DOUBLED)
    assert brokers.decide(facts, POLICY, State(), 0.0)[0].desired == 4
