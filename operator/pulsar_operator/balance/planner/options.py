"""Options of the planner: mode, budget, tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pulsar_operator.balance.model.cluster import BundleId


class Mode(StrEnum):
    """Which steps a proposal may hold."""

    FULL = "Full"
    """Splits and moves."""
    SPLIT = "Split"
    """Only splits; the pieces stay on their broker."""
    MOVE = "Move"
    """Only moves."""
    ADD_BROKERS = "AddBrokers"
    """Only moves to the brokers in `Options.brokers` (new or emptied ones)."""
    REMOVE_BROKERS = "RemoveBrokers"
    """Only moves away from the brokers in `Options.brokers`."""


@dataclass(frozen=True)
class Budget:
    """Limits of a proposal; each move closes every producer and consumer of a bundle for a moment."""

    max_moves: int = 1000
    max_moved_percent: float = 100.0
    """Maximum percent of all weight that may move; not applied to RemoveBrokers (a drained broker must be empty), nor
    to a single bundle that is the only move."""
    spent_percent: float = 0.0
    """Percent of all weight that other proposals moved already; then no single bundle may exceed the rest either. Cuts
    are judged as if nothing was spent: the budget recovers with time, a split is permanent."""
    max_splits: int = 20
    max_bundles: int = 4096
    """Maximum bundles of a namespace: there is no merge, so a split is permanent."""

    @property
    def left_percent(self) -> float:
        """Returns the share of all weight that may still change its broker."""
        return max(self.max_moved_percent - self.spent_percent, 0.0)

    @property
    def alone(self) -> bool:
        """Whether one bundle may weigh more than that if nothing else moves."""
        return self.max_moved_percent > 0 and self.spent_percent <= 0


@dataclass(frozen=True)
class Options:
    """One question to the planner."""

    mode: Mode = Mode.FULL
    budget: Budget = field(default_factory=Budget)
    namespaces: frozenset[str] | None = None
    """Namespaces whose bundles may be split and moved; None for all. The others count as load anyway."""
    brokers: frozenset[str] = frozenset()
    """Brokers of AddBrokers and RemoveBrokers."""
    tolerance: float = 0.1
    """Hysteresis: a placement whose busiest broker is within this share of the bound stays, unless a broker has less
    than half of its possible load: that one is filled."""
    cuts: Mapping[str, frozenset[int]] | None = None
    """The only positions for cuts by namespace, as another search with more data found them; None for any."""
    cooling: frozenset[BundleId] = frozenset()
    """Bundles that were moved or created too recently to be moved again."""
