"""Decides which figures of the brokers are trusted, and how much of its resources each broker uses. Pure.

What a broker measures of itself may be wrong: a garbage collection takes a processor for a minute, a host's figures
freeze, a share is reported as a percentage, a figure drifts. So every figure is compared with the traffic that its
broker carries. The part that this traffic explains, by the median broker's price, counts immediately; the rest is
smoothed over minutes, so that one observation decides nothing. A figure that cannot be true is distrusted: it decides
nothing, nothing is learned from it, and the object names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import fsum, sqrt
from statistics import median

from pulsar_operator.balance.model.cluster import Bundle, ClusterModel
from pulsar_operator.balance.model.observation import CPU, Usage

HOUR = 3600.0


@dataclass(frozen=True)
class TrustOptions:
    """When a figure is trusted. Shares are of the limit of the resource."""

    most: float = 1.5
    """Share above which no figure is valid: a container's use is capped at its limit."""
    least: float = 0.25
    """Share of the use that a broker's traffic explains below which its CPU figure is not valid; learning allows for no
    less."""
    telling: float = 0.1
    """Share that traffic must explain before a CPU figure is compared with it."""
    still: float = 300.0
    """Seconds for which a CPU figure that does not change at all is trusted, and the minimum number of observations."""
    observations: int = 5
    moves: float = 0.01
    """Relative change of a broker's traffic in that time that must have occurred: the figure of an idle one may stay
    the same."""
    memory: float = 300.0
    """Seconds after which an unexplained part counts 1/e in the smoothed one."""
    step: float = 0.5
    """Maximum weight of one observation in it, however long ago the previous one was."""
    far: float = 3.0
    """Maximum standard deviations that one observation counts as: a larger deviation counts once consecutive
    observations agree."""
    error: float = 0.02
    """Minimum standard deviation that a figure is assumed to have, as a share."""
    lasting: float = 300.0
    """Seconds for which a figure must have been distrusted, or missing, before the object names it."""
    hours: int = 3
    """Consecutive hours in which the unexplained part changes in one direction that make a drift."""
    drift: float = 0.008
    """Share by which it changes in each of them."""
    apart: float = 3.0
    """Multiple of the median broker's change in these hours that it must exceed: if all change, the traffic's cost
    does."""
    dearer: float = 1.5
    """Multiple of the change that the broker's traffic explains that it must exceed: less may be the cost of this
    traffic."""


@dataclass(frozen=True, slots=True)
class Record:
    """The record of one figure of one broker."""

    value: float
    since: float
    """When it was first observed with its present value."""
    observations: int = 1
    """How often it was observed since."""
    load: float | None = None
    """Load of the broker then, for a capacity of 1; None if it was not compared."""
    strays: bool = False
    """Whether the broker's traffic changed since."""
    surplus: float | None = None
    """Smoothed part of the figure that the broker's traffic does not explain, below 0 if it explains more. None if it
    was not compared yet."""
    variance: float = 0.0025
    """Variance of the unexplained parts about the smoothed one."""
    over: float | None = None
    """Time at which the broker became overloaded by this figure."""


@dataclass(frozen=True, slots=True)
class Trend:
    """Hourly change of the unexplained part of a broker's CPU."""

    began: float
    """Time at which the current hour began."""
    surplus: float
    """The unexplained part at that time."""
    explained: float
    """What the broker's traffic explained at that time."""
    bundles: int
    """Mark of the bundles that the broker carried: with other bundles the unexplained part differs."""
    hours: tuple[tuple[float, float], ...] = ()
    """Change of both in each full hour before, the latest last."""

    @property
    def moved(self) -> float:
        """Returns the change of the unexplained part in these hours."""
        return fsum(surplus for surplus, _ in self.hours)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A figure that is distrusted."""

    why: str
    """What the broker reports, as the end of a sentence about it."""
    since: float
    drifts: bool = False


@dataclass(frozen=True)
class Records:
    """The records of all figures, and the distrusted CPU figures."""

    figures: Mapping[tuple[str, str], Record] = field(default_factory=dict)
    """By broker and resource."""
    trends: Mapping[str, Trend] = field(default_factory=dict)
    """By broker."""
    doubts: Mapping[str, Doubt] = field(default_factory=dict)
    """By broker."""
    price: float = 0.0
    """Smoothed CPU share per unit of load, of the median broker; 0 if not known."""


@dataclass(frozen=True)
class Judged:
    """Results of one observation. Shares are of the limit, by broker."""

    used: Mapping[str, Usage] = field(default_factory=dict)
    """Smoothed usage of each broker, of the resources whose figures are trusted."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Variance of these figures."""
    over: Mapping[str, float] = field(default_factory=dict)
    """Brokers that use more of a resource than the given limit, and the time since which."""
    drifting: frozenset[str] = frozenset()
    """Brokers whose figures drift: what was learned from them is not valid either."""


