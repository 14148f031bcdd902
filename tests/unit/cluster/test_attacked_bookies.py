"""What an adversarial review of incarnations, groups of bookies and refused specifications did. In memory."""

from __future__ import annotations

import json

import pytest

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME
from pulsar_operator.domain.bookkeeper.bookie_ids import INCARNATIONS_PATH
from pulsar_operator.domain.dataplane.decommission.decommission_record import (
    DECOMMISSION_RECORD_PATH,
    parse_decommission_record,
)
from pulsar_operator.ports import PODS, Json
from tests.support.cluster.affinity import bind, group
from tests.support.cluster.leaving_bookies import TWO, left, lose, well
from tests.support.cluster.ledgers import WORKLOAD, LedgerWorld, bookie, host
from tests.support.cluster.world import NS
from tests.unit.cluster.test_bookies_identity import OWN, empty_again


async def annotate(world: LedgerWorld, ordinal: int) -> None:
    def change(obj: dict) -> None:  # type: ignore[type-arg]
        obj["metadata"].setdefault("annotations", {})[ANNOTATION_REPLACE_VOLUME] = "a test"

    await world.backstage.edit(PODS, NS, f"{WORKLOAD}-{ordinal}", change)


async def discarded(world: LedgerWorld) -> None:
    """Rounds until claims are deleted and the pod is still there."""

    async def there() -> bool:
        node = world.store.nodes.get(DECOMMISSION_RECORD_PATH)
        record = parse_decommission_record(node.data) if node is not None else None
        return record is not None and record.renewal is not None and bool(record.renewal.claims)

    await world.until(there, rounds=200)


async def test_a_bookie_whose_claims_are_deleted_takes_no_entries_while_the_specification_is_refused() -> None:
    """They would be gone with its pod, whenever that ends."""
    world = await LedgerWorld.up(5, closed=3)
    await annotate(world, 4)
    await discarded(world)
    assert world.bookies.servers[host(4)].readonly, "nothing would be proved"
    await world.resize(2)  # 3 is the ensemble size on record
    await world.settle(30)
    assert (await world.progressing())[1] == "InvalidSpec"
    assert world.bookies.servers[host(4)].readonly, "four others take entries"
    await world.resize(5)
    await world.settle(300)
    await well(world, 5)


def members(world: LedgerWorld, name: str) -> set[str]:
    """Ids in a group of bookies."""
    return set(json.loads(world.store.nodes["/bookies"].data).get(name, {}))


@pytest.mark.parametrize("racks", [None, {"byOrdinal": ["a", "b"]}], ids=["no racks", "racks"])
@pytest.mark.parametrize("how", ["lost", "asked", "removed"])
async def test_a_bookie_that_comes_back_is_in_the_affinity_groups_that_it_was_in(how: str, racks: Json | None) -> None:
    """The namespace that is bound to the group could have no new ledger, and its data could go elsewhere."""
    world = await LedgerWorld.up(4, topics=(), ensemble=TWO, **({"racks": racks} if racks else {}))
    group(world, gold=(2, 3), default=(0, 1))
    if how == "lost":
        await lose(world, 3)
    elif how == "asked":
        await annotate(world, 3)
    else:
        await world.resize(3)
    await world.settle(300)
    await world.resize(4)
    await world.settle(300)
    await well(world, 4)
    later = OWN.of_incarnation(3, 1)
    assert world.id(3) == later, "nothing would be proved"
    assert members(world, "gold") == {bookie(2), later}
    assert members(world, "default") == {bookie(0), bookie(1)}
    entry = json.loads(world.store.nodes["/bookies"].data)["gold"][later]
    assert entry == {"rack": "/r" if racks is None else "/b", "hostname": host(3)}
    bind(world, "gold")
    await world.resize(3)
    await world.settle(60)
    assert (await world.progressing())[1] == "DecommissionRefused"


async def test_whoever_takes_it_out_of_the_group_has_the_last_word() -> None:
    world = await LedgerWorld.up(4, topics=(), ensemble=TWO)
    group(world, gold=(2, 3), default=(0, 1))
    await lose(world, 3)
    await world.settle(300)
    await well(world, 4)
    group(world, gold=(2,), default=(0, 1))
    await world.settle(60)
    assert members(world, "gold") == {bookie(2)}


# --------------------------------------------------------------------------------------------------- what held


async def test_all_bookies_get_new_volumes_one_after_another_ordinal_0_too() -> None:
    world, seen = await LedgerWorld.up(3, closed=3), dict[str, str]()
    empty_again(world, seen)
    for ordinal in range(3):
        await annotate(world, ordinal)
    await world.settle(900)
    assert empty_again(world, seen) == []
    await well(world)
    assert [world.id(n) for n in range(3)] == [OWN.of_incarnation(n, 1) for n in range(3)]


async def test_a_count_that_somebody_raised_is_gone_on_from() -> None:
    world = await LedgerWorld.up(3, closed=3)
    counts = {"2": {"number": 5, "seen": 0}, "77": {"number": 3, "seen": 3}}
    world.store.put(INCARNATIONS_PATH, json.dumps(counts))
    for number in (5, 6):
        await annotate(world, 2)
        await world.settle(300)
        await well(world)
        assert world.id(2) == OWN.of_incarnation(2, number)


@pytest.mark.parametrize("jump", [-86400, 86400])
@pytest.mark.parametrize("step", ["ReadOnly", "Copying", "Stopping"])
async def test_a_clock_that_jumps_by_a_day_ends_no_removal(step: str, jump: float) -> None:
    world = await LedgerWorld.up(3, closed=3, decommission={"timeoutSeconds": 7 * 86400})
    await world.resize(2)
    await world.at(step)
    world.clock.forward(jump)
    for _ in range(3):
        await world.settle(100)
        world.clock.forward(301)
    await world.settle(100)
    await left(world)
