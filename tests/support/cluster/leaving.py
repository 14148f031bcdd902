"""Cluster west of two leaves its instance: worlds in memory, and what the configuration store has of it."""

from __future__ import annotations

import copy
import json
from typing import Any

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_DELETE, Kind
from pulsar_operator.controllers.dataplane.observed.namespace_inventory import MANAGED_LEDGERS
from pulsar_operator.domain.dataplane.registration.registration import POLICIES_PATH, claim_path, cluster_path
from pulsar_operator.ports import Json, UnavailableError
from tests.fakes.zookeeper import FakeEnsemble, FakeZooKeeper
from tests.support.cluster.copies import made_once
from tests.support.cluster.rolls import two
from tests.support.cluster.world import NS, ClusterWorld, quickstart
from tests.support.core.journal import ZOOKEEPER, Hook, PortCall

CLAIM, ENTRY = claim_path("west"), cluster_path("west")
SHARED = f"demo-configuration-store.{NS}.svc.cluster.local:2181"
EXTERNAL = "zk.example.com:2181"


@made_once
async def pair() -> ClusterWorld:
    """Clusters east and west, with a managed configuration store of their own."""
    return await two(1)


@made_once
async def alone(external: bool = False) -> ClusterWorld:
    """Cluster east, with a configuration store that outlives it."""
    instance, east = quickstart()[:2]
    managed = {"managed": {"replicas": 1, "storage": {"size": "1Gi"}}}
    instance["spec"] = {"configurationStore": {"external": {"servers": EXTERNAL}} if external else managed}
    world = ClusterWorld.fakes()
    await world.apply(instance, east)
    await world.run()
    assert await world.all_ready() == {}
    return world


def ensemble(world: ClusterWorld, servers: str = SHARED) -> FakeEnsemble:
    """What lies behind a servers string."""
    inner: FakeZooKeeper = world.deps.zookeeper._inner._inner._inner  # type: ignore[attr-defined]
    return inner.ensembles[servers]


def own(world: ClusterWorld, cluster: str) -> FakeEnsemble:
    """A cluster's own metadata store."""
    return ensemble(world, f"{cluster}-zookeeper.{NS}.svc.cluster.local:2181")


def policies(world: ClusterWorld, name: str) -> Json:
    """Of a tenant, or a namespace."""
    return dict(json.loads(ensemble(world).nodes[f"{POLICIES_PATH}/{name}"].data))


def put(world: ClusterWorld, name: str, fields: Any) -> None:
    """Somebody makes, or changes, a tenant or a namespace."""
    ensemble(world).put(f"{POLICIES_PATH}/{name}", fields if isinstance(fields, bytes) else json.dumps(fields))


def topic(world: ClusterWorld, cluster: str, name: str, *cursors: str) -> None:
    """A topic, as tenant/namespace/topic, in a cluster's own store."""
    tenant, space, local = name.split("/")
    path = f"{MANAGED_LEDGERS}/{tenant}/{space}/persistent/{local}"
    for each in (path, *(f"{path}/{cursor}" for cursor in cursors)):
        own(world, cluster).put(each)


def naming(world: ClusterWorld, servers: str = SHARED) -> list[str]:
    """Nodes of the configuration store that have west in their path or their content."""
    tree = ensemble(world, servers).tree()
    return [path for path, data in tree.items() if "west" in path.split("/") or b'"west"' in data]


def silent(world: ClusterWorld, *paths: str) -> Hook:
    """The configuration store answers nothing about these paths any more, until the hook is taken out."""

    def fail(call: PortCall) -> None:
        if call.port == ZOOKEEPER and call.name.startswith(paths):
            raise UnavailableError("connection loss")

    world.journal.before.append(fail)
    return fail


async def confirm(world: ClusterWorld, name: str = "west") -> None:
    """A user says that the cluster may go before what needs it."""
    await world.annotate(Kind.CLUSTER, name, ANNOTATION_CONFIRM_DELETE, name)


async def go(world: ClusterWorld, name: str = "west") -> None:
    """A user deletes the cluster, and all that follows happens."""
    await world.delete(Kind.CLUSTER, name)
    await world.run()


async def blocked(world: ClusterWorld, name: str = "west") -> tuple[str, str] | None:
    """Reason and message of DeletionBlocked; None = the cluster is gone."""
    if await world.live(Kind.CLUSTER, name) is None:
        return None
    status, reason, text = await world.condition(Kind.CLUSTER, name, "DeletionBlocked")
    assert status == "True", status
    return reason, text


def told(world: ClusterWorld, reason: str) -> list[str]:
    """Messages of events of a reason."""
    return [event.message for event in world.journal.events if event.reason == reason]


def again(name: str, like: Json) -> Json:
    """The manifest of a cluster that was there, to be applied once more."""
    found = copy.deepcopy(like)
    found.pop("status", None)
    found["metadata"] = {"name": name, "namespace": found["metadata"]["namespace"]}
    return found
