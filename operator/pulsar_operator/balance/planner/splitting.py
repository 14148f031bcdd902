"""Cuts that enable a move: the piece that the busiest broker has too much of and that fits elsewhere.

A bundle cannot be merged again, so a cut is made only for a piece that is moved with it, and a cut whose pieces end on
one broker is undone.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import accumulate
from typing import Final

from pulsar_operator.balance.model.cells import weights_of
from pulsar_operator.balance.model.cluster import Bundle
from pulsar_operator.balance.model.cuts import Line
from pulsar_operator.balance.planner.bundle_placement import Placement
from pulsar_operator.balance.planner.goals import BUSIEST
from pulsar_operator.balance.planner.options import Budget
from pulsar_operator.balance.planner.search import MIN_GAIN, Search

CANDIDATES: Final = 8
"""Heaviest bundles of a broker that are considered for a cut."""
MIN_SPLIT_GAIN: Final = 2 * MIN_GAIN
"""A cut frees at least this share of the target."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """One way to free a piece of a bundle: one or two cuts."""

    bundle: int
    gain: float
    weight: float
    positions: tuple[int, ...]
    """Ascending."""
    piece: int
    """Which of the pieces to move, counted from the lowest."""

    @property
    def rank(self) -> tuple[int, float, float, int]:
        return len(self.positions), -self.gain, self.weight, self.bundle


class Splitter:
    """Cuts on the placement of a search."""

    def __init__(self, search: Search, budget: Budget, cuts: Mapping[str, frozenset[int]] | None = None) -> None:
        """``cuts`` are the only positions at which a namespace's bundles may be cut, if they are given."""
        self.placement: Placement = search.placement
        self.exhausted = False
        """Whether a cut was left out because of the budget."""
        self._search = search
        self._budget = budget
        self._lines: dict[int, Line] = {}
        self._cuts = cuts

    def relieve(self, broker: int) -> bool:
        """Cuts one bundle of a broker above the target and moves the piece; False if no cut helps. Nothing is cut for a
        broker that whole bundles can relieve in the next proposal.
        """
        if self._search.postponed(broker):
            return False
        return self._relieve(broker, below_target=True) or self._relieve(broker, below_target=False)

    def prune(self) -> None:
        """Undoes the cuts whose pieces are on one broker."""
        placement = self.placement
        for index in reversed(tuple(placement.pieces)):
            _, lower, upper = placement.pieces[index]
            whole = lower not in placement.pieces and upper not in placement.pieces
            if whole and placement.at[lower] == placement.at[upper]:
                placement.join(index)

    def _relieve(self, broker: int, *, below_target: bool) -> bool:
        placement, search = self.placement, self._search
        if not search.sources[broker] or (left := search.limits.left(placement)) < 0:
            return False
        excess, min_gain = search.excess(broker), MIN_SPLIT_GAIN * search.target * placement.capacity[broker]
        best: tuple[_Cut, int] | None = None
        for index in self._candidates(broker):
            for other, most in self._places(broker, index, below_target=below_target):
                fits = min(most, left + search.limits.spent)
                if min(fits, excess) < min_gain:
                    continue
                found = self._best(index, excess, fits, min_gain)
                if found and (best is None or found.rank < best[0].rank):
                    best = found, other
                break
        if best is None:
            return False
        cut, other = best
        if cut.weight > left:
            self.exhausted = True  # a smaller piece would do now, and be one cut too many later
            return False
        if len(placement.pieces) + len(cut.positions) > self._budget.max_splits:
            self.exhausted = True
            return False
        return self._do(cut, other)

    def _candidates(self, broker: int) -> list[int]:
        """Returns the heaviest bundles that may be cut: with two topics, in a namespace that may have one more
        bundle."""
        placement, budget = self.placement, self._budget
        bundles_by_kind = [placement.sorted_bundles(broker, kind) for kind in range(placement.kinds)]
        able = (
            entry
            for entries in bundles_by_kind
            for entry in entries[-4 * CANDIDATES :]
            if len(placement.bundles[entry[1]].cells) > 1
            and placement.per_namespace[placement.bundles[entry[1]].id.namespace] < budget.max_bundles
        )
        return [index for _, index in nlargest(CANDIDATES, able)]

    def _places(self, broker: int, index: int, *, below_target: bool) -> list[tuple[int, float]]:
        """Returns brokers for a piece of a bundle with the weight that fits there, the largest first."""
        placement, search = self.placement, self._search
        places: list[tuple[float, int]] = []
        for other in search.destinations(broker):
            if placement.kind(index) not in search.suits[other] or placement.conflicts(index, other):
                continue
            fits = search.room(other)
            if not below_target:
                even = search.even(broker, other)
                fits = even if even > fits else 0.0
            if fits > 0:
                places.append((-fits, other))
        return [(other, -fits) for fits, other in sorted(places)]

    def _best(self, index: int, excess: float, fits: float, min_gain: float) -> _Cut | None:
        """Returns the lightest sufficient piece of a bundle, else the heaviest that fits: from an end, else from
        inside."""
        placement = self.placement
        bundle, units = placement.bundles[index], placement.units
        most = self._budget.max_bundles - placement.per_namespace[bundle.id.namespace]
        weights, points = self._parts(bundle)
        cells = array("d", accumulate(weights, initial=0.0))
        sums = array("d", map(units, cells))
        options = [*_ends(sums, excess, fits), *_inside(sums, excess, fits)]
        cuts: list[_Cut] = []
        for start, stop in options:
            weight = sums[stop] - sums[start]
            if min(weight, excess) < min_gain:
                continue
            indexes = [at for at in (start, stop) if 0 < at < len(cells) - 1]
            positions = [points[at - 1] if points else self._line(index).nearest(cells[at]) for at in indexes]
            known = tuple(position for position in positions if position is not None)
            if known and len(known) == len(indexes) <= most:
                cuts.append(_Cut(index, min(weight, excess), weight, known, 1 if start else 0))
        return min(cuts, key=lambda cut: cut.rank, default=None)

    def _parts(self, bundle: Bundle) -> tuple[Sequence[float], list[int]]:
        """Returns what a cut can separate: the cells; or the sums between the permitted cuts, and these."""
        if self._cuts is None:
            return array("d", weights_of(bundle.cells)), []
        lower, upper = bundle.id.lower, bundle.id.upper
        points = sorted(point for point in self._cuts.get(bundle.id.namespace, ()) if lower < point < upper)
        weights = [0.0] * (len(points) + 1)
        for cell in bundle.cells:
            weights[bisect_right(points, cell.position)] += cell.weight
        return weights, points

    def _line(self, index: int) -> Line:
        if index not in self._lines:
            bundle = self.placement.bundles[index]
            self._lines[index] = Line(bundle.id, bundle.cells)
        return self._lines[index]

    def _do(self, cut: _Cut, other: int) -> bool:
        placement = self.placement
        pieces: list[int] = []
        rest, parents = cut.bundle, []
        for position in cut.positions:
            parents.append(rest)
            lower, rest = placement.cut(rest, position)
            pieces.append(lower)
        pieces.append(rest)
        piece = pieces[cut.piece]
        if self._search.permitted(piece, other):
            placement.move(piece, other, BUSIEST)
            return True
        for parent in reversed(parents):
            placement.join(parent)
        return False


