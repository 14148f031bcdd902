"""Cells of a namespace: its topics by position, few enough for one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pulsar_sizing.job.histogram import Array

MOST_CELLS: Final = 4096
"""Of a namespace, as long as it has at most a quarter as many bundles today."""


@dataclass(frozen=True)
class Cells:
    """Neighbours of one namespace in order, as arrays of one length."""

    positions: Array
    weights: Array
    topics: Array

    def __len__(self) -> int:
        return len(self.positions)


def folded(cells: Cells, walls: Sequence[int], most: int = MOST_CELLS) -> Cells:
    """At most `most` cells; unchanged if there are not more.

    Cells that weigh at least 4 / `most` of all stay alone; the others are merged with adjacent ones, never across one
    of those or a boundary of today (`walls`, ascending), into cells lighter than twice that. A merged cell lies at its
    first position.
    """
    if len(cells) <= most:
        return cells
    quantum = max(float(cells.weights.sum()) * 4 / most, 1.0)
    hot = cells.weights >= quantum
    # Two steps at a hot position: one begins its own cell, one begins the cell behind it. A boundary belongs to the
    # bundle above it.
    steps = 2 * np.cumsum(hot) - hot + np.searchsorted(np.asarray(walls, np.int64), cells.positions, side="right")
    part = np.where(hot, 0, np.floor(np.cumsum(np.where(hot, 0, cells.weights)) / quantum))
    starts = np.flatnonzero((np.diff(steps, prepend=-1) != 0) | (np.diff(part, prepend=-1) != 0))
    return Cells(
        cells.positions[starts],
        np.add.reduceat(cells.weights, starts),
        np.add.reduceat(cells.topics, starts),
    )
