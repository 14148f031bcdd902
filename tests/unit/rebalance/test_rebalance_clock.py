"""A clock that was set back, or another machine's: nothing waits until it has caught up with what a status says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pulsar_operator.balance.execution.driver import Memory, decide
from pulsar_operator.balance.execution.steady import History, SteadyOptions
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.planner.options import Options
from pulsar_operator.domain.conditions import seconds_since
from tests.support.balancing.planning import cluster
from tests.support.balancing.world import BalancingWorld, world

__all__ = ["world"]

BACK = timedelta(hours=5)


async def passes(world: BalancingWorld, seconds: float) -> None:
    """As the operator makes them, which looks at each object every ten minutes at least."""
    end = world.clock.moment + timedelta(seconds=seconds)
    while world.clock.moment < end:
        outcome = await world.once()
        await world.cluster_pass()
        wait = 600.0 if outcome.requeue_after is None else outcome.requeue_after
        world.clock.moment += timedelta(seconds=min(max(wait, 0.05), 600.0))


@pytest.mark.parametrize(
    ("ahead", "seconds"), [(-90.0, 90.0), (0.0, 0.0), (59.0, 0.0), (61.0, float("inf")), (1e6, float("inf"))]
)
def test_a_time_to_come_is_now_or_long_ago(ahead: float, seconds: float) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert seconds_since(now + timedelta(seconds=ahead), now) == seconds


async def test_a_standing_balancer_checks_again(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=True, repeatSeconds=60)
    await world.run(seconds=1200)
    assert world.condition("Completed")[0] == "True"
    world.clock.moment -= BACK
    world.skewed()
    await passes(world, 3 * 3600)  # what it moved counts against the budget of an hour, as if it were just now
    assert world.spread() < 1.3


async def test_what_was_done_is_measured(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=True)
    while world.condition("Ready")[1] != "Measuring":
        await passes(world, 0.1)
    world.clock.moment -= BACK
    await passes(world, 1200)
    assert world.condition("Completed") == ("True", "Completed")


async def test_a_step_that_pulsar_does_not_do_is_given_up(world: BalancingWorld) -> None:
    world.pulsar.lose_hints = True
    world.rebalance(mode="Move", autoApprove=True)
    while not (world.status().get("progress") or {}).get("current"):
        await passes(world, 0.1)
    world.clock.moment -= BACK
    await passes(world, 1200)
    assert world.condition("Stopped") == ("True", "PlanInvalidated")


async def test_a_proposal_expires(world: BalancingWorld) -> None:
    world.rebalance(expireSeconds=600)
    await world.once()
    first = world.status()["proposal"]["id"]
    world.clock.moment -= BACK
    await passes(world, 1200)
    assert world.status()["proposal"]["id"] != first


def test_what_is_remembered_of_times_to_come_happened_just_now() -> None:
    bundle = BundleId("t/n", 0, 100)
    late = 18_000.0
    history = History(late, late, late, late, {bundle: late})
    memory = Memory(history, last_observed=late, spent=((late, 7.0),))
    _, known = decide(memory, 60.0, cluster({"a:80": [1.0], "b:80": [9.0]}), Options(), SteadyOptions())
    assert known.history == History(60.0, 60.0, 60.0, 60.0, {bundle: 60.0})
    assert (known.last_observed, known.spent) == (60.0, ((60.0, 7.0),))
