"""What somebody tried who wanted the removal of bookies to get stuck. In memory."""

from __future__ import annotations

import json

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.ports import CONFIG_MAPS, PODS, PVCS, STATEFUL_SETS, ConflictError, Json, UnavailableError
from tests.fakes.admin import AdminCall
from tests.support.cluster.leaving_bookies import HOUR, by_hand, copying, forgotten, lowered
from tests.support.cluster.ledgers import TOPICS, WORKLOAD, LedgerWorld, bookie, claims, cookie, host, of_topic
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import NS, quickstart

CLAIMS = claims(2)


async def test_deleted_topics_keep_no_other_from_being_unloaded() -> None:
    world = await LedgerWorld.up(3, topics=())
    for number in range(60):
        world.ledger(on=(bookie(1), bookie(2)), custom=of_topic(f"shop/orders/persistent/gone-{number}"))
    world.load(TOPICS[0])
    world.load(TOPICS[1])
    await world.resize(2)
    await world.settle(60)
    assert sum(world.unloaded_times(each) for each in TOPICS), "none was unloaded in 60 passes"
    assert await world.replicas() == 2


async def test_the_cure_of_a_bookie_that_crashes_reaches_it() -> None:
    """Taken back together with what the bookie needs in order to start."""
    world = await LedgerWorld.up(3, closed=3)
    await copying(world)
    world.workloads.troubles.append(Trouble(pod=f"{WORKLOAD}-2", waiting="CrashLoopBackOff", message="OutOfMemory"))
    await world.backstage.remove(PODS, NS, f"{WORKLOAD}-2")
    for _ in range(4):
        await world.round()

    def cure(spec: Json) -> None:
        spec["bookkeeper"]["replicas"] = 3
        spec["bookkeeper"].setdefault("jvm", {})["heap"] = "333m"

    await world.change(Kind.CLUSTER, "east", cure)
    await world.settle(60)
    jvm = (await world.get(CONFIG_MAPS, await world.configuration(WORKLOAD)))["data"]["jvm.conf"]
    assert "333m" in jvm, (await world.progressing(), (await world.status(Kind.CLUSTER, "east")).get("rollout"))


async def test_the_same_cure_without_a_removal() -> None:
    """Control."""
    world = await LedgerWorld.up(3)
    world.workloads.troubles.append(Trouble(pod=f"{WORKLOAD}-2", waiting="CrashLoopBackOff", message="OutOfMemory"))
    await world.backstage.remove(PODS, NS, f"{WORKLOAD}-2")
    for _ in range(4):
        await world.round()

    def cure(spec: Json) -> None:
        spec["bookkeeper"].setdefault("jvm", {})["heap"] = "333m"

    await world.change(Kind.CLUSTER, "east", cure)
    await world.settle(60)
    assert "333m" in (await world.get(CONFIG_MAPS, await world.configuration(WORKLOAD)))["data"]["jvm.conf"]


async def test_bookies_that_fit_on_no_node_can_be_taken_back() -> None:
    """3 -> 5 on four nodes: the scheduler placed number 4 and not number 3."""
    world = await LedgerWorld.up(3)
    world.workloads.troubles.append(Trouble(pod=f"{WORKLOAD}-3", unschedulable=True, message="0/4 nodes are available"))
    await world.resize(5)
    await world.settle()
    assert cookie(4) in world.store.nodes and cookie(3) not in world.store.nodes
    await world.resize(3)
    await world.settle()
    world.clock.forward(24 * HOUR)
    await world.settle()
    assert await world.replicas() == 3, await world.progressing()


async def test_a_cluster_made_again_between_cookie_and_mark() -> None:
    world = await LedgerWorld.up(3, closed=3)
    await world.annotate(Kind.CLUSTER, "east", "pulsaroperator.io/confirm-delete", "east")
    await world.resize(2)
    await forgotten(world)
    await world.delete(Kind.CLUSTER, "east")
    await world.settle()
    assert await world.live(Kind.CLUSTER, "east") is None
    manifests = quickstart()
    manifests[1]["spec"]["bookkeeper"] |= {"replicas": 3}
    await world.apply(manifests[1])
    await world.settle()
    assert await world.live(STATEFUL_SETS, WORKLOAD) is not None, await world.condition(
        Kind.CLUSTER, "east", "BookKeeperReady"
    )


