"""The cells of a namespace in arrays: 20 bytes a topic, where a tuple of `cluster.Cell` takes some 150.

A broker's statistics are added in the order in which they come (`CellBuffer`), then sorted by position once
(`CellBuffer.cells`); every bundle has a view of the sorted arrays (`Cells`), and a bundle whose weight is scaled has
the same arrays with the factor. All loops over many cells are in Python or over a bounded run, so that a thread with
this work does not block the event loop.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import Final, overload

from pulsar_operator.balance.model.cluster import Cell

RUN: Final = 4096
"""Topics sorted in one run: 2 ms in which nothing else of the process runs."""
MOST: Final = 0xFFFFFFFF
"""Maximum topics, and clients, of one cell; a broker that reports more is wrong."""
Scale = tuple[float, float]
"""A weight divided by the first and multiplied by the second."""


@dataclass(slots=True)
class _Columns:
    """Fields of cells, of the same length."""

    positions: array[int] = field(default_factory=lambda: array("I"))
    weights: array[float] = field(default_factory=lambda: array("d"))
    topics: array[int] = field(default_factory=lambda: array("I"))
    clients: array[int] = field(default_factory=lambda: array("I"))

    def append(self, position: int, weight: float, topics: int, clients: int) -> None:
        self.positions.append(position)
        self.weights.append(weight)
        self.topics.append(min(topics, MOST))
        self.clients.append(min(clients, MOST))

    def extend(self, other: _Columns) -> None:
        self.positions.extend(other.positions)
        self.weights.extend(other.weights)
        self.topics.extend(other.topics)
        self.clients.extend(other.clients)

    def sorted(self) -> _Columns:
        """Returns the same, ascending, each position once."""
        out = _Columns()
        last = -1
        for run in _runs(array("I", range(len(self.positions))), self.positions):
            for index in sorted(run, key=self.positions.__getitem__):
                position = self.positions[index]
                if position == last:
                    out.weights[-1] += self.weights[index]
                    out.topics[-1] = min(out.topics[-1] + self.topics[index], MOST)
                    out.clients[-1] = min(out.clients[-1] + self.clients[index], MOST)
                else:
                    out.append(position, self.weights[index], self.topics[index], self.clients[index])
                    last = position
        return out


class Cells(Sequence[Cell]):
    """Cells of one bundle, ascending by position: a view that copies nothing, equal to a tuple of the same cells."""

    __slots__ = ("_columns", "_first", "_last", "_scales")

    def __init__(self, columns: _Columns, first: int, last: int, scales: tuple[Scale, ...] = ()) -> None:
        """The cells ``first`` to ``last`` of columns that are no longer changed."""
        self._columns, self._first, self._last, self._scales = columns, first, last, scales

    def __len__(self) -> int:
        return self._last - self._first

    def __iter__(self) -> Iterator[Cell]:
        columns, part = self._columns, slice(self._first, self._last)
        counts = (memoryview(each)[part] for each in (columns.topics, columns.clients))
        return starmap(Cell, zip(memoryview(columns.positions)[part], self.weights(), *counts, strict=True))

    @overload
    def __getitem__(self, index: int) -> Cell: ...

    @overload
    def __getitem__(self, index: slice) -> Cells: ...

    def __getitem__(self, index: int | slice) -> Cell | Cells:
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            if step != 1:
                raise ValueError("a cell can only be cut between adjacent parts")
            return self.between(first, max(first, last))
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        columns, at = self._columns, self._first + index if index >= 0 else self._last + index
        weight = self._scaled(columns.weights[at])
        return Cell(columns.positions[at], weight, columns.topics[at], columns.clients[at])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cells | tuple):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Cells({list(self)!r})"

    def between(self, first: int, last: int) -> Cells:
        """Returns the cells from index ``first`` up to, not including, ``last``."""
        return Cells(self._columns, self._first + first, self._first + last, self._scales)

    def below(self, position: int) -> int:
        """Returns how many cells lie below a position."""
        return bisect_left(self._columns.positions, position, self._first, self._last) - self._first

    def weights(self) -> Iterable[float]:
        """Returns the weights alone, in order."""
        view = memoryview(self._columns.weights)[self._first : self._last]
        return map(self._scaled, view) if self._scales else view

    def topics(self) -> int:
        """Returns how many topics there are."""
        return sum(memoryview(self._columns.topics)[self._first : self._last])

    def clients(self) -> int:
        """Returns how many producers and consumers there are."""
        return sum(memoryview(self._columns.clients)[self._first : self._last])

    def scaled(self, was: float, weight: float) -> Cells:
        """Returns the same cells of a bundle that weighed ``was`` and weighs ``weight``."""
        return Cells(self._columns, self._first, self._last, (*self._scales, (was, weight)))

    def _scaled(self, weight: float) -> float:
        for was, now in self._scales:
            weight = weight / was * now  # the share first: the product of two small weights is 0
        return weight


def weights_of(cells: Sequence[Cell]) -> Iterable[float]:
    """Returns the weights of cells, in order."""
    return cells.weights() if isinstance(cells, Cells) else (cell.weight for cell in cells)


def topics_of(cells: Sequence[Cell]) -> int:
    """Returns how many topics cells have."""
    return cells.topics() if isinstance(cells, Cells) else sum(cell.topics for cell in cells)


def clients_of(cells: Sequence[Cell]) -> int:
    """Returns how many producers and consumers cells have."""
    return cells.clients() if isinstance(cells, Cells) else sum(cell.clients for cell in cells)


def scaled(cells: Sequence[Cell], was: float, weight: float) -> Sequence[Cell]:
    """Returns the cells of a bundle that weighed ``was``, now that it weighs ``weight``."""
    if isinstance(cells, Cells):
        return cells.scaled(was, weight)
    # Every topic of a simulated cluster, every minute: a new cell costs a third of one replaced. Its share
    # first: the product of two small weights is 0.
    return tuple(Cell(position, each / was * weight, topics, own) for position, each, topics, own in cells)


class CellBuffer:
    """Weights of topics of one namespace as they are added, in any order of positions."""

    __slots__ = ("_columns", "_sorted")

    def __init__(self) -> None:
        self._columns = _Columns()
        self._sorted: Cells | None = None

    def add(self, position: int, weight: float, topics: int = 1, clients: int = 0) -> None:
        """Adds the weight of topics at a position, 0 to 2^32 - 1, and their producers and consumers."""
        self._sorted = None
        self._columns.append(position, weight, topics, clients)  # behind what a view has

    def extend(self, other: CellBuffer) -> None:
        """Adds the content of another buffer, in its order."""
        self._sorted = None
        self._columns.extend(other._columns)

    def cells(self) -> Cells:
        """Returns the cells, ascending, each position once: weights and topics at one position are summed in the order
        in which they were added."""
        if self._sorted is None:
            self._columns = self._columns.sorted()
            self._sorted = Cells(self._columns, 0, len(self._columns.positions))
        return self._sorted


def sorted_positions(positions: array[int]) -> array[int]:
    """Returns positions in ascending order, as often as they are given."""
    out = array("I")
    for run in _runs(array("I", range(len(positions))), positions):
        out.extend(sorted(positions[index] for index in run))
    return out


def _runs(indexes: array[int], positions: array[int]) -> Iterator[array[int]]:
    """Returns the indexes in runs of ascending positions, none with more than RUN of different positions; inside a run,
    and of one position, in their order."""
    if len(indexes) <= RUN:
        yield indexes
        return
    low, high = min(positions[index] for index in indexes), max(positions[index] for index in indexes)
    if low == high:
        yield indexes
        return
    width = (high - low) // (2 * len(indexes) // RUN) + 1
    parts: dict[int, array[int]] = {}
    for index in indexes:
        at = (positions[index] - low) // width
        if at not in parts:
            parts[at] = array("I")
        parts[at].append(index)
    for at in sorted(parts):
        yield from _runs(parts.pop(at), positions)
