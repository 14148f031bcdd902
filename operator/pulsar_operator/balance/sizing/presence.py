"""Checks that a sizing result applies to the existing namespaces: one that was deleted and created again has the same
name.

The admin REST reports no creation time of a namespace. It reports its bundles, which are split and never merged, and
the names of its topics, whose CRC-32 are the positions in the result. An idle topic keeps its record; a topic that no
longer exists has no future traffic. Pure; the calls are in controllers/core/traffic.py.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.ranges import HASH_SPACE, boundary_texts
from pulsar_operator.balance.sizing.result import CellWeight, NamespaceSizing

MOST_LISTED = 200_000
"""Maximum number of topics in one list: about 20 MB of names, and the admin client accepts 64 MiB."""
MOST_PARTS = 16
"""Number of bundles that are listed if a namespace has more topics. They represent the others, whose splits are checked
one by one before they are made."""
LEAST_PRESENT = 0.5
"""Share of the recorded weight in existing topics below which the record applies to another namespace."""


@dataclass(frozen=True)
class Listed:
    """Positions of the existing topics, in the listed parts of a namespace."""

    positions: Sequence[int]
    """Positions in ascending order."""
    parts: Sequence[tuple[int, int]] = ((0, HASH_SPACE),)
    """Half-open ranges in ascending order."""

    def part(self, position: int) -> tuple[int, int] | None:
        """Returns the listed part with a position; None if it was not listed."""
        at = bisect_right(self.parts, (position, HASH_SPACE)) - 1
        return self.parts[at] if at >= 0 and position < self.parts[at][1] else None

    def count(self, low: int, high: int) -> int:
        """Returns the number of topics at positions in [low, high)."""
        return bisect_left(self.positions, high) - bisect_left(self.positions, low)


@dataclass(frozen=True)
class Present:
    """The part of a namespace's record that applies to existing topics."""

    cells: tuple[CellWeight, ...]
    """Cells in ascending order of position."""
    share: float
    """Share of the checked weight; 1 for all."""
    whole: bool = True
    """Whether no topic is missing."""

    @property
    def of_another(self) -> bool:
        """Whether most of the record applies to topics that do not exist."""
        return self.share < LEAST_PRESENT


def remade(recorded: NamespaceSizing, boundaries: Sequence[int]) -> str:
    """Returns how the existing bundles show that the namespace was created again; empty if they do not.

    A namespace keeps all its boundaries. A result of an older job contains only their number.
    """
    gone = sorted({int(each, 16) for each in recorded.boundaries_now} - set(boundaries))
    now = max(len(boundaries) - 1, 0)
    if gone:
        return f"a boundary of the namespace at {boundary_texts(gone[:1])[0]} no longer exists"
    return f"the namespace had {recorded.bundles_now} bundles and has {now} now" if recorded.bundles_now > now else ""


def to_list(recorded: NamespaceSizing, boundaries: Sequence[int]) -> list[BundleId] | None:
    """Returns the existing bundles whose topics must be listed; None if all topics of the namespace are listed
    together."""
    if sum(cell.topics for cell in recorded.cells) <= MOST_LISTED:
        return None
    weights = [0.0] * (len(boundaries) - 1)
    topics = [0] * len(weights)
    for cell in recorded.cells:
        at = min(bisect_right(boundaries, cell.position) - 1, len(weights) - 1)
        weights[at] += cell.weight
        topics[at] += cell.topics
    able = [at for at, count in enumerate(topics) if 0 < count <= MOST_LISTED and weights[at] > 0]
    heaviest = sorted(sorted(able, key=lambda at: (-weights[at], at))[:MOST_PARTS])
    return [BundleId(recorded.namespace, boundaries[at], boundaries[at + 1]) for at in heaviest]


def present(cells: Iterable[CellWeight], listed: Listed) -> Present:
    """Returns the cells without topics that do not exist. Of a cell with several adjacent topics, the share of existing
    topics counts.

    Such a cell is at the position of its first topic (the job's cells.folded), which shows whether it belongs to this
    namespace, since as many topics of another one may be there. Cells that were not listed count as recorded.
    """
    order = sorted(cells, key=lambda each: each.position)
    kept: list[CellWeight] = []
    checked = found = 0.0
    for cell, above in pairwise([*order, None]):
        assert cell is not None
        part = listed.part(cell.position)
        if part is None:
            kept.append(cell)
            continue
        checked += cell.weight
        here = listed.count(cell.position, cell.position + 1)
        found += cell.weight if here else 0.0
        end = min(part[1], above.position if above is not None else HASH_SPACE)
        there = here if cell.topics == 1 else listed.count(cell.position, max(end, cell.position + 1))
        if there:
            share = min(there / cell.topics, 1.0)
            kept.append(cell.model_copy(update={"weight": cell.weight * share, "topics": min(there, cell.topics)}))
    whole = sum(cell.topics for cell in kept) == sum(cell.topics for cell in order)
    return Present(tuple(kept), found / checked if checked > 0 else 1.0, whole)


def parting(requested: Iterable[str], boundaries: Sequence[int], cells: Sequence[CellWeight]) -> frozenset[int]:
    """Returns the splits that have a cell on both sides, whichever of the others are made. ``cells`` are ascending.

    A split cannot be undone, so none is made for former topics.
    """
    positions = [cell.position for cell in cells]
    points = sorted({int(each, 16) for each in requested} - set(boundaries))
    kept: list[int] = []
    for low, high in pairwise(boundaries):
        begin = low
        end = high if high < HASH_SPACE - 1 else HASH_SPACE
        for point in points[bisect_right(points, low) : bisect_left(points, high)]:
            first, cut, last = (bisect_left(positions, each) for each in (begin, point, end))
            if first < cut < last:
                kept.append(point)
                begin = point
    return frozenset(kept)
