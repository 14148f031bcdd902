"""Pods of the old version whose container restarts while a rollout is under way."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.ports import PODS
from tests.support.cluster.rolls import NEW, OLD, images, reason, three, until, version
from tests.support.cluster.stateful_sets import pod as pod_of
from tests.support.cluster.workloads import Trouble, is_ready
from tests.support.cluster.world import NS, ClusterWorld, quickstart


async def restarted(world: ClusterWorld, name: str) -> None:
    """The container of a pod ends now, is started again, and is not ready yet."""
    status = pod_of(name, ready=False, was_ready=False, once_ready=True, restarts=1)["status"]
    ready = next(each for each in status["conditions"] if each["type"] == "Ready")
    ready["lastTransitionTime"] = status["containerStatuses"][0]["state"]["running"]["startedAt"] = timestamp(
        world.clock.now()
    )
    await world.backstage.set_status(PODS, NS, name, status)


async def test_a_cure_reaches_pods_that_do_not_come_back_though_the_first_waits_for_them() -> None:
    """As servers of ZooKeeper that run out of memory: one alone has no quorum, whatever its template."""
    world = await three()
    world.workloads.troubles.append(Trouble(pod="east-zookeeper-*", image=f"*:{OLD}"))
    world.workloads.troubles.append(Trouble(pod="east-zookeeper-*", image=f"*:{NEW}"))
    for ordinal in range(3):
        await restarted(world, f"east-zookeeper-{ordinal}")
    world.clock.forward(30)
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await until(world, lambda gone: gone)
    for _ in range(4):
        await world.round()
    assert world.journal.pods_gone() == ["east-zookeeper-2"]
    world.clock.forward(200)
    for _ in range(6):
        await world.round()
    assert world.journal.pods_gone() == ["east-zookeeper-2", "east-zookeeper-1", "east-zookeeper-0"]
    world.workloads.troubles.clear()
    await world.run()
    assert all(image.endswith(NEW) for image in (await images(world, "east-zookeeper")).values())
    assert await reason(world) == "Ready"


async def test_a_version_that_does_not_start_takes_no_second_pod_however_long_that_is_down() -> None:
    world = await three()
    world.workloads.troubles.append(Trouble(pod="east-broker-*", image=f"*:{NEW}", waiting="ErrImagePull"))
    world.workloads.troubles.append(Trouble(pod="east-broker-1", image=f"*:{OLD}"))
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await until(world, lambda gone: "east-broker-2" in gone)
    await restarted(world, "east-broker-1")
    for _ in range(20):
        await world.round()
        world.clock.forward(60)
    assert world.journal.pods_gone().count("east-broker-1") == 0
    assert await reason(world) == "RolloutFailed"
    assert all(image.endswith(OLD) for image in (await images(world, "east-broker")).values())


@pytest.mark.parametrize("component", ["bookie", "broker"])
async def test_a_pod_that_restarts_while_the_metadata_store_has_no_quorum_stays(component: str) -> None:
    """It ended because its session was lost, and comes back with the store."""
    world = await three()
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await until(world, lambda gone: f"east-{component}-2" in gone)
    for _ in range(2):
        await world.workloads.step()
    assert is_ready(await world.get(PODS, f"east-{component}-2"))
    await restarted(world, f"east-{component}-1")
    for ordinal in range(2):
        await world.workloads.flap(NS, f"east-zookeeper-{ordinal}")
    world.unreachable.add("east-zookeeper.pulsar.svc.cluster.local")
    for _ in range(3):
        await world.reconcile((await world.keys())[1])
    assert f"east-{component}-1" not in world.journal.pods_gone()
    world.unreachable.clear()
    await world.run()
    assert await reason(world) == "Ready"


async def test_a_version_that_does_not_start_takes_one_server_of_a_configuration_store() -> None:
    """Nothing stops such a rollout, and nothing goes back."""
    instance = quickstart()[0]
    instance["spec"] = {
        "version": OLD,
        "configurationStore": {"managed": {"replicas": 3, "storage": {"size": "1Gi"}}},
    }
    world = ClusterWorld.fakes()
    await world.apply(instance)
    await world.run()
    name = instance["metadata"]["name"]
    world.workloads.troubles.append(Trouble(image=f"*:{NEW}", waiting="ErrImagePull"))
    world.workloads.troubles.append(Trouble(pod="*-1", image=f"*:{OLD}"))
    await world.change(Kind.INSTANCE, name, version(NEW))
    await until(world, lambda gone: gone)
    (first,) = world.journal.pods_gone()
    assert first.endswith("-2")
    second = f"{first[:-1]}1"
    await restarted(world, second)
    for _ in range(10):
        await world.round()
        world.clock.forward(120)
    assert world.journal.pods_gone() == [first]
    world.workloads.troubles = [Trouble(pod="*-1", image=f"*:{OLD}")]
    await world.run()
    assert all(image.endswith(NEW) for image in (await images(world, first[:-2])).values())
