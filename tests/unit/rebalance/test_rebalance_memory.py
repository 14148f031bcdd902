"""What is remembered of the moves that were made, and how long it is waited before it is measured what they brought."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.balance.execution.steady import SteadyOptions
from pulsar_operator.balance.model.cluster import BundleId, ClusterModel
from pulsar_operator.balance.planner import plan as planner
from pulsar_operator.balance.planner.options import Options
from pulsar_operator.balance.planner.proposal import Proposal
from pulsar_operator.controllers.rebalance.controller import RebalanceController
from pulsar_operator.controllers.rebalance.rebalance_pass import Tools
from pulsar_operator.domain.conditions import parse_time
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, Json
from tests.support.balancing.world import NS, BalancingWorld, world

__all__ = ["world"]


def period(world: BalancingWorld, seconds: int) -> None:
    """The brokers update their rates so often."""
    configured = world.pulsar._configuration

    def answer(method: str, rest: list[str]) -> Any:
        if (method, rest) == ("GET", ["runtime"]):
            return {"statsUpdateFrequencyInSecs": str(seconds)}
        return configured(method, rest)

    world.pulsar._configuration = answer  # type: ignore[method-assign]


def east(world: BalancingWorld) -> str:
    """What the process knows the cluster by."""
    cluster = world.kube.live(CUSTOM[Kind.CLUSTER], NS, "east")
    assert cluster is not None
    return f"{NS}/east/{cluster['metadata']['uid']}"


def tools(world: BalancingWorld) -> Tools:
    return world.controller._tools


def planned(world: BalancingWorld) -> dict[BundleId, float]:
    """The moves of the proposal: bundle and weight."""
    steps = world.kube.live(CONFIG_MAPS, NS, world.status()["proposal"]["configMapName"])
    assert steps is not None
    moves = [each["move"] for each in json.loads(steps["data"]["steps.json"]) if "move" in each]
    spans = [(each["namespace"], *(int(n, 16) for n in each["range"].split("_")), each["weight"]) for each in moves]
    return {BundleId(name, lower, upper): weight for name, lower, upper, weight in spans}


async def until_measuring(world: BalancingWorld) -> None:
    """Passes until the last step is verified."""
    for _ in range(300):
        outcome = await world.once()
        await world.cluster_pass()
        if world.condition("Ready")[1] == "Measuring":
            return
        world.clock.moment += timedelta(seconds=max(outcome.requeue_after or 0.0, 0.05))
    raise AssertionError("300 passes and no end")


@pytest.mark.parametrize("seconds", [60, 10])
async def test_what_the_moves_brought_is_measured_two_periods_after_the_last(
    world: BalancingWorld, seconds: int
) -> None:
    """The brokers' rates are up to a period old, and those of a bundle that arrived begin in the middle of one."""
    period(world, seconds)
    world.rebalance(autoApprove=True)
    await until_measuring(world)
    ended = parse_time(world.status()["progress"]["finishedTime"])
    assert ended is not None
    world.clock.moment = ended + timedelta(seconds=2 * seconds + 4)
    outcome = await world.once()
    assert (outcome.requeue_after, world.condition("Ready")) == (1.0, ("False", "Measuring"))
    assert f"the rates are {2 * seconds} s old" in world.status()["conditions"][0]["message"]
    assert "measured" not in world.status()
    world.clock.moment += timedelta(seconds=1)
    await world.once()
    assert world.condition("Completed") == ("True", "Completed")
    assert "measured" in world.status()


async def test_the_weight_of_a_moved_bundle_is_remembered_until_its_broker_counts_it(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=True)
    await world.run(seconds=5)
    moves = planned(world)
    await until_measuring(world)
    now = world.clock.moment
    assert moves and tools(world).carried(east(world), now, 60.0) == moves
    assert tools(world).carried(f"{NS}/west", now, 60.0) == {}
    late = 2 * 60 + 30
    last = max(when for when, _ in tools(world).weights[east(world)].values())
    assert tools(world).carried(east(world), last + timedelta(seconds=late), 60.0) != {}
    assert tools(world).carried(east(world), last + timedelta(seconds=late + 1), 60.0) == {}


async def test_a_standing_balancer_remembers_its_moves(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=True, repeatSeconds=30)
    for _ in range(100):
        await world.run(seconds=31)
        if world.status().get("proposal", {}).get("configMapName"):
            break
        world.clock.moment += timedelta(seconds=31)
    moves = planned(world)
    await until_measuring(world)
    history = tools(world).memories[world.live()["metadata"]["uid"]].history
    ended = parse_time(world.status()["progress"]["finishedTime"])
    assert history.acted is not None and ended is not None and int(history.acted) == ended.timestamp()
    assert moves and history.moved.keys() == moves.keys()
    assert sorted(history.moved.values()) == list(history.moved.values()), "each from when it was verified"
    assert max(history.moved.values()) == history.acted


