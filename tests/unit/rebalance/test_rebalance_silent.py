"""A broker that does not answer: who plans without it, who waits for it, and for how long."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zlib import crc32

import pytest

from pulsar_operator.ports import UnavailableError
from tests.support.balancing.world import BalancingWorld

STANDING: dict[str, Any] = {"autoApprove": True, "repeatSeconds": 60}


@pytest.fixture
def world() -> BalancingWorld:
    """Four brokers, all load on the first."""
    made = BalancingWorld()
    made.pulsar.brokers.append("b3.x:8080")
    made.skewed()
    made.share(3)
    return made


def message(world: BalancingWorld, kind: str = "Ready", name: str = "once") -> str:
    return next(str(c["message"]) for c in world.status(name)["conditions"] if c["type"] == kind)


def evenness(world: BalancingWorld, *brokers: str) -> float:
    load = [world.pulsar.load().get(each, 0.0) for each in brokers]
    return max(load) * len(load) / sum(load)


async def test_a_standing_balancer_balances_the_others(world: BalancingWorld) -> None:
    first, second, third, silent = world.pulsar.brokers
    world.pulsar.mute = {silent}
    theirs = {bundle for bundle, owner in world.pulsar.owners.items() if owner == silent}
    world.rebalance(**STANDING)
    await world.run(seconds=900)
    assert evenness(world, first, second, third) < 1.2
    assert {bundle for bundle, owner in world.pulsar.owners.items() if owner == silent} == theirs
    await world.run(seconds=300)
    assert "1 of 4 brokers and their bundles are left out" in message(world) and silent in message(world)


async def test_a_broker_without_statistics_is_no_idle_broker(world: BalancingWorld) -> None:
    """It lists what it has, and does not say what that carries."""
    *_, silent = world.pulsar.brokers
    call = world.pulsar._stats

    def stats(broker: str) -> object:
        if broker == silent:
            raise UnavailableError("the answer is larger than 64 MiB")
        return call(broker)

    world.pulsar._stats = stats  # type: ignore[assignment,method-assign]
    theirs = {bundle for bundle, owner in world.pulsar.owners.items() if owner == silent}
    world.rebalance(**STANDING)
    await world.run(seconds=900)
    assert world.pulsar.writes and all("dynamic" not in each for each in world.pulsar.writes)
    assert {bundle for bundle, owner in world.pulsar.owners.items() if owner == silent} == theirs
    assert evenness(world, *world.pulsar.brokers[:3]) < 1.2


async def test_too_many_silent_brokers_are_no_data(world: BalancingWorld) -> None:
    world.pulsar.mute = set(world.pulsar.brokers[2:])
    world.rebalance(**STANDING)
    await world.run(seconds=900)
    assert not [each for each in world.pulsar.writes if each.endswith("/unload")]
    assert world.condition("Ready") == ("False", "NoData")
    assert "2 of 4 brokers do not answer, which is more than a third" in message(world)


async def test_a_silent_broker_with_most_of_the_load_is_no_data(world: BalancingWorld) -> None:
    world.rebalance(**STANDING)
    await world.once()
    world.pulsar.mute = {world.pulsar.brokers[0]}
    world.clock.moment += timedelta(seconds=60)
    await world.once()
    assert world.condition("Ready") == ("False", "NoData")
    assert "the brokers that do not answer had 100% of the load" in message(world)
    # A new process does not know that: it leaves the broker out, and the others have nothing to do.
    world.restart()
    await world.once()
    assert world.condition("Completed") == ("True", "Balanced")


async def test_one_observation_without_an_answer_is_no_fresh_start(world: BalancingWorld) -> None:
    """Else the next figure of the broker, of one minute, would be all that is known of it."""
    world.rebalance(**STANDING)
    await world.once()
    silent = world.pulsar.brokers[3]
    theirs = [bundle for bundle, owner in world.pulsar.owners.items() if owner == silent]
    for mute, rate in (({silent}, 100.0), (set(), 100_000.0)):
        world.pulsar.mute = mute
        names = (f"persistent://shop/orders/late{n}" for n in range(1000))
        inside = (
            n for n in names if ("shop/orders", *world.pulsar._bundle("shop/orders", crc32(n.encode()))) in theirs
        )
        world.pulsar.rates[next(inside)] = rate
        world.clock.moment += timedelta(seconds=60)
        await world.once()
    shown = world.status()["proposal"]["before"]["imbalance"]
    assert float(shown) < 3.5, "the smoothed figures, of which one minute is a tenth"


async def test_a_proposal_asked_for_once_is_of_all_brokers(world: BalancingWorld) -> None:
    world.pulsar.mute = {world.pulsar.brokers[3]}
    world.rebalance()
    await world.once()
    assert world.condition("ProposalReady") == ("False", "NoData")
    assert world.pulsar.brokers[3] in message(world)


@pytest.mark.parametrize(("leaving", "reason"), [(1, "NoData"), (0, "AutoApproved")])
async def test_a_drain_needs_the_brokers_that_it_names(world: BalancingWorld, leaving: int, reason: str) -> None:
    brokers = world.pulsar.brokers
    world.pulsar.mute = {brokers[1]}
    world.rebalance(mode="RemoveBrokers", brokers=[brokers[leaving]], autoApprove=True, repeatSeconds=30)
    await world.once()
    assert world.condition("Ready")[1] == reason


@pytest.mark.parametrize("clients", [True, False], ids=["clients", "nobody"])
async def test_a_drain_goes_past_a_third_broker_that_is_silent(world: BalancingWorld, clients: bool) -> None:
    first, _, _, silent = world.pulsar.brokers
    world.pulsar.mute, world.pulsar.clients = {silent}, clients
    theirs = [bundle for bundle, owner in world.pulsar.owners.items() if owner == silent]
    world.rebalance(mode="RemoveBrokers", brokers=[first], autoApprove=True, repeatSeconds=30)
    await world.run(seconds=300)
    assert first not in world.pulsar.owners.values()
    assert [bundle for bundle, owner in world.pulsar.owners.items() if owner == silent] == theirs
    assert world.status()["progress"]["finishedTime"]


async def test_a_destination_that_falls_silent_ends_the_execution(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=True)
    for _ in range(3):
        await world.once()
        await world.cluster_pass()
    assert world.condition("Executing")[0] == "True"
    world.pulsar.mute = set(world.pulsar.brokers[1:])
    waited = 0
    while world.condition("Executing")[0] == "True":
        await world.once()
        await world.cluster_pass()
        world.clock.moment += timedelta(seconds=30)
        waited += 30
        assert waited <= 420, "it waits for ever, and Pulsar's balancer is off"
    assert waited >= 300 and world.condition("Stopped") == ("True", "PlanInvalidated")
    assert "have not answered since" in message(world, "Stopped")
    await world.cluster_pass()
    assert world.pulsar.dynamic == {}


async def test_an_execution_survives_brokers_that_come_back_in_time(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=True)
    for _ in range(3):
        await world.once()
        await world.cluster_pass()
    world.pulsar.mute = set(world.pulsar.brokers[1:])
    for _ in range(9):
        await world.once()
        world.clock.moment += timedelta(seconds=30)
    assert world.status()["progress"]["blockedSince"]
    world.pulsar.mute = set()
    await world.once()
    assert "blockedSince" not in world.status()["progress"]
    await world.run()
    assert world.spread() < 1.2


async def test_a_promise_is_not_waited_for_without_end(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=True)
    for _ in range(300):
        outcome = await world.once()
        await world.cluster_pass()
        if world.condition("Ready")[1] == "Measuring":
            break
        world.clock.moment += timedelta(seconds=max(outcome.requeue_after or 0.0, 0.05))
    world.pulsar.mute = {world.pulsar.brokers[3]}
    await world.run(seconds=1800)
    assert world.condition("Completed") == ("True", "Completed") and "measured" not in world.status()
    assert "could not be measured" in message(world, "Completed") and world.pulsar.brokers[3] in message(
        world, "Completed"
    )


async def test_the_service_may_lead_to_the_silent_broker(world: BalancingWorld) -> None:
    """Every second call through the Service comes to it."""
    calls = 0
    call = world.pulsar.call

    async def through(endpoint, method, path, **more):  # type: ignore[no-untyped-def]
        nonlocal calls
        if endpoint.url.endswith("east-broker.apps:8080"):
            calls += 1
            if calls % 2 == 0:
                raise UnavailableError("no answer")
        return await call(endpoint, method, path, **more)

    world.pulsar.call = through  # type: ignore[method-assign]
    world.pulsar.mute = {world.pulsar.brokers[3]}
    world.rebalance(**STANDING)
    await world.once()
    assert world.condition("Completed") == ("True", "Balanced"), message(world)
