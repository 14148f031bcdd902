"""How full the disks of bookies are, in the status of the cluster."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.bookkeeper.storage_facts import used_percent
from pulsar_operator.ports import DiskInfo
from tests.support.cluster.copies import made_once
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import NS, ClusterWorld, quickstart

HOSTS = [f"east-bookie-{n}.east-bookie-headless.{NS}.svc.cluster.local" for n in range(3)]


@made_once
async def brought_up(*disks: tuple[str, DiskInfo]) -> ClusterWorld:
    world = ClusterWorld.fakes()
    world.bookies.disks = dict(disks)
    instance, cluster = quickstart()[:2]
    cluster["spec"]["bookkeeper"]["replicas"] = 3
    cluster["spec"].pop("proxy")
    await world.apply(instance, cluster)
    await world.run()
    return world


async def usage(world: ClusterWorld) -> dict[int, int | None]:
    rows = (await world.status(Kind.CLUSTER, "east"))["bookies"]
    return {row["ordinal"]: row.get("usage") for row in rows}


async def test_each_bookie_says_its_own_and_one_that_does_not_has_none() -> None:
    world = await brought_up((HOSTS[0], DiskInfo(100, 100)), (HOSTS[1], DiskInfo(5, 100)), (HOSTS[2], DiskInfo(0, 0)))
    assert await usage(world) == {0: 0, 1: 95, 2: None}
    world.bookies.disks[HOSTS[2]] = DiskInfo(0, 100)
    world.bookies.failing.add(HOSTS[1])
    await world.run()
    assert await usage(world) == {0: 0, 1: None, 2: 100}, "what is not known now is not told"


async def test_a_percent_more_or_less_is_no_news() -> None:
    world = await brought_up((HOSTS[0], DiskInfo(50, 100)))
    for free, told in ((49, 50), (51, 50), (48, 52), (2, 98), (1, 98), (0, 100), (1, 100)):
        world.bookies.disks[HOSTS[0]] = DiskInfo(free, 100)
        await world.run()
        assert (await usage(world))[0] == told, free


async def test_one_that_is_not_ready_is_not_asked() -> None:
    world = await brought_up()
    assert await usage(world) == {0: 50, 1: 50, 2: 50}
    world.workloads.troubles.append(Trouble(pod="east-bookie-1"))
    await world.workloads.flap(NS, "east-bookie-1")
    await world.round()
    assert await usage(world) == {0: 50, 1: None, 2: 50}


@pytest.mark.parametrize(
    ("free", "total", "used"), [(100, 100, 0), (0, 7, 100), (995, 1000, 0), (4, 1000, 100), (1, 3, 67)]
)
def test_the_nearest_percent(free: int, total: int, used: int) -> None:
    assert used_percent(free, total) == used
