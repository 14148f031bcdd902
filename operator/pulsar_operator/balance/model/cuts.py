"""Where to cut a bundle, given the weight at every position of its hash space.

A cut at position c puts c into the upper piece: ranges are [lower, upper), only the last bundle of a namespace includes
its upper boundary 0xffffffff. A cut lies in the middle of the gap between two adjacent cells, so that later topics fall
into both pieces.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import fsum, isnan

from pulsar_operator.balance.model.cells import clients_of, topics_of, weights_of
from pulsar_operator.balance.model.cluster import Bundle, BundleId, Cell
from pulsar_operator.balance.model.ranges import LAST_BOUNDARY


def cut_between(left: int, right: int) -> int | None:
    """Returns the cut in the middle between two positions in ascending order; None when no cut parts them."""
    return _middle(left, right) if left < right and _middle(left, right) < LAST_BOUNDARY else None


def _middle(left: int, right: int) -> int:
    return left + (right - left + 1) // 2


class Line:
    """The cells of one bundle with their running sum: many cuts of the same bundle without a check of each cell.

    `cells` ascend strictly by position, inside the range, with weights >= 0; ValueError otherwise. Position 0xffffffff
    cannot be cut from 0xfffffffe, since no cut may equal the last boundary: the two count as one cell.
    """

    __slots__ = ("_positions", "_sums", "bundle")

    def __init__(self, bundle: BundleId, cells: Sequence[Cell]) -> None:
        self.bundle = bundle
        self._positions = array("Q")
        self._sums = array("d", (0.0,))
        running, before = 0.0, bundle.lower - 1
        for cell in cells:
            if cell.position <= before:
                raise ValueError(
                    f"bundle {bundle} has a cell at {cell.position:#010x} after {before:#010x}, but cells must "
                    "ascend from the lower boundary without duplicates"
                )
            if not cell.weight >= 0:
                raise ValueError(
                    f"the weight of bundle {bundle} at {cell.position:#010x} is {cell.weight}, but must not be negative"
                )
            before = cell.position
            running += cell.weight
            if before == LAST_BOUNDARY and self._positions and self._positions[-1] == before - 1:
                self._sums[-1] = running
                continue
            self._positions.append(before)
            self._sums.append(running)
        if before >= bundle.upper and before != LAST_BOUNDARY:
            raise ValueError(f"bundle {bundle} has a cell at {before:#010x}, which is not below its upper boundary")

    def __len__(self) -> int:
        """Returns how many cells a cut can part from each other."""
        return len(self._positions)

    def weight(self, first: int, last: int) -> float:
        """Returns the weight of the cells from index `first` up to, not including, `last`."""
        return self._sums[last] - self._sums[first]

    def cut(self, index: int) -> int:
        """Returns the position that parts the cells before `index` (1 to len - 1) from the others."""
        return _middle(self._positions[index - 1], self._positions[index])

    def windows(self, points: Sequence[int]) -> list[tuple[int, int]]:
        """Returns the cells (first, last) between each two of these boundaries, which begin and end with the bundle's
        own."""
        inner = [bisect_left(self._positions, point) for point in points[1:-1]]
        return list(pairwise([0, *inner, len(self)]))

    def stops(self, limit: float, first: int, last: int) -> list[int]:
        """Returns the index at which each piece ends, with as few pieces as possible of which none is too heavy; the
        last one is `last`.

        A piece may weigh `limit` or be a single cell of any weight; cells of weight 0 do not count, so an idle topic is
        not cut from an adjacent hot one. Raises ValueError for a limit below 0.
        """
        if isnan(limit) or limit < 0:
            raise ValueError(f"the limit of the weight of a piece is {limit}, but must not be negative")
        sums = self._sums
        found: list[int] = []
        start = first
        # The longest piece that is allowed, again and again: a part of an allowed piece is allowed, so no other choice
        # needs fewer cuts.
        while start < last:
            stop = bisect_right(sums, sums[start] + limit, start + 1, last + 1) - 1
            if sums[stop] == sums[start] and stop < last:
                stop = bisect_right(sums, sums[stop + 1], stop + 1, last + 1) - 1
            found.append(stop)
            start = stop
        return found or [last]

    def nearest(self, target: float) -> int | None:
        """Returns the cut whose lower piece weighs nearest to `target`; None if there are not two cells to separate."""
        index = self.index_nearest(target, 0, len(self))
        return None if index is None else self.cut(index)

    def index_nearest(self, target: float, first: int, last: int) -> int | None:
        """Index that cuts the cells from `first` to `last` such that the lower ones weigh nearest to `target`."""
        if last - first < 2:
            return None
        sums = self._sums
        target += sums[first]
        above = min(max(bisect_left(sums, target, first, last), first + 1), last - 1)
        below = max(above - 1, first + 1)
        weight = min(sums[below], sums[above], key=lambda each: abs(each - target))
        # Cells without weight leave a choice of gaps: the widest has room for what comes later.
        lowest = max(bisect_left(sums, weight, first, last), first + 1)
        highest = min(bisect_right(sums, weight, first, last + 1) - 1, last - 1)
        return max(range(lowest, highest + 1), key=lambda i: self._positions[i] - self._positions[i - 1])


def split_bundle(bundle: Bundle, position: int) -> tuple[Bundle, Bundle]:
    """Returns the two pieces of a bundle cut at `position`, still with its owner; the numbers are sums of the cells.

    Raises ValueError when the position is not strictly inside the range, or when the cells are not known.
    """
    lower, upper = bundle.id.lower, bundle.id.upper
    if not lower < position < upper:
        raise ValueError(
            f"bundle {bundle.id} cannot be cut at {position:#010x}, because the position is not strictly inside its "
            "range"
        )
    if not bundle.cells and (bundle.weight or bundle.topics):
        raise ValueError(
            f"bundle {bundle.id} cannot be cut at {position:#010x}, because the weights inside the bundle are not known"
        )
    index = bisect_left(bundle.cells, position, key=lambda cell: cell.position)
    return (
        _piece(bundle, bundle.id._replace(upper=position), bundle.cells[:index]),
        _piece(bundle, bundle.id._replace(lower=position), bundle.cells[index:]),
    )


def _piece(bundle: Bundle, name: BundleId, cells: Sequence[Cell]) -> Bundle:
    weight, topics, clients = fsum(weights_of(cells)), topics_of(cells), clients_of(cells)
    return replace(bundle, id=name, weight=weight, cells=cells, topics=topics, clients=clients)
