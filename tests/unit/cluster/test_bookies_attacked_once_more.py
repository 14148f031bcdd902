"""What a third adversarial review did to bookies. In memory."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import ANNOTATION_VOLUME_REQUESTED
from pulsar_operator.domain.bookkeeper.bookie_ids import INCARNATIONS_PATH
from pulsar_operator.domain.bookkeeper.ledger_scan_record import SCAN_PATH
from pulsar_operator.domain.bookkeeper.znodes import COOKIES
from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.ports import PVCS, Json
from tests.support.cluster.leaving_bookies import entry_asked_for, left, lose, well, world
from tests.support.cluster.ledgers import LedgerWorld, bookie, claims
from tests.support.cluster.world import NS
from tests.unit.cluster.test_bookies_identity import OWN, annotate, empty_again
from tests.unit.cluster.test_bookies_without_room import filled, use

__all__ = ["world"]


async def test_an_examination_of_a_removal_that_was_withdrawn_counts_for_nothing_later(world: LedgerWorld) -> None:
    """Two ledgers are nowhere else at the end; one of them was elsewhere when they were examined."""
    for number in range(900, 904):
        world.put(number, "CLOSED", (bookie(0), bookie(1), bookie(2)), {})
    world.put(910, "CLOSED", (bookie(2),), {})
    world.put(911, "CLOSED", (bookie(0), bookie(1)), {})
    world.look()
    await world.resize(2)
    for _ in range(10):
        await world.round()
    assert (await world.progressing())[1] == "DecommissionRefused" and SCAN_PATH in world.store.nodes
    await world.resize(3)
    await world.run(rounds=100)
    assert DECOMMISSION_RECORD_PATH not in world.store.nodes
    for number in range(900, 904):
        world.put(number, "CLOSED", (bookie(0), bookie(1)), {})
    world.put(911, "CLOSED", (bookie(2),), {})
    world.look()
    await lose(world, 2)

    async def asked() -> bool:
        return "LoseLedgers" in (await world.progressing())[2]

    await world.until(asked, rounds=200)
    assert (await entry_asked_for(world))["answers"].endswith("/2"), (await world.progressing())[2]


@pytest.mark.parametrize("lost", [True, False])
async def test_the_new_volume_is_lost_before_it_is_on_record(world: LedgerWorld, lost: bool) -> None:
    if lost:
        await lose(world, 2)
    else:
        await annotate(world, "a test")

    async def there() -> bool:
        return (
            OWN.of_incarnation(2, 1) in world.store.children(COOKIES) and DECOMMISSION_RECORD_PATH in world.store.nodes
        )

    await world.until(there, rounds=200)
    await lose(world, 2)
    await world.settle(300)
    await well(world)


async def test_the_count_is_deleted_while_an_ordinal_is_away(world: LedgerWorld) -> None:
    seen: dict[str, str] = {}
    empty_again(world, seen)
    await world.resize(2)
    await world.run(rounds=200)
    await left(world)
    world.store.remove(INCARNATIONS_PATH)
    await world.resize(3)
    await world.run(rounds=200)
    assert empty_again(world, seen) == []


async def test_a_request_that_somebody_puts_at_the_new_claims_is_not_done_twice(world: LedgerWorld) -> None:
    """As a backup tool does that applies annotations again."""
    await annotate(world, "a test")
    for _ in range(2):
        await world.round()
    text = (await world.get(PVCS, claims(2)[0]))["metadata"]["annotations"][ANNOTATION_VOLUME_REQUESTED]
    await world.run(rounds=300)
    await well(world)
    volume = world.volume(world.id(2))

    def change(obj: Json) -> None:
        obj["metadata"].setdefault("annotations", {})[ANNOTATION_VOLUME_REQUESTED] = text

    for claim in claims(2):
        await world.backstage.edit(PVCS, NS, claim, change)
    await world.run(rounds=300)
    assert world.volume(world.id(2)) == volume


async def test_a_copy_that_never_has_room_is_not_begun_again_and_again() -> None:
    """Room vanishes whenever the copy is to begin, and is back afterwards."""
    found = await filled((0, 2), (1, 2))
    found.copies = False
    await found.resize(2)
    for _ in range(100):
        copying = ((await found.row(2)) or {}).get("step") == "Copying"
        for ordinal in range(2):
            use(found, ordinal, 93 if copying else 10)
        await found.round()
    begun = [event for event in found.journal.events if "is writable again and its ledgers" in event.message]
    assert len(begun) <= 5, f"{len(begun)} times in 100 rounds"
