"""Attacks on rollouts in the whole control loop: what happens between two looks, and between two clusters."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.dataplane.rollout.prepare import Preparation
from pulsar_operator.domain.dataplane.rollout.facts import RolloutFacts
from pulsar_operator.domain.dataplane.rollout.order import Candidate
from pulsar_operator.ports import PODS, PVCS, STATEFUL_SETS, Json
from tests.support.cluster.rolls import CLOSED, NEW, brought_up, images, one_of_each, reason, three, two, version
from tests.support.cluster.workloads import PROTECTION
from tests.support.cluster.world import NS, ClusterWorld, quickstart


async def claim_of(world: ClusterWorld, pod: str) -> str:
    volumes = (await world.get(PODS, pod))["spec"]["volumes"]
    return str(next(each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each))


async def remove_by_force(world: ClusterWorld, claim: str) -> None:
    """Somebody deletes a claim that is in use, and its finalizer."""

    def without_protection(obj: Json) -> None:
        obj["metadata"]["finalizers"] = [each for each in obj["metadata"].get("finalizers") or () if each != PROTECTION]

    await world.backstage.edit(PVCS, NS, claim, without_protection)
    await world.backstage.remove(PVCS, NS, claim)
    assert await world.live(PVCS, claim) is None


async def small() -> ClusterWorld:
    """One ZooKeeper server and one bookie."""
    manifests = quickstart()[:2]
    one_of_each(manifests[1]["spec"])
    return await brought_up(*manifests)


@pytest.mark.parametrize("component", ["zookeeper", "bookie"])
async def test_a_pod_whose_claim_was_removed_by_force_keeps_its_volume(component: str) -> None:
    """Its successor would get an empty one: of the only server of ZooKeeper all is lost."""
    world, name = await small(), f"east-{component}-0"
    await remove_by_force(world, await claim_of(world, name))
    part = "metadataStore" if component == "zookeeper" else "bookkeeper"

    def change(spec: Json) -> None:
        at = spec[part]["managed"] if component == "zookeeper" else spec[part]
        at["pod"] = {"annotations": {"example.com/changed": "yes"}}

    await world.change(Kind.CLUSTER, "east", change)
    await world.run()
    assert name not in world.journal.pods_gone()
    rollout = (await world.status(Kind.CLUSTER, "east"))["rollout"]
    assert rollout["blockedBy"] == "VolumePending" and "does not exist" in rollout["message"]


async def test_another_cluster_waits_until_the_only_broker_of_a_new_version_was_observed() -> None:
    """With all pods replaced nothing else says that the version is not proved yet."""

    def canary(spec: Json) -> None:
        one_of_each(spec)
        spec["upgrade"] = {"canary": {"minutes": 15}}

    world = await two(1, canary)
    await world.change(Kind.CLUSTER, "east", version(NEW))
    for _ in range(8):
        await world.run()
        if (await images(world, "east-broker"))["east-broker-0"].endswith(NEW):
            break
        world.clock.forward(15 * 60)
    else:
        raise AssertionError(await world.status(Kind.CLUSTER, "east"))
    await world.change(Kind.CLUSTER, "west", version(NEW))
    await world.run()
    assert not [each for each in world.journal.pods_gone() if each.startswith("west-")]
    rollout = (await world.status(Kind.CLUSTER, "east"))["rollout"]
    assert rollout["blockedBy"] == "CanaryUnderObservation"
    world.clock.forward(15 * 60)
    await world.run()
    assert "rollout" not in await world.status(Kind.CLUSTER, "east")
    assert [each for each in world.journal.pods_gone() if each.startswith("west-")]


@pytest.mark.parametrize("what", ["not observed", "taken back", "another pod"])
async def test_what_changes_between_the_two_looks_keeps_the_pod(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = await three()
    before = (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["template"]
    prepare, struck = Preparation.prepare, list[str]()

    async def meanwhile(self: Preparation, found: RolloutFacts, candidate: Candidate) -> RolloutFacts:
        if not struck:
            struck.append(candidate.name)
            if what == "another pod":
                await world.backstage.remove(PODS, NS, candidate.name)
                await world.workloads.step()
            else:
                await world.backstage.edit(
                    STATEFUL_SETS, NS, "east-broker", lambda obj: obj["spec"].update(template=before)
                )
            if what == "taken back":
                await world.workloads.step()
        return await prepare(self, found, candidate)

    monkeypatch.setattr(Preparation, "prepare", meanwhile)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(config={"maxProducersPerTopic": "7"}))
    for _ in range(20):
        if struck:
            break
        await world.round()
        assert struck or world.journal.pods_gone() == []
    assert struck and world.journal.pods_gone() == []
    monkeypatch.undo()
    await world.run()
    assert await reason(world) == "Ready" and world.workloads.most_down["east-broker"] <= 1


async def test_two_clusters_get_past_each_other_whatever_each_waits_for() -> None:
    """Paused and resumed midway, and with a window that closes: at no time both wait."""
    world = await two(1, one_of_each)
    change = {"maxProducersPerTopic": "7"}

    def both(spec: Json) -> None:
        spec["broker"]["config"], spec["bookkeeper"]["config"] = change, {"gcWaitTime": "600001"}

    for name in ("east", "west"):
        await world.change(Kind.CLUSTER, name, both)
    await world.until(_gone(world, 1))
    first = world.journal.pods_gone()[0].partition("-")[0]
    other = "west" if first == "east" else "east"
    await world.pause(Kind.CLUSTER, first)
    await world.until(_gone(world, 2))
    await world.pause(Kind.CLUSTER, first, on=False)
    await world.change(Kind.CLUSTER, other, lambda spec: spec.update(maintenanceWindows=CLOSED))
    await world.run()
    assert await reason(world, name=first) == "Ready" and await reason(world, name=other) == "MaintenanceWindow"
    await world.change(Kind.CLUSTER, first, lambda spec: spec["broker"].update(config={"maxProducersPerTopic": "8"}))
    await world.run()
    assert await reason(world, name=first) == "Ready", "a closed window keeps no place"
    await world.change(Kind.CLUSTER, other, lambda spec: spec.pop("maintenanceWindows"))
    await world.run()
    assert await reason(world, name=other) == "Ready"


def _gone(world: ClusterWorld, number: int) -> Any:
    async def gone() -> bool:
        return len(world.journal.pods_gone()) >= number

    return gone


async def test_two_bookies_that_are_unready_and_outdated_are_not_taken_one_after_another() -> None:
    """Their containers were ready and are not any more: they may come back together."""
    world = await three()
    await world.change(Kind.CLUSTER, "east", version(NEW))

    async def begun() -> bool:
        return "east-bookie-2" in world.journal.pods_gone()

    await world.until(begun)
    await world.idle_steps(3)
    away = {"east-bookie-0", "east-bookie-1"}
    for name in sorted(away):
        status = copy.deepcopy((await world.get(PODS, name))["status"])
        status["containerStatuses"][0]["ready"] = False
        await world.backstage.set_status(PODS, NS, name, status)
        await world.workloads.flap(NS, name)
    world.workloads.lost.update(away)  # no kubelet reports that they are ready again
    for _ in range(6):
        await world.round()
        world.clock.forward(200)
    assert not away & set(world.journal.pods_gone())
    world.workloads.lost.clear()
    await world.run()
    assert await reason(world) == "Ready"
