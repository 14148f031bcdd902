"""Who has a bundle while brokers do not say it: unknown, neither nobody nor somebody else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pulsar_operator.balance.execution.steps import Ownership, State, step_state
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.planner.proposal import Move
from pulsar_operator.controllers.core.traffic import Traffic
from pulsar_operator.ports import AdminEndpoint, NotFoundError, PortError, RefusedError, UnavailableError
from tests.support.balancing.answers import answering
from tests.support.balancing.world import LAST, URL, BalancingWorld
from tests.unit.rebalance.test_rebalance_silent import message

ERRORS = [UnavailableError("no answer"), RefusedError("HTTP 403", status=403), NotFoundError("HTTP 404")]
BUNDLE = BundleId("shop/orders", 0, LAST)
MOVE = Move(BUNDLE, "a:8080", "b:8080", 1.0, "")


@pytest.fixture
def world() -> BalancingWorld:
    """Four brokers, all load on the first."""
    made = BalancingWorld()
    made.pulsar.brokers.append("b3.x:8080")
    made.skewed()
    made.share(3)
    return made


def traffic_of(world: BalancingWorld) -> Traffic:
    return Traffic(world.deps, AdminEndpoint("east", URL))


def lists_nothing(world: BalancingWorld, broker: str, error: PortError) -> None:
    answering(world, lambda asked, path: asked == broker and path[-1] == "ownedNamespaces", error)


@pytest.mark.parametrize(
    ("owner", "state"),
    [
        (Ownership("b:8080"), State.DONE),
        (Ownership("a:8080"), State.TO_DO),
        (Ownership("c:8080"), State.ELSEWHERE),
        (Ownership(), State.UNASSIGNED),
        (Ownership(unanswered=("c:8080",)), State.UNKNOWN),
        (Ownership("b:8080", ("c:8080",)), State.DONE),
    ],
)
def test_a_bundle_that_no_answering_broker_has_is_unknown(owner: Ownership, state: State) -> None:
    seen = step_state(MOVE, (0, LAST), owner, ("a:8080", "b:8080", "c:8080"), asked=True)
    assert seen.state is state
    assert ("c:8080" in seen.message) is (state in (State.UNKNOWN, State.ELSEWHERE))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_a_third_broker_that_does_not_list_its_bundles_may_have_it(
    error: PortError, world: BalancingWorld
) -> None:
    first, second, third, fourth = world.pulsar.brokers
    bundle = next(BundleId(*key) for key, owner in world.pulsar.owners.items() if owner == third)
    lists_nothing(world, third, error)
    found = await traffic_of(world).owner(bundle, (first, second), world.pulsar.brokers)
    assert found == Ownership(None, (third,))
    world.pulsar.owners[bundle] = fourth
    assert await traffic_of(world).owner(bundle, (first, second), world.pulsar.brokers) == Ownership(fourth)
    del world.pulsar.owners[bundle]
    assert await traffic_of(world).owner(bundle, (first, third, second), (first, second)) == Ownership()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_a_move_that_went_to_a_silent_broker_is_not_done(error: PortError, world: BalancingWorld) -> None:
    """Pulsar lost where it was to go, and that broker does not answer the operator."""
    third = world.pulsar.brokers[2]
    world.rebalance(autoApprove=True)
    while world.condition("Executing")[0] != "True":
        await world.once()
    lists_nothing(world, third, error)
    before = dict(world.pulsar.owners)
    world.pulsar.elsewhere = {third: 1000}
    for _ in range(400):
        outcome = await world.once()
        await world.cluster_pass()
        if world.condition("Executing")[0] != "True":
            break
        world.clock.moment += timedelta(seconds=max(outcome.requeue_after or 1.0, 0.05))
    lost = {bundle for bundle, owner in world.pulsar.owners.items() if owner == third} - {
        bundle for bundle, owner in before.items() if owner == third
    }
    assert lost, "nothing was moved to the silent broker"
    assert world.condition("Stopped") == ("True", "PlanInvalidated")
    assert third.partition(".")[0] in message(world, "Stopped")
    done = world.status()["progress"]["done"]
    assert done < sum(each.endswith(("/unload", "/split")) for each in world.pulsar.writes)
