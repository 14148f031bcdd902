"""A broker with more CPU gets more of the load, in plans and in what the standing balancer takes for even."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM, Json
from tests.support.balancing.world import NS, BalancingWorld

CPUS = ("500m", "1", "1500m")


def with_pods(world: BalancingWorld, cpus: tuple[str, ...] | None) -> None:
    """Brokers' pods, whose hosts are those of the fake brokers."""
    world.pulsar.brokers = [f"east-broker-{n}.x:8080" for n in range(3)]
    for number, cpu in enumerate(cpus or ()):
        labels = {
            "app.kubernetes.io/component": "broker",
            "pulsaroperator.io/owner-kind": "PulsarCluster",
            "pulsaroperator.io/owner-name": "east",
        }
        container = {"name": "broker", "resources": {"requests": {"cpu": cpu}}}
        meta = {"name": f"east-broker-{number}", "namespace": NS, "labels": labels}
        world.kube.put({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}})


def loads(world: BalancingWorld) -> dict[str, float]:
    found = dict.fromkeys(world.pulsar.brokers, 0.0)
    for broker in world.pulsar.brokers:
        for bundles in world.pulsar._stats(broker).values():
            for domains in bundles.values():
                found[broker] += sum(each["msgRateIn"] for each in domains["persistent"].values())
    return found


async def balanced(world: BalancingWorld, **spec: Any) -> list[float]:
    """Shares of the load after a rebalance."""
    world.skewed(60)
    world.rebalance(autoApprove=True, tolerancePercent=1, **spec)
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")
    found = loads(world)
    return [found[broker] / sum(found.values()) for broker in world.pulsar.brokers]


@pytest.mark.parametrize("said", ["by the pods", "declared"])
async def test_the_load_follows_the_cpu(said: str) -> None:
    world = BalancingWorld()
    with_pods(world, CPUS if said == "by the pods" else None)
    if said == "declared":

        def declare(obj: Json) -> None:
            obj["spec"]["loadBalancing"] = {"capacities": {f"east-broker-{n}": cpu for n, cpu in enumerate(CPUS)}}

        world.kube.edit(CUSTOM[Kind.CLUSTER], NS, "east", declare)
    shares = await balanced(world)
    assert shares == pytest.approx([1 / 6, 2 / 6, 3 / 6], abs=0.03)
    told = {each["broker"]: each["capacity"] for each in world.status()["capacities"]}
    assert told == dict(zip(world.pulsar.brokers, ("0.50", "1.00", "1.50"), strict=True))
    assert float(world.status()["measured"]["imbalance"]) < 1.1, "even, by what they can carry"


async def test_equal_brokers_share_evenly_and_say_nothing() -> None:
    world = BalancingWorld()
    with_pods(world, ("1", "1", "1"))
    assert await balanced(world) == pytest.approx([1 / 3] * 3, abs=0.03)
    assert not world.status().get("capacities")


async def test_the_error_of_the_weights_is_stated() -> None:
    """One of three brokers uses twice as much CPU as its load says; nothing is said of brokers that idle."""
    world = BalancingWorld()
    world.skewed()
    world.slightly_uneven()
    world.rebalance(autoApprove=True, repeatSeconds=30)
    await world.run(seconds=100)
    assert "cost" not in world.status()
    first, *others = world.pulsar.brokers
    world.pulsar.usage = {first: 0.8} | dict.fromkeys(others, 0.4)
    await world.run(seconds=480)
    cost = world.status()["cost"]
    assert cost["brokers"] == 3
    assert float(cost["deviation"]) > 0.15 and float(cost["learned"]) < float(cost["deviation"])


async def test_a_broker_that_is_busy_with_something_else_is_named_with_what_to_do() -> None:
    """Its usage stays what it is, whatever is moved off it."""
    world = BalancingWorld()
    world.skewed()
    world.slightly_uneven()
    first, *others = world.pulsar.brokers
    world.pulsar.usage = {first: 0.95} | dict.fromkeys(others, 0.4)
    world.rebalance(autoApprove=True, repeatSeconds=30, budget={"maxTrafficMovedPercent": 100})
    for _ in range(10):
        await world.run(seconds=1500)
    message = world.status()["conditions"][0]["message"]
    assert "b0 uses 95% of its CPU, " in message
    assert "Check which processes run there" in message
    made = len(world.pulsar.writes)
    await world.run(seconds=6000)
    assert len(world.pulsar.writes) == made
