"""With recorded traffic the Spark job's cuts are proposed, and no others."""

from __future__ import annotations

import pytest

from pulsar_operator.balance.model.hashing import topic_hash
from tests.support.balancing.recorded import recorded
from tests.support.balancing.world import LAST, BalancingWorld

NAMESPACE = "shop/orders"


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
    world.sizing.result = recorded(world, {NAMESPACE: cuts})
    before = set(world.pulsar.boundaries[NAMESPACE])
    world.rebalance(trafficSource="Recorded", autoApprove=True, tolerancePercent=tolerance)
    await world.run()
    made = set(world.pulsar.boundaries[NAMESPACE]) - before
    assert made == set(cuts)


async def test_without_a_cut_of_the_job_nothing_is_split() -> None:
    world = one_bundle()
    world.sizing.result = recorded(world, {NAMESPACE: []})
    before = list(world.pulsar.boundaries[NAMESPACE])
    world.rebalance(trafficSource="Recorded", autoApprove=True, tolerancePercent=1)
    await world.run()
    assert world.pulsar.boundaries[NAMESPACE] == before
    # The same start, looked at live, is worth cuts.
    live = one_bundle()
    live.rebalance(autoApprove=True, tolerancePercent=1)
    await live.run()
    assert live.pulsar.boundaries[NAMESPACE] != before
