"""What a third adversarial review did to bookies. In memory."""

from __future__ import annotations

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.bookkeeper.leaving_memo import MEMO_PATH
from pulsar_operator.domain.bookkeeper.scan_record import SCAN_PATH
from tests.support.cluster.leaving_bookies import entry_asked_for, lose, world
from tests.support.cluster.ledgers import LedgerWorld, bookie

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
    assert MEMO_PATH not in world.store.nodes
    for number in range(900, 904):
        world.put(number, "CLOSED", (bookie(0), bookie(1)), {})
    world.put(911, "CLOSED", (bookie(2),), {})
    world.look()
    await lose(world, 2)

    async def asked() -> bool:
        return "LoseLedgers" in (await world.progressing())[2]

    await world.until(asked, rounds=200)
    assert (await entry_asked_for(world))["answers"].endswith("/2"), (await world.progressing())[2]
