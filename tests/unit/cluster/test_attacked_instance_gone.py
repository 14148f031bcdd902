"""Attacks on a cluster whose instance was removed first: what is not seen is no proof that nobody is there."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_TEAR_DOWN, Component, Kind
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.observed.broker_store import store_of_brokers
from pulsar_operator.domain.render.addresses import StoreAddress
from pulsar_operator.domain.render.config import OVERRIDES_FILE
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, STATEFUL_SETS
from tests.support.cluster.leaving import EXTERNAL, alone, blocked, ensemble, go
from tests.support.cluster.world import NS, ClusterWorld, quickstart


async def _orphan() -> ClusterWorld:
    world = await alone(external=True)
    ensemble(world, EXTERNAL).put("/admin/clusters/south", b"{}")
    ensemble(world, EXTERNAL).put("/admin/policies/shop/shared", b'{"replication_clusters": ["east", "south"]}')
    await world.backstage.edit(CUSTOM[Kind.INSTANCE], NS, "demo", lambda obj: obj["metadata"].pop("finalizers", None))
    await world.delete(Kind.INSTANCE, "demo")
    return world


async def test_an_instance_that_is_gone_keeps_a_cluster_that_others_share() -> None:
    world = await _orphan()
    await go(world, "east")
    found = await blocked(world, "east")
    assert found is not None and "south" in found[1]


@pytest.mark.parametrize("lost", ["the configuration", "the brokers"])
async def test_so_it_does_where_the_brokers_configuration_is_gone(lost: str) -> None:
    """Somebody removed the StatefulSet of the brokers, or their ConfigMaps, by hand before."""
    world = await _orphan()
    ref = CONFIG_MAPS if lost == "the configuration" else STATEFUL_SETS
    for name in await world.names(ref):
        if name.startswith("east-broker"):
            found = await world.deps.kube.get(ref, NS, name)
            assert found is not None
            await world.deps.kube.delete(ref, NS, name, uid=found["metadata"]["uid"])
    await go(world, "east")
    assert await world.live(Kind.CLUSTER, "east") is not None, "who is registered there is not known"


def _live(url: str, *, mounted: str = "c") -> Live:
    objects: dict[tuple[str, str], Any] = {("ConfigMap", "c"): {"data": {OVERRIDES_FILE: url}}}
    workload = {"spec": {"template": {"spec": {"volumes": [{"name": "config", "configMap": {"name": mounted}}]}}}}

    class Fixed(Live):
        """Nothing but these."""

        def __init__(self) -> None:
            """Without a base."""

        def stateful_set(self, component: Component) -> Any:
            """The brokers."""
            return workload

        def get(self, kind: str, name: str) -> Any:
            """By name."""
            return objects.get((kind, name))

    return Fixed()


@pytest.mark.parametrize(
    ("text", "store"),
    [
        ("configurationMetadataStoreUrl=zk:a:2181/x", StoreAddress("a:2181", "/x")),
        ("a=b=c\nconfigurationMetadataStoreUrl=zk:a:2181,b:2181", StoreAddress("a:2181,b:2181", "")),
        ("configurationMetadataStoreUrl=rocksdb:/data", None),
        ("configurationMetadataStoreUrl=zk:", None),
        ("configurationMetadataStoreUrl", None),
        ("", None),
    ],
)
def test_the_store_is_read_as_it_is_written(text: str, store: StoreAddress | None) -> None:
    assert store_of_brokers(_live(text)) == store
    assert store_of_brokers(_live(text, mounted="gone")) is None


async def _without_brokers(world: ClusterWorld) -> None:
    """Somebody removes the StatefulSet of the brokers by hand."""
    found = await world.deps.kube.get(STATEFUL_SETS, NS, "east-broker")
    assert found is not None
    await world.deps.kube.delete(STATEFUL_SETS, NS, "east-broker", uid=found["metadata"]["uid"])


async def _needed() -> ClusterWorld:
    """A cluster with a namespace that somebody made with pulsar-admin, and that has a topic."""
    world = await alone(external=True)
    ensemble(world, EXTERNAL).put("/admin/clusters/south", b"{}")
    ensemble(world, EXTERNAL).put("/admin/policies/shop/shared", b'{"replication_clusters": ["east", "south"]}')
    return world


async def test_brokers_that_somebody_removed_are_no_consent_while_the_instance_is_there() -> None:
    world = await _needed()
    await _without_brokers(world)
    await go(world, "east")
    found = await blocked(world, "east")
    assert found is not None and "shop/shared" in found[1]
    assert "east-broker" in await world.names(STATEFUL_SETS), "what is kept goes on serving"
    ensemble(world, EXTERNAL).remove("/admin/policies/shop/shared")
    await world.run()
    assert await blocked(world, "east") is None


async def test_a_restored_annotation_of_an_earlier_object_is_no_tear_down() -> None:
    world = await _needed()
    await world.annotate(Kind.CLUSTER, "east", ANNOTATION_TEAR_DOWN, "uid-of-an-earlier-object")
    await _without_brokers(world)
    await go(world, "east")
    assert await blocked(world, "east") is not None


async def test_a_cluster_that_was_never_registered_is_needed_by_nobody() -> None:
    """Its brokers never ran: nobody could have made a topic in it."""
    world = ClusterWorld.fakes()
    instance, east = quickstart()[:2]
    instance["spec"] = {"configurationStore": {"external": {"servers": EXTERNAL}}}
    world.unreachable.add(EXTERNAL.partition(":")[0])
    await world.apply(instance, east)
    await world.run()
    assert "east-broker" not in await world.names(STATEFUL_SETS)
    await go(world, "east")
    found = await blocked(world, "east")
    assert found is not None and found[0] == "ConfigurationStoreUnavailable", "it may have left a claim"
    world.unreachable.clear()
    await world.run()
    assert await blocked(world, "east") is None
