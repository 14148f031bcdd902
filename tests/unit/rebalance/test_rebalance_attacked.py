"""Statuses, clocks, ConfigMaps and answers that nobody expects, while a proposal waits or is executed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_DRY_RUN, Kind
from pulsar_operator.controllers.dataplane.balancing.load_balancer import FLAGS
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, Json, RefusedError
from tests.support.balancing.world import NS, BalancingWorld, world

__all__ = ["world"]


def edit_status(world: BalancingWorld, change: Callable[[Json], object]) -> None:
    status = world.status()
    change(status)
    world.kube.set_status(CUSTOM[Kind.REBALANCE], NS, "once", status)


def edit_steps(world: BalancingWorld, change: Callable[[list[dict[str, Any]]], object]) -> None:
    def edit(obj: Json) -> None:
        found = json.loads(obj["data"]["steps.json"])
        change(found)
        obj["data"]["steps.json"] = json.dumps(found)

    world.kube.edit(CONFIG_MAPS, NS, "once-proposal", edit)


async def half_way(world: BalancingWorld, done: int = 2) -> None:
    """Some steps are done, and Pulsar's balancer is off."""
    world.rebalance(autoApprove=True)
    while world.status().get("progress", {}).get("done", 0) < done:
        outcome = await world.once()
        await world.cluster_pass()
        world.clock.moment += timedelta(seconds=max(outcome.requeue_after or 0.0, 0.05))
    assert world.condition("Executing")[0] == "True" and world.pulsar.dynamic == FLAGS


async def passes(world: BalancingWorld, minutes: float) -> None:
    end = world.clock.moment + timedelta(minutes=minutes)
    while world.clock.moment < end:
        await world.once()
        await world.cluster_pass()
        world.clock.moment += timedelta(seconds=30)


async def test_a_clock_that_is_set_back_half_way(world: BalancingWorld) -> None:
    await half_way(world)
    world.clock.moment -= timedelta(hours=5)
    await world.run()
    assert world.condition("Completed") == ("True", "Completed") and world.pulsar.dynamic == {}


@pytest.mark.parametrize("weight", ["Infinity", "-Infinity", "NaN", 1e300, "1e400", None, [], True])
async def test_a_weight_that_is_no_number(world: BalancingWorld, weight: Any) -> None:
    await half_way(world)
    value = float(weight) if isinstance(weight, str) and "e" not in weight else weight
    edit_steps(world, lambda steps: steps[-1]["move"].update(weight=value))
    await world.run()
    assert world.condition("Stopped") == ("True", "PlanInvalidated") and world.pulsar.dynamic == {}


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "-5", "1e400", "1e308", "", "x"])
async def test_strange_unload_seconds(world: BalancingWorld, text: str) -> None:
    await half_way(world)
    edit_status(world, lambda status: status["progress"].update(unloadSeconds=text))
    await world.run()
    assert world.condition("Completed") == ("True", "Completed"), world.status()["conditions"]
    world.command("refresh")
    await world.run()
    assert world.condition("Completed")[0] == "True", world.status()["conditions"]


@pytest.mark.parametrize("done", [-1, -3, 1000, 2**62])
async def test_strange_counts(world: BalancingWorld, done: int) -> None:
    await half_way(world)
    moved = len(world.pulsar.writes)
    edit_status(world, lambda status: status["progress"].update(done=done))
    await world.run()
    assert world.condition("Executing")[0] == "False" and world.pulsar.dynamic == {}
    assert len(world.pulsar.writes) >= moved


