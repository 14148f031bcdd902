"""What a PulsarRebalance says while it works, and while nobody answers."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

from pulsar_operator.api.constants import ANNOTATION_REBALANCE
from tests.support.balancing.world import BalancingWorld, world

__all__ = ["world"]

LIFE = ("ProposalReady", "Approved", "Executing", "Completed", "Stopped")


def said(world: BalancingWorld) -> dict[str, tuple[str, str]]:
    """Every condition of its life."""
    return {kind: world.condition(kind) for kind in LIFE}


async def executing(world: BalancingWorld) -> None:
    """A proposal of which the first step was asked for."""
    world.rebalance(autoApprove=True)
    for _ in range(50):
        outcome = await world.once()
        await world.cluster_pass()
        if any(write.endswith("/unload") for write in world.pulsar.writes):
            return
        world.clock.moment += timedelta(seconds=min(outcome.requeue_after or 0.0, 2.0))
    raise AssertionError("nothing was asked for")


async def test_the_proposal_stays_ready_while_it_is_executed(world: BalancingWorld) -> None:
    await executing(world)
    assert {kind: status for kind, (status, _) in said(world).items()} == {
        "ProposalReady": "True",
        "Approved": "True",
        "Executing": "True",
        "Completed": "False",
        "Stopped": "False",
    }
    assert world.condition("ProposalReady") == ("True", "Proposed")
    assert world.condition("Ready")[0] == "False" and world.condition("Accepted") == ("True", "Valid")


async def test_brokers_that_do_not_answer_leave_everything_as_it_was(world: BalancingWorld) -> None:
    await executing(world)
    before, done = said(world), world.status()["progress"]["done"]
    world.pulsar.unreachable = True
    outcome = await world.once()
    assert outcome.backoff
    assert said(world) == before and world.status()["progress"]["done"] == done
    assert world.condition("Ready") == ("False", "AdminUnreachable")
    assert world.condition("Accepted") == ("True", "Valid")
    world.pulsar.unreachable = False
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")


async def test_a_command_that_is_none_is_reported_once_and_taken_off(world: BalancingWorld) -> None:
    world.rebalance()
    await world.run(seconds=5)
    world.command("aprove")
    await world.run(seconds=5)
    told = [event.message for event in world.kube.events if "aprove" in event.message]
    assert len(told) == 1 and "must be approve-ID (with the id in status.proposal), refresh or stop" in told[0]
    assert ANNOTATION_REBALANCE not in (world.live()["metadata"].get("annotations") or {})
    assert world.condition("ProposalReady")[0] == "True" and world.pulsar.writes == []


@pytest.mark.parametrize("word", ["approve", "refresh", "stop"])
async def test_a_command_is_nothing_to_warn_of(world: BalancingWorld, word: str) -> None:
    world.rebalance()
    await world.run(seconds=5)
    world.command(word)
    await world.once()
    assert not [event.message for event in world.kube.events if "but must be approve-ID" in event.message]


@pytest.mark.parametrize("before", [True, False])
async def test_nothing_is_approved_that_nobody_has_seen(world: BalancingWorld, before: bool) -> None:
    """Who approves a proposal that went meanwhile, or is not there yet, has not seen the next one."""
    world.rebalance(expireSeconds=600)
    if before:
        await world.once()
        world.clock.moment += timedelta(seconds=700)
    world.pulsar.mute = {world.pulsar.brokers[2]}
    await world.once()
    assert world.condition("ProposalReady") == ("False", "NoData")
    world.command("approve")
    await world.once()
    world.pulsar.mute = set()
    for _ in range(3):
        await world.once()
        await world.cluster_pass()
    assert world.condition("Ready") == ("False", "WaitingForApproval") and world.pulsar.writes == []
    assert len([e for e in world.kube.events if "no proposal to approve" in e.message]) == 1
    # One that was there before may be what a person has in mind who names none.
    world.command(f"approve-{world.status()['proposal']['id']}" if before else "approve")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")


@pytest.mark.parametrize("restart", [False, True])
async def test_no_event_and_no_restart_quickens_the_pace(world: BalancingWorld, restart: bool) -> None:
    """Steps are a time apart, however often somebody looks in between."""
    asked: list[float] = []
    began = world.clock.moment

    def note(words: str) -> None:
        if "/namespaces/" in words:
            asked.append((world.clock.moment - began).total_seconds())

    world.pulsar.before.append(note)
    world.rebalance(autoApprove=True, budget={"maxTrafficMovedPercent": 100, "movesPerMinute": 2})
    for _ in range(300):
        await world.once()
        await world.cluster_pass()
        if restart:
            world.restart()
        world.clock.moment += timedelta(seconds=1)
    assert len(asked) == world.status()["progress"]["total"] > 2
    assert all(later - earlier >= 30 for earlier, later in pairwise(asked))


async def test_a_refresh_while_steps_are_made_counts_after_the_end(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=True, budget={"maxTrafficMovedPercent": 100})
    for _ in range(20):
        await world.once()
        await world.cluster_pass()
        if world.condition("Executing")[0] == "True":
            break
    first = world.status()["proposal"]["id"]
    world.command("refresh")
    await world.once()
    assert world.live()["metadata"]["annotations"][ANNOTATION_REBALANCE] == "refresh"
    await world.run()
    assert ANNOTATION_REBALANCE not in (world.live()["metadata"].get("annotations") or {})
    assert world.status()["proposal"]["id"] != first