def noted(records: Records, now: float, usages: Mapping[str, Usage]) -> Records:
    """Returns the records with the figures of one observation, which may be too soon after a step to be compared with
    traffic."""
    figures = dict(records.figures)
    for broker, usage in usages.items():
        for resource, value in _shares(usage).items():
            known = figures.get((broker, resource))
            if known is None:
                figures[broker, resource] = Record(value, now)
            elif known.value == value:
                figures[broker, resource] = replace(known, observations=known.observations + 1)
            else:
                figures[broker, resource] = replace(
                    known, value=value, since=now, observations=1, load=None, strays=False
                )
    return replace(records, figures=figures)


def judge(
    records: Records,
    now: float,
    seconds: float,
    observed: ClusterModel,
    usages: Mapping[str, Usage],
    limit: float,
    options: TrustOptions | None = None,
    *,
    current: bool = True,
) -> tuple[Judged, Records]:
    """Returns the results of one observation, and the new records; ``noted`` has added the figures before.

    ``limit`` is the share of a resource from which a broker is overloaded, ``seconds`` the time that the observation
    counts for. A CPU figure is compared with traffic if at least two brokers report, and ``observed`` has the traffic
    of the same minute (``current``).
    """
    options = options or TrustOptions()
    carried = _carried(observed)
    loads = {each.id: fsum(b.weight for b in carried[each.id]) / each.capacity for each in observed.brokers}
    shares = {broker: _shares(usages[broker]) for broker in loads if broker in usages}
    share = min(seconds / options.memory, options.step)
    doubts, price = _doubts(records, now, loads if current else dict.fromkeys(loads, 0.0), shares, share, options)
    figures, trends, over = dict[tuple[str, str], Record](), dict[str, Trend](), dict[str, float]()
    found: dict[tuple[str, str], float] = {}
    for (broker, resource), noticed in records.figures.items():
        if broker not in loads:
            continue
        known = _carrying(noticed, loads[broker], options)
        value = shares.get(broker, {}).get(resource)
        doubt = doubts.get(broker) if resource == CPU else None
        if value is None or value > options.most or (doubt is not None and not doubt.drifts):
            figures[broker, resource] = replace(known, over=None)
            continue
        explained = price * loads[broker] if resource == CPU else 0.0
        record = _smoothed(known, value - explained, share, options)
        found[broker, resource] = max(explained + (record.surplus or 0.0), 0.0)
        exceeds = doubt is None and found[broker, resource] > limit
        record = replace(record, over=(now if known.over is None else known.over) if exceeds else None)
        figures[broker, resource] = record
        if record.over is not None:
            over[broker] = min(over.get(broker, now), record.over)
        if resource == CPU and price > 0:
            mark = hash(frozenset(bundle.id for bundle in carried[broker]))
            began = Trend(now, record.surplus or 0.0, explained, mark)
            drifts = doubt is not None and doubt.drifts
            trends[broker] = _trend(records.trends.get(broker, began), began, options, drifts=drifts)
    believed = {key: each for key, each in found.items() if key[1] != CPU or key[0] not in doubts}
    judged = Judged(
        _used(believed),
        {broker: figures[broker, resource].variance for broker, resource in believed if resource == CPU},
        over,
        frozenset(broker for broker, doubt in doubts.items() if doubt.drifts),
    )
    return judged, Records(figures, trends, doubts, price or records.price)


def distrusted(records: Records, now: float, options: TrustOptions | None = None) -> dict[str, str]:
    """Returns why the CPU figure of a broker is distrusted, by broker, once it has been for long enough to be
    reported."""
    options = options or TrustOptions()
    return {broker: doubt.why for broker, doubt in records.doubts.items() if now - doubt.since >= options.lasting}


def until(records: Records, now: float) -> Records:
    """Returns the records with future times set to now."""
    return Records(
        {
            key: replace(each, since=min(each.since, now), over=None if each.over is None else min(each.over, now))
            for key, each in records.figures.items()
        },
        {broker: replace(each, began=min(each.began, now)) for broker, each in records.trends.items()},
        {broker: replace(each, since=min(each.since, now)) for broker, each in records.doubts.items()},
        records.price,
    )


def _shares(usage: Usage) -> dict[str, float]:
    """Returns the figures of a broker by resource."""
    found = {usage.resource: usage.share}
    if usage.cpu is not None:
        found[CPU] = usage.cpu
    return found


def _used(figures: Mapping[tuple[str, str], float]) -> dict[str, Usage]:
    """Returns the most used resource of each broker, and its CPU."""
    most: dict[str, str] = {}
    for broker, resource in figures:
        if broker not in most or figures[broker, resource] > figures[broker, most[broker]]:
            most[broker] = resource
    return {
        broker: Usage(figures[broker, resource], resource, figures.get((broker, CPU)))
        for broker, resource in most.items()
    }


