"""The simulated cluster: positions, figures, reports and their lag, splits, brokers that come and go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import log
from random import Random
from statistics import stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simulator.managers import ModularManager, pulsar_policies
from benchmarks.simulator.placement import LeastLongTermMessageRate, fewest_of_namespace
from benchmarks.simulator.state import Action, Averages, Cut, Host, Settings, State, Traffic, Unload
from benchmarks.simulator.traces import DAY, NAMES, population, scenario
from benchmarks.simulator.traffic import Recording, Topic, Window
from benchmarks.simulator.world import Change, World, even_bundles
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.hashing import topic_hash
from pulsar_operator.balance.model.load import CostModel, Load

NAMESPACE = "shop/team"


@dataclass
class Script:
    """A policy that does what it was told, minute by minute."""

    actions: dict[int, list[Action]] = field(default_factory=dict)
    refuge: str = "b"
    name: str = "script"

    def act(self, state: State, traffic: Traffic) -> list[Action]:
        return self.actions.get(state.minute, [])

    def place(self, bundle: BundleId, state: State) -> str:
        return self.refuge if self.refuge in state.hosts else min(state.hosts)


@dataclass
class Factors:
    """One factor for all topics in each minute; the last one stays."""

    values: Sequence[float]
    topics: int

    def factors(self, minute: int) -> Sequence[float]:
        return [self.values[min(minute, len(self.values) - 1)]] * self.topics


def recording(count: int = 40, minutes: int = 40, values: Sequence[float] = (1.0,)) -> Recording:
    made = Recording([Topic(f"persistent://{NAMESPACE}/t-{number}", 10.0 + number) for number in range(count)])
    made.record(Factors(values, count), minutes)
    return made


def world(script: Script, made: Recording | None = None, bundles: int = 4, changes: Sequence[Change] = ()) -> World:
    made = made or recording()
    found = even_bundles([NAMESPACE], bundles)
    owners = {bundle: "a" if number % 2 else "b" for number, bundle in enumerate(found)}
    hosts = [Host(name, 1e9, 1e9) for name in "ab"]
    return World(made, hosts, found, script, changes=changes, owners=owners)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 2**32 - 2), max_size=6, unique=True))
def test_bundles_add_up_to_all_topics_whatever_the_cut(cuts: list[int]) -> None:
    made = recording()
    bounds = [0, *sorted(cuts), 2**32 - 1]
    bundles = [BundleId(NAMESPACE, low, high) for low, high in pairwise(bounds)]
    window = Window(made, {bundle: made.slice(bundle) for bundle in bundles}, 0)
    assert sum(window.topics(bundle) for bundle in bundles) == 40
    assert sum(window.cost(bundle) for bundle in bundles) == pytest.approx(made.total_cost())
    for bundle in bundles:
        names = {t.name for t in made.topics if bundle.lower <= topic_hash(t.name) < bundle.upper}
        assert window.topics(bundle) == len(names)
        rates = window.rates(bundle)
        whole = Load(rates.messages_in, rates.messages_out, rates.bytes_in, rates.bytes_out, len(names), 2 * len(names))
        assert window.cost(bundle) == pytest.approx(CostModel().cost(whole), abs=1e-6)


def test_a_move_counts_from_the_next_minute_and_costs_its_weight() -> None:
    bundle = even_bundles([NAMESPACE], 4)[0]
    ran = world(Script({3: [Unload(bundle, "b", "a")]}))
    account = ran.run(6)
    busiest = [minute.busiest for minute in account.minutes]
    assert busiest[3] == busiest[0] != busiest[4]
    assert account.unloads == 1
    window = Window(ran.recording, ran.slices, 3)
    assert account.moved == pytest.approx(window.cost(bundle) / ran.recording.total_cost())
    assert ran.state.unloaded == {bundle: 3}


def test_a_move_to_where_the_bundle_is_or_to_nobody_is_none() -> None:
    bundle = even_bundles([NAMESPACE], 4)[0]
    account = world(Script({0: [Unload(bundle, "b", "b"), Unload(bundle, "b", "gone")]})).run(2)
    assert account.unloads == 0


def test_a_hidden_cost_is_paid_by_brokers_and_seen_by_their_own_measure_alone() -> None:
    topics = [Topic(f"persistent://{NAMESPACE}/t-{n}", 10.0 + n, hidden=1.0 + n % 3) for n in range(40)]
    made, plain = Recording(topics), recording()
    made.record(Factors((1.0,), 40), 3)
    hidden, open_ = world(Script(), made), world(Script(), plain)
    for ran in (hidden, open_):
        ran.run(1)
    for broker, report in hidden.state.fresh.items():
        mine = [bundle for bundle, owner in hidden.state.owners.items() if owner == broker]
        seen = open_.state.fresh[broker]
        assert (report.messages, report.throughput) == (seen.messages, seen.throughput)
        assert sum(map(Window(made, hidden.slices, 0).cost, mine)) == pytest.approx(seen.cpu * 1e9)
        inside = [t for t in made.topics if any(b.lower <= t.position < b.upper for b in mine)]
        paid = sum(
            CostModel().cost(Load(t.rate, t.rate, t.rate * 1024, t.rate * 1024, 1, 2)) * t.hidden for t in inside
        )
        assert report.cpu == pytest.approx(paid / 1e9)
    minute, other = hidden.account.minutes[0], open_.account.minutes[0]
    assert minute.busiest == max(report.cpu for report in hidden.state.fresh.values())
    assert minute.mean == pytest.approx(sum(report.cpu for report in hidden.state.fresh.values()) / 2)
    assert minute.mean > other.mean


def test_hidden_costs_are_log_normal_by_topic_and_leave_the_traffic_as_it_is() -> None:
    open_, mild, wild = (scenario("drift", Random(1), 2, sigma, Random(9)) for sigma in (0.0, 0.3, 0.6))
    assert {topic.hidden for topic in open_.recording.topics} == {1.0}
    for topic, other in zip(mild.recording.topics, wild.recording.topics, strict=True):
        assert log(other.hidden) == pytest.approx(2 * log(topic.hidden))
    by_group = {(topic.group, topic.hidden) for topic in mild.recording.topics}
    assert len(by_group) == len({group for group, _ in by_group})
    assert 0.2 < stdev(log(hidden) for _, hidden in by_group) < 0.4
    for case in (mild, wild):
        assert case.recording.at(1)[:5] == open_.recording.at(1)[:5]
        quiet = case.recording.total_cost() / sum(host.capacity for host in case.hosts)
        assert quiet == pytest.approx(0.45)


def test_mixed_brokers_have_half_to_one_and_a_half_times_the_size_and_the_same_in_all() -> None:
    mixed, equal = (scenario(name, Random(1), 1) for name in ("mixed brokers", "diurnal"))
    sizes = [host.capacity for host in mixed.hosts]
    assert sum(sizes) == pytest.approx(sum(host.capacity for host in equal.hosts))
    least = min(sizes)
    assert {round(size / least, 9) for size in sizes} == {1.0, 2.0, 3.0}
    assert [host.nic for host in mixed.hosts] == sizes


def test_grace_ends_after_its_minutes() -> None:
    bundle = even_bundles([NAMESPACE], 4)[0]
    ran = world(Script({0: [Unload(bundle, "b", "a")]}), recording(minutes=40))
    ran.run(30)
    assert bundle in ran.state.unloaded
    ran.run(1)
    assert bundle not in ran.state.unloaded


def test_a_report_is_as_old_as_its_figures_are_steady_but_at_most_15_minutes() -> None:
    values = [1.0] * 20 + [1.05, 1.2]
    ran = world(Script(), recording(minutes=40, values=values))
    written = []
    for _ in range(24):
        ran.step()
        written.append(ran.state.reports["a"].minute)
    # 5 % more does not write a report, 20 % does.
    assert sorted(set(written)) == [0, 15, 21]


def test_averages_are_running_means_of_10_and_1000() -> None:
    average = Averages()
    average.update(100.0, 0.0)
    assert (average.messages_short, average.messages_long) == (100.0, 100.0)
    for _ in range(19):
        average.update(0.0, 0.0)
    assert average.messages_long == pytest.approx(100.0 / 20)
    assert average.messages_short == pytest.approx(10.0 * 0.9**10)


def test_a_cut_keeps_all_topics_and_its_owner_unless_the_pieces_are_unloaded() -> None:
    parent = even_bundles([NAMESPACE], 4)[1]
    for unload in (False, True):
        ran = world(Script({1: [Cut(parent, (parent.lower, parent.lower + 10, parent.upper), unload)]}, refuge="b"))
        account = ran.run(3)
        children = [bundle for bundle in ran.slices if parent.lower <= bundle.lower < parent.upper]
        assert [(child.lower, child.upper) for child in children] == [
            (parent.lower, parent.lower + 10),
            (parent.lower + 10, parent.upper),
        ]
        assert {ran.state.owners[child] for child in children} == {"b" if unload else "a"}
        assert (account.splits, account.split_unloads) == (1, 2 if unload else 0)
        assert sum(end - start for start, end in ran.slices.values()) == 40


def test_bundles_of_a_lost_broker_are_placed_at_once_and_counted() -> None:
    ran = world(Script(refuge="b"), changes=[Change(2, fails=("a",)), Change(4, joins=(Host("a", 1e9, 1e9),))])
    account = ran.run(6)
    assert account.displaced == 2 and account.unloads == 0
    assert set(ran.state.owners.values()) == {"b"}
    assert account.minutes[2].busiest == pytest.approx(account.minutes[2].mean)
    assert account.minutes[4].ratio == pytest.approx(2.0)


def test_even_distribution_checks_the_namespace_alone() -> None:
    state = State(Settings(), counts={"t/n": {"a": 2, "b": 1}, "t/other": {"c": 5}})
    assert fewest_of_namespace(["a", "b", "c"], BundleId("t/n", 0, 1), state) == ["c"]
    assert fewest_of_namespace(["a", "b"], BundleId("t/n", 0, 1), state) == ["b"]


def test_a_new_cluster_gets_as_many_bundles_of_each_namespace_on_every_broker() -> None:
    case = scenario("crc stripes", Random(1), 1)
    manager = ModularManager("start", None, LeastLongTermMessageRate(Random(1).randrange), None)
    bundles = even_bundles(case.recording.namespaces, 20)
    ran = World(case.recording, case.hosts, bundles, manager)
    assert {count for counts in ran.state.counts.values() for count in counts.values()} == {2}


def test_automatic_splits_cut_what_is_above_a_limit_and_has_topics_to_part() -> None:
    rates = [9_000.0] * 8 + [40_000.0]
    made = Recording([Topic(f"persistent://{NAMESPACE}/t-{number}", rate) for number, rate in enumerate(rates)])
    made.record(Factors((1.0,), len(rates)), 60)
    hosts = [Host(name, 1e12, 1e12) for name in "ab"]
    policies = pulsar_policies(lambda: Random(1))
    for policy in (policies[0], policies[-1]):
        ran = World(made, hosts, even_bundles([NAMESPACE], 1), policy)
        ran.run()
        window = Window(made, ran.slices, 0)
        heavy = [bundle for bundle in ran.slices if window.rates(bundle).messages > 30_000]
        # The hot topic alone stays above the limit, and is not cut for ever.
        assert [window.topics(bundle) for bundle in heavy] == [1]
        assert 8 <= ran.account.splits < 20
        assert ran.account.split_unloads == (2 * ran.account.splits if policy.name == "Threshold" else 0)


def test_partitions_of_striped_topics_lie_on_four_of_sixteen_bundles() -> None:
    topics = [topic for topic in population(Random(1), striped=True)]
    stripes: dict[int, set[int]] = {}
    for topic in topics:
        stripes.setdefault(topic.group, set()).add(topic.position >> 28)
    assert {len(used) for used in stripes.values()} == {4}


@pytest.mark.parametrize("name", NAMES)
def test_every_trace_is_the_same_for_the_same_seed_and_another_for_another(name: str) -> None:
    one, same, other = (scenario(name, Random(seed), 3).recording for seed in (1, 1, 2))
    assert [one.at(minute) for minute in range(3)] == [same.at(minute) for minute in range(3)]
    assert one.at(0) != other.at(0)


def test_an_unknown_trace_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'storm': it must be one of diurnal"):
        scenario("storm", Random(1), 1)


def test_brokers_come_and_go_within_the_day() -> None:
    for name in ("broker loss", "5-10-5 brokers"):
        case = scenario(name, Random(1), 1)
        alive = {host.id for host in case.hosts}
        for change in sorted(case.changes):
            assert change.minute < DAY
            assert not {host.id for host in change.joins} & alive
            assert {*change.fails, *change.leaves, *change.announces} <= alive
            alive = alive - {*change.fails, *change.leaves} | {host.id for host in change.joins}
        assert alive == {host.id for host in case.hosts}
