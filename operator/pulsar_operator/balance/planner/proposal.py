"""Result of the planner: the difference between two placements, with the reason of every step."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_operator.balance.model.cluster import BundleId


@dataclass(frozen=True, slots=True)
class Split:
    """Cut one bundle at one position; several cuts of a bundle are several steps, each of the piece then there.

    One boundary per call is the only way that is safe on both load managers.
    """

    bundle: BundleId
    boundary: int
    reason: str


@dataclass(frozen=True, slots=True)
class Move:
    """Hand a bundle (as it is after the splits) to a broker."""

    bundle: BundleId
    source: str | None
    destination: str
    weight: float
    reason: str
    topics: int | None = None
    """Topics that one broker closes and the other loads; None if not counted, as the next."""
    clients: int | None = None
    """Producers and consumers that reconnect."""


@dataclass(frozen=True, slots=True)
class Balance:
    """Balance of a placement, in utilizations (load / capacity)."""

    busiest: float
    mean: float
    """Total load / total capacity of the brokers that may carry load."""
    bound: float
    """The least busiest utilization that any placement of whole topics can have."""
    bundles: int

    @property
    def ratio(self) -> float:
        """Busiest over mean; 1 is perfect. 1 as well when there is no load."""
        return self.busiest / self.mean if self.mean > 0 else 1.0

    @property
    def bound_ratio(self) -> float:
        """Returns the ratio that cannot be beaten."""
        return self.bound / self.mean if self.mean > 0 else 1.0


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """One broker, or several together: values before and after the steps."""

    broker: str
    """Its id."""
    load: tuple[float, float]
    """Utilization over the mean of all brokers; 1 = its fair share."""
    bundles: tuple[int, int]
    clients: tuple[int, int]
    """Producers and consumers."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice for a person on what bundles cannot solve: a topic hotter than a broker, too few brokers."""

    reason: str
    """CamelCase word."""
    subject: str
    message: str


@dataclass(frozen=True)
class Proposal:
    """Steps in the order they are to be done (all splits, then all moves), and what they promise."""

    splits: tuple[Split, ...]
    moves: tuple[Move, ...]
    before: Balance
    after: Balance
    moved_weight: float
    """Weight that changes its broker, at most the budget's share of all weight."""
    advice: tuple[Advice, ...] = ()
    withheld: str = ""
    """Why there are no steps although the placement is not even: no data, within tolerance, budget, no gain."""
    emptied: bool = False
    """Mode RemoveBrokers: the brokers to be emptied serve nothing, as far as was observed."""
    brokers: tuple[BrokerLoad, ...] = ()
    """What each broker carries before and after, the busiest first; empty where nothing was planned."""

    @property
    def topics(self) -> int | None:
        """Returns topics that the moves close and load again; None where they are not counted."""
        return _sum([move.topics for move in self.moves])

    @property
    def clients(self) -> int | None:
        """Producers and consumers that reconnect; None where they are not counted."""
        return _sum([move.clients for move in self.moves])

    @property
    def empty(self) -> bool:
        """Whether there is no step."""
        return not (self.splits or self.moves)


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
