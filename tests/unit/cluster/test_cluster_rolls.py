"""Rolls in which something else happens: evictions, closed windows, a stop, another cluster, a stranger's object."""

from __future__ import annotations

import copy

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import PODS, SERVICE_ACCOUNTS, STATEFUL_SETS, Json
from tests.support.cluster.rolls import (
    BROKEN,
    CLOSED,
    NEW,
    OLD,
    WEEK,
    brought_up,
    images,
    reason,
    three,
    two,
    until,
    version,
)
from tests.support.cluster.workloads import Trouble, is_ready
from tests.support.cluster.world import NS, quickstart


async def test_an_evicted_pod_comes_up_as_it_was_while_a_window_is_closed() -> None:
    """It is not ready for a moment, which is not its template's fault."""
    world = await three(lambda spec: spec.update(maintenanceWindows=CLOSED))
    before = await images(world, "east-zookeeper")
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.run()
    world.workloads.troubles.append(Trouble(pod="east-zookeeper-1"))
    await world.backstage.remove(PODS, NS, "east-zookeeper-1")
    for _ in range(3):
        await world.round()
    world.workloads.troubles.clear()
    await world.run()
    assert await images(world, "east-zookeeper") == before
    assert world.journal.pods_gone() == [] and await reason(world) == "MaintenanceWindow"


async def test_a_change_of_one_tier_alone_waits_for_its_window_too() -> None:
    world = await three(lambda spec: spec.update(maintenanceWindows=CLOSED))
    before = await world.configuration("east-proxy")
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["proxy"].update(config={"httpNumThreads": "9"}))
    await world.run()
    assert await world.configuration("east-proxy") == before
    assert await reason(world) == "MaintenanceWindow"


async def test_a_closed_window_holds_a_standalone_pod() -> None:
    manifests = quickstart()[:2]
    manifests[1]["spec"] = {
        "instanceRef": {"name": "demo"},
        "mode": "Standalone",
        "preset": "Small",
        "standalone": {"storage": {"size": "5Gi"}},
        "maintenanceWindows": CLOSED,
    }
    world = await brought_up(*manifests)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(image={"broker": "new:1"}))
    await world.run()
    assert world.journal.pods_gone() == []


async def test_nothing_is_rolled_while_the_templates_are_not_looked_at() -> None:
    """A stranger has the ServiceAccount's name: windows, stops and turns are not known then."""
    world = await three()
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(config={"maxProducersPerTopic": "7"}))
    await until(world, lambda gone: len(gone) == 1)
    for found in await world.backstage.all(SERVICE_ACCOUNTS):
        meta = {"name": found["metadata"]["name"], "namespace": NS}
        await world.backstage.remove(SERVICE_ACCOUNTS, NS, meta["name"])
        await world.backstage.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    await world.run()
    assert await reason(world, "Accepted") == "NameConflict"
    assert len(world.journal.pods_gone()) == 1


async def test_a_node_that_fails_takes_no_version_back() -> None:
    """Pods that were ready before say nothing of their template."""
    world = await three(jumps=f"{OLD} -> {NEW}")
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await until(world, lambda gone: "east-bookie-1" in gone)
    await world.workloads.step()
    world.workloads.troubles.append(Trouble(pod="east-bookie-0"))
    await world.run()
    world.clock.forward(WEEK)
    await world.run()
    template = await world.get(STATEFUL_SETS, "east-bookie")
    assert template["spec"]["template"]["spec"]["containers"][0]["image"].endswith(NEW)