async def test_a_standing_balancer_lets_its_moves_settle_before_it_judges_again(world: BalancingWorld) -> None:
    """Where rates are updated often it looks again before clients are back: what it sees then is its own doing."""
    period(world, 5)
    world.rebalance(autoApprove=True, repeatSeconds=30)
    for _ in range(100):
        await world.run(seconds=31)
        if world.condition("Completed") == ("True", "Completed") or world.status().get("progress", {}).get("total"):
            break
        world.clock.moment += timedelta(seconds=31)
    if world.condition("Completed") != ("True", "Completed"):
        await until_measuring(world)
    ended = parse_time(world.status()["progress"]["finishedTime"])
    assert ended is not None
    done = len(world.pulsar.writes)
    world.pulsar.rates = {topic: 0.0 for topic in world.pulsar.rates} | {
        topic: 500.0 for topic in list(world.pulsar.rates)[:2]
    }
    judged = 0
    while (world.clock.moment - ended).total_seconds() < SteadyOptions().settle:
        outcome = await world.once()
        await world.cluster_pass()
        if world.condition("Completed")[1] == "Balanced":
            judged += 1
            assert "the last step is still taking effect" in world.status()["conditions"][0]["message"]
        world.clock.moment += timedelta(seconds=outcome.requeue_after or 1.0)
    assert judged >= 2 and len(world.pulsar.writes) == done


@pytest.mark.parametrize(("seconds", "rests"), [(150, True), (1800, True), (1802, False)])
async def test_what_was_moved_rests_for_half_an_hour(world: BalancingWorld, seconds: int, rests: bool) -> None:
    """Its clients have just reconnected: the next proposal is asked to leave it where it is."""
    asked: list[frozenset[BundleId]] = []

    def plan(model: ClusterModel, options: Options) -> Proposal:
        asked.append(frozenset(options.cooling))
        return planner.plan(model, options)

    world.controller = RebalanceController(world.deps, Tools(world.deps, plan, planner.balance_of))
    world.rebalance(autoApprove=True)
    await world.run(seconds=5)
    moves = planned(world)
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")
    ended = parse_time(world.status()["progress"]["finishedTime"])
    assert ended is not None and moves
    world.clock.moment = ended + timedelta(seconds=seconds)
    world.command("refresh")
    await world.once()
    assert asked == [frozenset(), frozenset(moves) if rests else frozenset()]


async def until_moved(world: BalancingWorld) -> None:
    """Passes until a move of a standing balancer's plan is verified; the next one may be made a minute later."""
    world.rebalance(autoApprove=True, repeatSeconds=30, budget={"maxTrafficMovedPercent": 100, "movesPerMinute": 1})
    for _ in range(400):
        outcome = await world.once()
        await world.cluster_pass()
        known = tools(world).memories.get(world.live()["metadata"]["uid"])
        if known is not None and known.history.moved:
            return
        world.clock.moment += timedelta(seconds=max(outcome.requeue_after or 0.0, 0.05))
    pytest.fail("400 passes and no move")


def stop(world: BalancingWorld) -> None:
    world.command("stop")


def edit(world: BalancingWorld) -> None:
    """Somebody changes the steps that were approved."""

    def change(live: Json) -> None:
        steps = json.loads(live["data"]["steps.json"])
        live["data"]["steps.json"] = json.dumps(steps[:-1])

    world.kube.edit(CONFIG_MAPS, NS, world.status()["proposal"]["configMapName"], change)


@pytest.mark.parametrize("end", [stop, edit])
@pytest.mark.parametrize("restarted", [False, True])
async def test_what_moved_of_a_plan_that_ended_by_surprise_rests_and_settles(
    world: BalancingWorld, end: Callable[[BalancingWorld], None], restarted: bool
) -> None:
    await until_moved(world)
    uid = world.live()["metadata"]["uid"]
    moved = dict(tools(world).memories[uid].history.moved)
    assert moved and moved.keys() < planned(world).keys()
    if restarted:
        world.restart()
        world.clock.moment += timedelta(seconds=61)
        for _ in range(20):
            outcome = await world.once()
            if uid in tools(world).memories:
                break
            world.clock.moment += timedelta(seconds=max(outcome.requeue_after or 0.0, 0.05))
        others = tools(world).memories[uid].history.moved
        assert moved.keys() < others.keys(), "those of the process before it as well"
        moved = dict(others)
    end(world)
    await world.once()
    assert world.condition("Stopped")[0] == "True"
    history = tools(world).memories[uid].history
    assert dict(history.moved) == moved
    assert history.acted == world.clock.moment.timestamp()
    asked: list[frozenset[BundleId]] = []

    def plan(model: ClusterModel, options: Options) -> Proposal:
        asked.append(frozenset(options.cooling))
        return planner.plan(model, options)

    world.controller = RebalanceController(world.deps, replace(tools(world), plan=plan))
    world.command("refresh")
    await world.run(seconds=900)
    assert asked and asked[0] == moved.keys()


