"""Bookies with autoscaling in memory: how full their disks are, and looks of the operator in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.bookkeeper.znodes import AVAILABLE
from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.ports import DiskInfo, Json, Key
from tests.support.cluster.copies import made_once
from tests.support.cluster.ledgers import LedgerWorld, host

GIB = 1 << 30
SIZE = 100
"""GiB of each bookie's disks, so that a percent is one."""
LOOK = 60.0
HOUR = 3600.0
SPARSE = 500.0
"""Seconds between looks at hours in which nothing happens: the windows bear less than ten minutes."""
DAY_OF_LOOKS = int(86400 / SPARSE) + 2
"""Sparse ones."""
SOON = {"scaleDown": {"stabilizationWindowSeconds": 1800, "cooldownSeconds": 600}}
"""So that a test need not be a day long."""


def limits(least: int = 2, most: int = 5, **fields: Any) -> Json:
    """Autoscaling of bookies."""
    return {"minReplicas": least, "maxReplicas": most, **fields}


@made_once
async def scaling(
    bookies: int, full: float | Mapping[int, float] = 50.0, *, hours: int = 0, **autoscaling: Any
) -> LedgerWorld:
    """So many bookies with autoscaling, this full in percent, at rest, after so many hours of looks."""
    world = await LedgerWorld.up(bookies)
    fill(world, full, bookies)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(autoscaling=limits(**autoscaling)))
    await world.run(rounds=300)
    for _ in range(int(hours * HOUR / SPARSE)):
        await looks(world, 1, every=SPARSE)
    return world


def fill(world: LedgerWorld, full: float | Mapping[int, float], bookies: int = 0) -> None:
    """Disks become this full, in percent: all of so many, or those named."""
    shares = full if isinstance(full, Mapping) else dict.fromkeys(range(bookies), full)
    for ordinal, share in shares.items():
        free = int((100 - share) * GIB * SIZE / 100)
        world.bookies.disks[host(ordinal)] = DiskInfo(free, SIZE * GIB)


async def looks(world: LedgerWorld, number: int, *, every: float = LOOK, each: Callable[[], Any] | None = None) -> None:
    """Looks of the operator, and what follows from each; ``each`` (async) is called before every round of that."""
    for _ in range(number):
        world.clock.forward(every)
        before = len(world.journal.attempts)
        await world.reconcile(Key(Kind.CLUSTER, world.namespace, "east"))
        done = [call for call in world.journal.attempts[before:] if call.verb != "status"]
        if done or await _wants(world) != await world.replicas() or DECOMMISSION_RECORD_PATH in world.store.nodes:
            await world.settle(each=each)


async def _wants(world: LedgerWorld) -> int:
    rows = (await world.status(Kind.CLUSTER, "east")).get("autoscaling") or {}
    return int(rows["bookkeeper"]["desired"]) if "bookkeeper" in rows else await world.replicas()


async def row(world: LedgerWorld) -> Json:
    """What status says of bookies."""
    return dict((await world.status(Kind.CLUSTER, "east"))["autoscaling"]["bookkeeper"])


async def said(world: LedgerWorld) -> tuple[str, str]:
    """Condition ScalingActive: status and reason."""
    status, reason, _ = await world.condition(Kind.CLUSTER, "east", "ScalingActive")
    return status, reason


async def why(world: LedgerWorld) -> str:
    """Condition ScalingActive in words."""
    return (await world.condition(Kind.CLUSTER, "east", "ScalingActive"))[2]


def events(world: LedgerWorld, reason: str) -> list[str]:
    """Messages of the events of a reason."""
    return [each.message for each in world.journal.events if each.reason == reason]


async def at_rest(world: LedgerWorld, number: int) -> None:
    """So many bookies, all up, no copy lost, and nothing is under way."""
    found = await row(world)
    assert await world.replicas() == found["desired"] == found["current"] == number, found
    assert await world.all_ready() == {} and world.lost() == [] and DECOMMISSION_RECORD_PATH not in world.store.nodes
    assert {world.id(n) for n in range(number)} <= set(world.store.children(AVAILABLE))


async def to_leave() -> LedgerWorld:
    """Four bookies of which one may leave within the hour: they were emptied a moment ago."""
    world = await scaling(4, 55.0, hours=5, behavior=SOON)
    fill(world, 30.0, 4)
    return world


async def until(world: LedgerWorld, reason: str, *, most: int = 24) -> None:
    """Looks until there is an event of a reason."""
    for _ in range(most):
        if events(world, reason):
            return
        await looks(world, 1, every=SPARSE)
    raise AssertionError(f"no {reason}: {await why(world)}")


async def leaves(world: LedgerWorld, step: str) -> None:
    """One is at a step of its way out."""
    await until(world, "ScaledIn")

    async def there() -> bool:
        return ((await world.row(3)) or {}).get("step") == step

    await world.until(there)


async def until_begun(world: LedgerWorld) -> None:
    """The decision, and no pass after it."""
    for _ in range(24):
        if (await row(world))["desired"] == 3:
            return
        world.clock.forward(SPARSE)
        await world.round()
    raise AssertionError(await why(world))
