"""What needs a cluster: counted in status, and a reason to keep it running when somebody deletes it all the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_DELETE, API_VERSION, Kind
from pulsar_operator.controllers.core.index import RefIndex
from pulsar_operator.controllers.core.watch_cache import DirectReader
from pulsar_operator.controllers.dataplane.cluster.cluster_controller import ClusterController
from pulsar_operator.controllers.dataplane.instance.instance_controller import InstanceController
from pulsar_operator.controllers.dataplane.objects.dependents import (
    BLOCKED_GRACE,
    dependents_of_cluster,
    explain,
    waited_for,
)
from pulsar_operator.ports import CUSTOM, NAMESPACES, STATEFUL_SETS, Json, Key, UnavailableError
from tests.support.cluster.copies import ready_world
from tests.support.cluster.world import NS, ClusterWorld
from tests.support.core.journal import PortCall

EAST = Key(Kind.CLUSTER, NS, "east")


async def up() -> ClusterWorld:
    """The quickstart: one cluster; a tenant, a namespace and topics."""
    world = await ready_world()
    assert await world.all_ready() == {}
    return world


async def test_they_are_counted() -> None:
    world = await up()
    assert (await world.status(Kind.CLUSTER, "east"))["dependents"] == 2, "a tenant and a namespace"
    await world.delete(Kind.NAMESPACE, "orders")
    await world.run()
    assert (await world.status(Kind.CLUSTER, "east"))["dependents"] == 1


async def test_a_cluster_that_is_needed_keeps_running_and_names_who_needs_it() -> None:
    world = await up()
    sets = await world.uids(STATEFUL_SETS)
    await world.delete(Kind.CLUSTER, "east")
    await world.run()
    assert await world.uids(STATEFUL_SETS) == sets
    status, reason, message = await world.condition(Kind.CLUSTER, "east", "DeletionBlocked")
    assert (status, reason) == ("True", "DependentsExist")
    assert f"2 objects still need this object: PulsarTenant {NS}/shop, PulsarNamespace {NS}/orders." in message
    command = f"kubectl -n {NS} annotate --overwrite pulsarcluster/east {ANNOTATION_CONFIRM_DELETE}=east"
    assert command in message
    assert (await world.condition(Kind.CLUSTER, "east"))[:2] == ("False", "Deleting")
    for kind in ("MetadataReady", "BookKeeperReady", "BrokersReady", "ProxiesReady"):
        assert (await world.condition(Kind.CLUSTER, "east", kind))[0] == "True", kind
    assert (await world.condition(Kind.NAMESPACE, "orders"))[0] == "True"
    # It is looked after meanwhile.
    await world.backstage.remove(STATEFUL_SETS, NS, "east-proxy")
    await world.run()
    assert "east-proxy" in await world.names(STATEFUL_SETS)
    for kind, name in ((Kind.TOPIC, "clicks"), (Kind.NAMESPACE, "orders"), (Kind.TENANT, "shop")):
        await world.delete(kind, name)
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None


class LateReader(DirectReader):
    """Like a watch cache that has heard of clusters and instances alone."""

    async def every(self, kind: Kind, *, allowed_by: Json | None = None) -> list[Json]:
        """Nothing of other kinds."""
        return await super().every(kind) if kind in (Kind.CLUSTER, Kind.INSTANCE) else []


async def test_what_the_watch_cache_has_not_heard_of_keeps_a_cluster_and_its_instance() -> None:
    """reclaimPolicy Delete would take the volumes."""
    world = await up()
    deps = replace(world.deps, reader=LateReader(world.deps))
    world.controllers |= {Kind.CLUSTER: ClusterController(deps), Kind.INSTANCE: InstanceController(deps)}
    sets = await world.uids(STATEFUL_SETS)
    await world.delete(Kind.CLUSTER, "east")
    await world.delete(Kind.INSTANCE, "demo")
    await world.run()
    assert await world.uids(STATEFUL_SETS) == sets
    assert (await world.condition(Kind.CLUSTER, "east", "DeletionBlocked"))[:2] == ("True", "DependentsExist")


@pytest.mark.parametrize("kind", ["PulsarCluster", "PulsarTenant", "PulsarResourceGroup"])
async def test_a_list_that_failed_is_not_nobody(kind: str) -> None:
    """A count of 0 would open the guard against deletion."""
    world = await up()
    before = await world.status(Kind.INSTANCE, "demo")
    assert before["dependents"] == 2 and before["readyClusters"] == "1/1"

    def fails(call: PortCall) -> None:
        if (call.verb, call.kind) == ("list", kind):
            raise UnavailableError("HTTP 500: internal error")

    world.journal.before.append(fails)
    await world.controllers[Kind.INSTANCE].reconcile(Key(Kind.INSTANCE, NS, "demo"))
    world.journal.before.remove(fails)
    during = await world.status(Kind.INSTANCE, "demo")
    counts = ("dependents", "clusters", "clusterCount", "readyClusters")
    assert [during.get(name) for name in counts] == [before.get(name) for name in counts]
    assert (await world.condition(Kind.INSTANCE, "demo", "ClustersReady"))[:2] == ("Unknown", "InternalError")
    assert (await world.condition(Kind.INSTANCE, "demo"))[0] == "Unknown"
    await world.run()
    assert await world.all_ready() == {}


async def test_a_confirmed_deletion_goes_on_at_once() -> None:
    world = await up()
    await world.delete(Kind.CLUSTER, "east")
    await world.run()

    def confirm(value: str) -> Any:
        def change(obj: Json) -> None:
            obj["metadata"]["annotations"] = {ANNOTATION_CONFIRM_DELETE: value}

        return change

    await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", confirm("west"))
    await world.run()
    assert "east-broker" in await world.names(STATEFUL_SETS)
    await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", confirm("east"))
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None


async def test_brokers_that_somebody_removes_are_no_tear_down() -> None:
    """Who needs the cluster is asked as before, and it goes on serving."""
    world = await up()
    await world.delete(Kind.CLUSTER, "east")
    await world.run()
    await world.backstage.remove(STATEFUL_SETS, NS, "east-broker")
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is not None
    assert "east-broker" in await world.names(STATEFUL_SETS)


async def test_a_namespace_that_goes_takes_a_cluster_along() -> None:
    """Kubernetes deletes the brokers itself, in an order of its own, and lets nobody make them again."""
    world = await up()
    await world.delete(Kind.CLUSTER, "east")
    await world.run()
    meta = {"name": NS, "namespace": "", "finalizers": ["kubernetes"]}
    await world.backstage.put({"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "spec": {}})
    await world.backstage.remove(NAMESPACES, "", NS)
    await world.backstage.remove(STATEFUL_SETS, NS, "east-broker")
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None


async def test_a_tear_down_that_has_begun_is_not_stopped() -> None:
    """Somebody declares another tenant after the brokers were stopped."""
    world = await up()
    await world.annotate(Kind.CLUSTER, "east", ANNOTATION_CONFIRM_DELETE, "east")
    await world.delete(Kind.CLUSTER, "east")
    while "east-broker" in await world.names(STATEFUL_SETS):
        await world.round()
    await world.annotate(Kind.CLUSTER, "east", ANNOTATION_CONFIRM_DELETE, "no longer")
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None


async def test_children_that_kubernetes_deletes_first_are_not_brought_back() -> None:
    world = await up()

    def foreground(obj: Json) -> None:
        obj["metadata"]["finalizers"].append("foregroundDeletion")

    await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", foreground)
    await world.delete(Kind.CLUSTER, "east")
    await world.run()
    assert await world.names(STATEFUL_SETS) == []


# ------------------------------------------------------------------------------------------------------ who counts


class Stored:
    """ports.ReaderPort over a list of objects."""

    def __init__(self, *objects: Json) -> None:
        self.objects = objects

    async def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """See ports.ReaderPort."""
        named = [o for o in self.objects if (o["metadata"]["namespace"], o["metadata"]["name"]) == (namespace, name)]
        return next((o for o in named if o["kind"] == kind.value), None)

    async def every(self, kind: Kind, *, allowed_by: Json | None = None) -> list[Json]:
        """See ports.ReaderPort."""
        return [o for o in self.objects if o["kind"] == kind.value]


class Only:
    """Deps of which only the reader is used."""

    def __init__(self, reader: Stored) -> None:
        self.reader = reader


def obj(kind: Kind, name: str, *, ns: str = NS, status: Json | None = None, **spec: Any) -> Json:
    """An object as stored."""
    meta = {"name": name, "namespace": ns, "uid": f"{kind.value}-{ns}-{name}", "generation": 1}
    return {"apiVersion": API_VERSION, "kind": kind.value, "metadata": meta, "spec": spec, "status": status or {}}


def cluster(name: str, **spec: Any) -> Json:
    """A cluster of instance demo."""
    return obj(Kind.CLUSTER, name, instanceRef={"name": "demo"}, **spec)


DEMO = obj(Kind.INSTANCE, "demo")
IN_DEMO = {"instanceRef": {"name": "demo"}}
TENANT = obj(Kind.TENANT, "t", **IN_DEMO)
IN_T = {"tenantRef": {"name": "t"}}


@pytest.mark.parametrize(
    ("others", "objects", "counted"),
    [
        # Of the only cluster, everything of the instance.
        ([], [TENANT], ["t"]),
        ([], [TENANT, obj(Kind.NAMESPACE, "n", **IN_T), obj(Kind.TOPIC, "x", namespaceRef={"name": "n"})], ["t", "n"]),
        ([], [obj(Kind.RESOURCE_GROUP, "g", **IN_DEMO), obj(Kind.ISOLATION_POLICY, "i", **IN_DEMO)], ["g", "i"]),
        ([], [obj(Kind.REBALANCE, "r", clusterRef={"name": "east"})], []),
        ([], [obj(Kind.TENANT, "t", instanceRef={"name": "other"})], []),
        ([], [obj(Kind.TENANT, "t", ns="far", instanceRef={"name": "demo", "namespace": NS})], []),
        # Of one among several, what names it or is in it.
        (["west"], [TENANT, obj(Kind.RESOURCE_GROUP, "g", **IN_DEMO), obj(Kind.ISOLATION_POLICY, "i", **IN_DEMO)], []),
        (["west"], [obj(Kind.TENANT, "t", allowedClusters=["east", "west"], **IN_DEMO)], ["t"]),
        (["west"], [obj(Kind.TENANT, "t", allowedClusters=["west"], **IN_DEMO)], []),
        (["west"], [obj(Kind.ISOLATION_POLICY, "i", clusters=["east"], **IN_DEMO)], ["i"]),
        (["west"], [TENANT, obj(Kind.NAMESPACE, "n", replicationClusters=["east"], **IN_T)], ["n"]),
        (["west"], [TENANT, obj(Kind.NAMESPACE, "n", **IN_T)], []),
        (
            ["west"],
            [TENANT, obj(Kind.NAMESPACE, "n", status={"clusters": [{"name": "east", "exists": True}]}, **IN_T)],
            ["n"],
        ),
        (
            ["west"],
            [TENANT, obj(Kind.NAMESPACE, "n", status={"clusters": [{"name": "east", "exists": False}]}, **IN_T)],
            [],
        ),
        (["west"], [obj(Kind.NAMESPACE, "n", replicationClusters=["east"], **IN_T)], []),  # of no tenant of it
        # What cannot be read names nothing.
        (["west"], [obj(Kind.TENANT, "t", allowedClusters="east", **IN_DEMO)], []),
    ],
)
async def test_who_needs_a_cluster(others: list[str], objects: list[Json], counted: list[str]) -> None:
    east = cluster("east")
    deps: Any = Only(Stored(DEMO, east, *(cluster(name) for name in others), *objects))
    assert [o["metadata"]["name"] for o in await dependents_of_cluster(deps, east)] == counted


async def test_the_name_inside_pulsar_counts_and_a_cluster_that_goes_is_no_other() -> None:
    east = cluster("e", clusterName="east")
    going = cluster("west")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    named = obj(Kind.TENANT, "t", allowedClusters=["east"], **IN_DEMO)
    for others, tenant, counted in (
        ([cluster("west")], named, 1),
        ([cluster("west")], TENANT, 0),
        ([going], TENANT, 1),
    ):
        deps: Any = Only(Stored(DEMO, east, *others, tenant))
        assert len(await dependents_of_cluster(deps, east)) == counted


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def going(blocked_for: timedelta | None) -> Json:
    """A tenant that is being deleted, blocked since."""
    tenant = obj(Kind.TENANT, "t", **IN_DEMO)
    tenant["metadata"]["deletionTimestamp"] = "2025-12-31T00:00:00Z"
    if blocked_for is not None:
        since = (NOW - blocked_for).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "DeletionBlocked", "status": "True", "lastTransitionTime": since}
        tenant["status"] = {"conditions": [condition]}
    return tenant


@pytest.mark.parametrize(
    ("dependent", "waits"),
    [
        (TENANT, True),
        (going(None), True),
        (going(BLOCKED_GRACE - timedelta(seconds=1)), True),
        (going(BLOCKED_GRACE), False),
        (going(-timedelta(days=1)), False),  # by a clock that was ahead: nobody waits until it has caught up
    ],
)
def test_what_is_waited_for(dependent: Json, waits: bool) -> None:
    east = cluster("east")
    assert bool(waited_for(east, [dependent], NOW)) is waits
    east["metadata"]["annotations"] = {ANNOTATION_CONFIRM_DELETE: "east"}
    assert waited_for(east, [dependent], NOW) == []


def test_the_message_names_the_first_few_and_how_many() -> None:
    text = explain(cluster("east"), [obj(Kind.TENANT, f"t{n}", **IN_DEMO) for n in range(8)])
    assert text.startswith(f"8 objects still need this object: PulsarTenant {NS}/t0, ")
    assert "t4 and 3 more." in text
    assert "t5" not in text


def test_a_change_of_what_needs_a_cluster_asks_for_the_cluster() -> None:
    index = RefIndex()
    tenant, namespace = obj(Kind.TENANT, "t", **IN_DEMO), obj(Kind.NAMESPACE, "n", **IN_T)
    index.update(Kind.CLUSTER, cluster("east"))
    index.update(Kind.CLUSTER, obj(Kind.CLUSTER, "away", instanceRef={"name": "other"}))
    assert index.update(Kind.TENANT, tenant).sited == {EAST}
    assert index.update(Kind.NAMESPACE, namespace).sited == {EAST}
    assert index.update(Kind.TOPIC, obj(Kind.TOPIC, "x", namespaceRef={"name": "n"})).sited == frozenset()
    assert index.update(Kind.NAMESPACE, namespace).sited == frozenset(), "nothing changed"
    group = obj(Kind.RESOURCE_GROUP, "g", **IN_DEMO)
    assert index.update(Kind.RESOURCE_GROUP, group).sited == {EAST}
    assert index.remove(Key(Kind.RESOURCE_GROUP, NS, "g")).sited == {EAST}
    assert index.remove(Key(Kind.NAMESPACE, NS, "n")).sited == {EAST}
    assert index.remove(Key(Kind.TENANT, NS, "t")).sited == {EAST}
