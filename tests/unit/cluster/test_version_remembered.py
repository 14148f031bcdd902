"""Which version the volumes were left by is known when a PulsarCluster is made again: no jump nobody tested."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CONFIG_MAPS, PODS, STATEFUL_SETS, Json
from tests.support.cluster.rolls import NEW, OLD, images, reason, three, until, version
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import NS, ClusterWorld

RECORD = "east-instance-id"


async def versions(world: ClusterWorld) -> str | None:
    found = (await world.get(CONFIG_MAPS, RECORD))["data"].get("versions")
    return None if found is None else str(found)


async def gone(world: ClusterWorld) -> Json:
    """The cluster, deleted; what remains are its volumes and records. Returns the manifest."""
    found = await world.get(Kind.CLUSTER, "east")
    await world.delete(Kind.CLUSTER, "east")
    await world.run()
    assert await world.live(Kind.CLUSTER, "east") is None
    meta = {"name": "east", "namespace": NS}
    return {"apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": meta, "spec": found["spec"]}


async def again(world: ClusterWorld, manifest: Json, wanted: str) -> None:
    await world.apply({**manifest, "spec": {**manifest["spec"], "version": wanted}})
    await world.run()


async def test_a_cluster_made_again_with_another_version_is_refused_before_anything_starts() -> None:
    world = await three(version(NEW), jumps=f"{OLD} -> 4.0.7, 4.0.7 -> {NEW}, {NEW} -> 4.0.7, 4.0.7 -> {OLD}")
    assert await versions(world) == NEW
    await again(world, await gone(world), OLD)
    status, found, message = await world.condition(Kind.CLUSTER, "east", "Accepted")
    assert (status, found) == ("False", "VersionRefused")
    assert f"{NEW} -> 4.0.7 -> {OLD}" in message and RECORD in message
    assert await world.backstage.all(STATEFUL_SETS) == []
    await world.change(Kind.CLUSTER, "east", version("4.0.7"))
    await world.run()
    assert await world.all_ready() == {} and await versions(world) == "4.0.7"


async def test_a_tested_jump_is_made_and_is_the_record_only_when_it_runs_everywhere() -> None:
    world = await three()
    await again(world, await gone(world), NEW)
    assert await world.all_ready() == {} and await versions(world) == NEW


async def test_volumes_that_two_versions_may_have_written_are_remembered_with_both() -> None:
    """The cluster goes in the middle of its roll, before and after its first pod of the newer version."""
    world = await three(jumps=f"{OLD} -> {NEW}")
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await until(world, lambda gone: gone)
    assert await versions(world) == f"{OLD},{NEW}"
    manifest = await gone(world)
    await again(world, manifest, OLD)
    assert await reason(world, "Accepted") == "VersionRefused"
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.run()
    assert await world.all_ready() == {} and await versions(world) == NEW


async def test_the_version_is_on_record_before_the_first_pod_has_it() -> None:
    world = await three()
    await world.change(Kind.CLUSTER, "east", version(NEW))
    seen: set[str | None] = set()

    async def look() -> None:
        if any(image.endswith(NEW) for image in (await images(world, "east-zookeeper")).values()):
            seen.add(await versions(world))

    await world.run(each=look)
    assert seen == {f"{OLD},{NEW}", NEW}


async def test_a_pod_that_is_not_ready_keeps_both_versions_on_record() -> None:
    """The last one of a roll, whatever it is of."""
    world = await three()
    world.workloads.troubles.append(Trouble(pod="east-proxy-0", image=f"*:{NEW}"))
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.run()
    assert world.journal.pods_gone()[-1] == "east-proxy-0" and await versions(world) == f"{OLD},{NEW}"
    world.workloads.troubles.clear()
    await world.run()
    assert await versions(world) == NEW


async def test_bookies_that_never_came_up_do_not_make_the_version_theirs() -> None:
    """Made again with a newer version, and deleted before the bookies opened what they have."""
    world = await three(jumps=f"{OLD} -> {NEW}, {NEW} -> 4.0.9")
    manifest = await gone(world)
    await world.apply({**manifest, "spec": {**manifest["spec"], "version": NEW}})

    async def bookies() -> bool:
        return any("bookie" in name for name in await world.names(PODS))

    await world.until(bookies)
    assert await versions(world) == f"{OLD},{NEW}"
    await again(world, await gone(world), "4.0.9")
    assert await reason(world, "Accepted") == "VersionRefused"


@pytest.mark.parametrize("text", [None, "", "latest", "4.0.8;4.0.6"])
async def test_a_record_that_does_not_say_refuses_nothing_and_is_completed(text: str | None) -> None:
    world = await three(version(NEW), jumps="")
    manifest = await gone(world)

    def change(obj: Json) -> None:
        obj["data"].pop("versions")
        obj["data"] |= {} if text is None else {"versions": text}

    await world.backstage.edit(CONFIG_MAPS, NS, RECORD, change)
    await again(world, manifest, OLD)
    assert await world.all_ready() == {} and await versions(world) == OLD


async def test_a_record_without_labels_counts() -> None:
    """Restored by hand from a backup."""
    world = await three(version(NEW), jumps="")
    manifest = await gone(world)
    await world.backstage.edit(CONFIG_MAPS, NS, RECORD, lambda obj: obj["metadata"].pop("labels"))
    await again(world, manifest, OLD)
    assert await reason(world, "Accepted") == "VersionRefused"


async def test_a_paused_cluster_says_what_it_would_remember() -> None:
    world = await three()
    await world.backstage.edit(CONFIG_MAPS, NS, RECORD, lambda obj: obj["data"].pop("versions"))
    await world.pause(Kind.CLUSTER, "east")
    await world.run()
    assert await versions(world) is None
    assert any(RECORD in each for each in (await world.status(Kind.CLUSTER, "east"))["pendingActions"])
