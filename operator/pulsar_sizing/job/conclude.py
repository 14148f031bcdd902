"""From what Spark found to the sizing result, on the driver: plain values in, one value out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise
from math import fsum
from typing import Any

from pulsar_operator.balance.model.capacity import capacities_of
from pulsar_operator.balance.model.cluster import Broker, Cell
from pulsar_operator.balance.model.ranges import LAST_BOUNDARY, boundary_points, boundary_texts, range_points
from pulsar_operator.balance.sizing.greedy import Piece, busiest, place
from pulsar_operator.balance.sizing.provisioning import partition_advice, verdict
from pulsar_operator.balance.sizing.result import (
    BrokerSizing,
    CellWeight,
    CostSizing,
    ExpectedBalance,
    NamespaceSizing,
    SizingResult,
    TrafficProfile,
    Verdict,
)
from pulsar_operator.balance.sizing.size import NamespacePlan, NamespaceTraffic, SizingOptions, SizingPlan, size
from pulsar_sizing.job.request import Request


@dataclass(frozen=True)
class Today:
    """Bundles of a namespace as the latest round saw them."""

    boundaries: tuple[int, ...]
    owners: tuple[str | None, ...]
    """By bundle; None where no topic was reported."""


@dataclass(frozen=True)
class Observed:
    """What Spark found."""

    brokers: tuple[str, ...]
    today: Mapping[str, Today]
    cells: Sequence[Mapping[str, Any]]
    """namespace, position, weight, topics; ascending by namespace and position."""
    hottest: Sequence[Mapping[str, Any]]
    """namespace, topic, weight, total, topics."""
    hot_topics: Sequence[tuple[str, int]]
    """Topics near or above a broker's share with all their partitions."""
    round: datetime | None
    """Sample time of `today`."""
    cost: CostSizing | None = None
    """What was learned of the costs of topics."""
    profile: TrafficProfile | None = None
    """Traffic by the hour."""


@dataclass(frozen=True)
class Recorded:
    """How much was recorded."""

    samples: int
    completeness: float
    expected: int
    """Broker samples."""
    rejected: dict[str, int]
    start: datetime
    end: datetime
    covered: int = 0
    """Hours with nearly all the samples that they should have."""


def today(placement: Sequence[Mapping[str, Any]]) -> dict[str, Today]:
    """Boundaries and owners by namespace from rows (namespace, bundle, broker, topics) of one round.

    A bundle that two brokers report is being moved; it counts for the one with more topics. Bundles without topics are
    not reported, so the bundles beside a gap bound it. Invalid ranges are left out.
    """
    found: dict[str, dict[tuple[int, int], tuple[int, str]]] = {}
    for row in placement:
        span = _span(row["bundle"])
        if span is not None:
            owners = found.setdefault(row["namespace"], {})
            owners[span] = max(owners.get(span, (0, "")), (row["topics"], row["broker"]))
    return {namespace: _today(owners) for namespace, owners in sorted(found.items())}


def _today(owners: Mapping[tuple[int, int], tuple[int, str]]) -> Today:
    points = sorted({0, LAST_BOUNDARY, *(point for span in owners for point in span)})
    return Today(tuple(points), tuple(owners[span][1] if span in owners else None for span in pairwise(points)))


def _span(text: str) -> tuple[int, int] | None:
    try:
        return range_points(text)
    except ValueError:
        return None


def conclude(request: Request, observed: Observed, recorded: Recorded, now: datetime) -> SizingResult:
    """The result; without recommendation when too little of the traffic is there."""
    weight = float(sum(row["total"] for row in observed.hottest))
    withheld = _withheld(request, observed, recorded, weight)
    capacities = capacities_of(observed.brokers, (), request.capacities)
    brokers = [Broker(name, capacities.get(name, 1.0)) for name in observed.brokers]
    namespaces = [
        NamespaceTraffic(
            name,
            [Cell(row["position"], float(row["weight"]), row["topics"]) for row in rows],
            observed.today[name].boundaries if name in observed.today else None,
            observed.today[name].owners if name in observed.today else (),
        )
        for name, rows in groupby(observed.cells, key=lambda row: str(row["namespace"]))
    ]
    loads = loads_today(namespaces, observed.brokers)
    mean = _mean(loads, brokers)
    options = SizingOptions(tolerance=request.tolerance)
    plan = None if withheld else size(namespaces, brokers, options)
    tops = {row["namespace"]: row for row in observed.hottest}
    fair = weight / max(len(brokers), 1)
    return SizingResult(
        instance=request.instance,
        cluster=request.cluster,
        generated_time=now,
        from_time=recorded.start,
        to_time=recorded.end,
        samples=recorded.samples,
        completeness=recorded.completeness,
        percentile=request.percentile,
        growth=request.growth,
        namespaces=_namespaces(plan.namespaces, namespaces, tops) if plan else (),
        partitions=partition_advice(observed.hot_topics, fair) if plan else (),
        brokers=tuple(
            BrokerSizing(
                broker=each.id,
                weight=loads[each.id],
                utilization=loads[each.id] / each.capacity / mean if mean else 1.0,
                capacity=each.capacity,
            )
            for each in sorted(brokers, key=lambda broker: broker.id)
        ),
        verdict=_unknown(len(brokers), withheld) if withheld else _verdict(request, weight, brokers, observed),
        balance=_balance(plan, loads, brokers),
        rejected=recorded.rejected,
        cost=observed.cost,
        profile=observed.profile,
    )


