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
    """Splits alone; the pieces stay where they are."""
    MOVE = "Move"
    """Moves alone."""
    ADD_BROKERS = "AddBrokers"
    """Only moves onto the brokers named in `Options.brokers` (new or emptied ones); others trade nothing."""
    REMOVE_BROKERS = "RemoveBrokers"
    """Only moves off the brokers named in `Options.brokers`."""


@dataclass(frozen=True)
class Budget:
    """Limits of a proposal; each move closes every producer and consumer of a bundle for a moment."""

    max_moves: int = 1000
    max_moved_percent: float = 100.0
    """Share of all weight that may change its broker; not applied to RemoveBrokers (a drained broker must be empty),
    nor to a single bundle that moves alone."""
    spent_percent: float = 0.0
    """Of that share, what other proposals moved already; then no bundle goes alone beyond the rest either. Cuts are
    judged as if nothing was spent: the rest is for a time, a split is permanent."""
    max_splits: int = 20
    max_bundles: int = 4096
    """Bundles a namespace may reach: there is no merge, so a split is permanent."""

    @property
    def left_percent(self) -> float:
        """Returns the share of all weight that may still change its broker."""
        return max(self.max_moved_percent - self.spent_percent, 0.0)

    @property
    def alone(self) -> bool:
        """Whether one bundle may weigh more than that, where nothing else moves."""
        return self.max_moved_percent > 0 and self.spent_percent <= 0


@dataclass(frozen=True)
class Options:
    """One question to the planner."""

    mode: Mode = Mode.FULL
    budget: Budget = field(default_factory=Budget)
    namespaces: frozenset[str] | None = None
    """Namespaces whose bundles may be split and moved; None for all. The others count as load anyway."""
    brokers: frozenset[str] = frozenset()
    """Of AddBrokers and RemoveBrokers."""
    tolerance: float = 0.1
    """Hysteresis: a placement whose busiest broker is within this of the bound is left alone, unless a broker has less
    than half of what it could have: that one is filled."""
    cuts: Mapping[str, frozenset[int]] | None = None
    """By namespace: the only positions at which its bundles may be cut, as a search with more knowledge found them;
    None = anywhere."""
    cooling: frozenset[BundleId] = frozenset()
    """Bundles moved or made too short ago to be moved again."""
