"""Which part of a sizing result is of topics that exist, and which cuts they justify."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.ranges import HASH_SPACE, LAST_BOUNDARY, boundary_texts
from pulsar_operator.balance.sizing.presence import (
    MOST_LISTED,
    MOST_PARTS,
    Listed,
    parting,
    present,
    remade,
    to_list,
)
from pulsar_operator.balance.sizing.result import CellWeight, NamespaceSizing

QUARTER, HALF = 1 << 30, 1 << 31
TODAY = (0, HALF, LAST_BOUNDARY)


def cell(position: int, weight: float = 1.0, topics: int = 1) -> CellWeight:
    return CellWeight(position=position, weight=weight, topics=topics)


def sizing(*cells: CellWeight, bundles: int = 2, now: tuple[int, ...] = ()) -> NamespaceSizing:
    return NamespaceSizing(
        namespace="shop/orders",
        bundles_now=bundles,
        boundaries=boundary_texts(TODAY),
        boundaries_now=boundary_texts(now),
        fresh_boundaries=boundary_texts(TODAY),
        weight=sum(each.weight for each in cells),
        hottest_topic="persistent://shop/orders/t",
        hottest_weight=0.0,
        cells=cells,
        reason="",
    )


positions = st.lists(st.integers(0, LAST_BOUNDARY), unique=True, max_size=12).map(sorted)
all_cells = positions.flatmap(
    lambda found: st.tuples(
        *(st.builds(cell, st.just(at), st.floats(0, 1e15), st.integers(1, 4)) for at in found),
    )
)
walls = positions.map(lambda found: (0, *(each for each in found if 0 < each < LAST_BOUNDARY), LAST_BOUNDARY))


# ---------------------------------------------------------------------------------------------------- made again


@pytest.mark.parametrize(
    ("bundles", "recorded", "now", "why"),
    [
        (2, TODAY, TODAY, ""),
        (2, TODAY, (0, QUARTER, HALF, LAST_BOUNDARY), ""),
        (2, TODAY, (0, QUARTER, LAST_BOUNDARY), "a boundary of the namespace at 0x80000000 no longer exists"),
        (2, TODAY, (0, LAST_BOUNDARY), "a boundary of the namespace at 0x80000000 no longer exists"),
        (0, (), TODAY, ""),
        (2, (), TODAY, ""),
        (4, (), TODAY, "the namespace had 4 bundles and has 2 now"),
        (1, (), (), "the namespace had 1 bundles and has 0 now"),
    ],
)
def test_a_boundary_that_went_shows_another_namespace(
    bundles: int, recorded: tuple[int, ...], now: tuple[int, ...], why: str
) -> None:
    assert remade(sizing(bundles=bundles, now=recorded), now) == why


@given(walls, positions)
def test_cuts_alone_never_tell_another_namespace(before: tuple[int, ...], cuts: list[int]) -> None:
    recorded = sizing(bundles=len(before) - 1, now=before)
    assert remade(recorded, sorted({*before, *cuts})) == ""


# ------------------------------------------------------------------------------------------------ topics that exist


@pytest.mark.parametrize(
    ("cells", "there", "kept", "share", "whole"),
    [
        ((), (), [], 1.0, True),
        ((cell(5, 3.0), cell(9, 1.0)), (5, 9), [(5, 3.0, 1), (9, 1.0, 1)], 1.0, True),
        ((cell(5, 3.0), cell(9, 1.0)), (5, 7), [(5, 3.0, 1)], 0.75, False),
        ((cell(5, 3.0), cell(9, 1.0)), (6, 8), [], 0.0, False),
        ((cell(5, 0.0), cell(9, 0.0)), (), [], 1.0, False),
        # A cell of several lies at its first topic: as many count as there are up to the next cell.
        ((cell(5, 8.0, 4), cell(20, 8.0)), (5, 7, 20), [(5, 4.0, 2), (20, 8.0, 1)], 1.0, False),
        ((cell(5, 8.0, 4), cell(20, 8.0)), (5, 6, 7, 8, 9, 20), [(5, 8.0, 4), (20, 8.0, 1)], 1.0, True),
        ((cell(5, 8.0, 4), cell(20, 8.0)), (7, 20), [(5, 2.0, 1), (20, 8.0, 1)], 0.5, False),
        ((cell(LAST_BOUNDARY, 2.0, 2),), (LAST_BOUNDARY,), [(LAST_BOUNDARY, 1.0, 1)], 1.0, False),
    ],
)
def test_only_topics_that_exist_count(
    cells: tuple[CellWeight, ...],
    there: tuple[int, ...],
    kept: list[tuple[int, float, int]],
    share: float,
    whole: bool,
) -> None:
    found = present(cells, Listed(there))
    assert [(each.position, each.weight, each.topics) for each in found.cells] == kept
    assert (found.share, found.whole) == (share, whole)
    assert found.of_another == (share < 0.5)


def test_what_was_not_listed_counts_as_recorded() -> None:
    cells = (cell(5), cell(QUARTER), cell(HALF, 2.0), cell(HALF + 9, 6.0))
    found = present(cells, Listed((HALF,), ((HALF, LAST_BOUNDARY),)))
    assert [each.position for each in found.cells] == [5, QUARTER, HALF]
    assert (found.share, found.of_another) == (0.25, True)


def test_a_cell_ends_with_the_part_that_was_listed() -> None:
    """Topics of the next part are not its own."""
    listed = Listed((5, QUARTER + 1, QUARTER + 2), ((0, QUARTER), (QUARTER, HALF)))
    assert [each.weight for each in present((cell(5, 3.0, 3),), listed).cells] == [1.0]


@given(all_cells, positions)
def test_weights_never_grow_and_idle_topics_keep_theirs(cells: tuple[CellWeight, ...], others: list[int]) -> None:
    before = {each.position: each for each in cells}
    for each in present(cells, Listed(others)).cells:
        assert each.weight <= before[each.position].weight and 1 <= each.topics <= before[each.position].topics
    alone = tuple(each.model_copy(update={"topics": 1}) for each in cells)
    found = present(alone, Listed(sorted({*before, *others})))
    assert found.cells == alone and found.whole and found.share == 1.0
    kept = {each.position for each in present(alone, Listed(others)).cells}
    assert kept == set(before) & set(others)


# --------------------------------------------------------------------------------------------- what is asked for


def test_a_namespace_is_listed_as_a_whole_unless_it_has_very_many_topics() -> None:
    assert to_list(sizing(cell(5, 1.0, MOST_LISTED)), TODAY) is None
    found = to_list(sizing(cell(5, 1.0, MOST_LISTED), cell(HALF)), TODAY)
    assert found == [BundleId("shop/orders", 0, HALF), BundleId("shop/orders", HALF, LAST_BOUNDARY)]


def test_the_heaviest_bundles_stand_for_a_namespace_of_very_many_topics() -> None:
    step = HASH_SPACE // 64
    now = (*range(0, HASH_SPACE, step), LAST_BOUNDARY)
    cells = [cell(at * step, float(at), 10_000) for at in range(64)]
    found = to_list(sizing(*cells), now)
    assert found is not None and len(found) == MOST_PARTS
    assert [each.lower // step for each in found] == list(range(64 - MOST_PARTS, 64))


def test_bundles_of_too_many_topics_are_not_listed() -> None:
    many = cell(5, 9.0, MOST_LISTED + 1)
    assert to_list(sizing(many, cell(HALF)), TODAY) == [BundleId("shop/orders", HALF, LAST_BOUNDARY)]
    assert to_list(sizing(many, cell(HALF, 0.0)), TODAY) == []


@given(all_cells, walls)
def test_what_is_listed_is_bounded(cells: tuple[CellWeight, ...], now: tuple[int, ...]) -> None:
    grown = [each.model_copy(update={"topics": each.topics * 60_000}) for each in cells]
    found = to_list(sizing(*grown), now)
    if found is None:
        assert sum(each.topics for each in grown) <= MOST_LISTED
        return
    assert len(found) <= MOST_PARTS
    for part in found:
        last = part.upper == LAST_BOUNDARY
        inside = [c.topics for c in grown if part.lower <= c.position and (last or c.position < part.upper)]
        assert 0 < sum(inside) <= MOST_LISTED


# --------------------------------------------------------------------------------------------------------- cuts


@pytest.mark.parametrize(
    ("wanted", "cells", "kept"),
    [
        ((QUARTER,), (5, QUARTER), {QUARTER}),
        ((QUARTER,), (5, QUARTER - 1), set()),
        ((QUARTER,), (QUARTER, HALF), set()),
        ((QUARTER,), (5, HALF), set()),
        ((HALF,), (5, HALF), set()),
        ((0, LAST_BOUNDARY), (5, HALF), set()),
        ((QUARTER, QUARTER + 5), (5, QUARTER + 5), {QUARTER}),
        ((QUARTER, QUARTER + 5), (5, QUARTER, QUARTER + 5), {QUARTER, QUARTER + 5}),
        ((HALF + 7,), (HALF, LAST_BOUNDARY), {HALF + 7}),
    ],
)
def test_a_cut_has_topics_on_both_sides(wanted: tuple[int, ...], cells: tuple[int, ...], kept: set[int]) -> None:
    assert parting(boundary_texts(wanted), TODAY, [cell(at) for at in cells]) == kept


@given(positions, walls, positions)
def test_no_bundle_that_the_cuts_make_is_without_topics(
    wanted: list[int], now: tuple[int, ...], there: list[int]
) -> None:
    """Unless it, or the bundle of now that it is of, had none before; and nothing else stays away."""
    kept = parting(boundary_texts(wanted), now, [cell(at) for at in there])
    assert kept <= set(wanted) - set(now)

    def inside(low: int, high: int) -> int:
        return sum(low <= at and (at < high or high == LAST_BOUNDARY) for at in there)

    points = sorted({*now, *kept})
    for low, high in pairwise(points):
        if low in kept or high in kept:
            assert inside(low, high)
    for point in set(wanted) - set(now) - kept:
        low = max(each for each in points if each < point)
        high = min(each for each in points if each > point)
        assert not (inside(low, point) and sum(point <= at < high or at == high == LAST_BOUNDARY for at in there))