def _carried(observed: ClusterModel) -> dict[str, list[Bundle]]:
    """Returns the bundles of each broker."""
    carried: dict[str, list[Bundle]] = {broker.id: [] for broker in observed.brokers}
    for bundle in observed.bundles:
        if bundle.owner in carried:
            carried[bundle.owner].append(bundle)
    return carried


def _price(cpu: Mapping[str, float], loads: Mapping[str, float]) -> float:
    """Returns the CPU share per unit of load of the median broker; 0 if fewer than two report."""
    most = max((loads[broker] for broker in cpu), default=0.0)
    prices = [share / loads[broker] for broker, share in cpu.items() if loads[broker] > most * 1e-6]
    return median(prices) if len(prices) > 1 else 0.0


def _doubts(
    records: Records,
    now: float,
    loads: Mapping[str, float],
    shares: Mapping[str, Mapping[str, float]],
    share: float,
    options: TrustOptions,
) -> tuple[dict[str, Doubt], float]:
    """Returns the brokers whose CPU figures are distrusted, and the CPU share per unit of load of the others."""
    whys = {}
    for broker in loads:
        value = shares.get(broker, {}).get(CPU)
        known = records.figures.get((broker, CPU))
        why = "reports no CPU use"
        if value is not None and known is not None:
            why = _impossible(known, now, options)
        if why:
            whys[broker] = why
    cpu = {broker: shares[broker][CPU] for broker in loads if broker not in whys}
    price = _price(cpu, loads)
    if price > 0 and records.price > 0:
        price = records.price + (price - records.price) * share
    for broker, value in cpu.items():
        explained = price * loads[broker]
        if explained >= options.telling and value < options.least * explained:
            whys[broker] = (
                f"reports that it uses {value:.1%} of its CPU although its traffic requires about {explained:.0%}"
            )
    drifts = {
        broker: moved
        for broker, trend in records.trends.items()
        if broker in loads and broker not in whys and (moved := _drift(broker, records, options))
    }
    whys |= {
        broker: (
            f"reports a CPU use that changed by {100 * moved:+.0f} points in {options.hours} hours although its "
            "traffic did not"
        )
        for broker, moved in drifts.items()
    }
    before = records.doubts
    return {
        broker: Doubt(why, before[broker].since if broker in before else now, broker in drifts)
        for broker, why in whys.items()
    }, price


def _impossible(record: Record, now: float, options: TrustOptions) -> str:
    """Returns why a CPU figure cannot be valid, whatever a unit of load costs; empty if it can."""
    if record.value > options.most:
        return f"reports that it uses {record.value:.0%} of its CPU"
    if record.strays and record.observations >= options.observations and now - record.since >= options.still:
        return f"has reported the same CPU use of {record.value:.1%} for {(now - record.since) / 60:.0f} minutes"
    return ""


def _carrying(known: Record, load: float, options: TrustOptions) -> Record:
    """Returns a record with the broker's load in an observation."""
    if known.load is None:
        return replace(known, load=load)
    strays = known.strays or abs(load - known.load) > options.moves * max(load, known.load)
    return known if strays == known.strays else replace(known, strays=strays)


def _smoothed(known: Record, rest: float, share: float, options: TrustOptions) -> Record:
    """Returns a record with one more unexplained part, of which a large deviation counts only in part."""
    if known.surplus is None:
        return replace(known, surplus=rest)
    far = options.far * max(sqrt(known.variance), options.error)
    change = min(max(rest - known.surplus, -far), far)
    variance = known.variance + (change * change - known.variance) * share
    return replace(known, surplus=known.surplus + change * share, variance=variance)


def _trend(known: Trend, latest: Trend, options: TrustOptions, *, drifts: bool) -> Trend:
    """Returns a trend with one more observation; it begins again with other bundles, unless it is a drift already."""
    if known.bundles != latest.bundles and not drifts:
        return latest
    if latest.began - known.began < HOUR:
        return known
    hour = (latest.surplus - known.surplus, latest.explained - known.explained)
    return replace(latest, hours=(*known.hours, hour)[-options.hours :])


def _drift(broker: str, records: Records, options: TrustOptions) -> float:
    """Returns the drift of a broker's figure in the last hours; 0 if there is none.

    A change that follows the broker's traffic, or other brokers' figures, is the cost of this traffic. A figure that is
    distrusted already stays so until it changes by less than half of that.
    """
    trend, doubt = records.trends[broker], records.doubts.get(broker)
    others = [abs(each.moved) for other, each in records.trends.items() if other != broker]
    if len(trend.hours) < options.hours or len(others) < 2:
        return 0.0
    steps = [surplus for surplus, _ in trend.hours]
    traffic = abs(fsum(explained for _, explained in trend.hours))
    least = max(options.apart * median(others), options.dearer * traffic)
    if doubt is not None and doubt.drifts:
        return trend.moved if abs(trend.moved) >= max(least, options.drift * options.hours) / 2 else 0.0
    alike = min(steps) >= options.drift or max(steps) <= -options.drift
    return trend.moved if alike and abs(trend.moved) >= least else 0.0