async def test_the_transaction_log_does_not_keep_the_bookie() -> None:
    """A ledger of a transaction coordinator: Pulsar refuses such a name as a topic (class BrokerService,
    createPersistentTopic0: "Can not create transaction system topic", 409); the coordinator's topic is unloaded by
    transaction_coordinator_assign-partition-N."""
    world = await LedgerWorld.up(3)
    custom = of_topic("pulsar/system/persistent/__transaction_log_0")
    log = world.ledger(on=(bookie(1), bookie(2)), custom=custom)

    def pulsar(call: AdminCall) -> None:
        if call.path[-1] == "unload" and "__transaction_" in call.path[3]:
            raise ConflictError("HTTP 409: Can not create transaction system topic")
        if call.path[-1] == "unload" and call.path[3].startswith("transaction_coordinator_assign"):
            world.put(log.ledger, "CLOSED", (bookie(1), bookie(2)), custom)

    world.admin.before.append(pulsar)
    await world.resize(2)
    await world.settle(60)
    told = await world.progressing()
    assert await world.replicas() == 2, told


async def test_a_leaked_ledger_does_not_have_its_topic_unloaded_for_ever() -> None:
    """An open ledger that names a topic and is in no managed ledger's list: unloading closes it never."""
    world = await LedgerWorld.up(3)
    custom = of_topic("shop/orders/persistent/payments")
    world.ledger(on=(bookie(1), bookie(2)), custom=custom)
    await world.resize(2)
    for _ in range(60):
        await world.round()
    assert world.unloaded_times(TOPICS[0]) <= 5, await world.progressing()


