"""A cluster whose rollout does not go on, and another of its instance that has something to roll out: it waits until
somebody corrects, pauses or deletes the first."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.ports import CUSTOM, PODS, Json, ResourceType
from tests.support.cluster.copies import made_once
from tests.support.cluster.rolls import BROKEN, WEEK, one_of_each, reason, two, version
from tests.support.cluster.world import NS, ClusterWorld

HOUR = 3600.0


def broken(spec: Json) -> None:
    spec["image"] = {"broker": "pulsar-broker:broken"}


def unrelated(spec: Json) -> None:
    spec["broker"]["config"] = {"maxProducersPerTopic": "7"}


def unreadable(spec: Json) -> None:
    spec["confirmations"] = [{"action": "RollUnderReplicated", "expiresTime": "2026-02-31T00:00:00Z"}]


async def later(world: ClusterWorld, seconds: float) -> None:
    world.clock.forward(seconds)
    await world.run()


def of(world: ClusterWorld, cluster: str) -> list[str]:
    """Pods of a cluster that its roll took."""
    return [name for name in world.journal.pods_gone() if name.startswith(f"{cluster}-")]


async def words(world: ClusterWorld) -> str:
    """What west waits for."""
    _, found, message = await world.condition(Kind.CLUSTER, "west", "Progressing")
    assert found == "WaitingForClusters", (found, message)
    return message


@made_once
async def stopped() -> ClusterWorld:
    """East has tried a broken image of its broker; the image is broken in west too."""
    world = await two(1, one_of_each)
    world.workloads.troubles.append(BROKEN)
    await world.change(Kind.CLUSTER, "east", broken)
    await world.run()
    await later(world, 700)
    assert await reason(world) == "RolloutFailed"
    return world


def let_hang(world: ClusterWorld, name: str) -> None:
    """The node of a pod is gone: it stays Terminating."""
    release = world.workloads._release

    async def hang(kind: ResourceType, obj: Json, finalizer: str) -> None:
        if (kind, obj["metadata"]["name"]) != (PODS, name):
            await release(kind, obj, finalizer)

    world.workloads._release = hang  # type: ignore[method-assign]


async def rounds(world: ClusterWorld, number: int = 12) -> None:
    """While a pod hangs there is no end."""
    for _ in range(number):
        await world.round()


@pytest.mark.parametrize("change", [broken, unrelated])
async def test_a_failed_rollout_holds_the_others_until_it_is_paused(change: Callable[[Json], Any]) -> None:
    """Which cluster, since when and what to do is said."""
    world = await stopped()
    await world.change(Kind.CLUSTER, "west", change)
    await world.run()
    await later(world, WEEK)
    assert of(world, "west") == []
    said = await words(world)
    assert f"PulsarCluster {NS}/east has been rolling out since 2026-01-01T" in said and "(RolloutFailed)" in said
    assert "annotate pulsarcluster/east pulsaroperator.io/pause=true" in said and "delete it" in said
    rollout = (await world.status(Kind.CLUSTER, "west"))["rollout"]
    assert (rollout["blockedBy"], rollout["message"]) == ("WaitingForClusters", said.partition(" pods. ")[2])
    await world.pause(Kind.CLUSTER, "east")
    await world.run()
    assert of(world, "west") == ["west-broker-0"], "a person said so"


async def test_a_failed_rollout_that_is_corrected_holds_nobody() -> None:
    world = await stopped()
    await world.change(Kind.CLUSTER, "west", unrelated)
    await world.run()
    assert of(world, "west") == []
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.pop("image"))
    await world.run()
    assert of(world, "west") == ["west-broker-0"] and await reason(world, name="west") == "Ready"


async def test_a_failed_rollout_stays_in_the_way_where_the_specification_is_refused_later() -> None:
    world = await stopped()
    await world.change(Kind.CLUSTER, "east", version("4.9.9"))
    await world.change(Kind.CLUSTER, "west", broken)
    await world.run()
    assert of(world, "west") == [] and "(VersionRefused)" in await words(world)


async def test_a_cluster_that_is_deleted_holds_nobody() -> None:
    world = await stopped()
    world.workloads.troubles.clear()
    await world.change(Kind.CLUSTER, "west", broken)
    await world.run()
    assert of(world, "west") == []
    await world.delete(Kind.CLUSTER, "east")
    await world.run()
    assert of(world, "west") == ["west-broker-0"]


async def test_a_rollout_in_which_nothing_happens_holds_the_others_until_it_is_paused() -> None:
    world = await two(1, one_of_each)
    let_hang(world, "east-broker-0")
    await world.change(Kind.CLUSTER, "east", unrelated)
    await rounds(world)
    assert of(world, "east") == ["east-broker-0"]
    await world.change(Kind.CLUSTER, "west", unrelated)
    await rounds(world)
    world.clock.forward(24 * HOUR)
    await rounds(world)
    assert of(world, "west") == [] and "pause=true" in await words(world)
    await world.pause(Kind.CLUSTER, "east")
    await rounds(world)
    assert of(world, "west") == ["west-broker-0"]


async def test_a_specification_that_cannot_be_read_holds_the_others_until_it_is_paused() -> None:
    world = await two(1, one_of_each)
    world.workloads.troubles.append(BROKEN)
    await world.change(Kind.CLUSTER, "east", broken)
    await world.run()
    await world.change(Kind.CLUSTER, "east", unreadable)
    await world.change(Kind.CLUSTER, "west", unrelated)
    await world.run()
    assert of(world, "west") == []
    await world.pause(Kind.CLUSTER, "east")
    await world.run()
    assert of(world, "west") == ["west-broker-0"]


@pytest.mark.parametrize("specified", [unrelated, unreadable], ids=["readable", "unreadable"])
@pytest.mark.parametrize("wrote", [False, True], ids=["before", "again and again"])
async def test_a_cluster_that_the_instance_does_not_allow_holds_nobody(specified: Any, wrote: bool) -> None:
    """Whatever its status says, which its owner may write: it reads no store, and has nothing to roll there."""
    world = await two(1, one_of_each)
    stranger = copy.deepcopy(await world.get(Kind.CLUSTER, "west"))
    stranger.pop("status")
    stranger["metadata"] = {"name": "north", "namespace": "elsewhere"}
    stranger["spec"]["instanceRef"] = {"name": "demo", "namespace": NS}
    specified(stranger["spec"])
    await world.apply(stranger)
    await world.run()

    async def claims() -> None:
        rollout = {"component": "broker", "reason": "?", "since": "2020-01-01T00:00:00Z", "podsDone": 1, "podsTotal": 2}

        def change(obj: Json) -> None:
            obj.setdefault("status", {})["rollout"] = {**rollout, "message": timestamp(world.clock.now())}

        await world.backstage.edit(CUSTOM[Kind.CLUSTER], "elsewhere", "north", change)

    await claims()
    before = len(of(world, "east"))
    await world.change(Kind.CLUSTER, "east", unrelated)
    for _ in range(12):
        if wrote:
            await claims()
        await world.round()
    assert of(world, "east")[before:] == ["east-broker-0"]
    assert "elsewhere" not in str((await world.get(Kind.CLUSTER, "east"))["status"])
