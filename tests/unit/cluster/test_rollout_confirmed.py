"""Bookies are rolled although ledgers lack copies, by a confirmation of that rollout alone. In memory."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM, Json
from tests.support.bookkeeper.paths import under_replicated_path
from tests.support.cluster.leaving_bookies import confirm
from tests.support.cluster.ledgers import LedgerWorld
from tests.support.cluster.world import NS

LATER = "2126-01-01T00:00:00Z"
LACKING = under_replicated_path(77)


@pytest.fixture
async def world() -> LedgerWorld:
    """A ledger lacks copies and never gets them."""
    found = await LedgerWorld.up(3, closed=3)
    found.store.put(LACKING)
    return found


async def roll(world: LedgerWorld, value: str) -> None:
    """The bookies get another template, and what can be done is done."""

    def change(spec: Json) -> None:
        spec["bookkeeper"]["config"] = {"gcWaitTime": value}

    await world.change(Kind.CLUSTER, "east", change)
    await world.settle()


async def waits(world: LedgerWorld) -> bool:
    text = (await world.progressing())[2]
    return "1 ledger lacks copies" in text and "add this entry to spec.confirmations" in text


def gone(world: LedgerWorld) -> list[str]:
    return [pod for pod in world.journal.pods_gone() if "bookie" in pod]


async def test_a_confirmation_counts_for_the_whole_rollout_that_it_names(world: LedgerWorld) -> None:
    await roll(world, "60000")
    assert await waits(world) and gone(world) == [], await world.progressing()
    for other in ({"answers": None}, {"answers": "another/1/rollout"}):
        await confirm(world, **other)
        await world.settle()
        assert await waits(world) and gone(world) == []
        assert "The existing confirmation RollUnderReplicated is not used" in (await world.progressing())[2]
    entry = await confirm(world)
    await world.settle()
    assert len(gone(world)) == 3
    (used,) = (await world.status(Kind.CLUSTER, "east"))["usedConfirmations"]
    assert {key: used[key] for key in entry} == entry


@pytest.mark.parametrize("lost", [False, True])
async def test_it_does_not_count_for_the_next_one_nor_for_one_to_the_same_template(
    world: LedgerWorld, lost: bool
) -> None:
    await roll(world, "60000")
    first = await confirm(world, expiresTime=LATER)
    await world.settle()
    assert len(gone(world)) == 3
    if lost:
        await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", lambda obj: obj.pop("status", None))
    await roll(world, "70000")
    assert await waits(world) and len(gone(world)) == 3
    await confirm(world, expiresTime=LATER)
    await world.settle()
    assert len(gone(world)) == 6
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(confirmations=[first]))
    await roll(world, "60000")
    assert await waits(world) and len(gone(world)) == 6, "back to the template that was confirmed first"
