"""How many brokers and proxies: what their figures ask for, and what other help is named instead."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.autoscaling import BookieAutoscaling, BrokerAutoscaling, BrokerTargets, ProxyTargets
from pulsar_operator.balance.autoscaling import brokers, proxies
from pulsar_operator.balance.autoscaling.brokers import REBALANCE, BrokerFacts
from pulsar_operator.balance.autoscaling.forecast import Profile
from pulsar_operator.balance.autoscaling.history import State
from pulsar_operator.balance.autoscaling.outlook import Foreseen
from pulsar_operator.balance.autoscaling.policy import (
    Measured,
    bookie_targets,
    broker_signals,
    policy_of,
    proxy_signals,
)
from pulsar_operator.balance.autoscaling.values import HotTopic, Ramp, Signal, Verdict, Workload
from pulsar_operator.balance.planner.advice import MORE_PARTITIONS
from tests.support.balancing.autoscaling import DOUBLED, POLICY, Brokers, cpu, pods, settled

HOT = HotTopic("persistent://t/n/hot", 90.0, 100.0, 0.7)


def decided(*signals: Signal, lost: int = 0, starting: int = 0, hottest: HotTopic | None = None) -> Verdict:
    """The first look at the brokers that the first signal is of, and those that are not ready."""
    ready = frozenset(signals[0].values)
    workload = Workload(len(ready) + lost + starting, ready, lost)
    facts = BrokerFacts(workload, signals, Foreseen(hottest=hottest), traffic=DOUBLED)
    return brokers.decide(facts, POLICY, State(), 0.0)[0]


@pytest.mark.parametrize(
    ("shares", "desired"),
    [
        ([0.7] * 4, 4),
        ([0.76] * 4, 4),  # within the tolerance
        ([0.78] * 4, 5),
        ([1.4] * 4, 8),  # more than was requested, where there is no limit
        ([0.9, 0.9, 0.2, 0.2], 4),  # one rule for all together
        ([0.95, 0.95, 0.95, 0.3], 5),
    ],
)
def test_cpu(shares: list[float], desired: int) -> None:
    assert decided(cpu(shares, saturates=False)).desired == desired


def test_all_that_is_there_is_used_so_that_more_cannot_be_seen() -> None:
    """100 % of a limit asks for what is measured, and for twice as many where the same brokers do so at the next look
    as well; 100 % of a request for what it says."""
    full = BrokerFacts(Workload(4, frozenset(pods(4))), (cpu([1.0] * 4),), traffic=DOUBLED)
    first, state = brokers.decide(full, POLICY, State(), 0.0)
    assert (first.desired, state.known) == (6, None)
    assert "Demand may exceed" in first.message
    second, _ = brokers.decide(replace(full, workload=replace(full.workload, replicas=6)), POLICY, state, 60.0)
    assert second.desired == 8
    others = BrokerFacts(Workload(6, frozenset(pods(6))), (cpu([1.0] * 6),), traffic=DOUBLED)
    assert brokers.decide(others, POLICY, state, 60.0)[0].desired == 9, "two of them are new: another look"
    assert decided(cpu([1.0] * 4, saturates=False)).desired == 6


def test_a_minute_of_all_cpu_adds_nothing_while_traffic_stays() -> None:
    """A collection of garbage on all brokers. Two minutes of it are load, and one is as far as traffic rose."""
    for traffic, first in ((1.0, 4), (None, 4), (1.09, 4), (1.1, 5), (1.3, 6)):
        world = Brokers(replicas=4, limited=True, traffic=traffic)
        world.look(2.6)
        verdict = world.look(4.0)
        assert verdict.desired == first
        assert (brokers.WAITS in verdict.message) == (first < 6)
    once = Brokers(replicas=4, limited=True, traffic=1.0)
    assert once.week([2.6, 4.0, 2.6, 2.6, 4.0, 2.6] * 20) == [4] * 120
    twice = Brokers(replicas=4, limited=True, traffic=1.0)
    assert twice.week([2.6, 4.0, 4.0])[-1] == 8


@pytest.mark.parametrize(
    ("share", "saturates", "lost", "hour", "wanted", "known"),
    [
        (1.0, True, 0, None, 8, 6),
        (1.0, True, 1, None, 9, 7),
        (0.95, True, 0, None, 8, 6),
        (1.0, False, 0, None, 6, None),
        (0.7, False, 0, 7.5, 5, 4),  # the record grows by a sixth
        (0.9, False, 0, 7.5, 6, None),  # to what is measured, rounded up
        (0.95, False, 0, 7.5, 7, 6),
        (0.7, False, 0, 12.0, 4, None),
        (0.6, False, 0, 7.5, 4, None),  # none is added
    ],
)
def test_what_is_asked_for_beyond_what_is_measured(
    share: float, saturates: bool, lost: int, hour: float | None, wanted: int, known: int | None
) -> None:
    workload = Workload(4 + lost, frozenset(pods(4)), lost)
    facts = BrokerFacts(workload, (cpu([share] * 4, saturates=saturates),), Foreseen(PEAK) if hour else None)
    now = (hour or 0.0) * 3600
    full = now - 60 if saturates and share >= 0.95 else None
    lasts = State(observed=now - 60, since=now - 60, pressed=now - 60, saturated=full)
    need = brokers.need(facts, POLICY, now, lasts)
    assert (need.replicas, need.known) == (wanted, known)


def test_what_starts_is_counted_and_what_is_lost_replaced() -> None:
    assert decided(cpu([0.9] * 4, saturates=False), starting=2).desired == 6
    verdict = decided(cpu([0.7] * 4), lost=1)
    assert verdict.desired == 5, "four carry it, whether a fifth is lost or not"
    assert decided(cpu([0.85] * 4), lost=1).desired == 6
    assert "1 pods are lost" in decided(cpu([0.85] * 4), lost=1).message


def test_brokers_of_different_size_count_by_what_they_carry() -> None:
    values = dict(zip(pods(2), (1.8, 3.6), strict=True))
    big = Signal("cpuPercent", values, dict(zip(pods(2), (2.0, 4.0), strict=True)), 0.7, 0.0)
    # 5.4 cores at 70 % of three each.
    assert decided(big).desired == 3


@pytest.mark.parametrize("big", range(4))
def test_brokers_of_different_size_do_not_come_and_go(big: int) -> None:
    """The one of the highest ordinal leaves: where that is the big one, the others must carry what it had."""
    sizes = {pod: 8.0 if pod == f"broker-{big}" else 2.0 for pod in pods(20)}
    state, replicas, seen = State(), 4, []
    for minute in range(240):
        there = pods(replicas)
        share = min(4.2 / sum(sizes[pod] for pod in there), 1.0)
        signal = Signal("cpuPercent", {pod: share * sizes[pod] for pod in there}, sizes, 0.7, 30.0, saturates=True)
        facts = BrokerFacts(Workload(replicas, frozenset(there)), (signal,))
        verdict, state = brokers.decide(facts, POLICY, state, minute * 60.0)
        replicas = verdict.desired
        seen.append(replicas)
    assert sorted(seen, reverse=True) == seen, "once fewer they are never more"
    assert sum(sizes[pod] for pod in pods(replicas)) * 0.7 >= 4.2 and replicas == max(big + 1, 2)


def test_a_pod_that_does_not_start_is_neither_waited_for_nor_one_that_carries() -> None:
    """The one that goes may be another than the one that does not start."""
    running = cpu([0.4] * 4)
    there = Workload(5, frozenset(pods(4)), stuck=1)
    found = brokers.need(BrokerFacts(there, (running,)), POLICY, 0.0)
    assert found.replicas == 4 and "1 pods do not start" in found.message
    fewer = BrokerFacts(replace(there, replicas=4, ready=frozenset(pods(3))), (running,))
    assert brokers.need(fewer, POLICY, 0.0).replicas == 3
    assert brokers.need(BrokerFacts(there, (cpu([0.95] * 4),)), POLICY, 0.0).replicas == 5, "none is added for it"


def test_the_strongest_target_decides() -> None:
    few = Signal("topics", dict.fromkeys(pods(4), 900.0), 1000.0, 1.0, 0.0)
    many = replace(few, values=dict.fromkeys(pods(4), 1900.0))
    assert decided(cpu([0.7] * 4), few).desired == 4
    verdict = decided(cpu([0.7] * 4), many)
    assert verdict.desired == 8
    assert verdict.message.startswith("According to topics, ")
    assert [each.name for each in verdict.inputs] == ["cpuPercent", "topics"]
    assert [each.target for each in verdict.inputs] == pytest.approx([2.8, 4000.0])


@pytest.mark.parametrize(
    ("signal", "words"),
    [
        (cpu([0.7] * 3), "cpuPercent is not known for broker-3"),
        (cpu([]), "cpuPercent is not known for broker-0, broker-1, broker-2 and 1 more"),
        (cpu([0.9] * 4, age=121.0), "121 s old"),
        (cpu([0.9] * 4, age=-1.0), "-1 s old"),
        (cpu([0.7, 0.7, 0.7, float("nan")]), "which is not a possible value"),
        (cpu([0.7, 0.7, 0.7, -0.1]), "which is not a possible value"),
        (cpu([0.7, 0.7, 0.7, 70.0]), "broker-3 is 70, which is not a possible value"),
        (replace(cpu([0.9] * 4), carries={"broker-0": 1.0}), "capacity of broker-"),
        (cpu([0.7, 0.7, 1e308, 1e308]), "which is not a possible value"),
        (replace(cpu([0.9] * 4), carries=0.0), "for cpuPercent is not known"),
        (replace(cpu([0.9] * 4), carries=1e-300), "for cpuPercent is not known"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_missing_is_not_zero(signal: Signal, words: str, first: bool) -> None:
    """Nobody leaves for it. Where another signal is well, and asks for more, more are added all the same."""
    workload = Workload(4, frozenset(pods(4)))
    topics = Signal("topics", dict.fromkeys(pods(4), 900.0), 1000.0, 1.0, 0.0)
    for each, number in ((0.1, 4), (0.9, 4), (1.5, 6)):
        other = replace(topics, values=dict.fromkeys(pods(4), 1000 * each))
        signals = (signal, other) if first else (other, signal)
        verdict, _ = brokers.decide(BrokerFacts(workload, signals), POLICY, settled(3), 3600.0)
        assert verdict.desired == number
        assert verdict.reason is (Reason.NO_DATA if number == 4 else Reason.SCALED_OUT)
        assert words in verdict.message
    verdict, state = brokers.decide(BrokerFacts(workload, (signal,)), POLICY, State(), 0.0)
    assert (verdict.desired, verdict.reason, state) == (4, Reason.NO_DATA, State())


@pytest.mark.parametrize(
    ("shares", "unsure", "desired"),
    [
        ([0.9] * 3, 0, 6),  # the one that does not tell is like the others
        ([0.9] * 3, 1, 4),  # it may have just started, and carry nothing
        ([0.7] * 3, 0, 4),
        ([0.2] * 3, 0, 3),  # whatever it carries
        ([0.5] * 3, 0, 4),
        ([0.2] * 2, 0, 4),  # two may carry all that they can
        ([0.1], 0, 4),  # most do not tell
        ([0.99], 0, 4),
    ],
)
def test_one_that_does_not_report_stops_neither_more_nor_fewer(shares: list[float], unsure: int, desired: int) -> None:
    facts = BrokerFacts(
        Workload(4, frozenset(pods(4)), unsure=unsure), (replace(cpu(shares), carries=1.0),), traffic=DOUBLED
    )
    verdict, _ = brokers.decide(facts, POLICY, settled(min(desired, 3)), 3600.0)
    assert verdict.desired == desired


def test_no_pod_and_no_input_are_no_data() -> None:
    assert brokers.decide(BrokerFacts(Workload(4, frozenset()), (cpu([]),)), POLICY, State(), 0.0)[0].desired == 4
    none = brokers.decide(BrokerFacts(Workload(4, frozenset(pods(4))), ()), POLICY, State(), 0.0)[0]
    assert (none.desired, none.reason) == (4, Reason.NO_DATA)


def test_a_hot_broker_among_idle_ones_asks_for_a_rebalance() -> None:
    verdict = decided(cpu([1.0, 0.3, 0.3, 0.3]))
    assert verdict.desired == 4
    assert [(each.reason, each.subject) for each in verdict.advice] == [(REBALANCE, "broker-0")]
    assert "A rebalance helps" in verdict.message
    assert decided(cpu([0.75, 0.6, 0.6, 0.6])).advice == (), "within the tolerance"
    assert decided(cpu([1.0, 0.9, 0.9, 0.9])).advice == (), "brokers are added, which even it out"


def test_a_topic_hotter_than_a_broker_asks_for_partitions() -> None:
    verdict = decided(cpu([1.0, 0.3, 0.3, 0.3]), hottest=HOT)
    assert verdict.desired == 4
    assert [(each.reason, each.subject) for each in verdict.advice] == [(MORE_PARTITIONS, HOT.name)]
    # 2.2 brokers' worth at 70 %, 0.29 of it too much for the one broker that the topic is on.
    pair = cpu([0.95, 0.61], saturates=False)
    assert decided(pair).desired == 3
    assert decided(pair, hottest=HOT).desired == 2
    more = decided(cpu([1.0, 0.9, 0.9, 0.9], saturates=False), hottest=HOT)
    assert (more.desired, len(more.advice)) == (5, 1), "what the others need they get"
    cool = replace(HOT, weight=70.0)
    assert [each.reason for each in decided(cpu([1.0, 0.3, 0.3, 0.3]), hottest=cool).advice] == [REBALANCE]


PEAK = Profile(3600.0, (1e9,) * 8 + (2e9,) * 9 + (1e9,) * 7)
"""Twice as much from eight on; the hour before is the way."""


def test_brokers_are_there_before_the_recorded_peak() -> None:
    """At half past seven the record is at 1.5, and at 1.75 a quarter of an hour later."""
    world = Brokers(replicas=6, profile=PEAK, now=7.5 * 3600)
    verdict = world.look(6 * 0.7)
    assert verdict.desired == 7
    assert "Recorded traffic grows 1.17 times" in verdict.message
    assert Brokers(replicas=6, profile=None, now=7.5 * 3600).look(6 * 0.7).desired == 6
    assert Brokers(replicas=6, profile=PEAK, now=12 * 3600.0).look(6 * 0.7).desired == 6


def test_none_leaves_that_is_needed_again_within_the_hour() -> None:
    def replicas(hour: float) -> int:
        world = Brokers(replicas=6, profile=PEAK, now=hour * 3600)
        return world.week([3.0] * 30)[-1]

    assert replicas(2.0) < 6
    assert replicas(6.4) == 6
    verdict = Brokers(replicas=6, profile=PEAK, now=6.4 * 3600).look(3.0)
    assert "Recorded traffic grows 1.40 times within the time for which a pod" in verdict.message


NOTHING = Profile(3600.0, (0.02,) * 8 + (2000.0,) * 9 + (0.02,) * 7, 1800.0)
"""A message or two a second by day, in byte-equivalents, and a topic by night."""


@pytest.mark.parametrize("share", [0.3, 0.4, 0.65])
def test_what_idle_brokers_use_is_multiplied_by_no_record(share: float) -> None:
    """Each that is added uses as much: three times that of more and more of them would go on up to maxReplicas."""
    world = Brokers(replicas=2, profile=NOTHING, now=7.0 * 3600)
    assert {world.look(share * world.replicas).desired for _ in range(180)} == {2}
    busy = Profile(NOTHING.step, tuple(1e5 * each for each in NOTHING.weights), NOTHING.begin)
    assert Brokers(replicas=2, profile=busy, now=7.5 * 3600).look(2 * share).desired > 2, "200 MB a second are much"


def test_topics_and_sessions_do_not_grow_as_traffic_does() -> None:
    """The record is of traffic; with four brokers that have as many topics as they should, four are enough."""
    for name, desired in (("topics", 4), ("sessions", 4), ("messagesPerSecond", 5), ("bandwidthPercent", 5)):
        values = dict.fromkeys(pods(4), 1000.0)
        facts = BrokerFacts(
            Workload(4, frozenset(values)), (Signal(name, values, 1000.0, 1.0, 0.0),), Foreseen(PEAK, age=60.0)
        )
        verdict = brokers.decide(facts, POLICY, State(), 7.5 * 3600)[0]
        assert verdict.desired == desired, name
        assert ("Recorded traffic grows" in verdict.message) == (desired == 5)
    both = replace(facts, signals=(Signal("topics", values, 1000.0, 1.0, 0.0), cpu([0.69] * 4, saturates=False)))
    verdict = brokers.decide(both, POLICY, State(), 7.5 * 3600)[0]
    assert verdict.desired == 5 and verdict.message.startswith("According to cpuPercent, "), (
        "what grows may ask for most"
    )


@pytest.mark.parametrize("hours", [1, 2])
def test_what_comes_back_after_an_hour_without_traffic_is_no_growth(hours: int) -> None:
    """An outage on record, at an hour at which today there is none: of a week that was recorded once it is the rule."""
    weights = [1e9] * 24
    weights[10 : 10 + hours] = [0.0] * hours
    world = Brokers(replicas=4, profile=Profile(3600.0, tuple(weights), 1800.0), now=8.0 * 3600)
    seen = {world.look(4 * 0.65).desired for _ in range(60 * 8)}
    assert max(seen) <= (4 if hours == 1 else 6) and min(seen) == 4


def test_of_a_shorter_way_down_and_up_none_leaves() -> None:
    """A real one: what was needed before is kept for what comes within the hour."""
    weights = [1e9] * 24
    weights[12] = 0.5e9
    profile = Profile(3600.0, tuple(weights), 1800.0)
    world = Brokers(replicas=8, profile=profile, now=11.5 * 3600)
    for _ in range(120):
        world.look(8 * 0.7 * profile.at(world.now) / 1e9)
        assert world.replicas == 8


SHARES = st.lists(st.floats(0.0, 3.0), min_size=2, max_size=8)


@given(shares=SHARES, weight=st.floats(0.0, 1000.0), saturates=st.booleans())
def test_a_hot_topic_takes_only_what_its_broker_has_too_much(
    shares: list[float], weight: float, saturates: bool
) -> None:
    """The record may be of another hour: what the others carry, and that broker up to its target, is served."""
    hot = replace(HOT, weight=weight)
    with_it = decided(cpu(shares, saturates=saturates), hottest=hot)
    without = decided(cpu(shares, saturates=saturates))
    busiest = max(range(len(shares)), key=lambda n: shares[n])
    others = [min(share, 0.7) if n == busiest else share for n, share in enumerate(shares)]
    assert with_it.desired <= without.desired
    if not saturates:
        assert with_it.desired >= decided(cpu(others, saturates=False)).desired
    if weight <= 70.0 or max(shares) <= 0.7:
        assert with_it == without, "nothing is too hot now"


@given(shares=SHARES, hour=st.floats(0.0, 200.0), weights=st.lists(st.floats(0.0, 1e12), min_size=24, max_size=24))
def test_a_forecast_asks_for_no_fewer_and_no_more_than_three_times_as_many(
    shares: list[float], hour: float, weights: list[float]
) -> None:
    workload, signal = Workload(len(shares), frozenset(pods(len(shares)))), cpu(shares, saturates=False)
    wide = replace(POLICY, least=1, most=1000)

    def asked(recorded: Foreseen | None) -> int:
        found = brokers.need(BrokerFacts(workload, (signal,), recorded), wide, hour * 3600.0).replicas
        assert found is not None
        return found

    foreseen, plain = asked(Foreseen(Profile(3600.0, tuple(weights), 1800.0), age=60.0)), asked(None)
    assert plain <= foreseen <= max(plain, ceil(3 * sum(shares) / 0.7))


def test_signals_of_targets() -> None:
    """The names are those of the fields; without targets CPU alone counts."""
    measured = {"cpuPercent": Measured({"broker-0": 1.0}, 5.0), "sessions": Measured({"broker-0": 7.0}, 6.0)}
    cpus = {"broker-0": 2.0}
    (only,) = broker_signals(None, measured, cpus, limited=True)
    assert (only.name, only.target, only.carries, only.age, only.saturates) == ("cpuPercent", 0.7, cpus, 5.0, True)
    every = BrokerTargets(
        cpu_percent=50, bandwidth_percent=80, bandwidth_limit=1000, messages_per_second=5, topics=6, sessions=7
    )
    signals = broker_signals(every, measured, cpus, limited=False)
    assert [each.name for each in signals] == [
        "cpuPercent",
        "bandwidthPercent",
        "messagesPerSecond",
        "topics",
        "sessions",
    ]
    assert [each.target for each in signals] == [0.5, 0.8, 1.0, 1.0, 1.0]
    assert not any(each.saturates for each in signals)
    assert signals[1].values == {}, "not measured: no decision"
    (proxy,) = proxy_signals(None, {})
    assert (proxy.name, proxy.carries) == ("connections", 2000.0)
    both = proxy_signals(ProxyTargets(connections=10, bandwidth_percent=50, bandwidth_limit="1Ki"), {})
    assert [(each.name, each.carries) for each in both] == [("connections", 10.0), ("bandwidthPercent", 1024.0)]


def test_policies_of_the_defaults() -> None:
    """Brokers go down as under an HPA: after five minutes, as far as the load fell."""
    found = policy_of(BrokerAutoscaling(min_replicas=2, max_replicas=20))
    assert found == replace(POLICY, down=Ramp(300.0, 1, 100, 60.0))
    bookies = policy_of(BookieAutoscaling(min_replicas=3, max_replicas=9), 300.0)
    assert (bookies.down.window, bookies.down.most(9), bookies.interval) == (86400, 1, 300.0)
    targets = bookie_targets(BookieAutoscaling(min_replicas=3, max_replicas=9).targets, 3)
    assert (targets.disk, targets.low, targets.full, targets.writable) == (0.75, 0.6, 0.9, 3)


@pytest.mark.parametrize(("connections", "desired"), [([100.0, 100.0], 2), ([130.0, 130.0], 3), ([1000.0, 1000.0], 6)])
def test_proxies(connections: list[float], desired: int) -> None:
    values = dict(zip(("proxy-0", "proxy-1"), connections, strict=True))
    signal = Signal("connections", values, 100.0, 1.0, 10.0)
    facts = proxies.ProxyFacts(Workload(2, frozenset(values)), (signal,))
    assert proxies.decide(facts, POLICY, State(), 0.0)[0].desired == desired
    missing = replace(facts, signals=(replace(signal, values={}),))
    assert proxies.decide(missing, POLICY, State(), 0.0)[0].reason is Reason.NO_DATA
