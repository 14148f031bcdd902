"""No bundle is moved while the configuration store of the instance is away; the proposal outlives the outage."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.rebalance.execution import GIVE_UP_SECONDS
from pulsar_operator.ports import CUSTOM, UnavailableError
from tests.support.balancing.world import NS, BalancingWorld


def store(world: BalancingWorld, status: str) -> None:
    conditions = [{"type": "ConfigurationStoreReady", "status": status, "reason": "X", "message": "no answer"}]
    world.kube.set_status(CUSTOM[Kind.INSTANCE], NS, "prod", {"conditions": conditions})


async def executing(steps: int) -> BalancingWorld:
    """A proposal of which so many steps were asked for."""
    world = BalancingWorld()
    world.skewed()
    world.put(Kind.INSTANCE, "prod", {"configurationStore": {"external": {"servers": "zk:2181"}}})
    store(world, "True")
    world.rebalance()
    await world.run()
    world.command("approve")
    for _ in range(200):
        moves = [each for each in world.pulsar.writes if each.endswith("unload")]
        if len(moves) >= steps and world.condition("Executing")[0] == "True":
            return world
        await world.once()
        await world.cluster_pass()
        world.clock.moment += timedelta(seconds=1)
    raise AssertionError(world.status())


@pytest.mark.parametrize("steps", [0, 1, 2])
async def test_it_is_held_between_steps_and_in_one_and_ends_as_proposed(steps: int) -> None:
    world = await executing(steps)
    store(world, "False")
    writes = len(world.pulsar.writes)
    for _ in range(4):
        outcome = await world.once()
        assert outcome.requeue_after is not None and outcome.requeue_after <= 30
        world.clock.moment += timedelta(seconds=GIVE_UP_SECONDS)
    assert len(world.pulsar.writes) == writes
    assert world.condition("Executing") == ("True", "ConfigurationStoreUnavailable")
    assert world.condition("Ready") == ("False", "ConfigurationStoreUnavailable")
    store(world, "True")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")


async def test_a_step_that_was_lost_at_the_beginning_of_an_outage_has_all_its_time_after_it() -> None:
    world = await executing(0)

    def lose(words: str) -> None:
        if "/namespaces/" in words:
            raise UnavailableError("HTTP 500: ConnectionLoss for /admin/flags/policies-readonly", status=500)

    world.pulsar.before.append(lose)
    for _ in range(4):
        await world.once()
        await world.cluster_pass()
        world.clock.moment += timedelta(seconds=1)
    assert world.status()["progress"]["current"]
    store(world, "False")
    await world.once()
    world.clock.moment += timedelta(seconds=2 * GIVE_UP_SECONDS)
    world.pulsar.before.clear()
    store(world, "True")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")


async def test_it_may_be_stopped_in_the_meantime() -> None:
    world = await executing(1)
    store(world, "False")
    world.command("stop")
    await world.once()
    assert world.condition("Stopped") == ("True", "StoppedByUser")


async def test_what_nobody_could_look_at_holds_nothing() -> None:
    world = await executing(1)
    store(world, "Unknown")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")