@pytest.mark.parametrize("field", ["startedTime", "currentSince", "blockedSince", "finishedTime"])
@pytest.mark.parametrize("text", ["2999-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
async def test_strange_times(world: BalancingWorld, field: str, text: str) -> None:
    await half_way(world)
    edit_status(world, lambda status: status["progress"].update({field: text}))
    await world.run(seconds=3600)
    assert world.condition("Executing")[0] == "False" and world.pulsar.dynamic == {}


async def test_a_broker_that_refuses_holds_nothing_without_end(world: BalancingWorld) -> None:
    """HTTP 403, as after a change of the operator's token."""
    await half_way(world)

    answer = world.pulsar._answer

    def refuse(asked: str, method: str, path: list[str], query: dict[str, str], body: Any) -> Any:
        if path[-1] == "ownedNamespaces":
            raise RefusedError("HTTP 403: not authorized", status=403)
        return answer(asked, method, path, query, body)

    world.pulsar._answer = refuse  # type: ignore[method-assign]
    await passes(world, 40)
    assert world.pulsar.dynamic == {}, world.status()["conditions"]
    assert (await world.cluster_pass()).moving is None


async def test_a_cluster_that_cannot_be_balanced_any_more_is_reported_and_held_by_nothing(
    world: BalancingWorld,
) -> None:
    """As where all brokers are away, or the cluster does not allow references from this namespace any more."""
    await half_way(world)
    cluster = world.kube.live(CUSTOM[Kind.CLUSTER], NS, "east")
    assert cluster is not None
    world.kube.set_status(CUSTOM[Kind.CLUSTER], NS, "east", {**cluster["status"], "broker": {"desired": 3, "ready": 0}})
    await passes(world, 40)
    told = {each["type"]: each["message"] for each in world.status()["conditions"]}
    assert "no ready broker" in told["Ready"], told
    assert (await world.cluster_pass()).moving is None


async def test_after_an_upgrade_a_proposal_without_new_fields_is_approved_and_done(world: BalancingWorld) -> None:
    world.rebalance()
    await world.once()
    await world.cluster_pass()

    def older(status: Json) -> None:
        for name in ("brokers", "clients", "topics", "expectedDuration"):
            status["proposal"].pop(name, None)

    edit_status(world, older)
    world.restart()
    world.command("approve")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")


async def test_an_approval_of_what_a_paused_observation_showed(world: BalancingWorld) -> None:
    """A dry run shows a proposal; approving its id does not approve the one that is computed after it."""
    world.rebalance(annotations={ANNOTATION_DRY_RUN: "true"})
    await world.once()
    shown = (world.status().get("proposal") or {}).get("id", "none")
    world.kube.edit(CUSTOM[Kind.REBALANCE], NS, "once", lambda o: o["metadata"]["annotations"].clear())
    world.clock.moment += timedelta(seconds=30)
    world.command(f"approve-{shown}")
    await world.run(seconds=60)
    assert world.condition("Executing")[0] == "False" and not world.pulsar.writes


async def test_an_approval_at_the_moment_of_a_change_of_the_specification(world: BalancingWorld) -> None:
    world.rebalance()
    await world.once()
    ident = world.status()["proposal"]["id"]
    world.rebalance(mode="Full", tolerancePercent=3)
    world.clock.moment += timedelta(seconds=3)
    world.command(f"approve-{ident}")
    await world.run(seconds=60)
    assert world.condition("Executing")[0] == "False" and not world.pulsar.writes


@pytest.mark.parametrize("latency", [1.5, 3.0, 7.0, 12.0])
async def test_a_lost_move_is_asked_for_again_however_long_an_observation_takes(
    world: BalancingWorld, latency: float
) -> None:
    """Where looks take seconds, none of them need be in a certain second of twenty."""
    await half_way(world)
    world.pulsar.lose_hints = True
    asked: list[float] = []
    began = world.clock.moment

    def late(words: str) -> None:
        if words.endswith("/unload"):
            asked.append((world.clock.moment - began).total_seconds())

    world.pulsar.before.append(late)
    for _ in range(200):
        outcome = await world.once()
        await world.cluster_pass()
        if world.condition("Executing")[0] == "False":
            break
        world.clock.moment += timedelta(seconds=max(outcome.requeue_after or 0.0, 0.05) + latency)
    assert world.condition("Executing")[0] == "False"
    assert len(asked) >= 4, asked
