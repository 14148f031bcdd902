"""Whom a cluster that is deleted must not harm, although no PulsarCluster, no list and no status speaks for them."""

from __future__ import annotations

import copy

import pytest

from pulsar_operator.api.constants import API_VERSION, FINALIZER, Kind
from pulsar_operator.controllers.dataplane.observed.namespace_inventory import SILENT_SECONDS
from pulsar_operator.domain.dataplane.registration.metadata import INSTANCE_ID_PATH
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, STATEFUL_SETS, ForbiddenError, Json, Key, UnavailableError
from tests.support.cluster.copies import converged, ready_world
from tests.support.cluster.leaving import (
    EXTERNAL,
    SHARED,
    again,
    alone,
    blocked,
    confirm,
    ensemble,
    go,
    naming,
    own,
    pair,
    policies,
    put,
    told,
    topic,
)
from tests.support.cluster.world import NS, ClusterWorld, quickstart
from tests.support.core.journal import ZOOKEEPER, PortCall

SOUTH = "/admin/clusters/south"
ELSEWHERE = "elsewhere"
DEMO = {"name": "demo", "namespace": NS}


# ------------------------------------------------------------------------- clusters that have no PulsarCluster here


async def with_south(servers: str = EXTERNAL) -> ClusterWorld:
    """Cluster east, and one that another Kubernetes cluster registered in the same configuration store."""
    world = await alone(external=servers == EXTERNAL)
    ensemble(world, servers).put(SOUTH, b'{"brokerServiceUrl": "pulsar://south.example.com:6650"}')
    return world


@pytest.mark.parametrize("servers", [EXTERNAL, SHARED])
async def test_a_namespace_that_is_shared_with_a_cluster_from_elsewhere_keeps_it(servers: str) -> None:
    world = await with_south(servers)
    shared = "/admin/policies/shop/shared"
    ensemble(world, servers).put(shared, b'{"replication_clusters": ["east", "south"]}')
    await go(world, "east")
    found = await blocked(world, "east")
    assert found is not None and found[0] == "DependentsExist" and "shop/shared (its clusters: east, south)" in found[1]
    assert "east-broker" in await world.names(STATEFUL_SETS)
    ensemble(world, servers).put(shared, b'{"replication_clusters": ["south"]}')
    await world.run()
    assert await blocked(world, "east") is None


@pytest.mark.parametrize("silent", [False, True])
async def test_a_cluster_with_the_store_of_others_is_kept_while_it_answers(silent: bool) -> None:
    world = await ready_world()
    own(world, "east").put(SOUTH, b"{}")
    if silent:
        world.unreachable.add(f"east-zookeeper.{NS}.svc.cluster.local")
    await world.delete_all()  # the instance first
    await world.run()
    if silent:
        found = await blocked(world, "east")
        assert found is not None and "It is not known whether other clusters are registered" in found[1]
        world.clock.forward(SILENT_SECONDS)
        await world.run()
    else:
        found = await blocked(world, "east")
        assert found is not None and "are registered in the metadata store of this cluster: south" in found[1]
        assert "east-broker" in await world.names(STATEFUL_SETS)
        own(world, "east").remove(SOUTH)
        await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None


@pytest.mark.parametrize("what", ["a lost answer", "a short outage", "a lost status"])
async def test_so_it_is_where_that_is_not_known_for_a_moment(what: str) -> None:
    """Its brokers are deleted in that moment, and with them all that keeps the store."""
    instance, east = quickstart()[:2]
    east["spec"].pop("proxy")
    world = await converged(instance, east)
    own(world, "east").put(SOUTH, b"{}")
    host, lost = f"east-zookeeper.{NS}.svc.cluster.local", list[PortCall]()

    def lose(call: PortCall) -> None:
        if call.port == ZOOKEEPER and call.name == "/admin/clusters" and not lost:
            lost.append(call)
            raise UnavailableError("connection loss")

    if what == "a lost answer":
        world.journal.before.append(lose)
    elif what == "a short outage":
        world.unreachable.add(host)
    else:
        await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", lambda obj: obj.pop("status"))
    await world.delete(Kind.CLUSTER, "east")
    for _ in range(4):
        await world.reconcile(Key(Kind.CLUSTER, NS, "east"))
        world.clock.forward(20)
    world.unreachable.clear()
    await world.run()
    assert bool(lost) is (what == "a lost answer")
    found = await blocked(world, "east")
    assert found is not None and "are registered in the metadata store of this cluster: south" in found[1]
    assert "east-broker" in await world.names(STATEFUL_SETS)


