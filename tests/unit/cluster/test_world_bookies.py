"""The world without a cluster: what HTTP servers of bookies and auto-recovery do shows where the operator looks."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Component
from pulsar_operator.controllers.dataplane.bookkeeper.storage_facts import storage_facts
from pulsar_operator.domain.bookkeeper.ledgers import decode_ledger
from pulsar_operator.domain.bookkeeper.znodes import ledger_path
from pulsar_operator.domain.render.child_names import pod_host, workload_name
from pulsar_operator.domain.render.listeners import bookie_id
from pulsar_operator.ports import PODS, UnavailableError
from tests.support.bookkeeper.encoding import ledger
from tests.support.cluster.copies import converged
from tests.support.cluster.world import NS, ClusterWorld, quickstart

ZOOKEEPER = f"east-zookeeper.{NS}.svc.cluster.local:2181"


def host(component: Component, ordinal: int) -> str:
    return pod_host(workload_name("east", component), ordinal, NS, "cluster.local")


async def three_bookies() -> ClusterWorld:
    objects = quickstart()
    next(each for each in objects if each["kind"] == "PulsarCluster")["spec"]["bookkeeper"]["replicas"] = 3
    world = await converged(*objects)
    return world


async def test_bookies_answer_while_their_pods_are_ready() -> None:
    world = await three_bookies()
    port, session = world.deps.bookies, await world.deps.zookeeper.session(ZOOKEEPER)
    bookie, ours = host(Component.BOOKIE, 1), bookie_id("east-bookie", 1, NS, "cluster.local")
    await port.set_readonly(bookie, True)
    facts = await storage_facts(session)
    assert (facts.readonly, ours in facts.writable) == ({ours}, False)
    assert [(call.verb, call.kind, call.name) for call in world.journal.effects if call.port == "bookies"] == [
        ("set_readonly", bookie, "true")
    ]
    await world.run()
    assert await port.readonly(bookie) is True
    pod = await world.get(PODS, "east-bookie-1")
    await world.backstage.remove(PODS, NS, "east-bookie-1")
    await world.dataplane.step({})
    with pytest.raises(UnavailableError):
        await port.readonly(bookie)
    await world.run()
    assert (await world.get(PODS, "east-bookie-1"))["metadata"]["uid"] != pod["metadata"]["uid"]
    assert await port.readonly(bookie) is False
    assert ours in (await storage_facts(session)).writable


async def test_auto_recovery_copies_when_told_and_forgets_with_its_pod() -> None:
    world = await three_bookies()
    port, session = world.deps.bookies, await world.deps.zookeeper.session(ZOOKEEPER)
    autorecovery = host(Component.AUTORECOVERY, 0)
    b = [bookie_id("east-bookie", n, NS, "cluster.local") for n in range(3)]
    for number in (1, 2):
        await session.create(ledger_path(number), ledger([b[0], b[1]], "CLOSED", 5))
    await port.recover(autorecovery, b[1])
    await world.backstage.remove(PODS, NS, "east-autorecovery-0")
    await world.run()
    await world.dataplane.copy()

    async def members(number: int) -> tuple[str, ...]:
        node = await session.get(ledger_path(number))
        assert node is not None
        return decode_ledger(node.data).segments[0].bookies

    assert await members(1) == (b[0], b[1])
    await port.recover(autorecovery, b[1])
    await world.dataplane.copy(bad={2})
    assert (await members(1), await members(2)) == ((b[0], b[2]), (b[0], b[1]))
    await world.dataplane.copy()
    assert await members(2) == (b[0], b[1])
    await port.recover(autorecovery, b[1])
    await world.dataplane.copy()
    assert await members(2) == (b[0], b[2])
