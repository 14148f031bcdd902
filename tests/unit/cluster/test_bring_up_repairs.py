"""What was there once comes back although something else is not ready: a gate of the bring-up must not keep out what
makes the rest ready. In memory."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Component, Kind, Reason
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.bookkeeper.znodes import AVAILABLE
from pulsar_operator.domain.dataplane.cluster.bring_up import BringUpFacts, StoreFact, gates
from pulsar_operator.ports import PODS, PVCS, STATEFUL_SETS
from tests.fakes.zookeeper import FakeEnsemble
from tests.support.cluster.leaving_bookies import TWO, confirm, lose
from tests.support.cluster.ledgers import WORKLOAD, LedgerWorld, bookie, claims, cookie
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import NS, quickstart

METADATA = Blocker(Reason.WAITING_FOR_ZOOKEEPER, "ZooKeeper is not ready")
THREE = {"ensembleSize": 3, "writeQuorum": 3, "ackQuorum": 2}
AUTORECOVERY, BROKERS, PROXIES = "east-autorecovery", "east-broker", "east-proxy"


def facts(
    *,
    metadata: bool = True,
    enough: bool = True,
    one: bool = True,
    store: bool = True,
    brokers: bool = True,
    proven: frozenset[Component] = frozenset(),
) -> BringUpFacts:
    return BringUpFacts(
        metadata, METADATA, enough, "Bookies are not ready", StoreFact(store, message="the store"), True, brokers,
        "Brokers are not ready", one, proven,
    )  # fmt: skip


ALL = frozenset({Component.BOOKIE, Component.AUTORECOVERY, Component.BROKER, Component.PROXY})
CLOSED = [
    # what is known, and what is not created
    ({}, set()),
    ({"metadata": False}, ALL),
    ({"metadata": False, "proven": ALL}, ALL),
    ({"enough": False, "one": False, "brokers": False}, ALL - {Component.BOOKIE}),
    ({"enough": False, "brokers": False}, {Component.BROKER, Component.PROXY}),
    ({"enough": False, "one": False, "brokers": False, "proven": ALL}, set()),
    ({"enough": False, "brokers": False, "proven": {Component.BROKER}}, {Component.PROXY}),
    ({"brokers": False}, {Component.PROXY}),
    ({"brokers": False, "proven": {Component.PROXY}}, set()),
    ({"store": False}, {Component.BROKER, Component.PROXY}),
    ({"store": False, "proven": ALL}, {Component.BROKER, Component.PROXY}),
    ({"enough": False, "one": False, "proven": {Component.PROXY}}, {Component.AUTORECOVERY, Component.BROKER}),
]


@pytest.mark.parametrize(("known", "closed"), CLOSED, ids=[str(each[0]) for each in CLOSED])
def test_which_gates_are_closed(known: dict, closed: set[Component]) -> None:  # type: ignore[type-arg]
    known = {**known, "proven": frozenset(known.get("proven", ()))}
    found = gates(facts(**known))
    assert {each for each, gate in found.items() if gate is not None} == set(closed)


async def recreated(world: LedgerWorld, *lost: int) -> None:
    """The cluster is deleted and applied again; meanwhile the volumes of some bookies are lost."""
    spec = (await world.get(Kind.CLUSTER, "east"))["spec"]
    await world.annotate(Kind.CLUSTER, "east", "pulsaroperator.io/confirm-delete", "east")
    await world.delete(Kind.CLUSTER, "east")
    await world.settle()
    assert await world.live(Kind.CLUSTER, "east") is None
    for ordinal in lost:
        for claim in claims(ordinal):
            await world.backstage.remove(PVCS, NS, claim)
    manifest = {**quickstart()[1], "spec": spec}
    await world.apply(manifest)


async def auditor_is_there(world: LedgerWorld) -> bool:
    return await world.live(STATEFUL_SETS, AUTORECOVERY) is not None


async def test_two_of_four_bookies_lose_their_volumes_while_the_cluster_is_deleted() -> None:
    """Two of four bookies are ready, and an ensemble takes three: auto-recovery comes nevertheless."""
    world = await LedgerWorld.up(4, topics=(), ensemble=THREE)
    for _ in range(4):
        world.ledger(state="CLOSED", size=3)
    await recreated(world, 2, 3)
    await world.until(lambda: auditor_is_there(world))
    await world.settle()
    assert "Raise spec.bookkeeper.replicas by 1" in (await world.progressing())[2]
    await world.resize(5)
    for _ in range(4):
        await world.settle()
        world.clock.forward(400)
    assert await world.all_ready() == {}
    assert (await world.condition(Kind.CLUSTER, "east", "Replicated"))[1] == "Replicated"


async def test_two_of_three_bookies_lose_their_volumes_while_the_cluster_is_deleted() -> None:
    world = await LedgerWorld.up(3, closed=3)
    await recreated(world, 1, 2)
    await world.until(lambda: auditor_is_there(world))


async def test_a_cluster_that_is_made_again_without_a_bookie_that_is_ready_gets_no_auditor() -> None:
    """It would take every bookie for lost that is about to come up."""
    world = await LedgerWorld.up(3, closed=3)
    world.workloads.troubles.append(Trouble(pod=f"{WORKLOAD}-*"))
    await recreated(world)
    await world.settle()
    assert not await auditor_is_there(world)
    world.workloads.troubles.clear()
    await world.settle()
    assert await world.all_ready() == {}


async def test_the_auditor_of_a_running_cluster_comes_back_while_bookies_are_lost() -> None:
    world = await LedgerWorld.up(3, closed=3, ensemble=TWO)
    await world.run()
    await lose(world, 2)
    world.workloads.troubles.append(Trouble(pod=f"{WORKLOAD}-1"))
    await world.backstage.remove(PODS, NS, f"{WORKLOAD}-1")
    await world.backstage.remove(STATEFUL_SETS, NS, AUTORECOVERY)
    await world.until(lambda: auditor_is_there(world))
    world.workloads.troubles.clear()
    await world.settle()
    assert await world.all_ready() == {} and world.lost() == []


@pytest.mark.parametrize("workload", [AUTORECOVERY, BROKERS, PROXIES])
async def test_what_somebody_deletes_comes_back_while_no_bookie_and_no_broker_is_ready(workload: str) -> None:
    world = await LedgerWorld.up(3)
    await world.run()
    for tier in (WORKLOAD, BROKERS):
        world.workloads.troubles.append(Trouble(pod=f"{tier}-*"))
    for name in await world.names(PODS):
        if name.startswith((WORKLOAD, BROKERS)):
            await world.backstage.remove(PODS, NS, name)
    await world.settle(30)
    await world.backstage.remove(STATEFUL_SETS, NS, workload)
    await world.settle(30)
    assert await world.live(STATEFUL_SETS, workload) is not None, await world.status(Kind.CLUSTER, "east")


async def test_brokers_are_not_made_on_a_store_that_never_had_its_bookies() -> None:
    world = LedgerWorld.empty()
    manifests = quickstart()
    manifests[1]["spec"]["bookkeeper"] |= {"replicas": 3}
    world.workloads.troubles.append(Trouble(pod=f"{WORKLOAD}-2"))
    world.workloads.troubles.append(Trouble(pod=f"{WORKLOAD}-1"))
    await world.apply(*manifests)
    await world.run()
    assert await world.live(STATEFUL_SETS, BROKERS) is None
    assert await auditor_is_there(world)


class ExternalStore(LedgerWorld):
    """Its metadata store is not deleted with its Kubernetes namespace."""

    @property
    def store(self) -> FakeEnsemble:
        return self.zookeeper.ensembles.get("zk.example.com:2181") or FakeEnsemble("zk.example.com:2181")


async def test_a_namespace_that_is_made_again_over_an_external_store() -> None:
    """All claims are gone: what was on them is given up bookie by bookie. Auto-recovery comes with the first one."""
    world = ExternalStore.empty()
    instance, cluster, *_ = quickstart()
    cluster["spec"]["metadataStore"] = {"external": {"servers": "zk.example.com:2181"}}
    cluster["spec"]["bookkeeper"] |= {"replicas": 3}
    await world.apply(instance, cluster)
    await world.run()
    assert await world.all_ready() == {}
    for _ in range(3):
        world.ledger(state="CLOSED")
    await recreated(world, 0, 1, 2)
    await world.settle(100)
    assert (await world.progressing())[1] == "VolumeLost"
    assert not await auditor_is_there(world), "no bookie is there"
    await confirm(world)
    await world.until(lambda: auditor_is_there(world))


async def test_a_volume_that_starts_no_bookie_keeps_no_other_bookie_down() -> None:
    """Somebody deleted the cookie of the last bookie, and the cluster is made again."""
    world = await LedgerWorld.up(3, closed=3)
    await world.run()
    world.store.remove(cookie(2))
    await recreated(world)
    await world.settle()
    assert await world.live(STATEFUL_SETS, WORKLOAD) is not None and await world.replicas() == 2
    assert (await world.progressing())[1] == "ForeignVolume"


@pytest.mark.parametrize("foreign", [(0,), (1,), (0, 1)])
async def test_nor_one_of_a_lower_ordinal(foreign: tuple[int, ...]) -> None:
    """The pod is made for the sake of those that come after it, and BookKeeper does not start on that volume."""
    world = await LedgerWorld.up(4, ensemble=TWO)
    await world.run()
    for ordinal in foreign:
        world.store.remove(cookie(ordinal))
    volumes = [world.volume(bookie(ordinal)) for ordinal in foreign]
    await recreated(world)
    await world.settle()
    assert await world.replicas() == 4
    up = {bookie(ordinal) for ordinal in range(4) if ordinal not in foreign}
    assert up <= set(world.store.children(AVAILABLE))
    assert not {bookie(ordinal) for ordinal in foreign} & set(world.store.children(AVAILABLE))
    status, reason, text = await world.progressing()
    assert (status, reason) == ("False", "ForeignVolume"), text
    assert f"Bookie {bookie(foreign[0])} does not start, because PersistentVolumeClaim {claims(foreign[0])[0]}" in text
    assert [world.volume(bookie(ordinal)) for ordinal in foreign] == volumes, "nothing of it is deleted"
    for ordinal in foreign:
        await lose(world, ordinal)
    await world.settle()
    assert (await world.progressing())[:2] == ("False", "Ready"), await world.progressing()
    assert await world.all_ready() == {}
