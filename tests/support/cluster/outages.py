"""Two clusters of one instance, and outages of their configuration store as the operator sees them."""

from __future__ import annotations

from pulsar_operator.api.constants import Kind
from tests.support.cluster.copies import made_once
from tests.support.cluster.rolls import one_of_each, two
from tests.support.cluster.world import ClusterWorld

MANAGED = "demo-configuration-store.pulsar.svc.cluster.local"


@made_once
async def pair() -> ClusterWorld:
    """East and west, two brokers each, with a configuration store of neither."""
    return await two(2, one_of_each)


async def look(world: ClusterWorld, seconds: float = 0.0) -> None:
    """The instance is looked at, after so many seconds."""
    world.clock.forward(seconds)
    (key,) = [each for each in await world.keys() if each.kind is Kind.INSTANCE]
    await world.reconcile(key)


async def away(world: ClusterWorld, seconds: float, host: str = MANAGED) -> None:
    """The store gives no answer for so long; the operator looks at it as often as it does."""
    await look(world)
    world.unreachable.add(host)
    for _ in range(int(seconds // 10)):
        await look(world, 10)
    world.unreachable.clear()
    await look(world)
