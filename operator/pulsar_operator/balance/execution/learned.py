"""Learns what bundles cost beyond their bytes and messages, and what brokers use without load. Pure.

Both are learned from the CPU that brokers use. Topics of the same traffic differ in what they cost a broker: batching,
compression, filters, the number of keys. And a broker may use CPU for other things than traffic: another pod on the
node, compaction, a sidecar. As in the sizing job (pulsar_sizing/job/regression.py) a broker's CPU is its own base plus
a price times the cost of what it carries, each bundle's cost times a factor. A factor belongs to a bundle and moves
with it; the base stays, and counts as load of its broker. One observation cannot separate base and factors: each takes
a part of the unexpected use, in proportion to its uncertainty (a Kalman filter of two states a broker). They are
distinguished because load comes and goes. The error is stated (`explained`): how far, on average, the brokers' shares
of the CPU are from what was expected.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import exp, fsum, isfinite
from statistics import median

from pulsar_operator.balance.model.cluster import Bundle, BundleId, ClusterModel

Factors = Mapping[BundleId, float]


@dataclass(frozen=True)
class LearningOptions:
    """How fast it learns, and the bounds."""

    memory: float = 600.0
    """Seconds for which an observation counts as one: those of the minutes in between have the same error."""
    forget: float = 86400.0
    """Seconds after which the deviation of a factor from 1, and a base, decay to 1/e: traffic changes, and so do its
    consumers and other processes beside a broker."""
    bound: float = 4.0
    """Largest factor of a bundle; its inverse is the smallest."""
    least: float = 0.1
    """Share of its CPU up to which a broker's figure does not count: most of that is its own use."""
    full: float = 0.3
    """Share from which the figure counts fully; in between in proportion."""
    renewed: float = 3600.0
    """Seconds after which the cost of a broker's traffic is as uncertain as at the start, up to 1/e: bundles move."""
    error: float = 0.1
    """Standard error of an observation, as a share of the CPU."""
    base: float = 0.15
    """Standard deviation of brokers' bases, as a share of their CPU, before anything is known."""
    cost: float = 0.3
    """Standard deviation of the cost of a broker's traffic, as a share of what its weight predicts."""


@dataclass(frozen=True, slots=True)
class Base:
    """What was learned of one broker."""

    share: float = 0.0
    """Share of its CPU that it uses without load."""
    own: float | None = None
    """Variance of the share; None if nothing is known yet."""
    cost: float = 0.0
    """Variance of the cost of its traffic."""
    both: float = 0.0
    """Covariance of both."""


@dataclass(frozen=True)
class Learned:
    """What was learned."""

    factors: Factors = field(default_factory=dict)
    """Factors by bundle; 1 if missing."""
    bases: Mapping[str, Base] = field(default_factory=dict)
    """Bases by broker."""
    price: float = 0.0
    """Smoothed CPU per unit of cost, relative to the CPU of a broker of capacity 1; 0 if not known."""

    def loads(self, observed: ClusterModel) -> dict[str, float]:
        """Returns the bases of the brokers of a model, in the unit of weights."""
        out = {}
        for broker in observed.brokers:
            known = self.bases.get(broker.id)
            load = known.share * broker.capacity / self.price if known and self.price > 0 else 0.0
            out[broker.id] = load if isfinite(load) else 0.0
        return out


def costed(observed: ClusterModel, weights: Mapping[BundleId, float], factors: Factors) -> dict[BundleId, float]:
    """Returns the cost of each bundle of a model: its weight, or the given one, times its factor."""
    return {
        bundle.id: weights.get(bundle.id, bundle.weight) * factors.get(bundle.id, 1.0) for bundle in observed.bundles
    }


def learn(
    known: Learned,
    observed: ClusterModel,
    cpu: Mapping[str, float],
    seconds: float,
    options: LearningOptions | None = None,
    errors: Mapping[str, float] | None = None,
) -> Learned:
    """Returns what is learned from an observation that counts for ``seconds``; ``cpu`` is the used share of its CPU by
    broker.

    The weights of the model are those of the same minute. Brokers without a figure teach nothing, and neither does a
    single broker. Knowledge that explains the minute no better than the traffic alone is forgotten as fast as it was
    learned.
    """
    options = options or LearningOptions()
    plain, believed = explained(observed, Learned(), cpu, options), explained(observed, known, cpu, options)
    vain = plain is not None and believed is not None and believed.deviation > plain.deviation
    known = _faded(known, observed, seconds, options, vain=vain)
    figures = _figures(observed, known, cpu, options)
    price = _price(figures)
    if price <= 0 or seconds <= 0:
        return known
    bases, steps = dict(known.bases), {}
    for broker, broker_figures in figures.items():
        error = (
            max((options.error * broker_figures.cpu) ** 2, (errors or {}).get(broker, 0.0))
            * options.memory
            / seconds
            / broker_figures.evidence
        )
        bases[broker], steps[broker] = _corrected(bases.get(broker, Base()), broker_figures, price, error, options)
    factors: dict[BundleId, float] = {}
    for bundle in observed.bundles:
        factor = known.factors.get(bundle.id, 1.0) * steps.get(bundle.owner or "", 1.0)
        if factor != 1.0:
            factors[bundle.id] = min(max(factor, 1 / options.bound), options.bound)
    pace = 1 - exp(-seconds / options.memory)
    return Learned(factors, bases, known.price + (price - known.price) * pace if known.price > 0 else price)