async def test_a_standalone_cluster_has_a_store_of_nobody_and_goes() -> None:
    instance, east = quickstart()[:2]
    east["spec"] = {"instanceRef": {"name": "demo"}, "mode": "Standalone", "preset": "Small", "standalone": {}}
    world = await converged(instance, east)
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"
    await go(world, "east")
    assert await blocked(world, "east") is None


async def test_it_leaves_the_lists_that_a_cluster_from_elsewhere_has_too() -> None:
    world = await with_south()
    await go(world, "east")
    assert await world.live(Kind.CLUSTER, "east") is None
    assert SOUTH in ensemble(world, EXTERNAL).nodes
    left = [path for path, data in ensemble(world, EXTERNAL).tree().items() if "east" in path or b'"east"' in data]
    assert left == ["/admin/policies/public/default", "/admin/policies/pulsar/system"], "nobody else is in these"


async def test_whether_there_are_any_is_not_known_while_the_store_does_not_answer() -> None:
    world = await with_south()

    def fail(call: PortCall) -> None:
        if call.port == ZOOKEEPER and call.name == "/admin/clusters":
            raise UnavailableError("connection loss")

    world.journal.before.append(fail)
    await go(world, "east")
    found = await blocked(world, "east")
    assert found is not None and "need this cluster: connection loss" in found[1]
    assert "east-broker" in await world.names(STATEFUL_SETS)
    await confirm(world, "east")
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None


@pytest.mark.parametrize("servers", [EXTERNAL, SHARED])
async def test_nor_does_a_lost_answer_say_so_while_the_instance_is_deleted_too(servers: str) -> None:
    """The store stays until all clusters are gone, or is none of ours."""
    world = await with_south(servers)
    ensemble(world, servers).put("/admin/policies/shop/shared", b'{"replication_clusters": ["east", "south"]}')
    lost: list[PortCall] = []

    def lose(call: PortCall) -> None:
        if call.port == ZOOKEEPER and call.name == "/admin/clusters" and not lost:
            lost.append(call)
            raise UnavailableError("connection loss")

    await world.delete(Kind.INSTANCE, "demo")
    await world.delete(Kind.CLUSTER, "east")
    world.journal.before.append(lose)
    for _ in range(3):  # once in each pass
        lost.clear()
        await world.reconcile(Key(Kind.CLUSTER, NS, "east"))
        there = await world.get(STATEFUL_SETS, "east-proxy")
        assert "deletionTimestamp" not in there["metadata"]
    assert lost
    await world.run()
    found = await blocked(world, "east")
    assert found is not None and "shop/shared (its clusters: east, south)" in found[1]


async def test_a_refused_one_of_the_same_name_that_goes_too_does_not_stand_for_a_cluster_from_elsewhere() -> None:
    world = await with_south()
    double = again("south", await world.get(Kind.CLUSTER, "east"))
    await world.apply(double)
    for _ in range(10):
        await world.round()
    assert (await world.condition(Kind.CLUSTER, "south", "MetadataReady"))[1] == "MetadataConflict"
    ensemble(world, EXTERNAL).put("/admin/policies/shop/shared", b'{"replication_clusters": ["east", "south"]}')
    for name in ("east", "south"):
        await world.delete(Kind.CLUSTER, name)
    await world.run()
    assert await world.names(CUSTOM[Kind.CLUSTER]) == ["east"]
    found = await blocked(world, "east")
    assert found is not None and "shop/shared (its clusters: east, south)" in found[1]


async def test_clusters_that_are_deleted_with_it_are_none() -> None:
    world = await pair()
    put(world, "shop/shared", {"replication_clusters": ["east", "west"]})
    for name in ("east", "west"):
        await world.delete(Kind.CLUSTER, name)
    await world.run()
    assert await world.names(CUSTOM[Kind.CLUSTER]) == []


async def test_the_cluster_with_the_store_stays_while_others_use_it_although_their_instance_went_first() -> None:
    instance, east, *_ = quickstart()
    west = copy.deepcopy(east)
    west["metadata"]["name"] = "west"
    world = ClusterWorld.fakes()
    await world.apply(instance, east, west)
    await world.run()
    assert await world.all_ready() == {}
    await world.delete(Kind.INSTANCE, "demo")
    await world.run()
    await go(world, "east")
    assert await world.live(Kind.CLUSTER, "east") is not None
    assert "east-zookeeper" in await world.names(STATEFUL_SETS) and "/admin/clusters/west" in own(world, "east").nodes
    await go(world, "west")
    assert await world.names(CUSTOM[Kind.CLUSTER]) == await world.names(CUSTOM[Kind.INSTANCE]) == []


