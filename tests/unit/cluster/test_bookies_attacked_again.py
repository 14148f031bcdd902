"""What somebody tried who wanted bookies to get stuck between two troubles, or two steps of users. In memory."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME, Kind
from pulsar_operator.domain.dataplane.decommission.decommission_record import COPIES_PATH
from pulsar_operator.ports import CONFIG_MAPS, PODS, PVCS, UnavailableError
from tests.fakes.admin import AdminCall
from tests.support.cluster.leaving_bookies import HOUR, TWO, confirm, copying, lose, lowered, well
from tests.support.cluster.ledgers import TOPICS, WORKLOAD, LedgerWorld, bookie, cookie, host, of_topic
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import NS, quickstart


@pytest.mark.parametrize("readable", [True, False])
async def test_a_copy_that_goes_on_after_the_bookie_stays(readable: bool) -> None:  # apache/bookkeeper#4812
    """A copy cannot be ended: it closes a ledger that was made after the removal was taken back, and moves it. Nor does
    it help that somebody spoiled the record of it."""
    world = await LedgerWorld.up(4, closed=4, ensemble=TWO, topics=())
    await copying(world, 3)

    async def asked() -> bool:
        return any(each.queue for each in world.bookies.servers.values())

    await world.until(asked)
    await world.resize(4)
    await world.settle()
    assert COPIES_PATH in world.store.nodes
    if not readable:
        world.store.put(COPIES_PATH, b"garbage")
    custom = of_topic("shop/orders/persistent/payments")
    data = world.ledger(on=(bookie(3),), custom=custom)
    cursor = world.ledger(on=(bookie(0), bookie(1)), custom={**custom, "pulsar/cursor": b"sub"})
    world.handles[TOPICS[0]] = [data, cursor]
    world.copies = True
    await world.dataplane.copy()
    await world.resize(3)
    await world.settle()
    assert await world.replicas() == 3
    await world.resize(4)
    await world.settle()
    assert await world.replicas() == 4
    assert world.lost() == []


@pytest.mark.parametrize("back", [True, False])
@pytest.mark.parametrize("stuck", [False, True])
async def test_a_bookie_that_leaves_loses_its_volume(back: bool, stuck: bool) -> None:
    world = await LedgerWorld.up(3, closed=3)
    await copying(world)
    if stuck:
        world.clock.forward(HOUR)
        await world.settle()
        assert (await world.progressing())[1] == "DecommissionStuck"
    await lose(world, 2)
    for _ in range(6):
        await world.round()
    if back:
        await world.resize(3)
    world.copies = True
    await world.settle()
    await well(world, 3 if back else 2)


async def test_two_bookies_lose_their_volumes_at_once() -> None:
    world = await LedgerWorld.up(4, closed=4, ensemble=TWO, topics=())
    gone = world.ledger(state="CLOSED", on=(bookie(1), bookie(2)))
    both = set(world.naming(1)) & set(world.naming(2))
    await lose(world, 1)
    await lose(world, 2)
    await world.settle()
    told = await world.progressing()
    assert told[1] == "VolumeLost" and str(gone.ledger) in told[2], told
    await confirm(world)
    for _ in range(3):
        await world.settle()
        world.clock.forward(HOUR)
    await well(world, 4, given_up=both)


async def test_a_bookie_with_a_rack_by_ordinal_is_brought_back() -> None:
    world = await LedgerWorld.up(3, racks={"byOrdinal": ["a", "b"]})
    await world.resize(2)
    await lowered(world)
    late = world.ledger(state="CLOSED", on=(bookie(1), bookie(2)))
    await world.settle(400)
    await well(world, 2)
    assert late.ledger in world.ledgers()


async def renewed_and_does_not_start(trouble: Trouble) -> LedgerWorld:
    """A lost volume was replaced, and the pod that gets the new one does not come up."""
    world = await LedgerWorld.up(3, closed=3)
    world.workloads.troubles.append(trouble)
    await lose(world, 2)
    await world.settle(200)
    assert cookie(2) not in world.store.nodes
    return world


async def test_the_cure_of_a_bookie_that_does_not_start_with_its_new_volume_reaches_it() -> None:
    world = await renewed_and_does_not_start(
        Trouble(pod=f"{WORKLOAD}-2", waiting="CrashLoopBackOff", message="OutOfMemory")
    )
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].setdefault("jvm", {}).update(heap="333m"))
    await world.settle(60)
    jvm = (await world.get(CONFIG_MAPS, await world.configuration(WORKLOAD)))["data"]["jvm.conf"]
    assert "333m" in jvm, (await world.progressing(), (await world.status(Kind.CLUSTER, "east")).get("rollout"))


async def test_a_bookie_that_fits_on_no_node_with_its_new_volume_can_be_removed() -> None:
    world = await renewed_and_does_not_start(
        Trouble(pod=f"{WORKLOAD}-2", unschedulable=True, message="its node is gone")
    )
    await world.resize(2)
    await world.settle()
    await well(world, 2)


@pytest.mark.parametrize("status", [500, None])
async def test_a_topic_that_cannot_be_loaded_without_the_lost_volume(status: int | None) -> None:
    """Its broker died with the bookie: the ledger is open, and nobody knows where it ends. Or no broker is up."""
    world = await LedgerWorld.up(3, topics=())
    custom = of_topic("shop/orders/persistent/payments")
    only = world.ledger(on=(bookie(2),), custom=custom)

    def pulsar(call: AdminCall) -> None:
        if call.path[-1] == "unload":
            raise UnavailableError("Not enough non-faulty bookies available", status=status)

    world.admin.before.append(pulsar)
    await lose(world, 2)
    for _ in range(10):
        await world.settle(30)
        world.clock.forward(HOUR)
    told = await world.progressing()
    assert told[1] == "VolumeLost" and str(only.ledger) in told[2], told
    await confirm(world, expiresTime="2126-01-01T00:00:00Z")
    for _ in range(5):
        await world.settle(100)
        world.clock.forward(HOUR)
    await well(world, 3, given_up=[only.ledger])


async def test_the_cure_of_auto_recovery_reaches_it_while_a_volume_is_lost() -> None:
    world = await LedgerWorld.up(3, closed=3)
    recovery = WORKLOAD.replace("bookie", "autorecovery")
    world.workloads.troubles.append(Trouble(pod=f"{recovery}-*", waiting="CrashLoopBackOff", message="OutOfMemory"))
    for pod in await world.backstage.all(PODS):
        if pod["metadata"]["name"].startswith(recovery):
            await world.backstage.remove(PODS, NS, pod["metadata"]["name"])
    for _ in range(4):
        await world.round()
    await lose(world, 2)
    await world.settle(60)
    await world.change(
        Kind.CLUSTER,
        "east",
        lambda spec: spec["bookkeeper"].update(autoRecovery={"replicas": 1, "jvm": {"heap": "333m"}}),
    )
    await world.settle(60)
    world.clock.forward(600)  # a few ends of its container say nothing of its template
    await world.settle(60)
    jvm = (await world.get(CONFIG_MAPS, await world.configuration(recovery)))["data"]["jvm.conf"]
    assert "333m" in jvm, (await world.progressing(), (await world.status(Kind.CLUSTER, "east")).get("rollout"))


async def test_a_roll_takes_no_bookie_whose_claim_is_being_deleted() -> None:
    """Somebody deleted a claim by hand; what is on the volume is there until the pod goes."""
    world = await LedgerWorld.up(3, topics=())
    await world.backstage.remove(PVCS, NS, f"ledgers-0-{WORKLOAD}-2")
    before = world.volume(bookie(2))
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(config={"flushInterval": "70000"}))
    await world.settle(100)
    assert world.volume(bookie(2)) == before
    told = (await world.status(Kind.CLUSTER, "east"))["rollout"]["message"]
    assert f"ledgers-0-{WORKLOAD}-2" in told and "replace-volume" in told
    pod = f"{WORKLOAD}-2"
    await world.backstage.edit(
        PODS,
        NS,
        pod,
        lambda obj: obj["metadata"].setdefault("annotations", {}).update({ANNOTATION_REPLACE_VOLUME: "x"}),
    )
    await world.settle(300)
    assert await world.all_ready() == {} and world.lost() == []


async def test_a_roll_takes_no_metadata_store_whose_claim_is_being_deleted() -> None:
    world = await LedgerWorld.up(3)
    await world.backstage.remove(PVCS, NS, "data-east-zookeeper-0")
    await world.change(
        Kind.CLUSTER,
        "east",
        lambda spec: spec["metadataStore"]["managed"].update(config={"autopurge.purgeInterval": "2"}),
    )
    await world.settle(100)
    assert world.dataplane.formatted == ["east-zookeeper"], "all metadata is gone"
    assert "data-east-zookeeper-0" in (await world.status(Kind.CLUSTER, "east"))["rollout"]["message"]


async def test_too_few_are_left_while_the_configuration_store_is_away() -> None:
    world = LedgerWorld.empty()
    manifests = quickstart()
    manifests[0]["spec"]["configurationStore"] = {"managed": {"replicas": 1, "storage": {"size": "1Gi"}}}
    manifests[1]["spec"]["bookkeeper"] |= {"replicas": 3}
    await world.apply(*manifests)
    await world.run()
    for _ in range(3):
        world.ledger(state="CLOSED")
    await copying(world)
    world.unreachable.add(f"demo-configuration-store.{NS}.svc.cluster.local")
    for _ in range(3):
        await world.round()
    assert world.bookies.servers[host(2)].readonly, "the others are enough"
    world.workloads.troubles.append(Trouble(pod=f"{WORKLOAD}-1", unschedulable=True, message="its node is gone"))
    await world.backstage.remove(PODS, NS, f"{WORKLOAD}-1")
    for _ in range(6):
        await world.round()
    assert not world.bookies.servers[host(2)].readonly, "one writable bookie, and new ledgers take two"
    assert "configuration store" in (await world.progressing())[2]
    world.unreachable.clear()
    world.workloads.troubles.clear()
    world.copies = True
    await world.settle()
    await well(world, 2)
