"""Events, status and the list for people name brokers as people do; the steps for the operator have their ids."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

from e2e.support.moves import Step, steps_of
from pulsar_operator.ports import CONFIG_MAPS
from tests.support.balancing.world import NS, BalancingWorld

TAIL = ".east-broker-headless.pulsar.svc.cluster.local:8080"


def world_of_three() -> BalancingWorld:
    world = BalancingWorld()
    world.pulsar.brokers = [f"east-broker-{number}{TAIL}" for number in range(3)]
    world.skewed(60)
    world.rebalance(autoApprove=True, tolerancePercent=1)
    return world


async def passes(world: BalancingWorld, look: Callable[[str], None]) -> None:
    """Passes until it ended; ``look`` gets the step under way after each."""
    for _ in range(400):
        outcome = await world.once("once")
        look((world.status().get("progress") or {}).get("current") or "")
        await world.cluster_pass()
        if outcome.requeue_after is None and not outcome.backoff:
            return
        world.clock.moment += timedelta(seconds=outcome.requeue_after or 1.0)
    raise AssertionError("400 passes and no end")


async def test_steps_are_reported_with_the_names_of_pods() -> None:
    world = world_of_three()
    asked: set[str] = set()

    await passes(world, asked.add)
    told = [each.message for each in world.kube.events if each.reason == "StepDone"]
    moves = [each for each in told if ": move " in each]
    assert moves
    assert all(" from east-broker-0 to east-broker-" in each and TAIL not in each for each in moves)
    proposal = world.status()["proposal"]["configMapName"]
    found = world.kube.live(CONFIG_MAPS, NS, proposal)
    assert found is not None
    steps = [each["move"] for each in json.loads(found["data"]["steps.json"]) if "move" in each]
    assert {each["to"].removesuffix(TAIL) for each in steps} == {each.rpartition(" to ")[2] for each in moves}
    assert all(each["to"].endswith(TAIL) for each in steps)
    assert any(each.endswith(("east-broker-1", "east-broker-2")) for each in asked), "the step under way as well"
    shown = json.dumps(world.status()) + found["data"]["steps.txt"] + found["data"]["brokers.txt"]
    assert TAIL not in shown and "east-broker-0" in shown
    reasons = [each["reason"] for each in json.loads(found["data"]["steps.json"])]
    assert reasons and not [each for each in reasons if TAIL in each]
    event = {"reason": "StepDone", "message": moves[0], "involvedObject": {"name": "east-drain-0"}}
    ((step, count),) = steps_of([event]).items()
    assert (step, count) == (Step("east-drain-0", moves[0].split()[5]), 1)


async def test_what_stops_an_execution_is_reported_shortly_too() -> None:
    world = world_of_three()

    def lose(step: str) -> None:
        # Asked for, and not seen yet: the move's destination goes.
        if step.startswith("move "):
            world.pulsar.brokers = world.pulsar.brokers[:1]

    await passes(world, lose)
    assert world.condition("Ready")[1] == "PlanInvalidated"
    (told,) = (each.message for each in world.kube.events if each.reason == "PlanInvalidated")
    assert "broker east-broker-" in told and TAIL not in told
