"""How the reading of an hour is cut into pieces that each fit a task's memory, so that a topic is in one of them.

Compaction sorts an hour by position (CRC-32 of the topic), and Parquet keeps the least and the greatest position of
every row group: pieces of such a file are ranges of positions that share no row group. An hour that is not compacted
and too large for one piece is cut by time instead, and a topic then has a row in the state for each piece.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

PIECE_ROWS: Final = 524_288
"""Rows that a task holds at once, about 100 bytes each and as much again while they are added up."""
END: Final = 1 << 62
"""Beyond every position and time."""
POSITIONS: Final = 1 << 32
"""Beyond every position."""
_NAME: Final = re.compile(r"([0-9a-f]{9})-([0-9a-f]{9})-")


@dataclass(frozen=True)
class Group:
    """One row group of a file."""

    path: str
    number: int
    rows: int
    positions: tuple[int, int]
    """Least and greatest; (-1, END - 1) where it is not known."""
    times: tuple[int, int]
    """Likewise, in milliseconds."""


@dataclass(frozen=True)
class Piece:
    """What one task reads: row groups, and of their rows those in both half-open ranges."""

    unit: int
    """Hour, since 1970."""
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    """Paths below the root, each with numbers of row groups."""
    rows: int
    """Of all these groups."""
    positions: tuple[int, int] = (-1, END)
    times: tuple[int, int] = (-1, END)
    last_round: int | None = None
    """Time at which bundles are placed; None = not wanted."""

    @property
    def name(self) -> str:
        """Of its file in the state: the same piece, the same name. The way back is `positions_of`."""
        low, high = max(self.positions[0], 0), min(self.positions[1], POSITIONS)
        return f"{low:09x}-{high:09x}-{max(self.times[0], 0)}"


Range = tuple[int, int]


def positions_of(name: str) -> Range:
    """The half-open range of positions of the rows in a file of the state, by its name (`Piece.name`).

    Not a bundle's range: that ends with 0xffffffff, this one beyond it. Raises ValueError for any other name.
    """
    found = _NAME.match(name)
    low, high = (int(each, 16) for each in found.groups()) if found else (0, 0)
    if not low < high <= POSITIONS:
        raise ValueError(f"{name!r} is no file of the state: it must begin like 000000000-080000000-, ascending")
    return low, high


def cut(unit: int, groups: Sequence[Group], last_round: int | None, most: int = PIECE_ROWS) -> list[Piece]:
    """Pieces of about `most` rows that hold each row of an hour once; by the way whose largest piece is smaller."""
    if not groups:
        return []
    by_position = [
        _piece(unit, [g for g in groups if _meets(g.positions, span)], last_round, positions=span)
        for span in _spans(groups, lambda group: group.positions, most)
    ]
    by_time = [
        _piece(unit, [g for g in groups if _meets(g.times, span)], last_round, times=span)
        for span in _spans(groups, lambda group: group.times, most)
    ]
    return min(by_position, by_time, key=lambda pieces: [f(piece.rows for piece in pieces) for f in (max, sum)])


def _piece(
    unit: int, groups: Sequence[Group], last_round: int | None, positions: Range = (-1, END), times: Range = (-1, END)
) -> Piece:
    held: dict[str, list[int]] = {}
    for group in sorted(groups, key=lambda g: (g.path, g.number)):
        held.setdefault(group.path, []).append(group.number)
    paths = tuple((path, tuple(numbers)) for path, numbers in held.items())
    return Piece(unit, paths, sum(group.rows for group in groups), positions, times, last_round)


def _spans(groups: Sequence[Group], of: Callable[[Group], Range], most: int) -> list[Range]:
    """Half-open ranges that cover everything, cut where a group begins after others of about `most` rows."""
    ordered = sorted(groups, key=of)
    cuts: list[int] = []
    rows, first = 0, max(of(ordered[0])[0], 0)
    for group in ordered:
        low = of(group)[0]
        if rows + group.rows > most and low > first:
            cuts.append(low)
            rows, first = 0, low
        rows += group.rows
    edges = [-1, *cuts, END]
    return list(itertools.pairwise(edges))


def _meets(held: Range, span: Range) -> bool:
    return held[0] < span[1] and held[1] >= span[0]
