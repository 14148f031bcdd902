"""Claims or pods of bookies prove that an empty metadata store is a loss. The whole controller, in memory."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CONFIG_MAPS, PODS, PVCS, Json, ResourceType, UnavailableError
from tests.support.cluster.copies import ready_world
from tests.support.cluster.world import NS, ClusterWorld, quickstart
from tests.support.core.journal import ZOOKEEPER, PortCall

EAST = "east-zookeeper.pulsar.svc.cluster.local:2181"
RECORD = "east-instance-id"
CLAIM = "journal-0-east-bookie-0"


async def store_lost_and_record_of_the_first_start(world: ClusterWorld) -> int:
    """The store is empty, and the ConfigMap is restored from a backup of the moment between two steps."""
    await world.dataplane.wipe(EAST)
    await world.backstage.edit(CONFIG_MAPS, NS, RECORD, lambda obj: obj["data"].update(state="Initializing"))
    return len(world.journal.effects)


def store_writes(world: ClusterWorld, mark: int) -> list[PortCall]:
    return [call for call in world.journal.since(mark) if call.port == ZOOKEEPER]


async def refused(world: ClusterWorld, mark: int) -> str:
    """Nothing was written; the message."""
    status, reason, message = await world.condition(Kind.CLUSTER, "east", "MetadataReady")
    assert (status, reason) == ("False", "MetadataLost"), (status, reason, message)
    assert not store_writes(world, mark) and (await world.trees())[EAST] == {}
    assert "Nothing is written. Restore the metadata store" in message
    return message


async def test_a_record_of_the_first_start_formats_nothing_over_volumes() -> None:
    world = await ready_world()
    mark = await store_lost_and_record_of_the_first_start(world)
    claims = await world.uids(PVCS)
    await world.run()
    assert "The ConfigMap is therefore outdated" in await refused(world, mark)
    assert await world.uids(PVCS) == claims


async def claims_without_labels(world: ClusterWorld) -> None:
    """Somebody restored them by hand."""

    def strip(obj: Json) -> None:
        obj["metadata"].pop("labels", None)

    for claim in await world.backstage.all(PVCS):
        if "-bookie-" in claim["metadata"]["name"]:
            await world.backstage.edit(PVCS, NS, claim["metadata"]["name"], strip)


async def claims_gone_and_pods_there(world: ClusterWorld) -> None:
    """Somebody took the finalizers off: their data is in volumes that nobody can see any more."""

    def release(obj: Json) -> None:
        obj["metadata"].pop("finalizers", None)

    for claim in await world.backstage.all(PVCS):
        name = claim["metadata"]["name"]
        if "-bookie-" in name:
            await world.backstage.edit(PVCS, NS, name, release)
            await world.backstage.remove(PVCS, NS, name)
            assert await world.live(PVCS, name) is None
    assert any("-bookie-" in pod["metadata"]["name"] for pod in await world.backstage.all(PODS))


@pytest.mark.parametrize("left", [claims_without_labels, claims_gone_and_pods_there])
@pytest.mark.parametrize("record", ["absent", "first start"])
async def test_what_is_left_of_bookies_counts(left, record: str) -> None:  # type: ignore[no-untyped-def]
    world = await ready_world()
    await left(world)
    mark = await store_lost_and_record_of_the_first_start(world)
    if record == "absent":
        await world.backstage.remove(CONFIG_MAPS, NS, RECORD)
    for _ in range(3):
        await world.round()
    await refused(world, mark)


async def test_a_claim_made_beforehand_without_labels_is_seen_before_the_first_start() -> None:
    world = ClusterWorld.fakes()
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM, "namespace": NS}}
    await world.apply(claim)
    await world.apply(*quickstart())
    await world.run()
    await refused(world, 0)
    await world.backstage.remove(PVCS, NS, CLAIM)
    await world.run()
    assert await world.all_ready() == {}


async def test_claims_of_others_do_not_count() -> None:
    world = ClusterWorld.fakes()
    for name in ("journal-0-far-east-bookie-0", "journal-0-east-bookie-", "data-east-bookie-0"):
        meta = {"name": name, "namespace": NS}
        await world.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta})
    await world.apply(*quickstart())
    await world.run()
    assert await world.all_ready() == {}


@pytest.mark.parametrize("kind", [PVCS, PODS])
async def test_unknown_is_not_absent(kind: ResourceType) -> None:
    world = await ready_world()
    mark = await store_lost_and_record_of_the_first_start(world)

    asked = []

    def away(call: PortCall) -> None:
        if call.verb == "list" and call.kind == kind.kind:
            asked.append(call)
            raise UnavailableError("the API server does not answer")

    world.journal.before.append(away)
    for _ in range(3):
        await world.round()
    assert asked and not store_writes(world, mark) and (await world.trees())[EAST] == {}
