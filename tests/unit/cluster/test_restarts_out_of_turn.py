"""Containers restart, or pods are evicted, while a change waits for its turn, and get nothing of it by that."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import PODS, Json
from tests.support.cluster.rolls import CLOSED, NEW, OLD, images, reason, three, until, version
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import NS, ClusterWorld


async def out_of_memory(world: ClusterWorld, pods: str, *names: str) -> None:
    """Pods cease to be ready, and their containers start again and are not ready yet."""
    for name in names:
        await world.workloads.flap(NS, name)
    world.workloads.troubles.append(Trouble(pod=pods))
    for _ in range(4):
        await world.round()


def other(spec: Json) -> None:
    spec["broker"]["config"] = {"maxProducersPerTopic": "7"}


BROKERS = [f"east-broker-{ordinal}" for ordinal in range(3)]


async def test_a_tier_that_ran_out_of_memory_keeps_its_template_in_a_closed_window() -> None:
    world = await three(lambda spec: spec.update(maintenanceWindows=CLOSED))
    before = await world.configuration("east-broker")
    await world.change(Kind.CLUSTER, "east", other)
    await world.run()
    await out_of_memory(world, "east-broker-*", *BROKERS)
    assert await world.configuration("east-broker") == before and world.journal.pods_gone() == []
    world.workloads.troubles.clear()
    await world.run()
    assert await world.configuration("east-broker") == before and await reason(world) == "MaintenanceWindow"


async def test_a_tier_whose_pods_were_all_evicted_comes_back_as_it_was() -> None:
    world = await three(lambda spec: spec.update(maintenanceWindows=CLOSED))
    before = await images(world, "east-broker")
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.run()
    world.workloads.troubles.append(Trouble(pod="east-broker-*"))
    for name in BROKERS:
        await world.backstage.remove(PODS, NS, name)
    for _ in range(4):
        await world.round()
    world.workloads.troubles.clear()
    await world.run()
    assert await images(world, "east-broker") == before


async def test_an_older_version_reaches_no_tier_before_its_turn() -> None:
    """It goes in from the proxies down: brokers and bookies that restart keep what they have."""
    world = await three(jumps=f"{OLD} <-> {NEW}")
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.run()
    assert await reason(world) == "Ready"
    world.workloads.troubles.append(Trouble(pod="east-proxy-*", image=f"*{OLD}"))
    await world.change(Kind.CLUSTER, "east", version(OLD))
    for _ in range(4):
        await world.round()
    await out_of_memory(world, "east-broker-*", *BROKERS)
    assert all(image.endswith(NEW) for image in (await images(world, "east-broker")).values())


@pytest.mark.parametrize("held", ["window", "canary"])
async def test_a_restarted_pod_of_the_old_template_is_not_replaced_while_something_holds_its_tier(held: str) -> None:
    """The roll is half done when its window closes, or while its first pod is watched."""
    canary = {"upgrade": {"canary": {"minutes": 15}}} if held == "canary" else {}
    world = await three(lambda spec: spec.update(canary), jumps=f"{OLD} -> {NEW}")
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await until(world, lambda gone: "east-zookeeper-2" in gone)
    if held == "window":
        await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(maintenanceWindows=CLOSED))
    for _ in range(3):
        await world.round()
    gone = world.journal.pods_gone()
    await out_of_memory(world, "east-zookeeper-0", "east-zookeeper-0")
    assert world.journal.pods_gone() == gone == ["east-zookeeper-2"]
    assert (await images(world, "east-zookeeper"))["east-zookeeper-0"].endswith(OLD)
    world.workloads.troubles.clear()
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.pop("maintenanceWindows", None))
    world.clock.forward(16 * 60)
    for _ in range(8):
        await world.round()
    assert len(world.journal.pods_gone()) > 1, "it goes on afterwards"


async def test_a_template_with_which_no_pod_was_ever_ready_is_corrected_in_a_closed_window() -> None:
    world = await three()
    broken = Trouble(pod="east-broker-*", image="*:broken", waiting="ErrImagePull")
    world.workloads.troubles.append(broken)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(image={"broker": "pulsar-broker:broken"}))
    await world.run()
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(maintenanceWindows=CLOSED, image={}))
    await world.run()
    assert not any(image.endswith(":broken") for image in (await images(world, "east-broker")).values())
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"
