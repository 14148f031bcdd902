"""Rules of a plan, in order of priority: each goal may keep a bundle, close a broker or veto one move.

The three answers prune the search at three levels: a kept bundle is never considered, a closed broker is never a
destination, and a veto concerns one bundle and one broker. Hard goals are vetoes; the soft ones (`BUSIEST`, `IDLE`) are
the aims of the search, and they veto moves that would undo them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import ClassVar, Final, Protocol

from pulsar_operator.balance.model.cluster import Broker, Bundle, BundleId
from pulsar_operator.balance.planner.bundle_placement import Placement
from pulsar_operator.balance.planner.options import Budget, Mode

BUSIEST: Final = "BusiestBroker"
"""Soft: the highest utilization falls towards the bound."""
IDLE: Final = "IdleBroker"
"""Soft: a broker that is idle while others are loaded gets its share."""
ROUNDING: Final = 5e-10
"""Relative margin of the budget for rounding, since weights are whole units in the search; verify.py accepts it."""


class Goal(Protocol):
    """One rule; the defaults permit everything."""

    name: ClassVar[str]

    def keeps(self, bundle: Bundle) -> bool:
        """Whether a bundle must stay as it is, on any broker."""
        return False

    def closes(self, broker: Broker) -> bool:
        """Whether a broker takes nothing."""
        return False

    def vetoes(self, placement: Placement, index: int, destination: int) -> bool:
        """Whether one move is refused now."""
        return False


class AllowedBrokers(Goal):
    """A bundle goes only to brokers that the isolation policy of its namespace permits."""

    name = "AllowedBrokers"

    def __init__(self, allowed: Mapping[str, frozenset[str]]) -> None:
        self._allowed = allowed

    def permits(self, namespace: str, broker: str) -> bool:
        """Whether a broker may serve a namespace; without a policy each may."""
        allowed = self._allowed.get(namespace)
        return allowed is None or broker in allowed

    def vetoes(self, placement: Placement, index: int, destination: int) -> bool:
        return not self.permits(placement.bundles[index].id.namespace, placement.brokers[destination].id)


class DrainingBrokers(Goal):
    """A draining broker takes nothing."""

    name = "DrainingBrokers"

    def closes(self, broker: Broker) -> bool:
        return broker.draining


class NewBrokers(Goal):
    """AddBrokers: only the named brokers take bundles."""

    name = "NewBrokers"

    def __init__(self, named: Collection[str]) -> None:
        self._named = named

    def closes(self, broker: Broker) -> bool:
        return broker.id not in self._named


class PinnedNamespaces(Goal):
    """Bundles of pinned namespaces, and of those outside the selection, only count as load."""

    name = "PinnedNamespaces"

    def __init__(self, pinned: Collection[str], selected: Collection[str] | None) -> None:
        self._pinned, self._selected = pinned, selected

    def keeps(self, bundle: Bundle) -> bool:
        namespace = bundle.id.namespace
        return namespace in self._pinned or (self._selected is not None and namespace not in self._selected)


class AntiAffinity(Goal):
    """Namespaces of one anti-affinity group do not share more failure domains than they do already."""

    name = "AntiAffinity"

    def vetoes(self, placement: Placement, index: int, destination: int) -> bool:
        return placement.conflicts(index, destination)


class Limits(Goal):
    """The budget: number and weight of moved bundles, compared with their original brokers."""

    name = "Budget"

    def __init__(self, budget: Budget, total: int, mode: Mode) -> None:
        endless = mode is Mode.SPLIT
        self._max_moves: float = inf if endless else budget.max_moves
        self._max_weight: float = total * budget.left_percent / 100 * (1 + ROUNDING)
        self._whole: float = total * budget.max_moved_percent / 100 * (1 + ROUNDING)
        self._may_alone = budget.alone
        self.spent: float = self._whole - self._max_weight
        """Weight of the budget that other proposals used."""
        if endless or mode is Mode.REMOVE_BROKERS:
            # A broker that is to be emptied weighs what it weighs, and Split moves nothing in the end.
            self._max_weight = self._whole = inf
            self.spent = 0.0
        self.fresh = False
        """Whether every step is judged as if it were the first one, as the next proposal will."""
        self.alone = False
        """Whether one bundle may weigh more than the budget permits, if it is the only move: a cut would be permanent,
        and the budget counts again in the next proposal."""

    def vetoes(self, placement: Placement, index: int, destination: int) -> bool:
        return not self.afford(placement, *placement.price(index, destination))

    def afford(self, placement: Placement, moves: int, weight: int) -> bool:
        """Whether additional moves, and weight, are within the budget."""
        if self.fresh:
            return moves <= self._max_moves and (weight <= self._whole or moves <= 1)
        if self.alone:
            return self._may_alone and placement.moves + moves <= min(1, self._max_moves)
        return placement.moves + moves <= self._max_moves and placement.moved + weight <= self._max_weight

    def left(self, placement: Placement) -> float:
        """Returns the weight that may still be moved; below 0 if no move is left."""
        if self.fresh:
            return inf if self._max_moves >= 1 and self._whole > 0 else -1.0
        if self.alone:
            return inf if placement.moves < min(1, self._max_moves) and self._may_alone else -1.0
        return self._max_weight - placement.moved if placement.moves < self._max_moves else -1.0


class Cooling(Goal):
    """A bundle that was moved or created recently stays where it is."""

    name = "Cooling"

    def __init__(self, cooling: Collection[BundleId]) -> None:
        self._cooling = cooling

    def keeps(self, bundle: Bundle) -> bool:
        return bundle.id in self._cooling
