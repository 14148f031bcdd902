"""An approval is for one proposal: the one that its id names, or the only one that there was to see."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pulsar_operator.api.constants import ANNOTATION_REBALANCE
from pulsar_operator.balance.execution.custom_resource import Command, command_of, refused_approval
from tests.support.balancing.world import BalancingWorld, world

__all__ = ["world"]

WAITS = ("False", "WaitingForApproval")


def warnings(world: BalancingWorld) -> list[str]:
    return [each.message for each in world.kube.events if each.reason == "ApprovalRefused"]


async def proposed(world: BalancingWorld) -> str:
    """Id of the proposal that waits."""
    for _ in range(3):
        await world.once()
        await world.cluster_pass()
    assert world.condition("Ready") == WAITS
    return str(world.status()["proposal"]["id"])


async def replaced(world: BalancingWorld, how: str) -> tuple[str, str]:
    """Ids of a proposal that waited, and of the one that took its place."""
    world.rebalance(expireSeconds=600)
    first = await proposed(world)
    world.clock.moment += timedelta(seconds=700 if how == "expired" else 10)
    if how == "refreshed":
        world.command("refresh")
    second = await proposed(world)
    assert first != second
    return first, second


async def test_the_condition_shows_the_command_with_the_id_and_it_works(world: BalancingWorld) -> None:
    world.rebalance()
    ident = await proposed(world)
    (told,) = [each["message"] for each in world.status()["conditions"] if each["type"] == "Ready"]
    command = f"kubectl -n apps annotate prb once {ANNOTATION_REBALANCE}=approve-{ident}"
    assert command in told
    world.command(command.rpartition("=")[2])
    await world.run()
    assert world.condition("Completed") == ("True", "Completed") and not warnings(world)


@pytest.mark.parametrize("how", ["expired", "refreshed"])
@pytest.mark.parametrize("named", [True, False])
async def test_what_was_seen_before_is_not_approved_any_more(world: BalancingWorld, how: str, named: bool) -> None:
    first, second = await replaced(world, how)
    assert world.status()["replacedProposal"] == first
    world.command(f"approve-{first}" if named else "approve")
    await world.run(seconds=30)
    assert world.condition("Ready") == WAITS and world.pulsar.writes == []
    (told,) = warnings(world)
    assert first in told and f"approve-{second}" in told
    assert ANNOTATION_REBALANCE not in (world.live()["metadata"].get("annotations") or {})
    world.command(f"approve-{second}")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")
    assert "replacedProposal" not in world.status()


async def test_the_only_proposal_needs_no_id(world: BalancingWorld) -> None:
    world.rebalance()
    await proposed(world)
    world.command("approve")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed") and not warnings(world)


async def test_after_an_end_the_next_proposal_is_the_only_one_again(world: BalancingWorld) -> None:
    await replaced(world, "refreshed")
    world.command("stop")
    await world.run(seconds=5)
    assert world.condition("Stopped") == ("True", "StoppedByUser")
    world.command("refresh")
    await proposed(world)
    world.command("approve")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")


async def test_what_took_the_place_is_remembered_while_nothing_is_known(world: BalancingWorld) -> None:
    world.rebalance(expireSeconds=600)
    first = await proposed(world)
    world.clock.moment += timedelta(seconds=700)
    world.pulsar.mute = {world.pulsar.brokers[2]}
    await world.once()
    assert world.condition("ProposalReady") == ("False", "NoData")
    world.pulsar.mute = set()
    second = await proposed(world)
    world.command("approve")
    await world.once()
    assert len(warnings(world)) == 1 and first in warnings(world)[0] and second in warnings(world)[0]


async def test_an_approval_of_another_one_does_not_disturb_an_execution(world: BalancingWorld) -> None:
    world.rebalance()
    ident = await proposed(world)
    world.command(f"approve-{ident}")
    await world.once()
    world.command("approve-0123456789ab")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")
    assert warnings(world) == [
        f"The approval of proposal 0123456789ab is refused, because proposal {ident} is being executed"
    ]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (None, None),
        ("approve", Command("approve")),
        ("approve-0f3a", Command("approve", "0f3a")),
        ("refresh", Command("refresh")),
        ("stop", Command("stop")),
    ],
)
def test_the_words_of_an_annotation(text: str | None, command: Command | None) -> None:
    assert command_of(text) == command


@pytest.mark.parametrize(
    "text", ["", "Approve", "approve-", "approve-0f 3a", "approve-" + "a" * 33, "stop-0f3a", "refresh-", "approve_0f3a"]
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be approve-ID"):
        command_of(text)


@pytest.mark.parametrize(
    ("named", "replaced", "refused"),
    [
        ("now", None, False),
        ("now", "then", False),
        ("", None, False),
        ("", "then", True),
        ("then", None, True),
        ("then", "then", True),
    ],
)
def test_which_approvals_are_refused(named: str, replaced: str | None, refused: bool) -> None:
    text = refused_approval(Command("approve", named), "now", replaced, "run this")
    assert bool(text) == refused
    assert not refused or ("now" in text and "then" in text and text.endswith("run this"))