# ------------------------------------------------------------------------------------ a status that was lost


@pytest.mark.parametrize("lost", ["west", "demo", "both"])
async def test_a_lost_status_is_not_nothing(lost: str) -> None:
    """A backup that was restored without it, and a deletion before the first pass."""
    world = await pair()
    put(world, "shop/mine", {"replication_clusters": ["west"]})
    topic(world, "west", "shop/mine/orders")
    for kind, name in ((Kind.CLUSTER, "west"), (Kind.INSTANCE, "demo")):
        if lost in (name, "both"):
            await world.backstage.edit(CUSTOM[kind], NS, name, lambda obj: obj.pop("status"))
    await world.delete(Kind.CLUSTER, "west")
    await world.reconcile(Key(Kind.CLUSTER, NS, "west"))
    await world.run()
    found = await blocked(world)
    assert found is not None and "shop/mine (topics in this cluster: 1)" in found[1]
    own(world, "west").remove("/managed-ledgers/shop/mine/persistent/orders")
    await world.run()
    assert await blocked(world) is None


async def test_the_entry_does_not_stay_since_a_status_was_lost_while_it_leaves() -> None:
    world = await pair()
    await world.delete(Kind.CLUSTER, "west")

    async def stopped() -> bool:
        return "west-broker" not in await world.names(STATEFUL_SETS)

    await world.until(stopped)
    await world.idle_steps(5)
    await world.backstage.edit(CUSTOM[Kind.INSTANCE], NS, "demo", lambda obj: obj.pop("status"))
    await world.reconcile(Key(Kind.CLUSTER, NS, "west"))
    found = await blocked(world)
    assert (
        found is not None
        and ("PulsarInstance pulsar/demo does not have the address of its configuration store") in found[1]
    )
    await world.run()
    assert await blocked(world) is None and naming(world) == []


# --------------------------------------------------------------------------------- lists that say nothing


@pytest.mark.parametrize(
    "lists", [b"{broken", b"", b"[]", b'{"replication_clusters": []}', b'{"replication_clusters": [1, "a", {}]}']
)
async def test_topics_of_a_namespace_that_names_nobody_keep_it(lists: bytes) -> None:
    world = await pair()
    put(world, "shop/mine", lists)
    topic(world, "west", "shop/mine/orders")
    await go(world)
    found = await blocked(world)
    assert found is not None and "shop/mine (topics in this cluster: 1)" in found[1]


# ------------------------------------------------------------- whoever may not refer to the instance


async def stranger(world: ClusterWorld, record: Json | None = None, of: Json = DEMO) -> None:
    """Somebody who may make objects in another Kubernetes namespace has one deleted that says it is cluster east."""
    evil = again("evil", await world.get(Kind.CLUSTER, "east"))
    evil["metadata"] = {"name": "evil", "namespace": ELSEWHERE, "finalizers": [FINALIZER]}
    evil["spec"] |= {"clusterName": "east", "instanceRef": of}
    if record is not None:
        meta = {"name": "evil-instance-id", "namespace": ELSEWHERE}
        await world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": record})
    await world.apply(evil)
    await world.backstage.remove(CUSTOM[Kind.CLUSTER], ELSEWHERE, "evil")


@pytest.mark.parametrize("knows", [False, True])
async def test_a_stranger_is_told_nothing_and_takes_nothing_out(knows: bool) -> None:
    world = await pair()
    record = (await world.get(CONFIG_MAPS, "east-instance-id"))["data"]
    before, mark = ensemble(world).versions(), len(world.journal.events)
    await stranger(world, record if knows else None)
    await world.run()
    assert ensemble(world).versions() == before
    assert [event.message for event in world.journal.events[mark:] if event.object_name == "evil"] == []
    assert ELSEWHERE not in {each["metadata"]["namespace"] for each in await world.backstage.all(CUSTOM[Kind.CLUSTER])}


async def test_nor_does_one_that_is_allowed_while_the_owner_of_the_name_is_there() -> None:
    world = await pair()
    await world.change(Kind.INSTANCE, "demo", lambda spec: spec.update(allowedKubernetesNamespaces=[ELSEWHERE]))
    await world.run()
    before = ensemble(world).versions()
    await stranger(world, (await world.get(CONFIG_MAPS, "east-instance-id"))["data"])
    await world.run()
    assert ensemble(world).versions() == before
    assert any("PulsarCluster pulsar/east" in text for text in told(world, "NotDeleted"))


