"""With recorded traffic the Spark job's cuts are proposed, and no others."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pulsar_operator.balance.model.hashing import topic_hash
from pulsar_operator.balance.sizing.result import (
    BrokerSizing,
    CellWeight,
    ExpectedBalance,
    NamespaceSizing,
    SizingResult,
    Verdict,
)
from tests.support.balancing.world import LAST, BalancingWorld

NAMESPACE = "shop/orders"


def texts(points: list[int]) -> tuple[str, ...]:
    return tuple(f"0x{point:08x}" for point in points)


def result(world: BalancingWorld, cuts: list[int]) -> SizingResult:
    """What the job would have recorded of the world's topics, with some cuts beside today's boundaries."""
    today = world.pulsar.boundaries[NAMESPACE]
    weights = {topic_hash(name): rate * 4000 for name, rate in world.pulsar.rates.items()}
    points = sorted({*today, *cuts})
    sizing = NamespaceSizing(
        namespace=NAMESPACE,
        bundles_now=len(today) - 1,
        boundaries=texts(points),
        fresh_boundaries=texts(points),
        weight=sum(weights.values()),
        hottest_topic=max(world.pulsar.rates, key=lambda name: world.pulsar.rates[name]),
        hottest_weight=max(weights.values()),
        cells=tuple(CellWeight(position=at, weight=weights[at]) for at in sorted(weights)),
        reason="recorded",
    )
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
        namespaces=(sizing,),
        partitions=(),
        brokers=tuple(BrokerSizing(broker=each, weight=1.0, utilization=1.0) for each in world.pulsar.brokers),
        verdict=Verdict(verdict="RightSized", brokers_now=3, brokers=3, reason="recorded"),
        balance=ExpectedBalance(before=3.0, after=1.02, bound=1.0),
    )


def one_bundle() -> BalancingWorld:
    """Twelve topics in one bundle at the first of three brokers."""
    world = BalancingWorld()
    world.pulsar.namespace(NAMESPACE, [0, LAST], world.pulsar.brokers[0])
    world.pulsar.rates = {f"persistent://{NAMESPACE}/t{n}": 100.0 + n for n in range(12)}
    return world


def thirds(world: BalancingWorld) -> list[int]:
    """Cuts right below the fifth and the ninth topic, where the operator itself would not cut."""
    positions = sorted(map(topic_hash, world.pulsar.rates))
    return [positions[4], positions[8]]


@pytest.mark.parametrize("tolerance", [1, 10])
async def test_only_the_cuts_of_the_job_are_made(tolerance: int) -> None:
    world = one_bundle()
    cuts = thirds(world)
    world.sizing.result = result(world, cuts)
    before = set(world.pulsar.boundaries[NAMESPACE])
    world.rebalance(trafficSource="Recorded", autoApprove=True, tolerancePercent=tolerance)
    await world.run()
    made = set(world.pulsar.boundaries[NAMESPACE]) - before
    assert made == set(cuts)


async def test_without_a_cut_of_the_job_nothing_is_split() -> None:
    world = one_bundle()
    world.sizing.result = result(world, [])
    before = list(world.pulsar.boundaries[NAMESPACE])
    world.rebalance(trafficSource="Recorded", autoApprove=True, tolerancePercent=1)
    await world.run()
    assert world.pulsar.boundaries[NAMESPACE] == before
    # The same start, looked at live, is worth cuts.
    live = one_bundle()
    live.rebalance(autoApprove=True, tolerancePercent=1)
    await live.run()
    assert live.pulsar.boundaries[NAMESPACE] != before
