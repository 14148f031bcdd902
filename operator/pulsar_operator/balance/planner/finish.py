"""Adds a few steps beyond the target, down towards the bound, if they are worth it.

Usually many brokers are slightly below the target, and each would need its own move for a negligible gain. But if one
or two stand out, such as the broker of the hottest topic, which sets the bound, a move or a cut towards the bound is
worth it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pulsar_operator.balance.planner.bundle_placement import Placement
from pulsar_operator.balance.planner.goals import BUSIEST
from pulsar_operator.balance.planner.search import Search
from pulsar_operator.balance.planner.splitting import Splitter

MIN_MOVE_GAIN: Final = 0.03
"""Decrease of the highest utilization, as a share of the mean, that each additional move must bring on average."""
MIN_CUT_GAIN: Final = 0.05
"""The same for a cut, which is permanent, while the traffic is not."""

MOST: Final = 64
"""Maximum number of steps tried."""


@dataclass(frozen=True)
class _State:
    """The state needed to undo steps."""

    at: tuple[int, ...]
    causes: dict[int, str]
    cut: frozenset[int]


class Finish:
    """Tries steps of the busiest broker, and undoes them unless they are worth their moves and cuts."""

    def __init__(self, search: Search, splitter: Splitter | None, mean: float) -> None:
        """Without a ``splitter`` nothing is cut; ``mean`` is in units."""
        self._search, self._splitter, self._mean = search, splitter, mean
        self._placement: Placement = search.placement

    def run(self, levels: Sequence[float]) -> bool:
        """Lowers the utilization to the most worthwhile of these values (in units); returns whether anything
        changed."""
        search, start = self._search, self._keep()
        usual = search.target, search.least
        best, steps, gained = 0.0, 0, 0.0
        try:
            search.least = MIN_MOVE_GAIN * self._mean
            for level in levels:
                search.target = level
                found, gain = self._trial(level)
                self._restore(start)
                if gain > gained:
                    best, steps, gained = level, found, gain
            search.target = best
            for _ in range(steps):
                self._step()
        finally:
            search.target, search.least = usual
        return steps > 0

    def _trial(self, level: float) -> tuple[int, float]:
        """Returns the number of steps with the best result, and its value."""
        placement = self._placement
        start, moves, cuts = placement.busiest, placement.moves, len(placement.pieces)
        best, gained = 0, 0.0
        for taken in range(1, MOST + 1):
            if placement.busiest <= level or not self._step():
                break
            cost = MIN_MOVE_GAIN * max(placement.moves - moves, 0) + MIN_CUT_GAIN * (len(placement.pieces) - cuts)
            gain = start - placement.busiest - cost * self._mean
            if gain > gained:
                best, gained = taken, gain
            if start - level - cost * self._mean <= gained:
                break
        return best, gained

    def _step(self) -> bool:
        broker = self._placement.descending()[0]
        return self._search.relieve(broker) or (self._splitter is not None and self._splitter.relieve(broker))

    def _keep(self) -> _State:
        placement = self._placement
        return _State(tuple(placement.at), dict(placement.cause), frozenset(placement.pieces))

    def _restore(self, state: _State) -> None:
        placement = self._placement
        made = [index for index in placement.pieces if index not in state.cut]
        origin: dict[int, int] = {}
        for index in made:
            for piece in placement.pieces[index][1:]:
                origin[piece] = origin.get(index, index)
        for index in reversed(made):
            for piece in placement.pieces[index][1:]:
                self._move_back(piece, state.at[origin[piece]])
            placement.join(index)
        for index, at in enumerate(state.at):
            self._move_back(index, at)
        placement.cause.clear()
        placement.cause.update(state.causes)

    def _move_back(self, index: int, broker: int) -> None:
        if self._placement.at[index] != broker:
            self._placement.move(index, broker, BUSIEST)
