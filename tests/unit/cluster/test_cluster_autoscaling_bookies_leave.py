"""Bookies that follow what they store, in memory and virtual time: removed by the way every bookie leaves."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME, Kind
from pulsar_operator.domain.bookkeeper.znodes import ledger_path
from pulsar_operator.ports import PODS, DiskInfo
from tests.support.cluster.leaving_bookies import STEPS
from tests.support.cluster.ledgers import WORKLOAD, bookie, host
from tests.support.cluster.scaling_bookies import (
    DAY_OF_LOOKS,
    GIB,
    HOUR,
    SOON,
    SPARSE,
    at_rest,
    events,
    fill,
    leaves,
    looks,
    row,
    said,
    scaling,
    to_leave,
    until,
    until_begun,
    why,
)
from tests.support.cluster.world import NS


async def test_what_is_deleted_lets_one_leave_after_a_day() -> None:
    """With the defaults, through all steps to the end; of four that are 30 % full three are 40 %, and two 60 %."""
    world = await scaling(4, 55.0, hours=5)
    assert await said(world) == ("True", "WithinTarget")
    fill(world, 30.0, 4)
    await looks(world, int(DAY_OF_LOOKS * 0.9), every=SPARSE)
    await at_rest(world, 4)
    assert await said(world) == ("False", "Stabilizing")
    steps: list[str | None] = []

    async def look() -> None:
        steps.append(((await world.row(3)) or {}).get("step"))

    await looks(world, int(DAY_OF_LOOKS * 0.2), every=SPARSE, each=look)
    await at_rest(world, 3)
    assert [each for each in dict.fromkeys(steps) if each] == STEPS
    assert len(events(world, "ScaledIn")) == 1 and f"Bookie {bookie(3)} was removed" in events(
        world, "BookieDecommissioned"
    )
    assert any("autoscaling requests 3" in each for each in events(world, "DecommissioningBookie"))
    await looks(world, 12, every=SPARSE)
    await at_rest(world, 3)


@pytest.mark.parametrize(
    ("full", "words"), [(46.0, "WithinTarget"), ({0: 80.0, 1: 5.0, 2: 5.0, 3: 5.0}, "a bookie is 80%")]
)
async def test_none_leaves_that_does_not_fit(full: Any, words: str) -> None:
    world = await scaling(4, 55.0, hours=5, behavior=SOON)
    fill(world, full, 4)
    await looks(world, 12, every=SPARSE)
    await at_rest(world, 4)
    assert words in f"{await said(world)} {await why(world)}"


async def test_none_leaves_before_growth_is_known() -> None:
    """A new operator reads it from the status; where that is lost it learns anew."""
    world = await scaling(4, 30.0, behavior=SOON)
    await looks(world, 12, every=SPARSE)
    assert await world.replicas() == 4 and "is not known yet" in await why(world)
    for _ in range(36):
        world.restart()
        await looks(world, 1, every=SPARSE)
    await at_rest(world, 3)


async def test_one_that_may_not_leave_is_put_back_and_tried_again_a_day_later() -> None:
    world = await to_leave()
    wide = world.ledger(state="CLOSED", size=4).ledger
    await until(world, "DecommissionRefused")
    assert "requires 4 writable bookies" in events(world, "DecommissionRefused")[0]
    await at_rest(world, 4)
    for _ in range(24):
        world.restart()
        await looks(world, 1, every=SPARSE)
    await at_rest(world, 4)
    assert await said(world) == ("False", "DecommissionRefused")
    assert "no bookie is removed for a day" in await why(world)
    assert (await world.progressing())[:2] == ("False", "Ready")
    assert [len(events(world, each)) for each in ("ScaledIn", "DecommissionRefused", "DecommissioningBookie")] == [
        1,
        1,
        0,
    ]
    world.clock.forward(22 * HOUR)
    await looks(world, 12, every=SPARSE)
    assert [len(events(world, each)) for each in ("ScaledIn", "DecommissionRefused")] == [2, 2], "once a day"
    world.store.remove(ledger_path(wide))
    await looks(world, 24, every=SPARSE)
    await at_rest(world, 4)
    world.clock.forward(22 * HOUR)
    await looks(world, 12, every=SPARSE)
    await at_rest(world, 3)


async def test_a_change_of_the_specification_is_another_attempt() -> None:
    world = await to_leave()
    wide = world.ledger(state="CLOSED", size=4).ledger
    await until(world, "DecommissionRefused")
    world.store.remove(ledger_path(wide))
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"]["autoscaling"].update(maxReplicas=6))
    await looks(world, 10, every=SPARSE)
    await at_rest(world, 3)


async def test_one_that_is_not_empty_in_time_is_put_back_and_not_tried_by_time_alone() -> None:
    world = await to_leave()
    world.copies = False
    await until(world, "ScaledIn")
    assert (await row(world))["desired"] == 3 and await said(world) == ("False", "DecommissioningBookie")
    await until(world, "DecommissionStuck")
    assert len(events(world, "DecommissionStuck")) == 2, "of the bookie, and of the number"
    world.copies = True
    await world.settle()
    await at_rest(world, 4)
    world.clock.forward(30 * HOUR)
    await looks(world, 12, every=SPARSE)
    await at_rest(world, 4)
    assert await said(world) == ("False", "DecommissionStuck") and len(events(world, "ScaledIn")) == 1
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"]["autoscaling"].update(maxReplicas=6))
    await looks(world, 30, every=SPARSE)  # growth is to be known again
    await at_rest(world, 3)


@pytest.mark.parametrize("step", STEPS)
async def test_an_operator_that_starts_anew_goes_on(step: str) -> None:
    world = await to_leave()
    world.copies = step != "Copying"
    await until_begun(world)
    await leaves(world, step)
    world.restart()
    world.copies = True
    await world.settle()
    await looks(world, 3, every=SPARSE)
    await at_rest(world, 3)
    assert len(events(world, "ScaledIn")) == 1


async def test_an_operator_that_was_away_for_long_lets_it_stay() -> None:
    """What was decided does not count any more; the load decides anew."""
    world = await to_leave()
    world.copies = False
    await until_begun(world)
    await leaves(world, "Copying")
    world.clock.forward(2 * HOUR)
    world.restart()
    world.copies = True
    await world.settle()
    await at_rest(world, 4)
    await looks(world, 12, every=SPARSE)
    await at_rest(world, 3)


async def test_a_disk_that_fills_while_one_leaves_keeps_it() -> None:
    world = await to_leave()
    world.copies = False
    await until_begun(world)
    await leaves(world, "Copying")
    fill(world, {0: 91.0, 1: 70.0, 2: 70.0})
    world.bookies.failing.add(host(3))
    await looks(world, 2)
    assert (await row(world))["desired"] >= 4, "how full the one is that leaves does not matter"
    world.bookies.failing.clear()
    world.copies = True
    await world.settle()
    await looks(world, 5)
    number = await world.replicas()
    await at_rest(world, number)
    assert number in (4, 5)


async def test_one_that_lost_its_volume_or_gets_another_keeps_the_number() -> None:
    world = await to_leave()
    world.copies = False
    asked = {ANNOTATION_REPLACE_VOLUME: "slow disk"}
    await world.backstage.edit(PODS, NS, f"{WORKLOAD}-1", lambda pod: pod["metadata"].update(annotations=asked))
    await world.settle()
    await looks(world, 2)
    assert await said(world) == ("False", "ReplacingVolume") and await world.replicas() == 4


@pytest.mark.parametrize("step", ["ReadOnly", "Copying"])
async def test_a_minimum_that_is_raised_keeps_the_one_that_leaves(step: str) -> None:
    world = await to_leave()
    world.copies = False
    await until_begun(world)
    await leaves(world, step)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"]["autoscaling"].update(minReplicas=4))
    await looks(world, 2)
    world.copies = True
    await world.settle()
    await at_rest(world, 4)
    assert events(world, "BookieDecommissioned") == []


async def test_one_disk_that_is_larger_is_no_room_on_the_others() -> None:
    """All together are 2 % full; the third would leave 90 % on the second."""
    world = await scaling(3, 60.0, hours=5, behavior=SOON)
    world.bookies.disks[host(0)] = DiskInfo(90 * 100 * GIB, 90 * 100 * GIB)
    await looks(world, 12, every=SPARSE)
    await at_rest(world, 3)
    assert "The stored data requires 3" in await why(world)
