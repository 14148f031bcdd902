"""A broker that has just started says that it carries nothing: that is no fact to plan or to measure by."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.ports import Json
from tests.support.balancing.world import NS, BalancingWorld


def started(world: BalancingWorld, broker: str, seconds: float) -> None:
    """The pod of a broker, started so many seconds ago."""
    name = broker.partition(".")[0]
    labels = {
        "app.kubernetes.io/component": "broker",
        "pulsaroperator.io/owner-kind": "PulsarCluster",
        "pulsaroperator.io/owner-name": "east",
    }
    since = timestamp(world.clock.moment - timedelta(seconds=seconds))
    pod: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NS, "labels": labels},
        "spec": {"containers": [{"name": "broker"}]},
        "status": {"containerStatuses": [{"name": "broker", "state": {"running": {"startedAt": since}}}]},
    }
    world.kube.put(pod)


@pytest.fixture
def world() -> BalancingWorld:
    """A skewed cluster whose brokers have the names of pods."""
    found = BalancingWorld()
    found.pulsar.brokers = [f"east-broker-{n}.x:8080" for n in range(3)]
    found.skewed()
    return found


def owner(world: BalancingWorld) -> str:
    """The broker that has all the load."""
    return world.pulsar.brokers[0]


async def test_no_proposal_while_a_broker_that_carries_something_has_not_counted_it(world: BalancingWorld) -> None:
    started(world, owner(world), 20)
    world.rebalance()
    await world.run(seconds=1)
    assert world.condition("ProposalReady") == ("False", "NoData")
    (told,) = [c["message"] for c in world.status()["conditions"] if c["type"] == "ProposalReady"]
    assert "east-broker-0 started 20 s ago" in told and "60 s after its start" in told
    await world.run(seconds=46)
    assert world.condition("ProposalReady") == ("True", "Proposed")


async def test_a_broker_without_bundles_is_no_reason_to_wait(world: BalancingWorld) -> None:
    _, second, third = world.pulsar.brokers
    owners = world.pulsar.owners
    owners.update({bundle: second for bundle, broker in owners.items() if broker == third})
    started(world, third, 20)
    world.rebalance()
    await world.run(seconds=1)
    assert world.condition("ProposalReady") == ("True", "Proposed")


@pytest.mark.parametrize("mode", ["AddBrokers", "RemoveBrokers"])
async def test_a_roll_does_not_wait_for_it(world: BalancingWorld, mode: str) -> None:
    started(world, owner(world), 20)
    world.rebalance(mode=mode, brokers=[world.pulsar.brokers[1]])
    await world.run(seconds=1)
    assert world.condition("ProposalReady")[1] != "NoData"


async def test_a_promise_is_not_held_against_brokers_that_have_not_counted(world: BalancingWorld) -> None:
    """They restarted when the steps were done: all their bundles came back, and none of the rates."""
    world.rebalance(autoApprove=True)
    for _ in range(300):
        outcome = await world.once()
        await world.cluster_pass()
        if world.condition("Ready")[1] == "Measuring":
            break
        world.clock.moment += timedelta(seconds=max(outcome.requeue_after or 0.0, 0.05))
    world.clock.moment += timedelta(seconds=130)
    started(world, owner(world), 1)
    await world.once()
    assert world.condition("Ready") == ("False", "Measuring") and "measured" not in world.status()
    assert any("cannot be measured yet" in c["message"] for c in world.status()["conditions"])
    world.clock.moment += timedelta(seconds=64)
    await world.once()
    assert world.condition("Completed") == ("True", "Completed") and "measured" in world.status()
