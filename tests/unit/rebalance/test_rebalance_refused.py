"""A specification that this version refuses changes nothing of what was done: the life of the proposal stays."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.balance.execution.handover import HOLD_SECONDS
from pulsar_operator.ports import CUSTOM
from tests.support.balancing.world import NS, BalancingWorld
from tests.unit.core.test_stored_status import completed
from tests.unit.rebalance.test_rebalance_attacked import half_way

KIND = CUSTOM[Kind.REBALANCE]


def version(world: BalancingWorld, mode: str) -> None:
    """Another version of the definition has another default: no edit, and the same generation."""
    world.kube.edit(KIND, NS, "once", lambda obj: obj["spec"].update(mode=mode), counted=False)


async def refused(world: BalancingWorld) -> None:
    """One pass, and another by a process that was just started."""
    world.clock.moment += timedelta(seconds=10)
    version(world, "Odd")
    await world.once()
    world.restart()
    await world.once()
    assert world.condition("Ready") == world.condition("Accepted") == ("False", "InvalidSpec")


async def _stopped(world: BalancingWorld) -> int:
    world.skewed()
    world.rebalance(autoApprove=True)
    world.command("stop")
    await world.run(seconds=120)
    assert world.condition("Stopped") == ("True", "StoppedByUser")
    return len(world.pulsar.writes)


@pytest.mark.parametrize(("before", "end"), [(completed, "Completed"), (_stopped, "Stopped")])
async def test_what_ended_does_not_begin_again(before: Callable[[BalancingWorld], Any], end: str) -> None:
    world = BalancingWorld()
    writes = await before(world)
    kept = {key: value for key, value in world.status().items() if key in ("proposal", "progress", "measured")}
    ended = world.condition(end)
    world.skewed()
    await refused(world)
    assert world.condition(end) == ended
    version(world, "Full")
    await world.run(seconds=600)
    assert len(world.pulsar.writes) == writes and world.condition(end) == ended
    assert {key: world.status().get(key) for key in kept} == kept


async def test_a_proposal_that_waits_stays_the_one_that_was_shown() -> None:
    world = BalancingWorld()
    world.skewed()
    world.rebalance()
    await world.once()
    ident = world.status()["proposal"]["id"]
    await refused(world)
    version(world, "Full")
    await world.run(seconds=5)
    assert world.condition("Ready") == ("False", "WaitingForApproval")
    world.command(f"approve-{ident}")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")


async def test_an_execution_goes_on_and_holds_the_balancer_for_a_while_only() -> None:
    world = BalancingWorld()
    world.skewed()
    await half_way(world)
    done = world.status()["progress"]["done"]
    await refused(world)
    assert world.condition("Executing")[0] == "True" and world.status()["progress"]["done"] == done
    await world.cluster_pass()
    assert world.pulsar.dynamic != {}
    world.clock.moment += timedelta(seconds=HOLD_SECONDS + 1)
    await world.once()
    for _ in range(2):  # the status of the cluster names no holder before the settings are restored
        await world.cluster_pass()
    assert world.pulsar.dynamic == {}, "Pulsar's balancer is back"
    version(world, "Full")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")


async def test_an_edit_that_is_refused_is_an_edit_all_the_same() -> None:
    """The person wants another proposal, and whoever approves without an id may mean the one before."""
    world = BalancingWorld()
    world.skewed()
    world.rebalance()
    await world.once()
    first = world.status()["proposal"]["id"]
    world.kube.edit(KIND, NS, "once", lambda obj: obj["spec"].update(mode="Odd"))
    await world.once()
    assert world.condition("Ready") == ("False", "InvalidSpec") and "proposal" not in world.status()
    world.clock.moment += timedelta(seconds=10)
    version(world, "Full")
    await world.run(seconds=5)
    assert world.status()["replacedProposal"] == first != world.status()["proposal"]["id"]
    world.command("approve")
    await world.run(seconds=5)
    assert world.condition("Ready") == ("False", "WaitingForApproval") and world.pulsar.writes == []
