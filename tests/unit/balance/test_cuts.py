"""Cuts of a bundle: few, where they must be, and such that Pulsar puts every topic where the weights say."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.balance.model.cluster import Bundle, BundleId, Cell
from pulsar_operator.balance.model.cuts import Line, split_bundle
from pulsar_operator.balance.model.ranges import LAST_BOUNDARY

WHOLE = BundleId("t/ns", 0, LAST_BOUNDARY)


@st.composite
def bundles(draw: st.DrawFn, most: int = 8) -> tuple[BundleId, list[Cell]]:
    """A bundle with crowded cells, often at both ends of its range or of the hash space."""
    lower = draw(st.sampled_from([0, 100, LAST_BOUNDARY - 12]))
    upper = draw(st.sampled_from([lower + 12, LAST_BOUNDARY]))
    inside = st.integers(lower, min(lower + 14, upper if upper == LAST_BOUNDARY else upper - 1))
    high = st.integers(max(lower, upper - 6), upper if upper == LAST_BOUNDARY else upper - 1)
    positions = sorted(draw(st.sets(st.one_of(inside, high), max_size=most)))
    weights = draw(st.lists(st.integers(0, 9), min_size=len(positions), max_size=len(positions)))
    return BundleId("t/ns", lower, upper), [Cell(p, float(w)) for p, w in zip(positions, weights, strict=True)]


def pieces(bundle: BundleId, cells: list[Cell], cuts: list[int]) -> list[list[Cell]]:
    """Cells by piece, as Pulsar looks a position up: lower <= position < upper, the last one also at its end."""
    points = [bundle.lower, *cuts, bundle.upper]
    end = bundle.upper if bundle.upper == LAST_BOUNDARY else None
    return [
        [c for c in cells if low <= c.position < high or (high == end and c.position == end)]
        for low, high in pairwise(points)
    ]


def possible_cuts(bundle: BundleId, cells: list[Cell]) -> list[int]:
    """One cut for each pair of neighbours that a cut can part."""
    highest = [(left.position, min(right.position, bundle.upper - 1)) for left, right in pairwise(cells)]
    return [cut for below, cut in highest if cut > below]


def allowed(piece: list[Cell], limit: float, last: bool) -> bool:
    heavy = [c for c in piece if c.weight > 0]
    inseparable = last and {c.position for c in heavy} == {LAST_BOUNDARY - 1, LAST_BOUNDARY}
    return sum(c.weight for c in piece) <= limit or len(heavy) == 1 or inseparable


def cut_positions(bundle: BundleId, cells: list[Cell], limit: float) -> list[int]:
    """The fewest cuts of a whole bundle."""
    line = Line(bundle, cells)
    return [line.cut(index) for index in line.stops(limit, 0, len(line))[:-1]]


def best_cut(bundle: BundleId, cells: list[Cell], wanted: float) -> int | None:
    """The nearest cut of a whole bundle."""
    return Line(bundle, cells).nearest(wanted)


def fits(bundle: BundleId, cells: list[Cell], cuts: list[int], limit: float) -> bool:
    last = bundle.upper == LAST_BOUNDARY
    return all(allowed(piece, limit, last) for piece in pieces(bundle, cells, cuts))


@settings(deadline=None)
@given(bundles(), st.integers(0, 20))
def test_cuts_hold_the_limit_with_the_fewest_cuts(case: tuple[BundleId, list[Cell]], limit: int) -> None:
    bundle, cells = case
    cuts = cut_positions(bundle, cells, limit)
    assert all(a < b for a, b in pairwise([bundle.lower, *cuts, bundle.upper]))
    assert fits(bundle, cells, cuts, limit)
    fewer = (
        chosen
        for k in range(len(cuts))
        for chosen in combinations(possible_cuts(bundle, cells), k)
        if fits(bundle, cells, list(chosen), limit)
    )
    assert next(fewer, None) is None


@settings(deadline=None)
@given(bundles(), st.integers(0, 20))
def test_the_weights_of_pieces_are_those_that_pulsar_will_see(case: tuple[BundleId, list[Cell]], limit: int) -> None:
    bundle, cells = case
    line = Line(bundle, cells)
    stops = line.stops(limit, 0, len(line))
    weights = [line.weight(first, last) for first, last in pairwise([0, *stops])]
    cuts = [line.cut(stop) for stop in stops[:-1]]
    assert weights == [sum(c.weight for c in piece) for piece in pieces(bundle, cells, cuts)]


@settings(deadline=None)
@given(bundles(), st.integers(0, 20), st.data())
def test_a_bundle_cut_before_is_cut_on_as_its_pieces_would_be(
    case: tuple[BundleId, list[Cell]], limit: int, data: st.DataObject
) -> None:
    bundle, cells = case
    before = sorted(data.draw(st.sets(st.sampled_from(possible_cuts(bundle, cells) or [bundle.lower + 1]))))
    points = [bundle.lower, *before, bundle.upper]
    line = Line(bundle, cells)
    inside = [[line.cut(stop) for stop in line.stops(limit, *window)[:-1]] for window in line.windows(points)]
    each = zip(pairwise(points), pieces(bundle, cells, before), strict=True)
    assert inside == [cut_positions(BundleId("t/ns", low, high), part, limit) for (low, high), part in each]


@settings(deadline=None)
@given(bundles(), st.integers(-3, 60), st.data())
def test_a_part_of_a_bundle_is_cut_as_if_it_were_alone(
    case: tuple[BundleId, list[Cell]], wanted: int, data: st.DataObject
) -> None:
    bundle, cells = case
    before = sorted(data.draw(st.sets(st.sampled_from(possible_cuts(bundle, cells) or [bundle.lower + 1]))))
    points = [bundle.lower, *before, bundle.upper]
    line = Line(bundle, cells)
    indexes = [line.index_nearest(wanted, *window) for window in line.windows(points)]
    each = zip(pairwise(points), pieces(bundle, cells, before), strict=True)
    assert [None if i is None else line.cut(i) for i in indexes] == [
        best_cut(BundleId("t/ns", low, high), part, wanted) for (low, high), part in each
    ]


@settings(deadline=None)
@given(bundles(), st.integers(-3, 60))
def test_best_cut_is_the_nearest_of_all(case: tuple[BundleId, list[Cell]], wanted: int) -> None:
    bundle, cells = case
    cut = best_cut(bundle, cells, wanted)
    choices = possible_cuts(bundle, cells)
    if cut is None:
        assert not choices
        return

    def distance(position: int) -> float:
        return abs(sum(c.weight for c in cells if c.position < position) - wanted)

    assert bundle.lower < cut < bundle.upper
    assert all(pieces(bundle, cells, [cut]))
    assert distance(cut) == min(map(distance, choices))


@pytest.mark.parametrize(
    ("positions", "cut"),
    [
        ((0x10, 0x20), 0x18),
        ((0x10, 0x11), 0x11),
        ((0x10, 0x12), 0x11),
        ((0xFFFFFFF0, 0xFFFFFFFF), 0xFFFFFFF8),
        ((0xFFFFFFFD, 0xFFFFFFFF), 0xFFFFFFFE),
        ((0xFFFFFFFE, 0xFFFFFFFF), None),
        ((0, 1), 1),
    ],
)
def test_a_cut_lies_in_the_middle_of_the_gap(positions: tuple[int, int], cut: int | None) -> None:
    cells = [Cell(position, 5.0) for position in positions]
    assert best_cut(WHOLE, cells, 5.0) == cut
    assert cut_positions(WHOLE, cells, 5.0) == ([] if cut is None else [cut])


def test_among_idle_cells_the_widest_gap_is_cut() -> None:
    cells = [Cell(10, 1.0), Cell(20, 0.0), Cell(1000, 0.0), Cell(1010, 1.0)]
    assert best_cut(WHOLE, cells, 1.0) == 510


def test_an_idle_adjacent_bundle_is_not_cut_from_a_hot_topic() -> None:
    cells = [Cell(10, 0.0), Cell(20, 99.0), Cell(30, 0.0)]
    assert cut_positions(WHOLE, cells, 10.0) == []


def test_the_pieces_of_a_bundle_keep_owner_cells_weight_and_topics() -> None:
    cells = (Cell(10, 1.0, 2), Cell(20, 2.0), Cell(30, 4.0, 3))
    low, high = split_bundle(Bundle(WHOLE, 7.0, "b:8080", cells, 6), 20)
    assert low == Bundle(BundleId("t/ns", 0, 20), 1.0, "b:8080", cells[:1], 2)
    assert high == Bundle(BundleId("t/ns", 20, LAST_BOUNDARY), 6.0, "b:8080", cells[1:], 4)


@pytest.mark.parametrize("position", [0, LAST_BOUNDARY])
def test_a_cut_outside_the_range_is_refused(position: int) -> None:
    with pytest.raises(ValueError, match="not strictly inside"):
        split_bundle(Bundle(WHOLE, 1.0, None, (Cell(1, 1.0),), 1), position)


def test_a_bundle_with_unknown_weights_is_not_cut() -> None:
    with pytest.raises(ValueError, match="not known"):
        split_bundle(Bundle(WHOLE, 1.0, None), 7)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([Cell(20, 1.0), Cell(10, 1.0)], "must ascend"),
        ([Cell(20, 1.0), Cell(20, 1.0)], "without duplicates"),
        ([Cell(9, 1.0)], "from the lower boundary"),
        ([Cell(99, 1.0)], "upper boundary"),
        ([Cell(20, -1.0)], "must not be negative"),
        ([Cell(20, float("nan"))], "must not be negative"),
    ],
)
def test_cells_of_another_bundle_are_refused(cells: list[Cell], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cut_positions(BundleId("t/ns", 10, 99), cells, 5.0)


@pytest.mark.parametrize("limit", [-1.0, float("nan")])
def test_a_limit_below_zero_is_refused(limit: float) -> None:
    with pytest.raises(ValueError, match=f"weight of a piece is {limit}"):
        cut_positions(WHOLE, [], limit)