async def test_a_volume_that_is_brought_back_under_its_name_is_seen() -> None:
    """As docs/clusters.md says for "no volume": a backup has the claim's name, and not the StatefulSet's labels."""
    world = await LedgerWorld.up(3)
    world.store.put(cookie(3), "cookie")
    world.put(900, "CLOSED", (bookie(0), bookie(3)), {})
    await world.settle()
    assert (await world.progressing())[1] == "DecommissionRefused"
    for name in claims(3):
        await world.backstage.put(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": NS},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        )
    seen: set[int] = set()

    async def look() -> None:
        seen.add(await world.replicas())

    for _ in range(30):
        await world.round()
        await look()
    assert 4 in seen, await world.progressing()


async def test_an_ensemble_that_grows_on_the_way_is_seen() -> None:
    world = await LedgerWorld.up(3, closed=3)
    await copying(world)
    world.store.put("/admin/policies/shop/wide", json.dumps({"persistence": {"bookkeeperEnsemble": 3}}))
    world.copies = True
    await world.settle()
    assert await world.replicas() == 3, "no ledger of shop/wide can be made any more"


async def test_a_bookie_given_up_and_then_refused_is_writable() -> None:
    """The specification is changed between the two passes that give it up and make it writable."""
    world = await LedgerWorld.up(3, closed=3)
    await copying(world)
    world.clock.forward(HOUR)

    async def stopped() -> bool:
        return bool(json.loads(world.store.nodes[DECOMMISSION_RECORD_PATH].data).get("stopped"))

    await world.until(stopped)
    assert world.bookies.servers[host(2)].readonly, "nothing would be proved"
    world.store.put("/admin/policies/shop/wide", json.dumps({"persistence": {"bookkeeperEnsemble": 3}}))
    await world.change(
        Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(decommission={"timeoutSeconds": 7200})
    )
    await world.settle()
    world.clock.forward(24 * HOUR)
    await world.settle()
    assert not world.bookies.servers[host(2)].readonly, await world.progressing()


async def test_while_the_specification_is_refused_too_few_are_left() -> None:
    """docs/clusters.md: should others be lost on the way, so that too few are left, the bookie is writable again."""
    world = await LedgerWorld.up(4, closed=3)
    await copying(world, 3)
    await world.resize(2)  # 3 is the ensemble size on record
    await world.settle(60)
    assert (await world.progressing())[1] == "InvalidSpec"
    world.workloads.troubles.append(Trouble(pod=f"{WORKLOAD}-1", unschedulable=True, message="its node is gone"))
    await world.backstage.remove(PODS, NS, f"{WORKLOAD}-1")
    await world.settle(60)
    world.clock.forward(24 * 3600)
    await world.settle(60)
    assert not world.bookies.servers[host(3)].readonly, "two writable bookies, and new ledgers take three"


async def test_scaled_by_hand_and_then_declared() -> None:
    """After a removal somebody scales the StatefulSet up, and then the specification: the marked volume is in use."""
    world = await LedgerWorld.up(3)
    await world.resize(2)
    await world.settle()
    assert await world.replicas() == 2
    await by_hand(world, 3)
    # BookKeeper: VERSION on the volume and no cookie in the store, so it does not start.
    world.workloads.troubles.append(Trouble(pod=f"{WORKLOAD}-2", waiting="CrashLoopBackOff", message="InvalidCookie"))
    await world.idle_steps(2)
    await world.resize(3)
    uid = world.volume(bookie(2))
    await world.settle(100)
    world.clock.forward(24 * 3600)
    await world.settle(100)
    assert world.volume(bookie(2)) != uid, await world.condition(Kind.CLUSTER, "east")


async def test_a_refused_removal_holds_no_roll() -> None:
    """Its pod is gone, so somebody deletes its volumes; a late ledger names it. That is told, and never ends."""
    world = await LedgerWorld.up(3, closed=3)
    await world.resize(2)
    await lowered(world)
    world.ledger(state="CLOSED", on=(bookie(1), bookie(2)))
    for name in CLAIMS:
        await world.backstage.remove(PVCS, NS, name)
    await world.settle(60)
    assert (await world.progressing())[:2] == ("False", "DecommissionRefused")
    world.journal.pods_gone().clear()
    before = len(world.journal.pods_gone())
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(config={"maxProducersPerTopic": "7"}))
    await world.settle(60)
    world.clock.forward(7 * 24 * 3600)
    await world.settle(60)
    gone = [name for name in world.journal.pods_gone()[before:] if "broker" in name]
    assert gone, (await world.status(Kind.CLUSTER, "east"))["rollout"]


async def test_a_bookie_whose_volume_is_lost_is_not_made_under_its_old_cookie() -> None:
    """BookKeeper refuses to start with a cookie in the store and empty folders: it is said what is lost, and the number
    comes back once that has its copies."""
    world = await LedgerWorld.up(2)
    world.store.put(cookie(2), "cookie")
    world.put(900, "CLOSED", (bookie(0), bookie(2)), {})
    await world.settle(60)
    assert (await world.progressing())[1] == "DecommissionRefused"
    await world.resize(3)
    await world.settle(60)
    assert await world.all_ready() == {} and await world.replicas() == 3
    assert world.naming(2) == [] and 900 in world.ledgers()
    (told,) = [event.message for event in world.journal.events if event.reason == "VolumeLost"]
    assert "is new and had no predecessor" in told


async def test_one_topic_that_fails_inside_does_not_keep_others_from_being_unloaded() -> None:
    world = await LedgerWorld.up(3, topics=())
    broken = world.ledger(on=(bookie(1), bookie(2)), custom=of_topic("shop/orders/persistent/broken"))
    world.load(TOPICS[0])
    world.load(TOPICS[1])

    def fails(call: AdminCall) -> None:
        if call.path[-2:] == ("broken", "unload"):
            raise UnavailableError("HTTP 500", status=500)

    world.admin.before.append(fails)
    await world.resize(2)
    await world.settle(40)
    assert broken.ledger in world.ledgers()
    assert sum(world.unloaded_times(each) for each in TOPICS), "none of the others was, in 40 passes"
