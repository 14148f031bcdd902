"""Pulsar's placement strategies, re-built from their published rules (not their code).

Sources: classes of the same names in org.apache.pulsar.broker.loadbalance.impl and .extensions.strategy as compiled in
4.0.8; PIP-364.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf

from benchmarks.simulator.state import DEFAULT_RATES, Placement, State
from pulsar_operator.balance.model.cluster import BundleId


def fewest_of_namespace(candidates: Iterable[str], bundle: BundleId, state: State) -> list[str]:
    """The brokers that hold the fewest bundles of the bundle's namespace; load is not looked at.

    Pulsar applies this before any placement strategy of the modular manager while
    loadBalancerDistributeBundlesEvenlyEnabled is on (LoadManagerShared.removeMostServicingBrokersForNamespace).
    """
    counts = state.counts.get(bundle.namespace, {})
    brokers = list(candidates)
    least = min(counts.get(broker, 0) for broker in brokers)
    return [broker for broker in brokers if counts.get(broker, 0) == least]


def select_broker(placement: Placement, brokers: Iterable[str], bundle: BundleId, state: State) -> str:
    """The broker of a bundle as the modular manager finds it: even distribution first, then the placement strategy.

    Both among the brokers that isolation permits (Pulsar's class LoadManagerShared, method applyNamespacePolicies).
    Where the one it chose uses more than 85 % the strategy is asked once more, now with all brokers (Pulsar's class
    ModularLoadManagerImpl, method selectBroker); its second word holds, whatever that broker uses.
    """
    everyone = sorted(broker for broker in brokers if state.permits(bundle, broker))
    candidates = fewest_of_namespace(everyone, bundle, state) if state.settings.distribute_evenly else everyone
    chosen = placement.select(candidates, bundle, state)
    if state.reports[chosen].score > state.settings.overloaded_percent / 100:
        chosen = placement.select(everyone, bundle, state)
    return chosen


@dataclass(frozen=True)
class LeastLongTermMessageRate:
    """The broker whose bundles, those on their way included, have the least long-term message rate; Pulsar's default.

    A broker above 85 % counts as infinitely loaded; when all are, any will do.
    """

    choose: Callable[[int], int]

    def select(self, candidates: list[str], bundle: BundleId, state: State) -> str:
        """As Placement."""
        scores = {broker: self._score(broker, state) for broker in candidates}
        least = min(scores.values())
        best = [broker for broker in candidates if scores[broker] == least]
        return best[self.choose(len(best))]

    @staticmethod
    def _score(broker: str, state: State) -> float:
        report = state.reports[broker]
        if report.score > state.settings.overloaded_percent / 100:
            return inf
        known = state.averages
        return sum(
            known[bundle].messages_long if bundle in known else DEFAULT_RATES.messages
            for bundle in [*report.bundles, *state.preallocated.get(broker, ())]
        )


@dataclass
class LeastResourceUsageWithWeight:
    """Any broker whose moving average lies 10 points or more under the mean of the candidates, else any broker.

    The average moves on at every selection, and that of a broker that is gone is forgotten, as in Pulsar.
    """

    choose: Callable[[int], int]
    scores: dict[str, float] = field(default_factory=dict)

    def candidates(self, brokers: list[str], state: State) -> list[str]:
        """The brokers it draws from; empty = none is under the mean, and the draw is among all."""
        self.scores = {broker: score for broker, score in self.scores.items() if broker in state.reports}
        for broker in brokers:
            report = state.reports[broker]
            past = self.scores.get(broker) if report.bundles and report.messages > 0 else None
            history = state.settings.history
            self.scores[broker] = report.score if past is None else past * history + (1 - history) * report.score
        return under_mean({broker: self.scores[broker] for broker in brokers}, state)

    def select(self, candidates: list[str], bundle: BundleId, state: State) -> str:
        """As Placement."""
        best = self.candidates(candidates, state) or candidates
        return best[self.choose(len(best))]


@dataclass(frozen=True)
class LeastResourceUsageExtensible:
    """The same rule in the extensible manager, on the averages that the brokers report themselves."""

    choose: Callable[[int], int]

    def select(self, candidates: list[str], bundle: BundleId, state: State) -> str:
        """As Placement."""
        best = under_mean({broker: state.reports[broker].ema for broker in candidates}, state) or candidates
        return best[self.choose(len(best))]


def under_mean(scores: dict[str, float], state: State) -> list[str]:
    """The brokers whose score, plus the threshold, does not exceed the mean."""
    mean = sum(scores.values()) / len(scores)
    threshold = state.settings.placement_difference_percent / 100
    return [broker for broker, score in scores.items() if score + threshold <= mean]
