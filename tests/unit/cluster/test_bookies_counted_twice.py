"""The count of the bookies' incarnations is in two places, and each of them is enough. In memory."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.bookkeeper.bookie_ids import INCARNATIONS_PATH, Count, parse_copy
from pulsar_operator.domain.dataplane.registration.metadata import INCARNATIONS_KEY
from pulsar_operator.ports import CONFIG_MAPS, PVCS, STATEFUL_SETS, Json
from tests.support.cluster.leaving_bookies import forgotten, left, well, world
from tests.support.cluster.ledgers import WORKLOAD, LedgerWorld, claims, cookie
from tests.support.cluster.world import NS
from tests.support.core.journal import KUBERNETES, ZOOKEEPER
from tests.unit.cluster.test_bookies_identity import counts, empty_again

__all__ = ["world"]

RECORD = "east-instance-id"


async def copied(world: LedgerWorld) -> dict[int, Count]:
    return parse_copy((await world.get(CONFIG_MAPS, RECORD))["data"].get(INCARNATIONS_KEY, ""))


async def without_copy(world: LedgerWorld) -> None:
    """As an operator left it that kept no copy."""
    await world.backstage.edit(CONFIG_MAPS, NS, RECORD, lambda obj: obj["data"].pop(INCARNATIONS_KEY, None))


async def unmarked(world: LedgerWorld) -> None:
    """Somebody deletes the claims of the bookie that is away, so that they name no former id."""
    for claim in claims(2):
        await world.backstage.remove(PVCS, NS, claim)


@pytest.mark.parametrize("lost", ["the znode and the marks", "the znode and the copy", "the copy and the marks"])
async def test_any_one_place_is_enough(world: LedgerWorld, lost: str) -> None:
    seen: dict[str, str] = {}
    empty_again(world, seen)
    await world.resize(2)
    await world.run(rounds=200)
    await left(world)
    if "znode" in lost:
        world.store.remove(INCARNATIONS_PATH)
    if "marks" in lost:
        await unmarked(world)
    if "copy" in lost:
        await without_copy(world)
    await world.resize(3)
    await world.run(rounds=200)
    assert empty_again(world, seen) == []
    assert counts(world) == await copied(world)
    await well(world)


async def test_the_copy_is_raised_before_the_znode_and_that_before_the_cookie_is_deleted(world: LedgerWorld) -> None:
    await world.resize(2)
    await forgotten(world)
    names = {(KUBERNETES, RECORD): "copy", (ZOOKEEPER, INCARNATIONS_PATH): "znode", (ZOOKEEPER, cookie(2)): "cookie"}
    found = [names[call.port, call.name] for call in world.journal.effects if (call.port, call.name) in names]
    assert found[-3:] == ["copy", "znode", "cookie"]
    assert (await copied(world))[2] == Count(1, 0) == counts(world)[2]


async def test_an_upgrade_writes_the_copy_and_touches_no_workload(world: LedgerWorld) -> None:
    before = (await world.get(STATEFUL_SETS, WORKLOAD))["metadata"]
    await without_copy(world)
    await world.run()
    assert await copied(world) == {ordinal: Count(0, 0) for ordinal in range(3)}
    after = (await world.get(STATEFUL_SETS, WORKLOAD))["metadata"]
    assert after["generation"] == before["generation"] and after.get("annotations") == before.get("annotations")
    await well(world)


async def test_a_store_from_a_backup_gets_the_numbers_that_were_used_since(world: LedgerWorld) -> None:
    old = world.store.nodes[INCARNATIONS_PATH].data
    await world.resize(2)
    await world.run(rounds=200)
    await unmarked(world)
    world.store.put(INCARNATIONS_PATH, old)
    await world.run(rounds=50)
    assert counts(world)[2] == Count(1, 0)


async def test_other_writers_of_the_record_keep_the_copy(world: LedgerWorld) -> None:
    await world.resize(2)
    await world.run(rounds=200)
    before = await copied(world)

    def older(obj: Json) -> None:
        obj["data"]["versions"] = "3.0.0"

    await world.backstage.edit(CONFIG_MAPS, NS, RECORD, older)
    await world.run()
    assert (await world.get(CONFIG_MAPS, RECORD))["data"]["versions"] != "3.0.0"
    assert await copied(world) == before != {}


async def test_a_copy_that_cannot_be_read_stops_and_is_named(world: LedgerWorld) -> None:
    def garbled(obj: Json) -> None:
        obj["data"][INCARNATIONS_KEY] = "garbage"

    await world.backstage.edit(CONFIG_MAPS, NS, RECORD, garbled)
    await world.resize(2)
    for _ in range(20):
        await world.round()
    assert await world.replicas() == 3
    _, reason, text = await world.condition(Kind.CLUSTER, "east", "MetadataReady")
    assert reason == "MetadataConflict" and f"data.{INCARNATIONS_KEY}" in text
