"""Bundles of all namespaces: few, within tolerance of the bound, and never fewer than today's."""

from __future__ import annotations

import random
from itertools import pairwise
from math import fsum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.balance.model.cluster import Broker, Cell
from pulsar_operator.balance.model.ranges import LAST_BOUNDARY, boundary_points, boundary_texts
from pulsar_operator.balance.planner.bound import Heaviest
from pulsar_operator.balance.sizing.granularity import even_goal
from pulsar_operator.balance.sizing.greedy import Piece, busiest, place
from pulsar_operator.balance.sizing.size import NamespacePlan, NamespaceTraffic, SizingOptions, size

EVEN = (0, 1 << 30, 2 << 30, 3 << 30, LAST_BOUNDARY)


def brokers(count: int, *capacities: float) -> list[Broker]:
    each = capacities or (1.0,)
    return [Broker(f"broker-{i}:8080", capacity=each[i % len(each)]) for i in range(count)]


def traffic(name: str, weights: list[float], seed: int = 1, today: tuple[int, ...] | None = None) -> NamespaceTraffic:
    positions = sorted(random.Random(f"{name} {seed}").sample(range(1 << 32), len(weights)))
    return NamespaceTraffic(name, [Cell(p, w) for p, w in zip(positions, weights, strict=True)], today)


def zipf(count: int, exponent: float, seed: int = 1) -> list[float]:
    weights = [1e6 / rank**exponent for rank in range(1, count + 1)]
    random.Random(seed).shuffle(weights)
    return weights


def weights_of(boundaries: tuple[str, ...], cells: list[Cell]) -> list[float]:
    """Weight by bundle, cell by cell, as Pulsar would look them up."""
    points = boundary_points(boundaries)
    return [
        fsum(c.weight for c in cells if low <= c.position and (c.position < high or high == LAST_BOUNDARY))
        for low, high in pairwise(points)
    ]


@pytest.mark.parametrize("capacities", [(1.0,), (1.0, 2.0)])
@pytest.mark.parametrize("today", [None, EVEN])
@pytest.mark.parametrize("exponent", [0.6, 1.0, 1.3])
def test_the_promise_is_kept_by_the_boundaries_themselves(
    exponent: float, today: tuple[int, ...] | None, capacities: tuple[float, ...]
) -> None:
    world = [traffic(f"t/n{i}", zipf(700, exponent, i), today=today) for i in range(3)]
    able = brokers(6, *capacities)
    plan = size(world, able)
    for kind, promised in (("boundaries", plan.after), ("fresh_boundaries", plan.fresh)):
        pieces = [
            Piece(weight)
            for known, found in zip(world, plan.namespaces, strict=True)
            for weight in weights_of(getattr(found, kind), list(known.cells))
        ]
        assert len(pieces) == promised.bundles
        assert busiest(place(pieces, able)[1], able) == pytest.approx(promised.busiest)
        heaviest = Heaviest(len(able))
        heaviest.add([c.weight for n in world for c in n.cells])
        bound = heaviest.bound([b.capacity for b in able])
        assert promised.bound == pytest.approx(bound)
        assert bound * 0.999999 <= promised.busiest <= 1.05 * bound


@pytest.mark.parametrize(("exponent", "fresh", "refined"), [(0.6, 24, 10), (1.0, 24, 14), (1.3, 24, 16)])
def test_few_bundles_do(exponent: float, fresh: int, refined: int) -> None:
    able = brokers(10)
    plan = size([traffic("t/n", zipf(5000, exponent))], able)
    assert 20 <= plan.fresh.bundles <= fresh
    assert plan.namespaces[0].bundles_now == 0
    assert plan.namespaces[0].boundaries == plan.namespaces[0].fresh_boundaries
    one = size([traffic("t/n", zipf(5000, exponent), today=(0, LAST_BOUNDARY))], able)
    assert 10 <= one.after.bundles <= refined


