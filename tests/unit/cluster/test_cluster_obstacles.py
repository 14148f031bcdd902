"""What lasts in the way of one part keeps no other part: a refused specification, a taken name, a foreign store."""

from __future__ import annotations

import copy

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.dataplane.balancing.load_balancer import FLAGS
from pulsar_operator.ports import CUSTOM, PODS, STATEFUL_SETS, Json
from tests.support.cluster.busy import BusyWorld
from tests.support.cluster.copies import converged, ready_world
from tests.support.cluster.world import NS, ClusterWorld, quickstart

STRANGER = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "east-proxy", "namespace": NS}, "spec": {}}


def refused(spec: Json) -> None:
    spec["broker"]["config"] = {"zookeeperServers": "x"}


async def without_proxy(**spec: object) -> ClusterWorld:
    """A cluster beside a stranger's Service that its proxies would need."""
    objects = quickstart()
    objects[1]["spec"].pop("proxy")
    objects[1]["spec"] |= spec
    world = await converged(*objects)
    await world.backstage.put(STRANGER)
    return world


async def test_a_refused_specification_says_nothing_of_what_was_not_looked_at() -> None:
    world = await ready_world()
    before = await world.condition(Kind.CLUSTER, "east", "MetadataReady")

    def change(spec: Json) -> None:
        refused(spec)
        spec["version"] = "4.2.0"

    await world.change(Kind.CLUSTER, "east", change)
    await world.run()
    assert (await world.condition(Kind.CLUSTER, "east", "Accepted"))[:2] == ("False", "InvalidSpec")
    assert await world.condition(Kind.CLUSTER, "east", "MetadataReady") == before
    assert (await world.condition(Kind.CLUSTER, "east", "Progressing"))[:2] == ("False", "InvalidSpec")
    assert (await world.condition(Kind.INSTANCE, "demo", "ConfigurationStoreReady"))[0] == "True"
    assert (await world.status(Kind.CLUSTER, "east"))["version"] == "4.0.8", "no pod runs another, none is asked for"


async def test_a_refused_specification_holds_up_no_other_cluster() -> None:
    world = await ready_world()
    await world.change(Kind.CLUSTER, "east", refused)
    await world.run()
    west = copy.deepcopy(quickstart()[1])
    west["metadata"]["name"] = "west"
    west["spec"].pop("proxy")
    await world.apply(west)
    await world.run(rounds=200)
    assert (await world.condition(Kind.CLUSTER, "west"))[0] == "True"


async def test_a_refused_specification_gives_the_balancer_back() -> None:
    """In the middle of a roll; the drain ends, and nobody would balance from then on."""
    world = await BusyWorld.up(3)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(config={"maxProducersPerTopic": "7"}))

    async def off() -> bool:
        return FLAGS.items() <= world.busy.brokers.dynamic.items()

    await world.until(off)
    await world.change(Kind.CLUSTER, "east", refused)
    await world.run(rounds=400)
    assert world.busy.brokers.dynamic == {}
    assert await world.names(CUSTOM[Kind.REBALANCE]) == []
    assert "drain" not in await world.status(Kind.CLUSTER, "east")


async def test_a_taken_name_does_not_keep_the_balancer() -> None:
    world = await without_proxy(loadBalancing={"driver": "Operator"})
    assert FLAGS.items() <= world.pulsar.dynamic["east"].items()
    change = {"proxy": {"replicas": 1}, "loadBalancing": {"driver": "Pulsar"}}
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(change))
    await world.run()
    assert (await world.condition(Kind.CLUSTER, "east", "Accepted"))[:2] == ("False", "NameConflict")
    assert not FLAGS.items() <= world.pulsar.dynamic["east"].items()


async def test_a_taken_name_keeps_nobody_from_being_rolled_or_scaled() -> None:
    world = await without_proxy()
    before = await world.uids(PODS)

    def change(spec: Json) -> None:
        spec["proxy"] = {"replicas": 1}
        spec["broker"] |= {"config": {"maxProducersPerTopic": "7"}, "replicas": 3}

    await world.change(Kind.CLUSTER, "east", change)
    await world.run()
    after = await world.uids(PODS)
    assert (await world.condition(Kind.CLUSTER, "east", "Accepted"))[:2] == ("False", "NameConflict")
    assert before["east-broker-0"] != after["east-broker-0"]
    assert (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["replicas"] == 3


async def test_no_bookie_is_added_under_a_store_that_is_not_the_clusters() -> None:
    """Its cookie would name the other one, and it would be of no use when the right store is back."""
    objects = quickstart()
    objects[1]["spec"]["metadataStore"] = {"external": {"servers": "zk.infra:2181", "chroot": "/east"}}
    world = await converged(*objects)
    store = await world.dataplane._session("zk:zk.infra:2181/east")
    ours = await store.get("/ledgers/INSTANCEID")
    assert ours is not None
    await store.set("/ledgers/INSTANCEID", b"11111111-0000-4000-8000-000000000000", version=ours.version)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(replicas=2))
    await world.run()
    assert (await world.condition(Kind.CLUSTER, "east", "MetadataReady"))[0] == "False"
    assert (await world.get(STATEFUL_SETS, "east-bookie"))["spec"]["replicas"] == 1
    theirs = await store.get("/ledgers/INSTANCEID")
    assert theirs is not None
    await store.set("/ledgers/INSTANCEID", ours.data, version=theirs.version)
    await world.run()
    assert (await world.get(STATEFUL_SETS, "east-bookie"))["spec"]["replicas"] == 2
    assert await world.all_ready() == {}


@pytest.mark.parametrize("preset", ["Small", "Huge"])
async def test_an_instance_keeps_its_store_for_its_clusters_readable_or_not(preset: str) -> None:
    """An unknown word, as after a downgrade of the operator."""
    objects = quickstart()
    objects[0]["spec"]["configurationStore"] = {"managed": {"replicas": 3}}
    world = await converged(*objects)
    await world.backstage.edit(CUSTOM[Kind.INSTANCE], NS, "demo", lambda o: o["spec"].update(preset=preset))
    await world.delete(Kind.INSTANCE, "demo")
    for _ in range(6):
        await world.round()
    assert "demo-configuration-store" in await world.names(STATEFUL_SETS)
    assert (await world.condition(Kind.INSTANCE, "demo", "DeletionBlocked"))[:2] == ("True", "DependentsExist")
    for kind in (Kind.TOPIC, Kind.NAMESPACE, Kind.TENANT, Kind.CLUSTER):
        for obj in await world.backstage.all(CUSTOM[kind]):
            await world.delete(kind, obj["metadata"]["name"])
        await world.run()
    await world.run()
    assert await world.live(Kind.INSTANCE, "demo") is None


async def test_a_cluster_without_brokers_is_not_ready() -> None:
    world = await ready_world()
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=0))
    await world.run()
    assert (await world.condition(Kind.CLUSTER, "east", "BrokersReady"))[:2] == ("False", "ScaledToZero")
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "False"
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))
    await world.run()
    assert await world.all_ready() == {}
