"""A PulsarRebalance that is paused half-way holds Pulsar's balancer for a quarter of an hour, then nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pulsar_operator.api.constants import ANNOTATION_DRY_RUN, ANNOTATION_PAUSE, Kind
from pulsar_operator.controllers.dataplane.balancing.load_balancer import FLAGS
from pulsar_operator.ports import CUSTOM, ForbiddenError, Json
from tests.support.balancing.world import NS, BalancingWorld, world

__all__ = ["world"]


def annotate(world: BalancingWorld, mark: str, value: str | None, name: str = "once") -> None:
    def change(obj: Json) -> None:
        marks = obj["metadata"].setdefault("annotations", {})
        marks.pop(mark, None)
        if value is not None:
            marks[mark] = value

    world.kube.edit(CUSTOM[Kind.REBALANCE], NS, name, change)


async def half_way(world: BalancingWorld) -> None:
    """Two steps are done, and Pulsar's balancer is off."""
    world.pulsar.dynamic["theirs"] = "1"
    world.rebalance(autoApprove=True)
    while world.status().get("progress", {}).get("done", 0) < 2:
        outcome = await world.once()
        await world.cluster_pass()
        world.clock.moment += timedelta(seconds=max(outcome.requeue_after or 0.0, 0.05))
    assert world.pulsar.dynamic == {**FLAGS, "theirs": "1"}


async def passes(world: BalancingWorld, minutes: float) -> None:
    """The passes of some minutes; the cluster's are rarer, and never both in the middle of each other."""
    end = world.clock.moment + timedelta(minutes=minutes)
    while world.clock.moment < end:
        await world.once()
        await world.cluster_pass()
        world.clock.moment += timedelta(seconds=30)


def held(world: BalancingWorld) -> Json | None:
    cluster = world.kube.live(CUSTOM[Kind.CLUSTER], NS, "east")
    assert cluster is not None
    found: Json | None = cluster["status"].get("balancer")
    return found


@pytest.mark.parametrize("mark", [ANNOTATION_PAUSE, ANNOTATION_DRY_RUN])
async def test_paused_half_way_it_holds_nothing_after_its_deadline(world: BalancingWorld, mark: str) -> None:
    await half_way(world)
    annotate(world, mark, "true")
    await passes(world, 14)
    assert world.pulsar.dynamic == {**FLAGS, "theirs": "1"}, "who pauses may resume in a moment"
    assert (await world.cluster_pass()).moving == f"{NS}/once", "autoscaling waits"
    assert world.condition("Executing") == ("True", "Paused")
    await passes(world, 2)
    assert world.pulsar.dynamic == {"theirs": "1"} and held(world) is None
    assert (await world.cluster_pass()).moving is None, "and does no more"
    status = world.status()
    assert status["progress"]["done"] == 2 and status["progress"]["blockedSince"]
    assert any("Pulsar's own balancer and autoscaling no longer wait" in c["message"] for c in status["conditions"])


async def test_resumed_it_takes_the_balancer_again_and_goes_on(world: BalancingWorld) -> None:
    await half_way(world)
    annotate(world, ANNOTATION_PAUSE, "true")
    await passes(world, 120)
    assert world.pulsar.dynamic == {"theirs": "1"}
    moves = len(world.pulsar.writes)
    annotate(world, ANNOTATION_PAUSE, None)
    await world.once()
    assert world.condition("Executing") == ("True", "WaitingForBalancer")
    assert len(world.pulsar.writes) == moves, "nothing is moved while Pulsar's balancer is on"
    await world.run()
    assert world.spread() < 1.2 and world.condition("Completed")[0] == "True"
    assert world.pulsar.dynamic == {"theirs": "1"} and "blockedSince" not in world.status()["progress"]


