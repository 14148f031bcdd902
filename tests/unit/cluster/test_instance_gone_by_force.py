"""A PulsarInstance is taken away by force, and the last PulsarCluster here is deleted: who else is registered?"""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Component, Kind
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.observed.broker_store import store_of_brokers
from pulsar_operator.domain.render.addresses import StoreAddress
from pulsar_operator.ports import CUSTOM, STATEFUL_SETS, Json
from tests.support.cluster.leaving import EXTERNAL, SHARED, again, alone, blocked, confirm, ensemble, go, own
from tests.support.cluster.world import NS, ClusterWorld, quickstart

SOUTH = "/admin/clusters/south"


async def gone_by_force(world: ClusterWorld) -> Json:
    """The instance without its finalizer; it as it was."""
    instance = await world.get(Kind.INSTANCE, "demo")

    def release(obj: Json) -> None:
        obj["metadata"].pop("finalizers", None)

    await world.delete(Kind.INSTANCE, "demo")
    await world.backstage.edit(CUSTOM[Kind.INSTANCE], NS, "demo", release)
    return instance


async def test_a_cluster_that_others_are_registered_beside_does_not_leave_silently() -> None:
    world = await alone(external=True)
    ensemble(world, EXTERNAL).put(SOUTH, b"{}")
    instance = await gone_by_force(world)
    await go(world, "east")
    found = await blocked(world, "east")
    assert found is not None and found[0] == "DependentsExist"
    assert (
        "PulsarInstance pulsar/demo" in found[1]
        and (f"zk:{EXTERNAL} of the cluster: south. Create the instance again") in found[1]
    )
    assert "east-broker" in await world.names(STATEFUL_SETS)
    await world.apply(again("demo", instance))
    await world.run()
    assert await blocked(world, "east") is None
    assert "/admin/clusters/east" not in ensemble(world, EXTERNAL).nodes


@pytest.mark.parametrize("external", [True, False])
async def test_the_last_one_goes(external: bool) -> None:
    world = await alone(external=external)
    await gone_by_force(world)
    await go(world, "east")
    assert await blocked(world, "east") is None


async def test_a_store_that_does_not_answer_is_not_empty() -> None:
    world = await alone(external=True)
    await gone_by_force(world)
    world.unreachable.add(EXTERNAL.partition(":")[0])
    await go(world, "east")
    found = await blocked(world, "east")
    assert found is not None and f"configuration store zk:{EXTERNAL} of the cluster does not answer" in found[1]
    await confirm(world, "east")
    await world.run()
    assert await blocked(world, "east") is None


async def test_a_store_that_went_with_the_instance_is_nobodys() -> None:
    world = await alone()
    await gone_by_force(world)
    await world.run()
    assert f"demo-{Component.CONFIGURATION_STORE.value}" not in await world.names(STATEFUL_SETS)
    world.unreachable.add(SHARED.partition(":")[0])
    await go(world, "east")
    assert await blocked(world, "east") is None


async def test_so_it_is_with_the_store_of_the_cluster_itself() -> None:
    world = ClusterWorld.fakes()
    await world.apply(*quickstart()[:2])
    await world.run()
    own(world, "east").put(SOUTH, b"{}")
    await gone_by_force(world)
    await go(world, "east")
    found = await blocked(world, "east")
    assert found is not None and "south" in found[1]
    own(world, "east").remove(SOUTH)
    await world.run()
    assert await blocked(world, "east") is None


def test_the_store_is_read_from_what_the_brokers_mount() -> None:
    owner = {"kind": "PulsarCluster", "metadata": {"name": "east", "uid": "u"}}
    meta = {"name": "east-broker", "ownerReferences": [{"uid": "u", "controller": True}]}
    volumes = [{"name": "x", "emptyDir": {}}, {"name": "config", "configMap": {"name": "c"}}]
    sts = {"kind": "StatefulSet", "metadata": meta, "spec": {"template": {"spec": {"volumes": volumes}}}}

    def read(text: str) -> StoreAddress | None:
        config = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"overrides.conf": text}}
        return store_of_brokers(Live.of(owner, [sts, config]))

    key = "configurationMetadataStoreUrl"
    assert read(f"a=b\n{key}=zk:one:2181,two:2181/conf/x\n") == StoreAddress("one:2181,two:2181", "/conf/x")
    assert read(f"{key}=zk:one:2181\n") == StoreAddress("one:2181", "")
    assert read(f"{key}=etcd:one\n") is read("a=b\n") is None
    assert store_of_brokers(Live.of(owner, [])) is None