def _ends(sums: Sequence[float], excess: float, fits: float) -> list[tuple[int, int]]:
    """Yields runs of cells at either end of a bundle, as indexes of the running sum: just sufficient, or as much as
    fits."""
    last = len(sums) - 1
    found: list[tuple[int, int]] = []
    for stop in {bisect_left(sums, excess), bisect_right(sums, fits) - 1}:
        if 0 < stop < last and sums[stop] <= fits:
            found.append((0, stop))
    for start in {bisect_right(sums, sums[last] - excess) - 1, bisect_left(sums, sums[last] - fits)}:
        if 0 < start < last and sums[last] - sums[start] <= fits:
            found.append((start, last))
    return sorted(found)


def _inside(sums: Sequence[float], excess: float, fits: float) -> list[tuple[int, int]]:
    """Returns the best run of cells between two cuts: of the longest that fits up to each cut, the lightest sufficient
    one. If none suffices it is the heaviest of them.
    """
    best: tuple[float, float, int, int] | None = None
    start = 1
    for stop in range(2, len(sums) - 1):
        while sums[stop] - sums[start] > fits and start < stop:
            start += 1
        if start < stop:
            weight = sums[stop] - sums[start]
            rank = (-min(weight, excess), weight, start, stop)
            best = rank if best is None or rank < best else best
    return [best[2:]] if best else []
