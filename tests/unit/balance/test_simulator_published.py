"""Pulsar's balancers as re-built for the simulator give the answers that Pulsar's authors published."""

from __future__ import annotations

import pytest

from benchmarks.simulator import published, shedders
from benchmarks.simulator.managers import ModularManager
from benchmarks.simulator.placement import LeastLongTermMessageRate, LeastResourceUsageWithWeight
from benchmarks.simulator.published import MissedExampleError, state_of, verify
from benchmarks.simulator.shedders import (
    AvgShedder,
    OverloadShedder,
    ThresholdShedder,
    TransferShedder,
    UniformLoadShedder,
)
from benchmarks.simulator.splits import (
    Namespace,
    exceeds,
    flow_or_qps_equally_divide,
    range_equally_divide,
    topic_count_equally_divide,
)
from benchmarks.simulator.state import MIB, Limits, Rates, Settings
from pulsar_operator.balance.model.cluster import BundleId


def test_all_published_examples_hold() -> None:
    found = {(example.source, example.about): example for example in verify()}
    assert len(found) >= 19
    assert {"PIP-364", "#17456", "PIP-192"} <= {source for source, _ in found}


def test_a_strategy_that_misses_its_example_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark stops on this error before it prints any comparison."""
    monkeypatch.setattr(shedders, "MARGIN", -0.2)
    with pytest.raises(MissedExampleError, match="documentation: Threshold, brokers at 40, 10, 10"):
        verify()


def test_threshold_goes_on_shedding_what_is_even_until_all_load_has_moved() -> None:
    """PIP-364, played through: after each round the loads are made even, or swapped, as the proposal does."""
    shedder = ThresholdShedder()
    busy, idle, sources = 0.9, 0.1, []
    for _ in range(3):
        picked = shedder.select_bundles(state_of({"broker1": busy, "broker2": idle}))
        sources.append({broker for broker, _ in picked})
        high, low = shedder.scores["broker1"], shedder.scores["broker2"]
        amount = busy - 0.5 if busy > 0.5 else (high - low) / 2
        busy, idle = busy - amount, idle + amount
    assert sources == [{"broker1"}] * 3
    assert busy < 0.15


def test_overload_sheds_only_at_85_percent_wherever_the_others_stand() -> None:
    picked = OverloadShedder().select_bundles(state_of({"a": 0.84, "b": 0.86, "c": 0.95}))
    assert [broker for broker, _ in picked] == ["b", "c", "c"]


def test_a_bundle_unloaded_within_the_grace_period_stays() -> None:
    state = state_of({"a": 0.95, "b": 0.1})
    first = {bundle for _, bundle in OverloadShedder().select_bundles(state)}
    state.unloaded = dict.fromkeys(first, 0)
    again = {bundle for _, bundle in OverloadShedder().select_bundles(state)}
    assert first and again and not first & again


@pytest.mark.parametrize(
    ("gap", "rounds"),
    [(0.14, []), (0.16, [8, 16]), (0.39, [8, 16]), (0.41, [2, 4, 6, 8, 10, 12, 14, 16])],
)
def test_avg_waits_for_eight_rounds_of_15_points_or_two_of_40(gap: float, rounds: list[int]) -> None:
    state = state_of({"low": 0.3, "high": 0.3 + gap})
    shedder = AvgShedder(lambda stop: 0)
    state.settings = Settings(min_unload_messages=0, min_unload_throughput=0)
    state.reports["high"].messages *= 10
    assert [number for number in range(1, 17) if shedder.select_bundles(state)] == rounds


def test_avg_forgets_its_plan_when_the_broker_is_no_candidate() -> None:
    shedder = AvgShedder(lambda stop: stop - 1)
    bundle = BundleId("t/n", 0, 1)
    shedder.planned[bundle] = "b"
    state = state_of({"a": 0.1, "b": 0.1, "c": 0.1})
    assert shedder.select(["a", "b"], bundle, state) == "b"
    assert shedder.select(["a", "c"], bundle, state) == "c"


def test_uniform_takes_no_bundle_bigger_than_what_it_wants_to_shed_and_its_slack() -> None:
    bundles = {"a": [Rates(9_000.0), Rates(5_900.0), Rates(200.0)], "b": [Rates(1.0)]}
    state = state_of({"a": 0.5, "b": 0.1}, bundles=bundles)
    picked = {state.averages[bundle].messages_short for _, bundle in UniformLoadShedder().select_bundles(state)}
    # A fifth of the gap is 3019; with the slack of 1000 the light bundle fits, the others do not.
    assert picked == {200.0}


def test_uniform_leaves_a_small_cluster_alone() -> None:
    bundles = {"a": [Rates(400.0)] * 10, "b": [Rates(1.0)]}
    assert UniformLoadShedder().select_bundles(state_of({"a": 0.5, "b": 0.1}, bundles=bundles)) == []


def test_uniform_takes_bundles_without_traffic_along_and_counts_whole_messages() -> None:
    bundles = {"a": [Rates(1_999.9), Rates(1_400.5), Rates(0.0), Rates(0.0)], "b": [Rates(1.0)]}
    state = state_of({"a": 0.5, "b": 0.1}, bundles=bundles, settings=Settings(min_unload_messages=500))
    picked = [state.averages[bundle].messages_short for _, bundle in UniformLoadShedder().select_bundles(state)]
    # A fifth of the gap is 679 of 3399.4; after 1400 of it and the slack of 1000 the idle ones still fit.
    assert picked == [1_400.5, 0.0, 0.0]


@pytest.mark.parametrize("messages", [0.0, 5_000.0])
def test_avg_leaves_bundles_without_traffic_where_they_are(messages: float) -> None:
    bundles = {"low": [Rates(1.0)], "high": [Rates(messages), Rates(0.0)]}
    settings = Settings(min_unload_messages=-1, max_unload_share=1.0, avg_hits_high=1)
    state = state_of({"low": 0.1, "high": 0.9}, bundles=bundles, settings=settings)
    state.reports["high"].messages = 10_000.0
    picked = [state.averages[bundle].messages_short for _, bundle in AvgShedder(lambda stop: 0).select_bundles(state)]
    assert picked == [messages] * bool(messages)


def test_averages_of_brokers_that_are_gone_are_forgotten() -> None:
    shedder, placement = ThresholdShedder(), LeastResourceUsageWithWeight(lambda stop: 0)
    both, bundle = state_of({"a": 0.9, "b": 0.1}), BundleId("t/n", 0, 1)
    for state in (both, state_of({"b": 0.1}), state_of({"a": 0.3, "b": 0.1})):
        shedder.select_bundles(state)
        placement.select(sorted(state.hosts), bundle, state)
    assert shedder.scores == placement.scores == {"a": 0.3, "b": 0.1}


def test_where_the_first_choice_is_overloaded_all_brokers_are_candidates() -> None:
    """ModularLoadManagerImpl.selectBroker: above 85 % the even distribution of the namespace counts no more."""
    bundle = BundleId("t/n", 0, 1)
    manager = ModularManager("m", None, LeastLongTermMessageRate(lambda stop: 0), None)
    for usage, broker in ((0.85, "few"), (0.86, "many")):
        state = state_of({"few": usage, "many": 0.2})
        state.counts = {"t/n": {"few": 1, "many": 2}}
        assert manager.place(bundle, state) == broker
    state = state_of({"few": 0.9, "many": 0.95})
    state.counts = {"t/n": {"few": 1, "many": 2}}
    # All overloaded: any of them.
    last = ModularManager("m", None, LeastLongTermMessageRate(lambda stop: stop - 1), None)
    assert last.place(bundle, state) == "many"


def test_transfer_rests_after_a_transfer_until_reports_are_three_minutes_younger() -> None:
    state = published._transfer_state((2, 4, 6, 80, 90))
    shedder = TransferShedder()
    assert shedder.transfers(state)
    rested = []
    for minute in range(1, 5):
        state.minute = minute
        for report in state.reports.values():
            report.minute = minute
        rested.append(bool(shedder.transfers(state)))
    assert rested == [False, False, True, False]


def test_transfer_counts_what_a_swap_brings_back() -> None:
    """108 of 216 MB/s are wanted: 30 and 45 go, 46 would be too much and is swapped for 61, and then 47 fits."""
    bundles = {
        broker: [Rates(0.0, 500.0, 0.0, megabytes * 1e6) for megabytes in each]
        for broker, each in {"high": (30, 45, 46, 47, 48), "low": (61,)}.items()
    }
    state = state_of({"high": 0.8, "low": 0.0}, bundles=bundles, settings=Settings(transfer_hits=0))
    moved = [
        (move.source, state.reports[move.source].bundles[move.bundle].bytes_out / 1e6)
        for move in TransferShedder().transfers(state)
    ]
    assert moved == [("high", 30.0), ("high", 45.0), ("low", 61.0), ("high", 46.0), ("high", 47.0)]


def test_transfer_keeps_at_least_one_top_bundle_and_needs_every_broker_to_report() -> None:
    state = published._transfer_state((2, 4, 6, 80, 90))
    sources = [move.source for move in TransferShedder().transfers(state)]
    assert len(sources) == len(set(sources))
    del state.reports["broker3"]
    assert TransferShedder().transfers(state) == []


def space(*topics: tuple[int, float, float]) -> Namespace:
    return Namespace(topics)


def test_range_split_is_the_middle_of_the_range() -> None:
    assert range_equally_divide(space(), 0, 0xFFFFFFFF, Limits()) == [0x7FFFFFFF]


@pytest.mark.parametrize(
    ("positions", "cuts"),
    [([], []), ([7], []), ([10, 20], [15]), ([10, 20, 100], [15]), ([30, 10, 40, 20], [25]), ([10, 20, 200], [15])],
)
def test_topic_count_split_lies_between_the_median_topics(positions: list[int], cuts: list[int]) -> None:
    topics = space(*((position, 0.0, 0.0) for position in positions))
    assert topic_count_equally_divide(topics, 0, 150, Limits()) == cuts


def test_flow_split_cuts_where_the_sum_would_exceed_a_limit() -> None:
    topics = [(10, 20_000.0, 0.0), (20, 8_000.0, 0.0), (30, 0.0, 0.0), (40, 9_000.0, 0.0), (50, 1.0, 101.0 * MIB)]
    assert flow_or_qps_equally_divide(space(*topics), 0, 100, Limits()) == [31, 46]
    # Within a tenth above the limit, and with one topic that has traffic: none.
    assert flow_or_qps_equally_divide(space((10, 15_000.0, 0.0), (20, 17_000.0, 0.0)), 0, 100, Limits()) == []
    assert flow_or_qps_equally_divide(space((10, 50_000.0, 0.0), (20, 0.0, 0.0)), 0, 100, Limits()) == []


@pytest.mark.parametrize(
    ("figures", "wanted"),
    [
        ((1000, 1000, 30_000.0, 100.0 * MIB), False),
        ((1, 9000, 90_000.0, 900.0 * MIB), False),
        ((1001, 0, 0.0, 0.0), True),
        ((2, 1001, 0.0, 0.0), True),
        ((2, 0, 30_000.1, 0.0), True),
        ((2, 0, 0.0, 100.1 * MIB), True),
    ],
)
def test_a_bundle_of_two_topics_is_split_above_any_limit(figures: tuple[int, int, float, float], wanted: bool) -> None:
    assert exceeds(Limits(), *figures) is wanted