def test_good_bundles_are_left_alone() -> None:
    world = [traffic(f"t/n{i}", [1.0] * 2000, today=EVEN) for i in range(20)]
    plan = size(world, brokers(4))
    assert [n.boundaries for n in plan.namespaces] == [boundary_texts(EVEN)] * 20
    assert plan.after.bundles == 80
    assert "80 bundles are sufficient" in plan.reason


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_recommended_boundaries_hold_all_of_today(data: st.DataObject) -> None:
    world = []
    for i in range(data.draw(st.integers(1, 4))):
        weights = data.draw(st.lists(st.integers(0, 50).map(float), max_size=30))
        inner = data.draw(st.sets(st.integers(1, LAST_BOUNDARY - 1), max_size=6))
        today = data.draw(st.sampled_from([None, (0, *sorted(inner), LAST_BOUNDARY)]))
        world.append(traffic(f"t/n{i}", weights, today=today))
    plan = size(world, brokers(data.draw(st.integers(1, 5))))
    for known, found in zip(world, plan.namespaces, strict=True):
        points = boundary_points(found.boundaries)
        assert set(known.boundaries or ()) <= set(points)
        assert all(a < b for a, b in pairwise(points))
        boundary_points(found.fresh_boundaries)
    assert plan.after.bundles == sum(len(n.boundaries) - 1 for n in plan.namespaces)
    assert plan.after.busiest >= plan.after.bound * 0.999999


def test_brokers_beside_a_hot_topic_are_even_among_themselves() -> None:
    world = [traffic("t/n", [5000.0] + [1.0] * 9000)]
    able = brokers(10)
    plan = size(world, able)
    assert plan.fresh.busiest == 5000.0
    pieces = [Piece(weight) for weight in weights_of(plan.namespaces[0].boundaries, list(world[0].cells))]
    loads = sorted(place(pieces, able)[1].values())
    assert loads[-1] == 5000.0
    assert loads[-2] <= 1.05 * 1000
    assert "which no split can reduce" in plan.namespaces[0].reason


def test_the_size_of_a_bundle_is_limited_by_brokers_and_by_all_traffic() -> None:
    world = [traffic("t/n", [1.0] * 3000)]
    assert max(weights_of(size(world, brokers(3)).namespaces[0].boundaries, list(world[0].cells))) <= 150.0
    assert max(weights_of(size(world, brokers(30)).namespaces[0].boundaries, list(world[0].cells))) <= 50.0
    rough = SizingOptions(largest_share=1.0, largest_part=1.0)
    assert size(world, brokers(3), rough).fresh.bundles <= 4


def test_no_namespace_passes_its_most_bundles() -> None:
    world = [traffic("t/n", [1.0] * 3000), traffic("t/full", [9.0] * 900, today=EVEN)]
    plan = size(world, brokers(10), SizingOptions(max_bundles=4))
    assert all(len(n.boundaries) - 1 <= 4 and len(n.fresh_boundaries) - 1 <= 4 for n in plan.namespaces)
    assert "not within the tolerance" in plan.reason


def test_isolated_namespaces_are_sized_for_their_brokers() -> None:
    able = brokers(6)
    two = frozenset({able[0].id, able[1].id})
    crowded = traffic("t/crowded", [1.0] * 3000)
    world = [NamespaceTraffic("t/crowded", crowded.cells, None, (), two), traffic("t/free", [1.0] * 2000)]
    plan = size(world, able)
    assert plan.after.bound == 1500.0
    assert plan.after.busiest <= 1.05 * 1500
    weights = weights_of(plan.namespaces[1].boundaries, list(world[1].cells))
    assert busiest(place([Piece(w) for w in weights], able[2:])[1], able[2:]) <= 1.05 * 500
    with pytest.raises(ValueError, match="not be served by any broker"):
        size([NamespaceTraffic("t/n", crowded.cells, None, (), frozenset({"gone:8080"}))], able)


