"""Autoscaling with numbers that no operator wrote: a status that a stranger wrote, workloads scaled by hand, pages of
metrics that say what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.ports import CUSTOM, STATEFUL_SETS, UnavailableError
from tests.support.cluster import scaling_bookies
from tests.support.cluster.ledgers import WORKLOAD
from tests.support.cluster.scaling import LIMITS, LOOK, TARGET, minutes, said, scaling, wanted
from tests.support.cluster.world import NS, ClusterWorld
from tests.support.core.journal import PortCall


async def rewritten(world: ClusterWorld, component: str, **fields: Any) -> None:
    """Somebody writes the decision, a moment ago."""
    status = (await world.status(Kind.CLUSTER, "east"))["autoscaling"]
    status[component] |= {"updatedTime": timestamp(world.clock.now()), **fields}
    await world.backstage.set_status(CUSTOM[Kind.CLUSTER], NS, "east", {"autoscaling": status})


@pytest.mark.parametrize("desired", [0, 1, 40])
async def test_no_decision_that_somebody_wrote_goes_beyond_the_limits(desired: int) -> None:
    """None would stop all brokers at once, with what they serve."""
    world, loads = await scaling()
    world.clock.forward(LOOK)
    await loads.serve()
    await rewritten(world, "broker", desired=desired)
    seen = set()
    for _ in range(12):
        await world.round()
        await loads.serve()
        seen.add(await wanted(world))
    assert seen <= set(range(LIMITS["minReplicas"], LIMITS["maxReplicas"] + 1)) and world.busy.displaced == []
    await minutes(world, loads, 12)
    assert await wanted(world) == 2 and await said(world) == ("True", "WithinTarget")


@pytest.mark.parametrize("time", ["2026-01-01t00:00:00z", "2026-01-01T00:00:00", "soon", "2026-02-30T00:00:00Z"])
async def test_a_time_that_cannot_be_read_counts_as_none(time: str) -> None:
    world, loads = await scaling()
    await rewritten(world, "broker", desired=4, updatedTime=time)
    await minutes(world, loads, 3)
    assert await wanted(world) == 2 and await said(world) == ("True", "WithinTarget")


@pytest.mark.parametrize(("desired", "most"), [(0, 3), (1, 3), (40, 5)])
async def test_nor_do_bookies_that_somebody_wrote(desired: int, most: int) -> None:
    """Too few of them would have the specification refused, for which there is nothing to correct."""
    world = await scaling_bookies.scaling(3, 50.0)
    await rewritten(world, "bookkeeper", desired=desired)
    for _ in range(30):
        await world.round()
        assert 2 <= await world.replicas() <= most
        assert (await world.condition(Kind.CLUSTER, "east", "Accepted"))[:2] == ("True", "Valid")
    assert world.lost() == []


async def test_bookies_that_are_too_few_by_hand_come_back_although_the_status_was_lost() -> None:
    world = await scaling_bookies.scaling(3, 50.0)
    await world.backstage.edit(STATEFUL_SETS, NS, WORKLOAD, lambda there: there["spec"].update(replicas=1))
    await world.backstage.set_status(CUSTOM[Kind.CLUSTER], NS, "east", {"autoscaling": None})
    world.restart()
    await world.settle()
    await scaling_bookies.looks(world, 3)
    await scaling_bookies.at_rest(world, 2)
    assert (await world.condition(Kind.CLUSTER, "east", "Accepted"))[:2] == ("True", "Valid")


@pytest.mark.parametrize(
    ("odd", "obstacle"), [({"desired": "four", "current": 4, "replicas": 2}, "none"), (7, "invalid"), ([], "silent")]
)
async def test_a_decision_that_cannot_be_read_changes_no_number(odd: Any, obstacle: str) -> None:
    """Autoscaling was removed, so that four brokers stay where replicas says two; another version wrote the row. Also
    after passes in which no phase ran."""
    world, loads = await scaling()
    loads.total = 4 * TARGET
    await minutes(world, loads, 5)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].pop("autoscaling"))
    await minutes(world, loads, 2)
    assert await wanted(world) == 4
    loads.total = TARGET
    await world.backstage.set_status(CUSTOM[Kind.CLUSTER], NS, "east", {"autoscaling": {"broker": odd}})
    if obstacle == "invalid":
        await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(mode="Odd"))
    if obstacle == "silent":
        world.journal.before.append(silent)
    if obstacle != "none":
        await world.round()
        assert (await world.status(Kind.CLUSTER, "east"))["autoscaling"]["unreadable"] == ["broker"]
        world.journal.before.clear()
        await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(mode="Distributed"))
    for _ in range(3):
        await minutes(world, loads, 1)
        assert await wanted(world) == 4
    stored = (await world.status(Kind.CLUSTER, "east"))["autoscaling"]
    assert stored.keys() == {"broker"} and (stored["broker"]["desired"], stored["broker"]["replicas"]) == (4, 2)
    assert [event.reason for event in world.journal.events].count("StatusUnreadable") == 1
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=3))
    await minutes(world, loads, 3)
    assert await wanted(world) == 3, "replicas counts again once it is changed"


def silent(call: PortCall) -> None:
    """The API server lists no StatefulSets: the pass ends before anything is known."""
    if call.kind == STATEFUL_SETS.kind and not call.is_write:
        raise UnavailableError("HTTP 503", status=503)


async def test_autoscaling_reports_a_decision_that_it_cannot_read_and_decides_anew() -> None:
    world, loads = await scaling()
    loads.total = 4 * TARGET
    await minutes(world, loads, 5)
    assert await wanted(world) == 4
    await world.backstage.set_status(CUSTOM[Kind.CLUSTER], NS, "east", {"autoscaling": {"broker": {"desired": "four"}}})
    await world.round()
    status, reason, message = await world.condition(Kind.CLUSTER, "east", "ScalingActive")
    assert (status, reason) == ("False", "StatusUnreadable")
    assert "keeps 4 replicas" in message and "another version" in message and "decides again" in message
    await minutes(world, loads, 2)
    assert await wanted(world) == 4 and await said(world) == ("True", "WithinTarget")
    loads.total = TARGET
    await minutes(world, loads, 12)
    assert await wanted(world) == 2, "it is not held for ever"


async def test_what_somebody_else_left_in_a_decision_goes_and_nothing_is_written_for_ever() -> None:
    """As a backup of the status that is put back: who leaves a field out does not take it from others."""
    world, loads = await scaling()
    await rewritten(world, "broker", limitedBy="maxReplicas")
    await minutes(world, loads, 2)
    assert "limitedBy" not in (await world.status(Kind.CLUSTER, "east"))["autoscaling"]["broker"]
    before = len(world.journal.attempts)
    await world.round()
    assert world.journal.attempts[before:] == []