@pytest.mark.parametrize("brokers", [1, 3])
async def test_what_breaks_one_cluster_does_not_reach_the_next(brokers: int) -> None:
    """Also when nothing of the first is left to be replaced, and once its roll has stopped."""
    world = await two(brokers)
    world.workloads.troubles.append(BROKEN)
    for name in ("east", "west"):
        await world.change(Kind.CLUSTER, name, lambda spec: spec.update(image={"broker": "pulsar-broker:broken"}))
    await world.run()
    world.clock.forward(700)
    await world.run()
    first = {name.partition("-")[0] for name in world.journal.pods_gone()}
    assert len(first) == 1, "one of the two tried"
    (other,) = {"east", "west"} - first
    assert await reason(world, name=other) == "WaitingForClusters"
    assert await reason(world, name=first.pop()) == "RolloutFailed"


async def test_a_canary_that_fails_goes_back_although_it_was_ready() -> None:
    world = await three(lambda spec: spec.update(upgrade={"canary": {"minutes": 15}}))
    before = await images(world, "east-zookeeper")
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.run()
    (canary,) = [name for name, image in (await images(world, "east-zookeeper")).items() if image != before[name]]
    pod = await world.live(PODS, canary)
    assert pod is not None
    status = copy.deepcopy(pod["status"])
    status["containerStatuses"][0]["restartCount"] = 1
    await world.backstage.set_status(PODS, NS, canary, status)
    await world.run()
    assert await reason(world) == "CanaryFailed"
    assert await images(world, "east-zookeeper") == before
    assert all(map(is_ready, await world.backstage.all(PODS)))


async def test_a_stop_leaves_the_tiers_before_it_free_and_ends_when_its_change_is_taken_back() -> None:
    world = await three()
    world.workloads.troubles.append(Trouble(pod="east-broker-2"))
    brokers = {"maxProducersPerTopic": "7"}

    def both(spec: Json) -> None:
        spec["bookkeeper"]["config"], spec["broker"]["config"] = {"gcWaitTime": "1000"}, brokers

    await world.change(Kind.CLUSTER, "east", both)
    await world.run()
    world.clock.forward(700)
    await world.run()
    assert await reason(world) == "RolloutFailed"
    world.workloads.troubles.clear()
    seen = len(world.journal.pods_gone())
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(config={"gcWaitTime": "600000"}))
    await world.run()
    assert [name for name in world.journal.pods_gone()[seen:] if "bookie" in name] != [], "the cure may be there"
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(config={}))
    await world.run()
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(config=brokers))
    await world.run()
    assert await reason(world) == "Ready", "healthy now: the stop of then says nothing"


async def test_a_jump_from_pods_that_are_not_replaced_yet_is_refused() -> None:
    """Back to 4.0.8 with ZooKeeper still at 4.0.9, and on to 4.0.6, which nobody tested from there."""
    world = await three(version("4.0.9"), jumps="4.0.9 -> 4.0.8, 4.0.8 -> 4.0.6")
    await world.change(Kind.CLUSTER, "east", version("4.0.8"))
    await until(world, lambda gone: any("zookeeper" in name for name in gone))
    await world.change(Kind.CLUSTER, "east", version("4.0.6"))
    await world.run()
    assert await reason(world, "Accepted") == "VersionRefused"
    assert not [image for image in (await images(world, "east-zookeeper")).values() if image.endswith("4.0.6")]


async def test_what_a_template_to_go_back_to_needs_is_kept() -> None:
    """One apply takes the proxies' own ServiceAccount away and breaks their image."""

    def own_account(spec: Json) -> None:
        spec["proxy"] |= {"replicas": 1, "pod": {"serviceAccountAnnotations": {"example.com/role": "reader"}}}

    world = await three(own_account)
    world.workloads.troubles.append(BROKEN)

    def change(spec: Json) -> None:
        spec["proxy"].pop("pod")
        spec["image"] = {"proxy": "pulsar-proxy:broken"}

    await world.change(Kind.CLUSTER, "east", change)
    await world.run()
    world.clock.forward(700)
    await world.run()
    assert await reason(world) == "RolloutFailed"
    template = (await world.get(STATEFUL_SETS, "east-proxy"))["spec"]["template"]["spec"]
    assert template["serviceAccountName"] in await world.names(SERVICE_ACCOUNTS)