def test_before_is_what_the_owners_carry_and_unknown_without_them() -> None:
    able = brokers(2)
    cells = [Cell(EVEN[i] + 5, float(i + 1)) for i in range(4)]

    def before(*owners: str | None) -> float | None:
        balance = size([NamespaceTraffic("t/n", cells, EVEN, owners)], able).before
        return None if balance is None else balance.busiest

    a, b = (broker.id for broker in able)
    assert before(a, a, a, b) == 6.0
    assert before(a, a, None, b) is None
    assert before(a, a, "gone:8080", b) is None
    assert before() is None


def test_without_traffic_nothing_is_cut() -> None:
    plan = size([NamespaceTraffic("t/n", [], EVEN), NamespaceTraffic("t/new", [])], brokers(3))
    assert plan.namespaces[0] == NamespacePlan(
        "t/n",
        4,
        boundary_texts(EVEN),
        boundary_texts(EVEN),
        0.0,
        None,
        "No traffic was observed, so the namespace keeps 4 bundles.",
    )
    assert plan.namespaces[1].boundaries == ("0x00000000", "0xffffffff")
    assert (plan.after.ratio, plan.after.bundles) == (1.0, 5)


def test_reasons_are_as_text() -> None:
    plan = size([traffic("t/n", [1.0] * 1000, today=(0, LAST_BOUNDARY))], brokers(2))
    count = len(plan.namespaces[0].boundaries) - 1
    assert plan.namespaces[0].reason.startswith(
        f"The namespace gets {count} bundles instead of 1, because one carried 200%. Now the heaviest bundle carries"
    )
    assert plan.reason.startswith(f"1 bundle becomes {count}. Placed well, the busiest broker carries 1.0")


@pytest.mark.parametrize(
    ("boundaries", "message"),
    [((0, 5), "boundaries of t/n"), ((0, 7, 7, LAST_BOUNDARY), "without duplicates"), ((), "boundaries of t/n")],
)
def test_boundaries_that_pulsar_would_not_have_are_refused(boundaries: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        size([NamespaceTraffic("t/n", [], boundaries)], brokers(1))


def test_bad_options_and_no_broker_are_refused() -> None:
    with pytest.raises(ValueError, match=r"tolerance is 0\.0"):
        SizingOptions(tolerance=0.0)
    with pytest.raises(ValueError, match="max_bundles is 0"):
        SizingOptions(max_bundles=0)
    with pytest.raises(ValueError, match="none of 1 brokers takes bundles"):
        size([], [Broker("b", draining=True)])


def test_what_is_even_leaves_out_the_brokers_that_must_be_busier() -> None:
    able = brokers(4)
    hot, rest, crowded = Heaviest(4), Heaviest(4), Heaviest(4)
    hot.add([90.0] + [1.0] * 30)
    assert even_goal({None: hot}, able) == (1, 10.0)
    rest.add([1.0] * 40)
    assert even_goal({None: rest}, able) == (0, 10.0)
    crowded.add([1.0] * 50)
    goal = even_goal({None: rest, frozenset({able[3].id}): crowded}, able)
    assert goal == (1, pytest.approx(40 / 3))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_greedy_placement_is_the_rule_worked_out_slowly(data: st.DataObject) -> None:
    able = [Broker(f"b{i}", capacity=data.draw(st.sampled_from([1.0, 2.0, 4.0]))) for i in range(4)]
    choice = st.one_of(st.none(), st.sets(st.sampled_from([b.id for b in able]), min_size=1).map(frozenset))
    pieces = data.draw(st.lists(st.builds(Piece, st.integers(0, 20).map(float), choice), max_size=12))
    owners, loads = place(pieces, able)
    slow = dict.fromkeys(loads, 0.0)
    for index in sorted(range(len(pieces)), key=lambda i: -pieces[i].weight):
        weight, allowed = pieces[index]
        utilizations = {b.id: (slow[b.id] + weight) / b.capacity for b in able if allowed is None or b.id in allowed}
        assert utilizations[owners[index]] == min(utilizations.values())
        slow[owners[index]] += weight
    assert slow == loads


def test_a_piece_without_a_broker_is_named() -> None:
    with pytest.raises(ValueError, match="gone:8080"):
        place([Piece(1.0, frozenset({"gone:8080"}))], brokers(2))
