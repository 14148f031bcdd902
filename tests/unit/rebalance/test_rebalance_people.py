"""What a person reads in a PulsarRebalance: loads of brokers, reconnects, how long it takes, and how long it took."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.balance.execution.custom_resource import steps_that_fit
from pulsar_operator.balance.model.cluster import ClusterModel
from pulsar_operator.balance.planner.options import Options
from pulsar_operator.balance.planner.plan import balance_of, plan
from pulsar_operator.balance.planner.proposal import Proposal
from pulsar_operator.controllers.rebalance.controller import RebalanceController
from pulsar_operator.controllers.rebalance.rebalance_pass import Tools
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM
from tests.support.balancing.world import NS, BalancingWorld, world

__all__ = ["world"]


def steps(world: BalancingWorld) -> list[dict[str, Any]]:
    """Steps of the proposal."""
    found = world.kube.live(CONFIG_MAPS, NS, world.status()["proposal"]["configMapName"])
    assert found is not None
    return list(json.loads(found["data"]["steps.json"]))


def slow(world: BalancingWorld, seconds: float) -> list[float]:
    """Unloads that take so long; the times at which they are asked for, in seconds from now on, come later."""
    began, asked = world.clock.moment, list[float]()

    def unload(words: str) -> None:
        if words.endswith("/unload"):
            asked.append((world.clock.moment - began).total_seconds())
            world.clock.moment += timedelta(seconds=seconds)

    world.pulsar.before.append(unload)
    return asked


async def test_load_of_each_broker_before_after_and_as_it_was_measured(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=True)
    await world.once()
    proposal = world.status()["proposal"]
    title, busiest, *_, together = proposal["brokers"]
    assert title.split() == ["BROKER", "LOAD", "BUNDLES", "CLIENTS"] and len(proposal["brokers"]) == 5
    before, after = proposal["before"]["imbalance"], proposal["after"]["imbalance"]
    assert busiest.split()[:4] == ["b0", before, "->", busiest.split()[3]] and before == "3.00"
    assert max(float(line.split()[3]) for line in proposal["brokers"][1:4]) == pytest.approx(float(after))
    assert together.startswith("(all 3)") and together.endswith("48 -> 48")
    await world.run()
    measured = world.status()["measuredBrokers"]
    assert float(measured[1].split()[1]) == pytest.approx(float(world.status()["measured"]["imbalance"]))
    assert "->" not in "".join(measured) and measured[-1].split()[:3] == ["(all", "3)", "1.00"]


async def test_topics_and_clients_that_reconnect_are_counted(world: BalancingWorld) -> None:
    world.rebalance()
    await world.once()
    proposal, moves = world.status()["proposal"], [each["move"] for each in steps(world) if "move" in each]
    topics = sum(each["topics"] for each in moves)
    assert moves and proposal["topics"] == topics > 0
    assert proposal["clients"] == sum(each["clients"] for each in moves) == 2 * topics
    (told,) = [each["message"] for each in world.status()["conditions"] if each["type"] == "ProposalReady"]
    assert (
        f"{topics} topics move and {2 * topics} producers and consumers reconnect. The execution takes about " in told
    )


async def test_reasons_show_the_loads_at_their_step(world: BalancingWorld) -> None:
    world.rebalance()
    await world.once()
    told = [each["reason"] for each in steps(world) if "b0 carries" in each["reason"] and "move" in each]
    loads = [float(each.split("b0 carries ")[1][:4]) for each in told]
    assert loads[0] == 3.0 and loads == sorted(loads, reverse=True) and len(set(loads)) == len(loads) > 2


@pytest.mark.parametrize("seconds", [0.3, 1.0, 2.5, 8.0])
async def test_steps_are_as_far_apart_as_moves_take_twice(world: BalancingWorld, seconds: float) -> None:
    """Half of the time nobody reconnects."""
    world.rebalance(autoApprove=True)
    asked = slow(world, seconds)
    await world.run()
    assert world.condition("Completed") == ("True", "Completed") and len(asked) > 3
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    # A move is seen to be done a moment after it is.
    assert all(2 * seconds <= gap <= 2 * (seconds + 1.5) for gap in gaps), gaps


@pytest.mark.parametrize(("mode", "number"), [("RemoveBrokers", 0), ("AddBrokers", 2)])
async def test_brokers_that_join_or_leave_do_not_wait_between_moves(
    world: BalancingWorld, mode: str, number: int
) -> None:
    world.rebalance(autoApprove=True, mode=mode, brokers=[world.pulsar.brokers[number]])
    asked = slow(world, 3.0)
    await world.run()
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    assert gaps and all(3.0 <= gap <= 4.5 for gap in gaps), gaps


async def test_the_expected_duration_comes_true_and_is_learned(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=True, tolerancePercent=1)
    slow(world, 1.0)
    await world.run()
    status = world.status()
    assert _seconds(status["progress"]["duration"]) == pytest.approx(
        _seconds(status["proposal"]["expectedDuration"]), rel=0.3
    )
    assert 1.0 <= float(status["progress"]["unloadSeconds"]) <= 2.0
    assert f"in {status['progress']['duration']} (expected {status['proposal']['expectedDuration']})" in _completed(
        status
    )
    # Moves of the cluster take five times as long now: the next proposal knows, after a restart too.
    await _again(world, seconds=5.0)
    await _again(world, seconds=0.0, then=world.restart)
    status = world.status()
    assert float(status["progress"]["unloadSeconds"]) > 3.0
    assert _seconds(status["proposal"]["expectedDuration"]) == pytest.approx(
        _seconds(status["progress"]["duration"]), rel=0.3
    )


async def _again(world: BalancingWorld, *, seconds: float, then: Callable[[], None] = lambda: None) -> None:
    """Another evening-out of the same cluster, with moves that take so much longer."""
    slow(world, seconds)
    then()
    world.clock.moment += timedelta(hours=2)
    world.pulsar.owners = dict.fromkeys(world.pulsar.owners, world.pulsar.brokers[0])
    world.command("refresh")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")


def _completed(status: dict[str, Any]) -> str:
    return next(str(each["message"]) for each in status["conditions"] if each["type"] == "Completed")


def _seconds(text: str) -> float:
    """Of 45s, 3m20s, or about 3m20s."""
    minutes, _, rest = text.removeprefix("about ").rpartition("m")
    return 60 * float(minutes or 0) + float(rest.removesuffix("s") or 0)


async def test_a_bundle_without_clients_is_not_waited_for(world: BalancingWorld) -> None:
    """Nobody looks its topics up: it is assigned when somebody does."""
    world.pulsar.clients = False
    stats = world.pulsar._stats

    def idle(broker: str) -> dict[str, Any]:
        document = stats(broker)
        for bundles in document.values():
            for domains in bundles.values():
                for entry in domains["persistent"].values():
                    entry |= {"producerCount": 0, "subscriptions": {}}
        return document

    world.pulsar._stats = idle  # type: ignore[method-assign]
    world.rebalance(autoApprove=True)
    began = world.clock.moment
    await world.run(seconds=60)
    progress = world.status()["progress"]
    assert progress["done"] == progress["total"] > 0
    assert (world.clock.moment - began).total_seconds() < 15 * progress["total"]


async def test_an_operator_of_before_is_taken_over_in_the_middle_of_a_step(world: BalancingWorld) -> None:
    """It wrote the step under way with the ids of brokers, and seconds alone."""
    world.rebalance(autoApprove=True)
    for _ in range(50):
        outcome = await world.once()
        await world.cluster_pass()
        if any(write.endswith("/unload") for write in world.pulsar.writes):
            break
        world.clock.moment += timedelta(seconds=min(outcome.requeue_after or 0.0, 2.0))
    status = world.status()
    progress = status["progress"]
    move = steps(world)[progress["done"]]["move"]
    long = f"move {move['namespace']}/{move['range']} from {move['from']} to {move['to']}"
    assert progress["current"] == long.replace(".x:8080", "")
    key = (move["namespace"], *(int(part, 16) for part in move["range"].split("_")))
    world.pulsar.owners[key] = (
        world.pulsar.brokers[2] if move["to"] == world.pulsar.brokers[1] else world.pulsar.brokers[1]
    )  # type: ignore[index]
    progress |= {"current": long, "currentSince": f"{world.clock.moment:%Y-%m-%dT%H:%M:%SZ}"}
    world.kube.set_status(CUSTOM[Kind.REBALANCE], NS, "once", {**status, "progress": progress})
    await world.run()
    assert world.condition("Completed") == ("True", "Completed"), (
        "what was asked for came elsewhere, and is asked again"
    )


async def test_no_more_steps_are_asked_for_than_fit_in_a_config_map(world: BalancingWorld) -> None:
    asked: list[Options] = []

    def listening(model: ClusterModel, options: Options) -> Proposal:
        asked.append(options)
        return plan(model, options)

    world.controller = RebalanceController(world.deps, Tools(world.deps, listening, balance_of))
    world.rebalance(budget={"maxMoves": 10000})
    await world.once()
    assert [each.budget.max_moves for each in asked] == [steps_that_fit(world.pulsar.brokers, ["shop/orders"])]
    assert asked[0].budget.max_moves < 10000 and world.condition("ProposalReady")[0] == "True"
