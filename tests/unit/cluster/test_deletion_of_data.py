"""reclaimPolicy Delete: what goes with a cluster is what the operator made for it, whatever else has its names."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CONFIG_MAPS, PVCS, SECRETS, Json
from tests.support.cluster.copies import made_once
from tests.support.cluster.world import NS, ClusterWorld, quickstart


def theirs(kind: str, name: str) -> Json:
    """Of somebody else, under a name that the operator would choose."""
    meta = {"name": name, "namespace": NS, "labels": {"app": "theirs"}}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, "data": {"theirs": "eA=="}}


@made_once
async def deletable(*there: Json, **spec: Json) -> ClusterWorld:
    """An instance and a cluster with reclaimPolicy Delete, beside what is there already."""
    world = ClusterWorld.fakes()
    manifests = quickstart()[:2]
    manifests[1]["spec"].update(reclaimPolicy="Delete", **spec)
    for each in there:
        await world.backstage.put(each)
    await world.apply(*manifests)
    await world.run()
    assert await world.all_ready() == {}
    return world


def kept(world: ClusterWorld) -> list[str]:
    """Names in what is told of objects that were not deleted."""
    return [event.message.split()[1] for event in world.journal.events if event.reason == "NotDeleted"]


async def test_delete_with_an_external_store_leaves_what_an_ensemble_would_have_had() -> None:
    external = {"external": {"servers": "zk.infra:2181", "chroot": "/east"}}
    there = theirs("Secret", "east-zookeeper-super"), theirs("ConfigMap", "east-zookeeper-founded")
    world = await deletable(*there, metadataStore=external)
    await world.delete(Kind.CLUSTER, "east")
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None
    assert await world.names(SECRETS) == ["east-zookeeper-super"]
    assert await world.names(CONFIG_MAPS) == ["east-zookeeper-founded"]
    assert kept(world) == []


async def test_delete_leaves_a_secret_that_somebody_else_made_for_the_ensemble() -> None:
    world = await deletable(theirs("Secret", "east-zookeeper-super"))
    await world.delete(Kind.CLUSTER, "east")
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None
    assert (await world.names(SECRETS), await world.names(CONFIG_MAPS)) == (["east-zookeeper-super"], [])
    assert kept(world) == ["east-zookeeper-super"]


async def test_delete_leaves_a_record_of_somebody_else_and_takes_one_that_was_restored() -> None:
    world = await deletable()

    async def change(name: str, **data: str) -> None:
        def edit(obj: Json) -> None:
            obj["metadata"].pop("labels")
            obj["data"] = data or obj["data"]

        await world.backstage.edit(CONFIG_MAPS, NS, name, edit)

    await world.delete(Kind.CLUSTER, "east")
    await change("east-instance-id", theirs="1")
    await change("east-zookeeper-founded")
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None
    assert await world.names(CONFIG_MAPS) == ["east-instance-id"]
    assert kept(world) == ["east-instance-id"]


@pytest.mark.parametrize(
    "name", ["my-backup", "ledgers-0-east-bookie-0-copy", "copy-ledgers-0-east-bookie-0", "data-east-bookie-0"]
)
async def test_delete_leaves_a_copy_of_a_claim(name: str) -> None:
    """Made from the manifest of one, labels included; no pod of the cluster ever mounted it."""
    world = await deletable()
    claim = await world.get(PVCS, "ledgers-0-east-bookie-0")
    labels = claim["metadata"]["labels"]
    await world.backstage.put({**claim, "metadata": {"name": name, "namespace": NS, "labels": labels}})
    await world.delete(Kind.CLUSTER, "east")
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None
    assert await world.names(PVCS) == kept(world) == [name]


async def test_delete_takes_claims_of_pods_and_journals_that_are_not_specified_any_more() -> None:
    world = await deletable()
    claim = await world.get(PVCS, "journal-0-east-bookie-0")
    labels = claim["metadata"]["labels"]
    for name in ("journal-0-east-bookie-12", "journal-3-east-bookie-0"):
        await world.backstage.put({**claim, "metadata": {"name": name, "namespace": NS, "labels": labels}})
    await world.delete(Kind.CLUSTER, "east")
    await world.run()
    assert (await world.names(PVCS), kept(world)) == ([], [])
