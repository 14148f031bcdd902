"""Which piece of a bundle is cut off: held to all pieces there are."""

from __future__ import annotations

from itertools import accumulate, combinations

from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.planner.splitting import _ends, _inside

CELLS = st.lists(st.integers(1, 9), min_size=1, max_size=8)
AMOUNT = st.integers(1, 40)


def sums_of(cells: list[int]) -> list[float]:
    return [float(each) for each in accumulate(cells, initial=0)]


@given(CELLS, AMOUNT, AMOUNT)
def test_pieces_at_an_end_are_the_lightest_that_is_enough_and_the_heaviest_that_fits(
    cells: list[int], excess: int, fits: int
) -> None:
    sums = sums_of(cells)
    last = len(cells)
    found = _ends(sums, excess, fits)
    assert found == sorted(set(found))
    for at in ([(0, stop) for stop in range(1, last)], [(start, last) for start in range(1, last)]):
        weights = {(i, j): sums[j] - sums[i] for i, j in at if sums[j] - sums[i] <= fits}
        enough = {w for w in weights.values() if w >= excess}
        best = {min(enough)} if enough else set()
        # Where the whole bundle fits it is moved as it is.
        best |= {max(weights.values())} if weights and sums[last] > fits else set()
        assert {sums[j] - sums[i] for i, j in found if (i, j) in set(at)} == best
    assert all((i == 0) != (j == last) for i, j in found), "a piece and not the whole"


@given(CELLS, AMOUNT, AMOUNT)
def test_the_piece_from_the_inside_is_the_lightest_that_is_enough_or_the_heaviest_that_fits(
    cells: list[int], excess: int, fits: int
) -> None:
    sums = sums_of(cells)
    inside = [(i, j) for i, j in combinations(range(1, len(cells)), 2) if sums[j] - sums[i] <= fits]
    found = _inside(sums, excess, fits)
    if not inside:
        assert found == []
        return
    ((start, stop),) = found
    assert (start, stop) in inside
    weights = [sums[j] - sums[i] for i, j in inside]
    enough = [w for w in weights if w >= excess]
    if enough:
        # Two pointers keep the heaviest run that fits at each end: enough it is, though a lighter one may be inside.
        assert sums[stop] - sums[start] >= excess
    else:
        assert sums[stop] - sums[start] == max(weights)