async def test_resumed_after_pulsar_moved_what_it_was_to_move_it_ends(world: BalancingWorld) -> None:
    await half_way(world)
    annotate(world, ANNOTATION_PAUSE, "true")
    await passes(world, 60)
    third = world.pulsar.brokers[2]
    world.pulsar.owners = dict.fromkeys(world.pulsar.owners, third)
    annotate(world, ANNOTATION_PAUSE, None)
    await world.run()
    assert world.condition("Stopped") == ("True", "PlanInvalidated")
    assert world.pulsar.dynamic == {"theirs": "1"}


async def test_resumed_in_time_it_goes_on_as_if_nothing_had_been(world: BalancingWorld) -> None:
    await half_way(world)
    annotate(world, ANNOTATION_PAUSE, "true")
    await passes(world, 10)
    annotate(world, ANNOTATION_PAUSE, None)
    await world.once()
    assert world.condition("Executing") == ("True", "Executing")
    annotate(world, ANNOTATION_PAUSE, "true")
    await passes(world, 10)
    assert world.pulsar.dynamic == {**FLAGS, "theirs": "1"}, "each pause has its own time"
    annotate(world, ANNOTATION_PAUSE, None)
    await world.run()
    assert world.spread() < 1.2


async def test_the_settings_are_restored_after_the_status_names_nobody(world: BalancingWorld) -> None:
    """Else one that is resumed at that moment would move a bundle while Pulsar's balancer is on."""
    await half_way(world)
    annotate(world, ANNOTATION_PAUSE, "true")
    await world.once()
    world.clock.moment += timedelta(minutes=16)
    await world.cluster_pass()
    assert (held(world) or {}).get("disabledFor") is None and held(world) is not None
    assert world.pulsar.dynamic == {**FLAGS, "theirs": "1"}
    await world.cluster_pass()
    assert held(world) is None and world.pulsar.dynamic == {"theirs": "1"}


async def test_another_one_goes_while_it_is_paused(world: BalancingWorld) -> None:
    await half_way(world)
    annotate(world, ANNOTATION_PAUSE, "true")
    world.rebalance("other", autoApprove=True)
    for _ in range(4):
        await world.once("other")
        await world.cluster_pass()
    assert (held(world) or {})["disabledFor"] == f"{NS}/once"
    await passes(world, 16)
    await world.run("other", seconds=10)
    assert (held(world) or {}).get("disabledFor") in (f"{NS}/other", None)
    assert world.status("other")["progress"]["done"] > 0 or world.condition("Stopped", "other")[0] == "True"


async def test_one_whose_passes_fail_holds_nothing_either(world: BalancingWorld) -> None:
    """The operator lost a right: nobody can say since when in the object's own words."""
    await half_way(world)
    get = world.kube.get

    async def refused(kind, namespace, name):  # type: ignore[no-untyped-def]
        if kind.plural == "configmaps" and name.endswith("-proposal"):
            raise ForbiddenError("configmaps is forbidden")
        return await get(kind, namespace, name)

    world.kube.get = refused  # type: ignore[method-assign]
    await passes(world, 14)
    assert world.pulsar.dynamic == {**FLAGS, "theirs": "1"}
    await passes(world, 3)
    assert world.pulsar.dynamic == {"theirs": "1"}
    world.kube.get = get  # type: ignore[method-assign]
    await world.run()
    assert world.spread() < 1.2 and world.pulsar.dynamic == {"theirs": "1"}


async def test_one_that_waits_for_its_turn_loses_no_time(world: BalancingWorld) -> None:
    """Only who may execute is asked for steps."""
    world.rebalance("first", autoApprove=True)
    world.rebalance("second", autoApprove=True)
    for _ in range(3):
        await world.once("first")
        await world.once("second")
        await world.cluster_pass()
    for _ in range(60):
        await world.once("second")
        world.clock.moment += timedelta(seconds=30)
        await world.cluster_pass()
    assert world.condition("Executing", "second") == ("True", "WaitingForBalancer")
    await world.run("first", seconds=60)
    await world.once("second")
    await world.cluster_pass()
    await world.cluster_pass()
    assert (held(world) or {})["disabledFor"] == f"{NS}/second"
