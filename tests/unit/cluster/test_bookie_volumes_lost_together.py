"""Several bookies lose their volumes at once: what has a copy is copied, what has none is asked about, once."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.bookkeeper.abandoned_ledgers import GIVEN_UP_PATH, parse_given_up
from pulsar_operator.domain.bookkeeper.znodes import ledger_path
from pulsar_operator.ports import Json, UnavailableError
from tests.support.cluster.leaving_bookies import TWO, confirm, lose, well
from tests.support.cluster.ledgers import LedgerWorld, bookie, cookie
from tests.support.core.journal import ZOOKEEPER, PortCall

THREE = {"ensembleSize": 3, "writeQuorum": 3, "ackQuorum": 2}
MINUTES = 301.0


async def later(world: LedgerWorld, times: int = 3) -> None:
    """Time passes, so that whatever is asked for again is."""
    for _ in range(times):
        await world.settle(100)
        world.clock.forward(MINUTES)
    await world.settle(200)


async def replicated(world: LedgerWorld) -> tuple[str, str, str]:
    return await world.condition(Kind.CLUSTER, "east", "Replicated")


@pytest.mark.parametrize(("ensemble", "size", "more"), [(THREE, 3, 2), (TWO, 2, 1)], ids=["3/3/2", "2/2/2"])
async def test_what_has_a_copy_waits_for_bookies_and_not_for_a_word(ensemble: Json, size: int, more: int) -> None:
    world = await LedgerWorld.up(3, topics=(), ensemble=ensemble)
    kept = [world.ledger(state="CLOSED", on=[bookie(n) for n in range(size)]) for _ in range(2)]
    await lose(world, 1)
    await lose(world, 2)
    await later(world)
    _, reason, text = await world.progressing()
    assert reason == "VolumeLost" and "LoseLedgers" not in text, text
    assert f"Raise spec.bookkeeper.replicas by {more}" in text, text
    await world.resize(3 + more)
    await later(world)
    await well(world, 3 + more)
    assert (await replicated(world))[1] == "Replicated"
    assert all(bookie(0) in world.ledgers()[each.ledger] for each in kept)


async def test_only_what_has_no_copy_is_asked_about_and_only_once() -> None:
    """Two of four, ensembles of two: one ledger was on both, the others on one of them."""
    world = await LedgerWorld.up(4, topics=(), ensemble=TWO)
    gone = world.ledger(state="CLOSED", on=(bookie(2), bookie(3)))
    for pair in ((0, 2), (1, 3), (0, 3)):
        world.ledger(state="CLOSED", on=[bookie(n) for n in pair])
    await lose(world, 2)
    await lose(world, 3)
    await later(world)
    _, reason, text = await world.progressing()
    assert reason == "VolumeLost" and f"1 ledgers have entries on no other bookie: {gone.ledger}." in text, text
    assert "action: LoseLedgers, bookie: 2" in text
    assert world.naming(2) == world.naming(3) == [gone.ledger], "the others were copied without a question"

    await confirm(world)
    world.bad.add(gone.ledger)  # nobody can read it, whatever bookie is up under an id that it names
    await later(world)
    await well(world, 4, given_up=[gone.ledger])
    status, reason, text = await replicated(world)
    assert (status, reason) == ("False", "LedgersLost") and str(gone.ledger) in text
    assert bookie(2) in text and bookie(3) in text

    world.store.remove(ledger_path(gone.ledger))
    await world.settle(20)
    assert (await replicated(world))[:2] == ("True", "Replicated")
    assert world.store.nodes[GIVEN_UP_PATH].data == b"{}"


@pytest.mark.parametrize("path", [GIVEN_UP_PATH, cookie(2)])
async def test_what_is_given_up_is_on_record_before_the_cookie_is_deleted(path: str) -> None:
    """The write fails twice, once for the record and once for what comes after it."""
    world = await LedgerWorld.up(3, topics=(), ensemble=TWO)
    gone = world.ledger(state="CLOSED", on=(bookie(2),))
    await lose(world, 2)
    await later(world)
    await confirm(world)
    failed: list[PortCall] = []

    def fail(made: PortCall) -> None:
        wrote = made.verb in ("create", "delete") and made.name == path
        if made.port == ZOOKEEPER and wrote and len(failed) < 2:
            failed.append(made)
            raise UnavailableError("connection loss")

    world.journal.before.append(fail)
    seen = []

    async def look() -> None:
        seen.append((cookie(2) in world.store.nodes, GIVEN_UP_PATH in world.store.nodes))

    await world.run(rounds=200, each=look)
    assert len(failed) == 2, "nothing would be proved"
    assert (False, False) not in seen
    found = parse_given_up(world.store.nodes[GIVEN_UP_PATH].data)
    assert found is not None and found[bookie(2)].ledgers == (gone.ledger,) and found[bookie(2)].more == 0
    assert (await replicated(world))[1] == "LedgersLost"
