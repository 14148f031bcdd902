"""An approval that was given before a proposal was shown does not approve it, wherever the pass ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_REBALANCE, Kind
from pulsar_operator.api.v1alpha1.rebalance import PulsarRebalanceStatus
from pulsar_operator.domain.stored import unreadable
from pulsar_operator.ports import CUSTOM, UnavailableError
from tests.fakes.kube_calls import Call
from tests.support.balancing.world import NS, BalancingWorld
from tests.unit.core.test_stored_status import completed, odd

KIND = CUSTOM[Kind.REBALANCE]


def annotated(world: BalancingWorld) -> str | None:
    """The command on the object."""
    given: dict[str, str] = world.live()["metadata"].get("annotations") or {}
    return given.get(ANNOTATION_REBALANCE)


@contextmanager
def killed(world: BalancingWorld) -> Iterator[None]:
    """The process ends before it takes the command off the object."""

    def dies(call: Call) -> None:
        # The other removals of a pass are of members of the status that cannot be read.
        whole = not unreadable(PulsarRebalanceStatus, world.status())
        if call.verb == "remove_entries" and whole and world.condition("ProposalReady")[0] == "True":
            raise UnavailableError("killed")

    world.kube.before.append(dies)
    with suppress(UnavailableError):
        yield
    world.kube.before.remove(dies)
    world.restart()


async def _first(world: BalancingWorld) -> None:
    world.skewed()
    world.rebalance()


async def _unreadable(world: BalancingWorld) -> None:
    await completed(world)
    world.skewed()
    odd(world)


async def _changed(world: BalancingWorld) -> None:
    await completed(world)
    world.skewed()
    world.kube.edit(KIND, NS, "once", lambda obj: obj["spec"].update(autoApprove=False, tolerancePercent=11))


async def _again(world: BalancingWorld) -> None:
    world.rebalance(autoApprove=False, repeatSeconds=60, mode="RemoveBrokers", brokers=[world.pulsar.brokers[0]])
    world.skewed()
    await world.once()
    world.command("stop")
    await world.once()
    # Stopped by the plan, not by a person: it is evaluated again.
    stored = world.status()
    for each in stored["conditions"]:
        each["reason"] = "PlanInvalidated" if each["reason"] == "StoppedByUser" else each["reason"]
    world.kube.set_status(KIND, NS, "once", stored)
    world.clock.moment = world.clock.moment.replace(year=world.clock.moment.year + 1)


@pytest.mark.parametrize("before", [_first, _unreadable, _changed, _again])
async def test_a_pass_that_ends_before_the_command_is_removed(
    before: Callable[[BalancingWorld], Any],
) -> None:
    world = BalancingWorld()
    await before(world)
    writes = len(world.pulsar.writes)
    world.command("approve")
    with killed(world):
        for _ in range(3):
            await world.once()
    assert annotated(world) == "approve" and world.condition("ProposalReady")[0] == "True"
    ident = world.status()["proposal"]["id"]
    await world.run(seconds=30)
    assert len(world.pulsar.writes) == writes and annotated(world) is None
    assert world.condition("Executing")[0] == "False"
    (told,) = [each.message for each in world.kube.events if each.reason == "ApprovalRefused"]
    assert f"it may be older than proposal {ident}" in told and f"approve-{ident}" in told
    world.command(f"approve-{ident}")
    await world.run()
    assert len(world.pulsar.writes) > writes
    assert "replacedProposal" not in world.status()


@pytest.mark.parametrize("at", ["apply", "get"])
async def test_an_approval_that_comes_during_the_pass_that_proposes(at: str) -> None:
    """Before the ConfigMap, and before the last read of the object."""
    world = BalancingWorld()
    await _first(world)
    calls: list[Call] = []

    def comes(call: Call) -> None:
        calls.append(call)
        of_it = call.kind == Kind.REBALANCE.value or at == "apply"
        published = any(each.verb == "apply" and each.kind == "ConfigMap" for each in calls)
        if call.verb == at and of_it and published and annotated(world) is None:
            world.kube.before.remove(comes)
            world.command("approve")

    world.kube.before.append(comes)
    await world.once()
    assert annotated(world) == "approve"
    await world.run(seconds=30)
    assert world.pulsar.writes == [] and annotated(world) is None
    assert world.condition("Ready") == ("False", "WaitingForApproval")


async def test_a_proposal_after_a_status_that_could_not_be_read_needs_its_id() -> None:
    """The person may have looked at the one before."""
    world = BalancingWorld()
    await _first(world)
    await world.once()
    odd(world)
    await world.once()
    world.command("approve")
    await world.run(seconds=30)
    assert world.pulsar.writes == [] and world.condition("Ready") == ("False", "WaitingForApproval")
    ident = world.status()["proposal"]["id"]
    world.command(f"approve-{ident}")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")


async def test_an_approval_of_what_was_shown_needs_no_id() -> None:
    world = BalancingWorld()
    await _first(world)
    await world.once()
    world.command("approve")
    await world.run()
    assert world.condition("Completed") == ("True", "Completed")
