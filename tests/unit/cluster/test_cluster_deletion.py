"""Deleting a cluster and an instance: order, volumes, what survives, and the same name again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_DELETE, FINALIZER, Kind
from pulsar_operator.ports import (
    CONFIG_MAPS,
    CUSTOM,
    NAMESPACES,
    PODS,
    PVCS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Json,
    RefusedError,
)
from tests.support.cluster.copies import converged
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import NS, ClusterWorld, quickstart
from tests.support.core.journal import KUBERNETES, PortCall

VOLUMES = ["data-east-zookeeper-0", "journal-0-east-bookie-0", "ledgers-0-east-bookie-0"]


async def quickstart_with(reclaim: str) -> ClusterWorld:
    """The quickstart with a reclaimPolicy on instance and cluster."""
    manifests = quickstart()
    for manifest in manifests[:2]:
        manifest["spec"]["reclaimPolicy"] = reclaim
    world = await converged(*manifests)
    assert await world.all_ready() == {}
    return world


async def delete_confirmed(world: ClusterWorld) -> None:
    """A user deletes the cluster before the tenants and namespaces in it, as the refusal says."""

    def confirm(obj: Json) -> None:
        annotations = obj["metadata"].get("annotations") or {}
        obj["metadata"]["annotations"] = {**annotations, ANNOTATION_CONFIRM_DELETE: "east"}

    await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", confirm)
    await world.delete(Kind.CLUSTER, "east")


async def test_clients_go_first_and_storage_last() -> None:
    world = await quickstart_with("Retain")
    waited: list[str] = []

    async def look() -> None:
        obj = await world.live(Kind.CLUSTER, "east")
        found = ((obj or {}).get("status") or {}).get("blocker")
        if found and found not in waited:
            waited.append(found)

    await delete_confirmed(world)
    await world.run(each=look)
    order = world.workloads.order_gone
    assert order.index("east-proxy") < order.index("east-broker")
    assert order.index("east-broker") < min(order.index("east-bookie"), order.index("east-autorecovery"))
    assert max(order.index("east-bookie"), order.index("east-autorecovery")) < order.index("east-zookeeper")
    assert await world.live(Kind.CLUSTER, "east") is None
    assert [text.split()[1] for text in waited] == ["proxy", "broker", "bookie", "zookeeper"]
    for kind in (STATEFUL_SETS, PODS, SERVICES):
        assert await world.names(kind) == []


async def test_a_broker_that_does_not_end_keeps_bookies_and_zookeeper_running() -> None:
    """Terminating pods are waited for: the stage after them is not touched."""
    world = await quickstart_with("Retain")
    hold = "tests.example.com/slow"

    def slow(obj: dict[str, dict[str, list[str]]]) -> None:
        obj["metadata"]["finalizers"].append(hold)

    await world.backstage.edit(PODS, NS, "east-broker-0", slow)
    await delete_confirmed(world)
    for _ in range(12):
        await world.round()
    assert await world.names(STATEFUL_SETS) == ["east-autorecovery", "east-bookie", "east-zookeeper"]
    assert (await world.status(Kind.CLUSTER, "east"))["blocker"] == (
        "The broker and standalone pods have not stopped yet"
    )

    def let_go(obj: dict[str, dict[str, list[str]]]) -> None:
        obj["metadata"]["finalizers"].remove(hold)

    await world.backstage.edit(PODS, NS, "east-broker-0", let_go)
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None


async def test_retain_keeps_volumes_record_and_secret() -> None:
    world = await quickstart_with("Retain")
    claims, secrets = await world.uids(PVCS), await world.uids(SECRETS)
    await world.delete_all()
    await world.run()
    assert sorted(claims) == VOLUMES
    assert await world.uids(PVCS) == claims
    assert await world.uids(SECRETS) == secrets
    assert await world.names(CONFIG_MAPS) == ["east-instance-id", "east-zookeeper-founded"]
    for kind in CUSTOM.values():
        assert await world.names(kind) == []


async def test_delete_removes_volumes_record_and_secret() -> None:
    world = await quickstart_with("Delete")
    await world.delete_all()
    await world.run()
    for kind in (PVCS, SECRETS, CONFIG_MAPS, *CUSTOM.values()):
        assert await world.names(kind) == [], kind
    # Nothing of the data is touched before the last pod is gone.
    writes = [(c.verb, c.kind) for c in world.journal.effects if c.verb == "delete"]
    last = max(n for n, item in enumerate(writes) if item == ("delete", "StatefulSet"))
    assert all(kind == "StatefulSet" for _, kind in writes[: last + 1])


async def test_delete_and_apply_again_brings_the_same_data_back() -> None:
    world = await quickstart_with("Retain")
    claims, pods = await world.uids(PVCS), await world.uids(PODS)
    record, instance_id = await world.get(CONFIG_MAPS, "east-instance-id"), None
    pulsar = world.pulsar.snapshot()
    (tree,) = (await world.trees()).values()
    await delete_confirmed(world)
    await world.run()
    await world.apply(*quickstart())
    await world.run()
    assert await world.all_ready() == {}
    assert await world.uids(PVCS) == claims
    after = await world.uids(PODS)
    assert set(after) == set(pods)
    assert not set(after.values()) & set(pods.values())
    found = await world.get(CONFIG_MAPS, "east-instance-id")
    assert found["metadata"]["uid"] == record["metadata"]["uid"]
    assert found["data"] == record["data"]
    instance_id = record["data"]["instanceId"]
    assert (await world.status(Kind.CLUSTER, "east"))["instanceId"] == instance_id
    assert (await world.trees()) == {"east-zookeeper.pulsar.svc.cluster.local:2181": tree}
    assert world.pulsar.snapshot() == pulsar
    assert world.dataplane.formatted == ["east-zookeeper"]


async def test_applied_again_while_the_old_one_still_goes() -> None:
    """The user deletes and applies at once: nothing of the new object is made before the old children are gone."""
    world = await quickstart_with("Retain")
    claims = await world.uids(PVCS)
    await delete_confirmed(world)
    reapplied = False

    async def look() -> None:
        nonlocal reapplied
        if not reapplied and await world.live(Kind.CLUSTER, "east") is None:
            await world.apply(quickstart()[1])
            reapplied = True

    await world.run(each=look)
    await world.run()
    assert reapplied
    assert await world.all_ready() == {}
    assert await world.uids(PVCS) == claims
    uid = (await world.get(Kind.CLUSTER, "east"))["metadata"]["uid"]
    for kind in (STATEFUL_SETS, SERVICES):
        for obj in await world.backstage.all(kind):
            assert obj["metadata"]["ownerReferences"][0]["uid"] == uid


async def test_children_of_the_previous_object_are_waited_for() -> None:
    world = await quickstart_with("Retain")
    old = await world.get(STATEFUL_SETS, "east-zookeeper")
    # The finalizer is torn off and the object replaced before anything was collected.
    await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", lambda obj: obj["metadata"].pop("finalizers"))
    await delete_confirmed(world)
    assert await world.live(Kind.CLUSTER, "east") is None
    await world.apply(quickstart()[1])
    mark = len(world.journal.effects)
    for key in await world.keys():
        await world.reconcile(key)
    status = await world.status(Kind.CLUSTER, "east")
    assert status["blocker"].endswith("of the deleted object of the same name still exists, so nothing is created yet")
    assert {c.verb for c in world.journal.since(mark)} == {"status"}
    assert (await world.get(STATEFUL_SETS, "east-zookeeper")) == old
    await world.run()
    assert await world.all_ready() == {}
    assert (await world.get(STATEFUL_SETS, "east-zookeeper"))["metadata"]["uid"] != old["metadata"]["uid"]


async def test_the_managed_store_stays_until_no_cluster_needs_it() -> None:
    manifests = quickstart()
    manifests[0]["spec"]["configurationStore"] = {"managed": {"replicas": 1}}
    world = await converged(*manifests)
    await world.delete(Kind.INSTANCE, "demo")
    await world.run()
    assert "demo-configuration-store" in await world.names(STATEFUL_SETS)
    status, reason, message = await world.condition(Kind.INSTANCE, "demo", "DeletionBlocked")
    assert (status, reason) == ("True", "DependentsExist")
    assert "east" in message
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"
    await delete_confirmed(world)
    await world.run()
    status, reason, message = await world.condition(Kind.INSTANCE, "demo", "DeletionBlocked")
    assert (status, reason) == ("True", "DependentsExist")
    assert f"PulsarTenant {NS}/shop" in message
    assert "demo-configuration-store" in await world.names(STATEFUL_SETS)
    await world.delete(Kind.TENANT, "shop")
    await world.run()
    assert await world.live(Kind.INSTANCE, "demo") is None
    assert world.workloads.order_gone[-1] == "demo-configuration-store"
    assert await world.names(STATEFUL_SETS) == []


@pytest.mark.parametrize("reclaim", ["Retain", "Delete"])
async def test_a_cluster_that_never_came_up_can_be_deleted(reclaim: str) -> None:
    world = ClusterWorld.fakes()
    world.workloads.troubles.append(Trouble(pod="east-zookeeper-*"))
    manifests = quickstart()
    manifests[1]["spec"]["reclaimPolicy"] = reclaim
    await world.apply(*manifests)
    await world.run()
    assert FINALIZER in (await world.get(Kind.CLUSTER, "east"))["metadata"]["finalizers"]
    await world.delete_all()
    await world.run()
    for kind in CUSTOM.values():
        assert await world.names(kind) == []
    assert await world.names(PVCS) == ([VOLUMES[0]] if reclaim == "Retain" else [])


async def test_a_refused_specification_does_not_keep_a_cluster_from_being_deleted() -> None:
    world = await quickstart_with("Retain")
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(config={"metadataStoreUrl": "x"}))
    await world.run()
    await delete_confirmed(world)
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None


async def test_an_unreadable_specification_does_not_keep_a_cluster_from_being_deleted() -> None:
    """A newer or broken definition let something through that the models refuse."""
    world = await quickstart_with("Delete")
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas="many"))
    await world.run()
    await delete_confirmed(world)
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None
    # What the user wanted for the data cannot be read with certainty: it stays.
    assert await world.names(PVCS) == VOLUMES


async def test_an_unreadable_topic_is_let_go_and_nothing_is_deleted_in_pulsar() -> None:
    world = await quickstart_with("Retain")
    await world.change(Kind.TOPIC, "payments", lambda spec: spec.update(deletionPolicy="Delete"))
    await world.run()
    topic = await world.live(Kind.TOPIC, "payments")
    assert topic is not None and topic["metadata"]["finalizers"]
    mark = len(world.journal.effects)
    await world.change(Kind.TOPIC, "payments", lambda spec: spec.update(partitions="many"))
    await world.delete(Kind.TOPIC, "payments")
    await world.run()
    assert await world.live(Kind.TOPIC, "payments") is None
    assert {c.port for c in world.journal.since(mark)} <= {KUBERNETES}


async def test_a_paused_cluster_is_not_torn_down() -> None:
    world = await quickstart_with("Retain")
    await world.pause(Kind.CLUSTER, "east")
    await delete_confirmed(world)
    mark = len(world.journal.effects)
    await world.run()
    assert {c.verb for c in world.journal.since(mark)} <= {"status"}
    assert world.workloads.ready[NS, "east-broker"] == 1
    await world.pause(Kind.CLUSTER, "east", on=False)
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None


async def test_the_order_of_writes_of_a_deletion() -> None:
    world = await quickstart_with("Retain")
    mark = len(world.journal.effects)
    await world.delete_all()
    await world.run()
    assert [c.name for c in world.journal.since(mark) if (c.port, c.verb) == (KUBERNETES, "delete")] == [
        "east-proxy",
        "east-broker",
        "east-bookie",
        "east-autorecovery",
        "east-zookeeper",
    ]
    released = [(call.verb, call.kind) for call in world.journal.effects[-2:]]
    assert released == [("release", "PulsarCluster"), ("release", "PulsarInstance")]


# ------------------------------------------------------------------------------------------------------------ refusals


def refuse(world: ClusterWorld, verb: str, kind: str, message: str) -> Callable[[], None]:
    """The API server refuses such calls (403) until the answer is called."""

    def hook(call: PortCall) -> None:
        if (call.port, call.verb, call.kind) == (KUBERNETES, verb, kind):
            raise RefusedError(message, status=403)

    world.journal.before.append(hook)
    return lambda: world.journal.before.remove(hook)


async def kubernetes_namespace(world: ClusterWorld, *, going: bool) -> None:
    """The namespace everything is in, as Kubernetes tells it."""
    meta = {"name": NS, "namespace": "", "finalizers": ["kubernetes"]}
    await world.backstage.put({"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "spec": {}})
    if going:
        await world.backstage.remove(NAMESPACES, "", NS)


async def rounds(world: ClusterWorld) -> None:
    """As many as a deletion takes: one that is refused is tried again and again."""
    for _ in range(30):
        await world.round()


GUARD = 'admission webhook "guard.example.com" denied the request'


async def test_a_webhook_that_refuses_a_deletion_holds_the_cluster() -> None:
    world = await quickstart_with("Delete")
    await kubernetes_namespace(world, going=False)
    allow = refuse(world, "delete", "PersistentVolumeClaim", GUARD)
    await world.delete_all()
    await rounds(world)
    live = await world.get(Kind.CLUSTER, "east")
    assert FINALIZER in live["metadata"]["finalizers"]
    assert await world.names(PVCS) == VOLUMES
    assert GUARD in str(live["status"]["conditions"])
    allow()
    await world.run()
    for kind in (PVCS, *CUSTOM.values()):
        assert await world.names(kind) == [], kind


@pytest.mark.parametrize("verb", ["delete", "list"])
async def test_a_cluster_goes_with_its_kubernetes_namespace(verb: str) -> None:
    """Whatever of the operator's rights in it is gone first."""
    world = await quickstart_with("Delete")
    await kubernetes_namespace(world, going=True)
    refuse(world, verb, "StatefulSet", "statefulsets.apps is forbidden")
    await world.delete_all()
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None
    assert "FinalizerReleased" in [event.reason for event in world.journal.events]


async def test_a_namespace_that_cannot_be_seen_is_not_gone() -> None:
    world = await quickstart_with("Delete")
    refuse(world, "delete", "StatefulSet", GUARD)
    refuse(world, "get", "Namespace", "namespaces is forbidden")
    await world.delete_all()
    await rounds(world)
    live = await world.get(Kind.CLUSTER, "east")
    assert f"{GUARD}. It could not be read whether Kubernetes namespace {NS} is being deleted" in str(live["status"])


@pytest.mark.parametrize("going", [True, False])
async def test_a_managed_store_whose_deletion_is_refused(going: bool) -> None:
    instance = quickstart()[0]
    instance["spec"]["configurationStore"] = {"managed": {"replicas": 1}}
    world = await converged(instance)
    await kubernetes_namespace(world, going=going)
    allow = refuse(world, "delete", "StatefulSet", GUARD)
    await world.delete(Kind.INSTANCE, "demo")
    await rounds(world)
    live = await world.live(Kind.INSTANCE, "demo")
    assert (live is None) is going
    if live is not None:
        assert GUARD in str(live["status"]["conditions"])
        allow()
        await world.run()
        assert await world.names(STATEFUL_SETS) == []
        assert await world.live(Kind.INSTANCE, "demo") is None
