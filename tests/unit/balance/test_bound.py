"""The bound against all placements there are."""

from __future__ import annotations

from itertools import product
from math import inf, isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId, Cell, ClusterModel
from pulsar_operator.balance.model.ranges import LAST_BOUNDARY
from pulsar_operator.balance.planner.bound import Heaviest, bound_of, least_busiest_allowed

TINY = 1e-9


def best_of_all(items: list[tuple[float, frozenset[int]]], capacities: list[float]) -> float:
    """Busiest utilization of the best placement, each item on one of its brokers."""
    best = inf
    for choice in product(*(sorted(allowed) for _, allowed in items)):
        loads = [0.0] * len(capacities)
        for (weight, _), broker in zip(items, choice, strict=True):
            loads[broker] += weight
        best = min(best, max(load / c for load, c in zip(loads, capacities, strict=True)))
    return best


def of_all_brokers(weights: list[float], capacities: list[float]) -> float:
    """The bound when any broker may take every weight."""
    heaviest = Heaviest(len(capacities))
    heaviest.add(weights)
    return heaviest.bound(capacities)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_placement_beats_the_bound(data: st.DataObject) -> None:
    brokers = data.draw(st.integers(1, 4))
    capacities = data.draw(st.lists(st.sampled_from([1.0, 1.0, 2.0, 0.5]), min_size=brokers, max_size=brokers))
    weights = [float(w) for w in data.draw(st.lists(st.integers(0, 12), max_size=6))]
    best = best_of_all([(w, frozenset(range(brokers))) for w in weights], capacities)
    assert of_all_brokers(weights, capacities) <= best + TINY


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_placement_on_allowed_brokers_beats_the_bound(data: st.DataObject) -> None:
    capacities = data.draw(st.lists(st.sampled_from([1.0, 3.0]), min_size=3, max_size=3))
    choices = st.sets(st.integers(0, 2), min_size=1).map(frozenset)
    items = data.draw(st.lists(st.tuples(st.integers(0, 9).map(float), choices), max_size=6))
    groups: dict[frozenset[str] | None, Heaviest] = {}
    for weight, allowed in items:
        groups.setdefault(frozenset(map(str, allowed)), Heaviest(3)).add([weight])
    brokers = [Broker(str(i), capacity) for i, capacity in enumerate(capacities)]
    assert least_busiest_allowed(groups, brokers) <= best_of_all(items, capacities) + TINY


@pytest.mark.parametrize(
    ("weights", "capacities", "bound"),
    [
        ([], [1.0], 0.0),
        ([5.0], [], inf),
        ([], [], 0.0),
        ([1.0] * 8, [1.0, 1.0], 4.0),
        ([9.0, 1.0], [1.0, 1.0], 9.0),
        ([9.0, 1.0], [1.0, 3.0], 3.0),
        # Two cells as heavy as the large broker can take: the second one meets a small broker, or both the large one.
        ([4.0, 4.0], [2.0, 1.0, 1.0], 4.0 / 1.5),
        # Three alike on two brokers: one broker has two of them.
        ([6.0, 5.0, 4.0], [1.0, 1.0], 9.0),
        # Five on two brokers: one has at least three, in the best case the lightest three.
        ([6.0, 6.0, 4.0, 4.0, 4.0], [1.0, 1.0], 12.0),
        # Four cells on a broker of 2 and two of 1: the fourth place at a utilization of 1 is the last one.
        ([1.0] * 4, [2.0, 1.0, 1.0], 1.0),
        ([1.0] * 5, [2.0, 1.0, 1.0], 1.5),
    ],
)
def test_the_strongest_argument_counts(weights: list[float], capacities: list[float], bound: float) -> None:
    assert isclose(of_all_brokers(weights, capacities), bound)


def test_namespaces_that_share_few_brokers_raise_the_bound() -> None:
    brokers = [Broker("a"), Broker("b"), Broker("c", 4.0)]
    here, there, free = Heaviest(3), Heaviest(3), Heaviest(3)
    here.add([1.0] * 6)
    there.add([1.0] * 4)
    free.add([1.0])
    groups = {frozenset("a"): here, frozenset("ab"): there, None: free}
    assert least_busiest_allowed(groups, brokers) == 6.0
    assert least_busiest_allowed({frozenset("ab"): here, frozenset("b"): there, None: free}, brokers) == 5.0
    two = {frozenset("a"): here, frozenset("b"): here, None: free}
    assert least_busiest_allowed(two, [*brokers[:1], Broker("b", 2.0)]) == 6.0
    assert least_busiest_allowed({frozenset("a"): here}, [Broker("a", draining=True), Broker("b")]) == inf


def test_the_bound_of_a_cluster_takes_cells_owners_of_pinned_bundles_and_draining_brokers_into_account() -> None:
    whole = BundleId("t/ns", 0, LAST_BOUNDARY)
    cut = Bundle(whole, 8.0, "a", (Cell(1, 4.0), Cell(2, 4.0)), 2)
    brokers = (Broker("a"), Broker("b"), Broker("gone", draining=True))
    assert bound_of(ClusterModel(brokers, (cut,))) == 4.0
    unknown = Bundle(whole, 8.0, "a")
    assert bound_of(ClusterModel(brokers, (unknown,))) == 8.0
    pinned = Bundle(BundleId("pulsar/system", 0, LAST_BOUNDARY), 20.0, "b", (Cell(1, 10.0), Cell(2, 10.0)), 2)
    assert bound_of(ClusterModel(brokers, (cut, pinned), pinned=frozenset({"pulsar/system"}))) == 20.0
    only = {"t/ns": frozenset({"a", "gone"})}
    assert bound_of(ClusterModel(brokers, (cut,), allowed=only)) == 8.0


def test_a_stream_of_weights_is_bounded_as_if_taken_at_once() -> None:
    weights = [float(i % 17) for i in range(500)]
    once, parts = Heaviest(5), Heaviest(5)
    once.add(weights)
    for start in range(0, 500, 7):
        other = Heaviest(5)
        other.add(weights[start : start + 7])
        parts.merge(other)
    assert parts.bound([1.0, 2.0, 3.0, 1.0, 1.0]) == once.bound([1.0, 2.0, 3.0, 1.0, 1.0])
