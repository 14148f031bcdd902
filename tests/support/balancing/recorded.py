"""What the Spark job would conclude from the topics of a world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pulsar_operator.balance.model.hashing import topic_hash
from pulsar_operator.balance.model.ranges import boundary_texts
from pulsar_operator.balance.sizing.result import (
    BrokerSizing,
    CellWeight,
    ExpectedBalance,
    NamespaceSizing,
    SizingResult,
    Verdict,
)
from tests.support.balancing.world import BalancingWorld

BYTES = 4000
"""Weight of a message a second."""


def recorded(world: BalancingWorld, cuts: Mapping[str, Sequence[int]]) -> SizingResult:
    """Some namespaces as they are now, each with cuts beside today's boundaries."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return SizingResult(
        instance="prod",
        cluster="east",
        generated_time=moment,
        from_time=moment,
        to_time=moment,
        samples=60,
        completeness=1.0,
        percentile=0.95,
        growth=1.0,
        namespaces=tuple(_namespace(world, name, points) for name, points in cuts.items()),
        partitions=(),
        brokers=tuple(BrokerSizing(broker=each, weight=1.0, utilization=1.0) for each in world.pulsar.brokers),
        verdict=Verdict(verdict="RightSized", brokers_now=3, brokers=3, reason="recorded"),
        balance=ExpectedBalance(before=3.0, after=1.02, bound=1.0),
    )


def _namespace(world: BalancingWorld, name: str, cuts: Sequence[int]) -> NamespaceSizing:
    today = world.pulsar.boundaries[name]
    rates = {
        topic: rate for topic, rate in world.pulsar.rates.items() if topic.split("://", 1)[1].startswith(f"{name}/")
    }
    hottest = max(rates, key=lambda topic: rates[topic])
    weights = {topic_hash(topic): rate * BYTES for topic, rate in rates.items()}
    points = boundary_texts(sorted({*today, *cuts}))
    return NamespaceSizing(
        namespace=name,
        bundles_now=len(today) - 1,
        boundaries=points,
        boundaries_now=boundary_texts(today),
        fresh_boundaries=points,
        weight=sum(weights.values()),
        hottest_topic=hottest,
        hottest_weight=max(weights.values()),
        cells=tuple(CellWeight(position=at, weight=weights[at]) for at in sorted(weights)),
        reason="recorded",
    )