@dataclass(frozen=True)
class Explained:
    """How well loads explain the CPU use of brokers."""

    brokers: int
    """Number of brokers that reported a figure."""
    deviation: float
    """Mean deviation of the brokers' CPU shares from the expected ones, weighted by the latter."""


def explained(
    observed: ClusterModel, known: Learned, cpu: Mapping[str, float], options: LearningOptions | None = None
) -> Explained | None:
    """Returns the error of what was learned; None if fewer than two brokers with load report."""
    figures = _figures(observed, known, cpu, options or LearningOptions()).values()
    if sum(each.load > 0 for each in figures) < 2:
        return None
    used = fsum(each.cpu * each.capacity for each in figures)
    based = fsum(each.base * each.capacity for each in figures)
    loads = fsum(each.load * each.capacity for each in figures)
    price = max(used - based, 0.0) / loads
    scale = used / (based + price * loads)
    errors = (abs(each.cpu - (each.base + price * each.load) * scale) * each.capacity for each in figures)
    return Explained(len(figures), fsum(errors) / used)


def forgotten(known: Learned, observed: ClusterModel, brokers: Collection[str]) -> Learned:
    """Returns what was learned without some brokers and their bundles."""
    if not brokers:
        return known
    owned = {bundle.id for bundle in observed.bundles if bundle.owner in brokers}
    factors = {bundle: factor for bundle, factor in known.factors.items() if bundle not in owned}
    return replace(known, factors=factors, bases={b: base for b, base in known.bases.items() if b not in brokers})


def inherited(factors: Factors, bundles: Iterable[Bundle]) -> dict[BundleId, float]:
    """Returns the factors of the existing bundles; a piece has that of the bundle from which it was cut."""
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


@dataclass(frozen=True, slots=True)
class _BrokerFigures:
    """One broker in one observation; load and base are for a capacity of 1."""

    cpu: float
    load: float
    base: float
    capacity: float
    evidence: float


def _figures(
    observed: ClusterModel, known: Learned, cpu: Mapping[str, float], options: LearningOptions
) -> dict[str, _BrokerFigures]:
    """Returns the figures of the brokers that report enough CPU use."""
    carried: dict[str, list[float]] = defaultdict(list)
    for bundle in observed.bundles:
        if bundle.owner:
            carried[bundle.owner].append(bundle.weight * known.factors.get(bundle.id, 1.0))
    found = {}
    for broker in observed.brokers:
        share = cpu.get(broker.id, 0.0)
        evidence = min(max((share - options.least) / (options.full - options.least), 0.0), 1.0)
        if evidence > 0:
            base = known.bases[broker.id].share if broker.id in known.bases else 0.0
            load = fsum(carried.get(broker.id, ())) / broker.capacity
            found[broker.id] = _BrokerFigures(share, load, base, broker.capacity, evidence)
    return found


def _price(figures: Mapping[str, _BrokerFigures]) -> float:
    """Returns the CPU per unit of cost in this observation: that of the median broker, which one of another kind does
    not change. 0 if fewer than two report; a negligible load is skipped."""
    most = max((each.load for each in figures.values()), default=0.0)
    prices = [max(each.cpu - each.base, 0.0) / each.load for each in figures.values() if each.load > most * 1e-6]
    found = median(prices) if len(prices) > 1 else 0.0
    return found if isfinite(found) else 0.0


def _corrected(
    base: Base, figures: _BrokerFigures, price: float, error: float, options: LearningOptions
) -> tuple[Base, float]:
    """Returns what is learned of a broker from an observation, and the factor to multiply its bundles' factors with.
    ``error`` is the variance of the observation.
    """
    own, cost = (options.base**2, options.cost**2) if base.own is None else (base.own, base.cost)
    expected = price * figures.load
    towards_base = own + expected * base.both
    towards_cost = base.both + expected * cost
    total = towards_base + expected * towards_cost + error
    if not (isfinite(total) and total > 0):
        return base, 1.0
    surprise = figures.cpu - base.share - expected
    share = base.share + surprise * towards_base / total
    step = max(1 + surprise * towards_cost / total, 1 / options.bound)
    found = Base(
        min(max(share, 0.0), 1.0),
        own - towards_base**2 / total,
        cost - towards_cost**2 / total,
        base.both - towards_base * towards_cost / total,
    )
    return found, min(step, options.bound)


def _faded(known: Learned, observed: ClusterModel, seconds: float, options: LearningOptions, *, vain: bool) -> Learned:
    """Returns what is left of what was learned after a time, for the existing brokers and bundles."""
    kept = exp(-seconds / (options.memory if vain else options.forget))
    sure = exp(-seconds / (options.memory if vain else options.renewed))
    here = {broker.id for broker in observed.brokers}
    factors = {bundle: factor**kept for bundle, factor in inherited(known.factors, observed.bundles).items()}
    bases = {
        broker: Base(
            base.share * kept,
            None if base.own is None else options.base**2 + (base.own - options.base**2) * kept**2,
            options.cost**2 + (base.cost - options.cost**2) * sure**2,
            base.both * kept * sure,
        )
        for broker, base in known.bases.items()
        if broker in here
    }
    return replace(known, factors=factors, bases=bases)
