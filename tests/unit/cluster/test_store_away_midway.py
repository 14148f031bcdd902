"""The configuration store goes away in the middle of what has begun, at every round of it: nothing goes on meanwhile,
however long that is, and when it is back all goes on by itself, nothing twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import STATEFUL_SETS
from tests.support.cluster.copies import made_once
from tests.support.cluster.leaving import naming
from tests.support.cluster.leaving import pair as leaving_pair
from tests.support.cluster.leaving_bookies import left
from tests.support.cluster.ledgers import LedgerWorld
from tests.support.cluster.outages import MANAGED
from tests.support.cluster.world import ClusterWorld
from tests.support.core.journal import ADMIN, BOOKIES, KUBERNETES

HOURS = 20000.0
"""Longer than any deadline."""
LOOKS = 5
LONGEST = 40
"""Rounds that any of it takes."""


def touched(world: ClusterWorld, mark: int) -> list[str]:
    """What was done to pods, volumes and Pulsar; the status and the rest are free."""
    kinds = ("Pod", "StatefulSet", "PersistentVolumeClaim", "PulsarRebalance")
    return [
        str(call)
        for call in world.journal.effects[mark:]
        if call.is_write and (call.port in (ADMIN, BOOKIES) or (call.port == KUBERNETES and call.kind in kinds))
        if "status" not in call.verb
    ]


async def away(world: ClusterWorld, rounds: int) -> None:
    """After so many rounds, for hours in which nothing is done."""
    for _ in range(rounds):
        await world.round()
    world.unreachable.add(MANAGED)
    await world.round()
    mark = len(world.journal.effects)
    for _ in range(LOOKS):
        world.clock.forward(HOURS / LOOKS)
        await world.round()
    assert touched(world, mark) == []
    world.unreachable.clear()


async def ends(world: ClusterWorld, done: Callable[[], Awaitable[bool]]) -> None:
    """It comes to its end without anybody."""
    for _ in range(LONGEST):
        if await done():
            return
        world.clock.forward(5)
        await world.round()
    raise AssertionError(f"no end: {await world.all_ready()}")


@made_once
async def with_ledgers() -> LedgerWorld:
    """Three bookies with ledgers, and a configuration store that is not theirs."""
    managed = {"managed": {"replicas": 1, "storage": {"size": "1Gi"}}}
    world = await LedgerWorld.up(3, closed=3, configuration_store=managed)
    assert world.naming(2), "nothing would be proved"
    return world


@pytest.mark.parametrize("rounds", range(0, 15, 2))
async def test_a_bookie_leaves_afterwards_however_long_it_was(rounds: int) -> None:
    world = await with_ledgers()
    await world.resize(2)
    await away(world, rounds)

    async def done() -> bool:
        return await world.replicas() == 2 and await world.row(2) is None

    await ends(world, done)
    await world.run(rounds=300)
    await left(world)


@pytest.mark.parametrize("rounds", range(7))
async def test_a_cluster_is_deleted_afterwards_wherever_it_was(rounds: int) -> None:
    world = await leaving_pair()
    await world.delete(Kind.CLUSTER, "west")
    mark = len(world.journal.events)
    await away(world, rounds)

    async def done() -> bool:
        return await world.live(Kind.CLUSTER, "west") is None

    await ends(world, done)
    assert naming(world) == [] and "west-zookeeper" not in await world.names(STATEFUL_SETS)
    told = [each.message for each in world.journal.events[mark:] if each.reason == "Deleted"]
    assert len(told) == len(set(told)), "each once"