@pytest.mark.parametrize("readable", [True, False])
async def test_nor_does_one_of_another_instance_that_has_the_same_store(readable: bool) -> None:
    """Also where the operator may not look whether the owner of the name is there."""
    world = await alone(external=True)
    before = ensemble(world, EXTERNAL).versions()

    refused = 0

    def forbidden(call: PortCall) -> None:
        nonlocal refused
        if (call.verb, call.kind, call.name) == ("get", "PulsarCluster", "east") and not readable:
            refused += 1
            raise ForbiddenError("pulsarclusters is forbidden")

    spec = {"configurationStore": {"external": {"servers": EXTERNAL}}}
    meta = {"name": "another", "namespace": ELSEWHERE}
    await world.apply({"apiVersion": API_VERSION, "kind": "PulsarInstance", "metadata": meta, "spec": spec})
    await world.reconcile(Key(Kind.INSTANCE, ELSEWHERE, "another"))
    world.journal.before.append(forbidden)
    record = (await world.get(CONFIG_MAPS, "east-instance-id"))["data"]
    await stranger(world, record, {"name": "another"})
    for _ in range(2):  # the first one writes that the tear-down begins
        await world.reconcile(Key(Kind.CLUSTER, ELSEWHERE, "evil"))
    world.journal.before.clear()
    assert bool(refused) is not readable
    await world.run()
    assert ensemble(world, EXTERNAL).versions() == before
    assert any("PulsarCluster pulsar/east" in text for text in told(world, "NotDeleted"))
    assert await world.names(CUSTOM[Kind.CLUSTER]) == ["east"]
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"


async def test_one_that_was_allowed_once_leaves_all_the_same() -> None:
    world = await pair()
    await world.change(Kind.INSTANCE, "demo", lambda spec: spec.update(allowedKubernetesNamespaces=[ELSEWHERE]))
    north = again("north", await world.get(Kind.CLUSTER, "west"))
    north["metadata"]["namespace"] = ELSEWHERE
    north["spec"]["instanceRef"] = {"name": "demo", "namespace": NS}
    await world.apply(north)
    await world.run()
    assert "/admin/clusters/north" in ensemble(world).nodes
    put(world, "shop/shared", {"replication_clusters": ["east", "north"]})
    await world.change(Kind.INSTANCE, "demo", lambda spec: spec.pop("allowedKubernetesNamespaces"))
    await world.backstage.remove(CUSTOM[Kind.CLUSTER], ELSEWHERE, "north")
    await world.run()
    assert ELSEWHERE in {each["metadata"]["namespace"] for each in await world.backstage.all(CUSTOM[Kind.CLUSTER])}
    put(world, "shop/shared", {"replication_clusters": ["east"]})
    await world.run()
    assert ELSEWHERE not in {each["metadata"]["namespace"] for each in await world.backstage.all(CUSTOM[Kind.CLUSTER])}
    assert not {"/admin/clusters/north", "/pulsar-operator/clusters/north"} & set(ensemble(world).tree())
    assert "north" not in policies(world, "public")["allowedClusters"]


async def test_nobody_registers_under_the_name_of_one_that_is_there_by_knowing_its_id() -> None:
    """With a metadata store of its own that has the same instance id."""
    world = await pair()
    await world.change(Kind.INSTANCE, "demo", lambda spec: spec.update(allowedKubernetesNamespaces=[ELSEWHERE]))
    await world.run()
    before = ensemble(world).versions()
    evil = again("evil", await world.get(Kind.CLUSTER, "east"))
    evil["metadata"]["namespace"] = ELSEWHERE
    evil["spec"] |= {"clusterName": "east", "instanceRef": {"name": "demo", "namespace": NS}}
    evil["spec"]["metadataStore"] = {"external": {"servers": EXTERNAL}}
    known = (await world.status(Kind.CLUSTER, "east"))["instanceId"]
    session = await world.deps.zookeeper.session(EXTERNAL, None)
    await session.create(INSTANCE_ID_PATH, known.encode())
    await world.apply(evil)
    await world.run()
    assert ensemble(world).versions() == before
    (there,) = [each for each in await world.backstage.all(CUSTOM[Kind.CLUSTER]) if each["metadata"]["name"] == "evil"]
    (ready,) = [each for each in there["status"]["conditions"] if each["type"] == "MetadataReady"]
    assert ready["reason"] == "MetadataConflict", ready
