"""The record that a managed ensemble was founded: made before anything is written, believed, repaired, kept."""

from __future__ import annotations

import logging

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, PODS, PVCS, Json
from tests.support.cluster.copies import converged, ready_world
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import NS, ClusterWorld, quickstart
from tests.support.core.journal import ZOOKEEPER

EAST = "east-zookeeper.pulsar.svc.cluster.local:2181"
FOUNDED = "east-zookeeper-founded"


def manifests(store: Json) -> list[Json]:
    """The quickstart with another configuration store."""
    found = quickstart()
    found[0]["spec"]["configurationStore"] = store
    return found


@pytest.mark.parametrize("kind", [Kind.CLUSTER, Kind.INSTANCE])
async def test_the_founding_of_an_ensemble_is_on_record_before_anything_is_written_into_it(kind: Kind) -> None:
    world = ClusterWorld.fakes()
    await world.apply(
        *manifests({"managed": {"replicas": 3}} if kind is Kind.INSTANCE else {"cluster": {"name": "east"}})
    )
    await world.run()
    name = "east-zookeeper-founded" if kind is Kind.CLUSTER else "demo-configuration-store-founded"
    record = await world.get(CONFIG_MAPS, name)
    assert record["data"] == {"founded": "true"}
    assert "ownerReferences" not in record["metadata"]
    calls = world.journal.effects
    store = EAST if kind is Kind.CLUSTER else "demo-configuration-store"
    written = next(n for n, c in enumerate(calls) if c.port == ZOOKEEPER and store in str(c))
    assert next(n for n, c in enumerate(calls) if (c.verb, c.kind, c.name) == ("create", "ConfigMap", name)) < written


async def test_without_a_quorum_nothing_is_on_record() -> None:
    world = ClusterWorld.fakes()
    world.workloads.troubles.append(Trouble(pod="east-zookeeper-*"))
    await world.apply(*quickstart())
    await world.run()
    assert "east-zookeeper-0" in await world.names(PODS)
    assert "east-zookeeper-founded" not in await world.names(CONFIG_MAPS)


async def test_a_record_that_was_restored_without_labels_is_believed() -> None:
    """By kubectl create configmap, say: it is not among what the list of children shows."""
    world = await ready_world()
    await world.backstage.edit(CONFIG_MAPS, NS, FOUNDED, lambda obj: obj["metadata"].pop("labels"))
    mark = len(world.journal.attempts)
    for _ in range(5):
        await world.round()
    assert world.journal.attempts[mark:] == []


@pytest.mark.parametrize("data", [{}, {"founded": "yes"}, {"other": "1"}])
async def test_a_record_that_does_not_say_it_is_repaired(
    data: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    world = await ready_world()
    await world.backstage.edit(CONFIG_MAPS, NS, FOUNDED, lambda obj: obj.update(data=data))
    with caplog.at_level(logging.DEBUG, "pulsar_operator"):
        for _ in range(3):
            await world.round()
    assert (await world.get(CONFIG_MAPS, FOUNDED))["data"] == {**data, "founded": "true"}
    assert any(f"Updated ConfigMap {FOUNDED}" in each.getMessage() for each in caplog.records)
    mark = len(world.journal.attempts)
    await world.round()
    assert world.journal.attempts[mark:] == []


@pytest.mark.parametrize("kind", [Kind.CLUSTER, Kind.INSTANCE])
async def test_a_configmap_of_somebody_else_is_no_record_and_is_not_taken_over(kind: Kind) -> None:
    world = ClusterWorld.fakes()
    mine, owner = (FOUNDED, "east") if kind is Kind.CLUSTER else ("demo-configuration-store-founded", "demo")
    meta = {"name": mine, "namespace": NS, "labels": {"app": "theirs"}}
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"theirs": "1"}}
    await world.backstage.put(theirs)
    await world.apply(
        *manifests({"managed": {"replicas": 3}} if kind is Kind.INSTANCE else {"cluster": {"name": "east"}})
    )
    await world.run()
    status, reason, message = await world.condition(kind, owner, "Accepted")
    assert (status, reason) == ("False", "NameConflict") and mine in message
    assert (await world.get(CONFIG_MAPS, mine))["data"] == {"theirs": "1"}
    store = EAST if kind is Kind.CLUSTER else "demo-configuration-store"
    assert not [c for c in world.journal.effects if c.port == ZOOKEEPER and store in str(c)]
    await world.backstage.remove(CONFIG_MAPS, NS, mine)
    await world.run()
    assert (await world.get(CONFIG_MAPS, mine))["data"] == {"founded": "true"}
    assert await world.all_ready() == {}


async def test_a_paused_instance_whose_store_is_not_on_record_is_not_ready_for_writers() -> None:
    world = ClusterWorld.fakes()
    instance, *others = manifests({"managed": {"replicas": 3}})
    world.workloads.troubles.append(Trouble(pod="demo-configuration-store-*"))
    await world.apply(instance)
    await world.run()
    await world.pause(Kind.INSTANCE, "demo")
    world.workloads.troubles.clear()
    await world.apply(*others)
    await world.run()
    assert world.workloads.ready[NS, "demo-configuration-store"] == 3
    name = "demo-configuration-store-founded"
    assert name not in await world.names(CONFIG_MAPS)
    status, reason, message = await world.condition(Kind.INSTANCE, "demo", "ConfigurationStoreReady")
    assert (status, reason) == ("False", "Pending") and "no record shows yet that the ensemble was founded" in message
    assert any(name in text for text in (await world.status(Kind.INSTANCE, "demo"))["pendingActions"])
    assert not [c for c in world.journal.effects if c.port == ZOOKEEPER and "demo-configuration-store" in str(c)]
    await world.pause(Kind.INSTANCE, "demo", on=False)
    await world.run()
    assert await world.all_ready() == {}


async def test_a_paused_instance_whose_store_is_on_record_stays_ready() -> None:
    world = await converged(*manifests({"managed": {"replicas": 3}}))
    await world.pause(Kind.INSTANCE, "demo")
    await world.run()
    assert (await world.condition(Kind.INSTANCE, "demo", "ConfigurationStoreReady"))[0] == "True"


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
async def test_the_record_lives_as_long_as_the_volumes(policy: str) -> None:
    objects = quickstart()
    objects[1]["spec"]["reclaimPolicy"] = policy
    world = await converged(*objects)
    await world.delete_all()
    await world.run()
    assert await world.names(CUSTOM[Kind.CLUSTER]) == []
    kept = policy == "Retain"
    assert ("east-zookeeper-founded" in await world.names(CONFIG_MAPS)) is kept
    assert bool(await world.names(PVCS)) is kept
    await world.apply(*objects)
    await world.run()
    assert await world.all_ready() == {}