def loads_today(namespaces: Sequence[NamespaceTraffic], brokers: Sequence[str]) -> dict[str, float]:
    """Returns the weight by broker as the bundles are owned now; bundles without an owner do not count."""
    loads = dict.fromkeys(brokers, 0.0)
    for each in namespaces:
        if each.boundaries is None:
            continue
        for cell in each.cells:
            owner = each.owners[min(bisect_right(each.boundaries, cell.position), len(each.owners)) - 1]
            if owner in loads:
                loads[owner] += cell.weight
    return loads


def bundle_weights(cells: Sequence[CellWeight], boundaries: Sequence[str]) -> list[float]:
    """Weight of each bundle that the boundaries make."""
    points = boundary_points(boundaries)
    weights = [0.0] * (len(points) - 1)
    for cell in cells:
        weights[min(bisect_right(points, cell.position), len(weights)) - 1] += cell.weight
    return weights


def loads_after(result: SizingResult) -> dict[str, float]:
    """Weight by broker with the recommended bundles, placed as the result's promise is (balance.greedy)."""
    return _placed(result)[1]


def placed(result: SizingResult) -> dict[str, Today]:
    """The recommended bundles by namespace, and where the result's promise places them; None for idle ones."""
    owners = iter(_placed(result)[0])
    return {
        each.namespace: Today(
            tuple(boundary_points(each.boundaries)),
            tuple(next(owners) if weight > 0 else None for weight in bundle_weights(each.cells, each.boundaries)),
        )
        for each in result.namespaces
    }


def _placed(result: SizingResult) -> tuple[list[str], dict[str, float]]:
    pieces = [Piece(w) for each in result.namespaces for w in bundle_weights(each.cells, each.boundaries) if w > 0]
    return place(pieces, [Broker(broker.broker, broker.capacity) for broker in result.brokers])


def _withheld(request: Request, observed: Observed, recorded: Recorded, weight: float) -> str:
    """Why there is no recommendation; empty if there is one."""
    if not recorded.expected:
        return "No markers were recorded, so how much of the traffic is there is not known."
    if recorded.completeness < request.min_completeness:
        return (
            f"Only {recorded.completeness:.1%} of the traffic is there, {request.min_completeness:.1%} is required. "
            "Check the collector's log for brokers that do not answer, and what was rejected."
        )
    if recorded.covered < request.min_coverage_hours:
        return (
            f"Only {recorded.covered} hours are covered, {request.min_coverage_hours} are required. An hour is covered "
            f"when at least {request.min_completeness:.1%} of its samples were recorded. Record for longer, or lower "
            "--min-coverage-hours (sizing.job.minCoverageHours of the chart)."
        )
    if not weight > 0:
        return "No traffic was recorded."
    return "" if observed.brokers else "No broker was recorded in the newest hour."


def _namespaces(
    plans: Sequence[NamespacePlan], traffic: Sequence[NamespaceTraffic], tops: Mapping[str, Mapping[str, Any]]
) -> tuple[NamespaceSizing, ...]:
    return tuple(
        NamespaceSizing(
            namespace=plan.namespace,
            bundles_now=plan.bundles_now,
            boundaries=plan.boundaries,
            boundaries_now=boundary_texts(each.boundaries or ()),
            fresh_boundaries=plan.fresh_boundaries,
            weight=plan.weight,
            hottest_topic=tops[plan.namespace]["topic"],
            hottest_weight=float(tops[plan.namespace]["weight"]),
            cells=tuple(CellWeight(position=c.position, weight=c.weight, topics=c.topics) for c in each.cells),
            reason=plan.reason,
        )
        for plan, each in zip(plans, traffic, strict=True)
    )


def _verdict(request: Request, weight: float, brokers: Sequence[Broker], observed: Observed) -> Verdict:
    hottest, topic = max(((float(row["weight"]), row["topic"]) for row in observed.hottest), default=(0.0, ""))
    return verdict(weight, brokers, capacity=request.capacity, target=request.target, hottest=hottest, topic=topic)


def _unknown(brokers: int, reason: str) -> Verdict:
    return Verdict(verdict="Unknown", brokers_now=brokers, brokers=brokers, reason=reason)


def _balance(plan: SizingPlan | None, loads: Mapping[str, float], brokers: Sequence[Broker]) -> ExpectedBalance:
    """As it is now counts what brokers were seen to own, so that the busiest never has less than the mean."""
    mean = _mean(loads, brokers)
    before = busiest(loads, brokers) / mean if mean else 1.0
    if plan is None:
        return ExpectedBalance(before=before, after=before, bound=1.0)
    return ExpectedBalance(before=before, after=plan.after.ratio, bound=plan.after.bound_ratio)


def _mean(loads: Mapping[str, float], brokers: Sequence[Broker]) -> float:
    """Load of all brokers for what they can carry together; 0 without brokers."""
    room = fsum(broker.capacity for broker in brokers)
    return fsum(loads.values()) / room if room else 0.0