async def test_a_plan_that_was_stopped_before_it_began_needs_not_settle(world: BalancingWorld) -> None:
    world.rebalance(repeatSeconds=30)
    await world.run(seconds=600)
    assert planned(world)
    world.command("stop")
    await world.once()
    assert world.condition("Stopped")[0] == "True"
    assert tools(world).memories[world.live()["metadata"]["uid"]].history.acted is None


async def test_a_standing_balancer_counts_what_it_moved_of_a_stopped_proposal(world: BalancingWorld) -> None:
    """The budget is for an hour: what moved before the stop is taken off the next proposal's."""
    asked: list[float] = []

    def plan(model: ClusterModel, options: Options) -> Proposal:
        asked.append(options.budget.spent_percent)
        return planner.plan(model, options)

    world.controller = RebalanceController(world.deps, Tools(world.deps, plan, planner.balance_of))
    await until_moved(world)
    moves, progress = planned(world), world.status()["progress"]
    assert progress["total"] - len(moves) < progress["done"] < progress["total"]
    stopped = world.clock.moment
    world.command("stop")
    await world.once()
    shares = [each[1] for each in tools(world).memories[world.live()["metadata"]["uid"]].spent]
    assert len(shares) == progress["done"] - (progress["total"] - len(moves)) and shares[0] > 0
    for seconds, share in ((1800, sum(shares)), (3601, 0.0)):
        world.clock.moment = stopped + timedelta(seconds=seconds)
        world.command("refresh")
        await world.once()
        assert asked[-1] == pytest.approx(share, abs=1e-5)
        world.command("stop")
        await world.once()


@pytest.mark.parametrize("seen", [True, False])
async def test_nothing_is_remembered_of_a_standing_balancer_that_is_gone(world: BalancingWorld, seen: bool) -> None:
    """Somebody deletes it and applies it again, all day; the pass in between may come too late to see it gone."""
    for _ in range(3):
        world.rebalance(autoApprove=True, repeatSeconds=60)
        await world.once()
        assert list(tools(world).memories) == [world.live()["metadata"]["uid"]]
        world.kube.remove(CUSTOM[Kind.REBALANCE], NS, "once")
        if seen:
            await world.once()
            assert tools(world).memories == {}


async def test_what_is_known_of_a_cluster_goes_with_the_last_rebalance_for_it(world: BalancingWorld) -> None:
    """A cluster that is made again under its name begins anew, and one that is gone takes no memory."""
    world.rebalance("once", autoApprove=True)
    world.rebalance("other")
    await until_measuring(world)
    await world.once("other")
    known, before = tools(world), east(world)
    assert known.unloads.keys() == {before} == known.weights.keys()
    await gone(world, "once")
    assert known.unloads.keys() == {before} == set(known.clusters.values()), "the other one is there still"
    await gone(world, "other")
    assert not known.unloads and not known.clusters
    assert known.weights, "the next plan is for bundles that moved a moment ago"
    world.clock.moment += timedelta(days=2)
    await gone(world, "neverthere")
    assert not known.weights


async def gone(world: BalancingWorld, name: str) -> None:
    if (live := world.kube.live(CUSTOM[Kind.REBALANCE], NS, name)) is not None:
        await world.kube.delete(CUSTOM[Kind.REBALANCE], NS, name, uid=live["metadata"]["uid"])
    await world.once(name)


async def test_another_cluster_of_the_name_is_another_one(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=True)
    await until_measuring(world)
    before = east(world)
    live = world.kube.live(CUSTOM[Kind.CLUSTER], NS, "east")
    assert live is not None
    await world.kube.delete(CUSTOM[Kind.CLUSTER], NS, "east", uid=live["metadata"]["uid"])
    world.put(Kind.CLUSTER, "east", live["spec"])
    assert east(world) != before
    assert tools(world).carried(east(world), world.clock.moment, 60.0) == {}
    assert tools(world).carried(before, world.clock.moment, 60.0) != {}
