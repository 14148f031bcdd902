"""balance/model/cells.py: cells in arrays are those in tuples."""

from __future__ import annotations

from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.model.cells import (
    MOST,
    RUN,
    CellBuffer,
    Cells,
    clients_of,
    scaled,
    sorted_positions,
    topics_of,
    weights_of,
)
from pulsar_operator.balance.model.cluster import Bundle, BundleId, Cell, ClusterModel
from pulsar_operator.balance.model.cuts import split_bundle
from pulsar_operator.balance.model.observation import Observed, model_of, weighing

Added = list[tuple[int, float, int, int]]
LAST = 0xFFFFFFFF
POSITIONS = st.integers(0, 40) | st.integers(0, LAST)
ADDED = st.lists(
    st.tuples(POSITIONS, st.floats(0, 1e6), st.integers(1, 3), st.integers(0, 3)),
    max_size=30,
)


def buffer_of(added: Added) -> CellBuffer:
    found = CellBuffer()
    for each in added:
        found.add(*each)
    return found


def summed(added: Added) -> tuple[Cell, ...]:
    found: dict[int, Cell] = {}
    for position, weight, topics, clients in added:
        before = found.get(position, Cell(position, 0.0, 0, 0))
        found[position] = Cell(position, before.weight + weight, before.topics + topics, before.clients + clients)
    return tuple(found[each] for each in sorted(found))


@given(ADDED, ADDED)
def test_cells_are_sums_by_position(first: Added, more: Added) -> None:
    buffer = buffer_of(first)
    before = buffer.cells()
    assert before == summed(first)
    buffer.extend(buffer_of(more))
    assert buffer.cells() == (found := summed([*first, *more]) if not before else summed([*before, *more]))
    assert before == summed(first), "a view does not change"
    assert [(c.topics, c.clients) for c in buffer.cells()] == [(c.topics, c.clients) for c in found]


def test_many_cells_are_sorted_run_by_run() -> None:
    """More than one run, some of them of one position alone, and in the order in which they were added."""
    width, buffer, added = 5 * RUN, CellBuffer(), []
    for index in range(width):
        position = (index * 0x9E3779B1) % (1 << 32) if index % 3 else 7
        added.append((position, 1.0 / (index + 1), 1, index % 2))
        buffer.add(*added[-1])
    assert buffer.cells() == summed(added)
    positions = array("I", (each[0] for each in added))
    assert list(sorted_positions(positions)) == sorted(positions)


@given(ADDED, st.integers(0, 30), st.integers(0, 30), st.lists(st.floats(1e-3, 1e3), max_size=3))
def test_a_view_is_like_a_tuple(added: Added, one: int, other: int, weights: list[float]) -> None:
    cells: Cells = buffer_of(added).cells()
    plain = summed(added)
    views, tuples = scaled(cells, 1.0, 1.0), plain
    for was, now in pairwise([1.0, *weights]):
        views, tuples = scaled(views, was, now), scaled(tuples, was, now)
    assert views == tuples and tuples == views and hash(views) == hash(tuples)
    part, same = views[one:other], tuples[one:other]
    assert part == same and len(part) == len(same) and list(part) == list(same)
    assert list(weights_of(part)) == [c.weight for c in same]
    assert (topics_of(part), clients_of(part)) == (topics_of(same), clients_of(same))
    for index in range(-len(same), len(same)):
        assert part[index] == same[index]
    for index in (len(same), -len(same) - 1):
        with pytest.raises(IndexError):
            part[index]


@given(ADDED, st.sets(st.integers(1, LAST - 1), max_size=4))
def test_a_model_has_the_cells_of_each_bundle(added: Added, cuts: set[int]) -> None:
    bounds = [0, *sorted(cuts), LAST]
    observed = Observed(("b",), boundaries={"t/n": tuple(bounds)}, cells={"t/n": buffer_of(added)})
    plain = summed(added)
    for bundle, (low, high) in zip(model_of(observed).bundles, pairwise(bounds), strict=True):
        inside = [c for c in plain if low <= c.position < high or (high == LAST == c.position)]
        assert list(bundle.cells) == inside and bundle.weight == sum(c.weight for c in inside)
        assert (bundle.topics, bundle.clients) == (sum(c.topics for c in inside), sum(c.clients for c in inside))
        whole = Bundle(bundle.id, bundle.weight, None, tuple(inside), bundle.topics, bundle.clients)
        if inside and bundle.weight > 1e-9:
            assert list(weighing(bundle, 3.0).cells) == list(weighing(whole, 3.0).cells)
        if high - low > 1:
            at = (low + high) // 2
            assert split_bundle(bundle, at) == split_bundle(whole, at)


def test_a_namespace_without_topics_has_empty_bundles() -> None:
    observed = Observed(("b",), boundaries={"t/n": (0, LAST)})
    assert model_of(observed) == ClusterModel(
        model_of(observed).brokers, (Bundle(BundleId("t/n", 0, LAST), 0.0, None, ()),)
    )


def test_counts_end_where_their_column_does() -> None:
    buffer = buffer_of([(1, 1.0, MOST, MOST + 7), (1, 1.0, 5, 5)])
    assert buffer.cells() == (Cell(1, 2.0, MOST, MOST),)
