"""What bundles cost beyond what their bytes and messages say, learned from the CPU that brokers use. Pure.

Topics of the same traffic differ in what they cost a broker: batching, compression, filters, the number of keys. A
broker that uses more CPU than its share of the load says has bundles that cost more than they say, which ones is not
known: all of them are taken for a little more costly. A factor belongs to a bundle and goes with it, so that brokers
that exchange bundles tell them apart in time, and a plan evens out what brokers measure, not what is believed.

The error is stated (`explained`): how far, on average, the brokers' shares of the CPU are from what was expected.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp, fsum

from pulsar_operator.balance.model.cluster import Bundle, BundleId, ClusterModel

Factors = Mapping[BundleId, float]


@dataclass(frozen=True)
class LearningOptions:
    """How fast, and how far."""

    memory: float = 600.0
    """Seconds in which 1 - 1/e of a deviation is learned."""
    forget: float = 86400.0
    """Seconds after which a factor is 1/e of what it was away from 1: traffic changes, and so do its consumers."""
    bound: float = 4.0
    """No bundle is taken for so many times as costly as it says, or more, or for less than the inverse."""
    least: float = 0.1
    """Share of its CPU up to which a broker tells nothing: most of that is its own."""
    full: float = 0.3
    """From which it tells all; in between in proportion."""


def costed(observed: ClusterModel, weights: Mapping[BundleId, float], factors: Factors) -> dict[BundleId, float]:
    """What each bundle of a model costs, by its weight, or the one given for it, and its factor."""
    return {
        bundle.id: weights.get(bundle.id, bundle.weight) * factors.get(bundle.id, 1.0) for bundle in observed.bundles
    }


def learn(
    factors: Factors,
    observed: ClusterModel,
    cpu: Mapping[str, float],
    seconds: float,
    options: LearningOptions | None = None,
) -> dict[BundleId, float]:
    """Factors after a look that stands for ``seconds``; ``cpu`` is the share of its CPU that a broker uses, 0 to 1.

    The weights of the model are those of the same minute. Brokers without a figure or without load teach nothing, and
    so does one alone.
    """
    options = options or LearningOptions()
    known = inherited(factors, observed.bundles)
    kept = exp(-seconds / options.forget)
    known = {bundle: factor**kept for bundle, factor in known.items()}
    pace = 1 - exp(-seconds / options.memory)
    steps = {
        broker: ratio ** (pace * _evidence(cpu[broker], options))
        for broker, ratio in _ratios(observed, known, cpu, options).items()
    }
    out: dict[BundleId, float] = {}
    for bundle in observed.bundles:
        factor = known.get(bundle.id, 1.0) * steps.get(bundle.owner or "", 1.0)
        if factor != 1.0:
            out[bundle.id] = min(max(factor, 1 / options.bound), options.bound)
    return out


@dataclass(frozen=True)
class Explained:
    """How well loads explain what brokers use."""

    brokers: int
    """That told."""
    deviation: float
    """How far the brokers' shares of the CPU are from their shares of the cost, on average, relative to the latter."""


def explained(
    observed: ClusterModel, factors: Factors, cpu: Mapping[str, float], options: LearningOptions | None = None
) -> Explained | None:
    """The stated error of some factors; None where fewer than two brokers tell anything."""
    ratios = _ratios(observed, factors, cpu, options or LearningOptions())
    return Explained(len(ratios), fsum(abs(ratio - 1) for ratio in ratios.values()) / len(ratios)) if ratios else None


def inherited(factors: Factors, bundles: Iterable[Bundle]) -> dict[BundleId, float]:
    """Factors of the bundles that there are; a piece has that of the bundle it was cut from."""
    by_namespace: dict[str, list[BundleId]] = defaultdict(list)
    for each in sorted(factors):
        by_namespace[each.namespace].append(each)
    out = {}
    for bundle in bundles:
        ident = bundle.id
        found = factors.get(ident)
        if found is None and (former := by_namespace.get(ident.namespace)):
            at = bisect_right(former, ident.lower, key=lambda each: each.lower) - 1
            if at >= 0 and former[at].upper >= ident.upper:
                found = factors[former[at]]
        if found is not None:
            out[ident] = found
    return out


def _ratios(
    observed: ClusterModel, factors: Factors, cpu: Mapping[str, float], options: LearningOptions
) -> dict[str, float]:
    """CPU over the expected one, by broker; those that tell something are compared with one another alone."""
    carried: dict[str, list[float]] = defaultdict(list)
    for bundle in observed.bundles:
        if bundle.owner:
            carried[bundle.owner].append(bundle.weight * factors.get(bundle.id, 1.0))
    loads, used = {}, {}
    for broker in observed.brokers:
        load = fsum(carried[broker.id]) if broker.id in carried else 0.0
        if load > 0 and _evidence(cpu.get(broker.id, 0.0), options) > 0:
            loads[broker.id], used[broker.id] = load, cpu[broker.id] * broker.capacity
    if len(loads) < 2:
        return {}
    scale = fsum(used.values()) / fsum(loads.values())
    return {broker: used[broker] / (load * scale) for broker, load in loads.items()} if scale > 0 else {}


def _evidence(share: float, options: LearningOptions) -> float:
    return min(max((share - options.least) / (options.full - options.least), 0.0), 1.0)
