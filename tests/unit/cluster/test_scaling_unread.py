"""A decision on replicas that cannot be read: whatever number of pods is kept, a condition says so."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_PAUSE, Kind
from pulsar_operator.ports import CUSTOM, STATEFUL_SETS
from tests.support.cluster.busy import BusyWorld
from tests.support.cluster.scaling import Loads, minutes, said, scaling, wanted
from tests.support.cluster.world import NS, ClusterWorld

ACTIVE = "ScalingActive"


async def world_without() -> tuple[BusyWorld, Loads]:
    """No component has autoscaling any more, and none has a record."""
    world, loads = await scaling()
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].pop("autoscaling"))
    await world.backstage.set_status(CUSTOM[Kind.CLUSTER], NS, "east", {"autoscaling": None})
    await minutes(world, loads, 2)
    assert await condition(world) is None and await wanted(world) == 2
    return world, loads


async def status(world: ClusterWorld) -> dict[str, Any]:
    return await world.status(Kind.CLUSTER, "east")


async def condition(world: ClusterWorld) -> tuple[str, str, str] | None:
    """ScalingActive: status, reason and message; None = absent."""
    found = [each for each in (await status(world))["conditions"] if each["type"] == ACTIVE]
    return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None


async def write(world: ClusterWorld, autoscaling: Any) -> None:
    """Another version writes the record."""
    await world.backstage.set_status(CUSTOM[Kind.CLUSTER], NS, "east", {"autoscaling": autoscaling})


async def by_hand(world: ClusterWorld, number: int) -> None:
    """Somebody scales the workload, at the moment in which the record becomes odd."""
    await world.backstage.edit(STATEFUL_SETS, NS, "east-broker", lambda there: there["spec"].update(replicas=number))


def events(world: ClusterWorld) -> list[str]:
    return [event.message for event in world.journal.events if event.reason == "StatusUnreadable"]


@pytest.mark.parametrize("odd", ["odd", 7, [{}], {"broker": {"desired": "odd"}}, {"broker": 7}])
async def test_a_number_that_is_not_the_one_of_the_specification_has_a_condition(odd: Any) -> None:
    world, loads = await world_without()
    await by_hand(world, 4)
    await write(world, odd)
    for _ in range(4):
        await minutes(world, loads, 1)
        assert await wanted(world) == 4
        found = await condition(world)
        assert found is not None and found[:2] == ("False", "StatusUnreadable")
        row = (await status(world))["autoscaling"]["broker"]
        assert row["reason"] == "StatusUnreadable" and found[2] == f"Brokers: {row['message']}"
    assert (
        "keeps 4 replicas although spec.broker.replicas is 2" in found[2]
        and "Set spec.broker.replicas to 4" in found[2]
    )
    assert (await status(world))["autoscaling"].keys() == {"broker"}, "the others are as the specification has them"
    assert len(events(world)) == 1
    for replicas in (4, 3):
        await world.change(Kind.CLUSTER, "east", lambda spec, n=replicas: spec["broker"].update(replicas=n))
        await minutes(world, loads, 3)
        assert await wanted(world) == replicas and await condition(world) is None


@pytest.mark.parametrize("odd", [{"unreadable": "odd"}, {"unreadable": 7}, {"unreadable": [{}]}, {"unreadable": None}])
async def test_an_odd_list_of_records_holds_no_component_without_autoscaling(odd: Any) -> None:
    world, loads = await world_without()
    await by_hand(world, 4)
    await write(world, odd)
    await minutes(world, loads, 3)
    assert await wanted(world) == 2 and await condition(world) is None and events(world) == []


async def test_what_is_as_the_specification_has_it_is_not_reported() -> None:
    world, loads = await world_without()
    await write(world, "odd")
    await minutes(world, loads, 2)
    assert await wanted(world) == 2 and await condition(world) is None and events(world) == []
    assert "autoscaling" not in await status(world)


async def test_a_component_with_autoscaling_and_one_without_are_both_named() -> None:
    world, loads = await scaling()
    await world.backstage.edit(STATEFUL_SETS, NS, "east-proxy", lambda there: there["spec"].update(replicas=3))
    await write(world, "odd")
    await world.round()
    found = await condition(world)
    assert found is not None and found[:2] == ("False", "StatusUnreadable")
    assert (
        "Brokers: The operator keeps 2 replicas, because " in found[2] and "Proxies: The operator keeps 3" in found[2]
    )
    await minutes(world, loads, 2)
    assert await said(world) == ("False", "StatusUnreadable"), "proxies are held"
    assert (await status(world))["autoscaling"]["broker"]["reason"] == "WithinTarget"


@pytest.mark.parametrize("scaled", [True, False])
async def test_in_a_pause_the_condition_says_what_the_record_says(scaled: bool) -> None:
    world, loads = await (scaling() if scaled else world_without())
    await by_hand(world, 4)
    await world.annotate(Kind.CLUSTER, "east", ANNOTATION_PAUSE, "true")
    await write(world, {"broker": 7})
    for _ in range(4):
        world.clock.forward(60)
        await loads.serve()
        await world.round()
        row, found = (await status(world))["autoscaling"]["broker"], await condition(world)
        assert found is not None and await wanted(world) == 4
        assert found[1:] == (row["reason"], f"Brokers: {row['message']}")
    await world.annotate(Kind.CLUSTER, "east", ANNOTATION_PAUSE, None)
    await minutes(world, loads, 2)
    found = await condition(world)
    assert found is not None and (found[1] == "StatusUnreadable") is not scaled


@pytest.mark.parametrize("scaled", [True, False])
async def test_passes_that_decide_nothing_say_that_the_record_is_not_read(scaled: bool) -> None:
    """The specification is refused, so that no phase of scaling runs."""
    world, _ = await (scaling() if scaled else world_without())
    await by_hand(world, 4)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(version="4.0.9"))
    await write(world, {"broker": 7})
    for _ in range(2):
        await world.round()
        found = await condition(world)
        assert found is not None and found[:2] == ("False", "StatusUnreadable")
        assert "keeps 4 replicas" in found[2] and await wanted(world) == 4
    assert (await status(world))["autoscaling"]["unreadable"] == ["broker"]


@pytest.mark.parametrize("scaled", [True, False])
async def test_a_workload_that_is_gone_gets_the_number_of_the_specification(scaled: bool) -> None:
    world, loads = await (scaling() if scaled else world_without())
    await by_hand(world, 4)
    await write(world, {"broker": 7})
    await world.backstage.remove(STATEFUL_SETS, NS, "east-broker")
    await world.round()
    assert await wanted(world) == 2
    (text,) = events(world)
    assert "creates the missing workload with 2 replicas according to spec.broker.replicas" in text
    found = await condition(world)
    assert found is not None and found[:2] == ("False", "StatusUnreadable") and found[2] in text
    await minutes(world, loads, 40)
    assert await wanted(world) == 2, "a condition for half an hour, and then it is as specified"
    assert await condition(world) is None or await said(world) == ("True", "WithinTarget")
