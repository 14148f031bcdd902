"""A pod keeps the configuration it was made with until it is replaced; what no pod uses any more is deleted."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_CONFIG_HASH, Kind
from pulsar_operator.domain.render.common import config_hash
from pulsar_operator.ports import CONFIG_MAPS, PODS, STATEFUL_SETS, Json
from tests.support.cluster.copies import converged, ready_world
from tests.support.cluster.world import ClusterWorld, quickstart

SETTINGS = {
    "zookeeper": "maxClientCnxns",
    "bookkeeper": "gcWaitTime",
    "broker": "maxPendingPublishRequestsPerConnection",
    "proxy": "maxConcurrentLookupRequests",
}
"""A key that the servers of each component know."""


def with_config(component: str, value: str) -> Any:
    def change(spec: Json) -> None:
        part = spec["metadataStore"]["managed"] if component == "zookeeper" else spec[component]
        part["config"] = {SETTINGS[component]: value}

    return change


async def mounted(world: ClusterWorld) -> dict[str, str]:
    """The ConfigMap of each pod, by pod."""
    found = {}
    for pod in await world.backstage.all(PODS):
        volume = next(v for v in pod["spec"]["volumes"] if v["name"] == "config")
        found[pod["metadata"]["name"]] = volume["configMap"]["name"]
    return found


async def holds_what_it_was_made_with(world: ClusterWorld) -> None:
    """A container that restarts now gets what its pod was made with."""
    names = await mounted(world)
    for pod in await world.backstage.all(PODS):
        configuration = await world.get(CONFIG_MAPS, names[pod["metadata"]["name"]])
        wanted = pod["metadata"]["annotations"][ANNOTATION_CONFIG_HASH]
        assert config_hash(configuration["data"]) == wanted, pod["metadata"]["name"]


async def configurations(world: ClusterWorld) -> set[str]:
    return {name for name in await world.names(CONFIG_MAPS) if "-config" in name}


@pytest.mark.parametrize("component", ["zookeeper", "bookkeeper", "broker", "proxy"])
async def test_a_pod_keeps_its_configuration_until_it_is_replaced(component: str) -> None:
    objects = quickstart()
    objects[1]["spec"]["broker"]["replicas"] = objects[1]["spec"]["proxy"]["replicas"] = 3
    world = await converged(*objects)
    before = await mounted(world)
    await world.change(Kind.CLUSTER, "east", with_config(component, "one"))
    await world.run(each=lambda: holds_what_it_was_made_with(world))
    after = await mounted(world)
    changed = {name for name in before if before[name] != after[name]}
    assert changed and set(after.values()) == await configurations(world), "the old ones are gone, and no other"
    assert await world.all_ready() == {}


async def test_a_configuration_that_breaks_its_pods_is_given_up_with_the_way_back() -> None:
    """The pods that were not replaced yet restart well, and the broken ConfigMap goes."""
    world = await ready_world()
    good = await configurations(world)
    await world.change(Kind.CLUSTER, "east", with_config("broker", "bad"))
    await world.round()
    assert await configurations(world) > good
    await holds_what_it_was_made_with(world)

    def back(spec: Json) -> None:
        del spec["broker"]["config"]

    await world.change(Kind.CLUSTER, "east", back)
    await world.run(each=lambda: holds_what_it_was_made_with(world))
    assert await configurations(world) == good


async def test_nothing_goes_while_a_pod_may_still_be_made_of_an_older_template() -> None:
    world = await ready_world()
    good = await world.configuration("east-broker")
    await world.change(Kind.CLUSTER, "east", with_config("broker", "one"))
    await world.run()

    def unseen(obj: Json) -> None:
        obj["status"]["observedGeneration"] = obj["metadata"]["generation"] - 1

    await world.change(Kind.CLUSTER, "east", with_config("broker", "two"))
    one = await world.configuration("east-broker")
    for key in await world.keys():
        await world.reconcile(key)
    names = await configurations(world)
    assert {one, await world.configuration("east-broker")} <= names and good not in names


async def test_those_of_a_configuration_store_of_the_instance_go_too() -> None:
    objects = quickstart()
    objects[0]["spec"]["configurationStore"] = {"managed": {"replicas": 3}}
    world = await converged(*objects)
    before = await configurations(world)

    def change(spec: Json) -> None:
        spec["configurationStore"]["managed"]["config"] = {"maxClientCnxns": "7"}

    await world.change(Kind.INSTANCE, "demo", change)
    await world.run(each=lambda: holds_what_it_was_made_with(world))
    after = await configurations(world)
    assert len(after) == len(before) and after != before


async def test_a_pause_deletes_none() -> None:
    world = await ready_world()
    await world.pause(Kind.CLUSTER, "east")
    await world.run()
    stray = await world.get(CONFIG_MAPS, await world.configuration("east-broker"))
    stray["metadata"] = {**stray["metadata"], "name": "east-broker-config-0123456789abcdef"}
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        stray["metadata"].pop(field, None)
    await world.apply(stray)
    await world.run()
    assert stray["metadata"]["name"] in await configurations(world)
    await world.pause(Kind.CLUSTER, "east", on=False)
    await world.run()
    assert stray["metadata"]["name"] not in await configurations(world)
    assert await world.live(STATEFUL_SETS, "east-broker") is not None
