"""Ledgers with copies in too few racks: which those are, when they are counted, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.cluster_status import PlacementStatus
from pulsar_operator.domain.bookkeeper.ledger_placement import AGAIN_SECONDS, PAUSE_SECONDS, DesiredRacks
from pulsar_operator.domain.bookkeeper.ledgers import Ledger, LedgerState, Segment
from pulsar_operator.domain.bookkeeper.znodes import LEDGERS
from pulsar_operator.ports import Json, UnavailableError
from tests.support.cluster.ledgers import LedgerWorld, bookie
from tests.support.core.journal import ZOOKEEPER, PortCall

RACKS = {"a0": "/a", "a1": "/a", "b0": "/b", "b1": "/b", "c0": "/c"}


def ledger(*segments: str, copies: int = 2, last: int | None = None) -> Ledger:
    """Of bookies by name; each segment has ten entries."""
    parts = tuple(Segment(10 * number, tuple(names.split())) for number, names in enumerate(segments))
    state = LedgerState.OPEN if last is None else LedgerState.CLOSED
    return Ledger(state, len(parts[0].bookies), copies, copies, last, None, parts)


@pytest.mark.parametrize(
    ("found", "minimum", "broken"),
    [
        (ledger("a0 b0"), 2, False),
        (ledger("a0 a1"), 2, True),
        (ledger("a0 a1"), 1, False),
        (ledger("a0", copies=1), 2, False),  # one copy is in one rack
        (ledger("a0 b0 c0", copies=3), 3, False),
        (ledger("a0 b0 b1", copies=3), 3, True),
        (ledger("a0 a1 b0 b1"), 2, True),  # entries on a0 and a1 alone
        (ledger("a0 b0 a1 b1"), 2, False),
        (ledger("a0 b0", "a0 a1"), 2, True),  # a bookie failed, and another of one rack took its place
        (ledger("a0 b0", "a0 a1", last=9), 2, False),  # ... and nothing was written there
        (ledger("a0 gone"), 2, False),
        (ledger("gone lost"), 2, True),  # both in the rack of those that nobody knows
    ],
)
def test_which_ledgers_are_against_the_rule(found: Ledger, minimum: int, broken: bool) -> None:
    assert DesiredRacks(RACKS, minimum).broken_by(found) is broken


async def brought_up(racks: Json | None = None) -> LedgerWorld:
    return await LedgerWorld.up(4, topics=(), **({"racks": racks} if racks else {}))


async def row(world: LedgerWorld) -> PlacementStatus | None:
    found = (await world.status(Kind.CLUSTER, "east")).get("placement")
    return PlacementStatus.model_validate(found) if found else None


async def told(world: LedgerWorld) -> str:
    return (await world.condition(Kind.CLUSTER, "east", "RacksKnown"))[2]


async def test_those_that_were_there_before_are_counted_and_stay() -> None:
    world = await brought_up()
    world.ledger(state="CLOSED", on=[bookie(0), bookie(2)])
    world.ledger(state="CLOSED", on=[bookie(0), bookie(1)])
    assert await row(world) is None
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(racks={"byOrdinal": ["a", "b"]}))
    await world.run()
    found = await row(world)
    assert found is not None and (found.against, found.ledgers) == (1, 2)
    assert "1 of 2 ledgers have copies in too few racks" in await told(world)
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"

    reads = reads_of_ledgers(world)
    await world.run()
    world.clock.forward(PAUSE_SECONDS)
    await world.run()
    assert reads() == 0, "counted once"
    world.ledger(state="CLOSED", on=[bookie(1), bookie(3)])
    world.clock.forward(AGAIN_SECONDS)
    await world.run()
    found = await row(world)
    assert found is not None and (found.against, found.ledgers) == (2, 3)
    assert reads() > 0, "this is what would have been seen"

    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].pop("racks"))
    await world.run()
    assert await row(world) is None


async def test_other_racks_are_counted_after_a_while() -> None:
    world = await brought_up({"byOrdinal": ["a", "b"]})
    world.ledger(state="CLOSED", on=[bookie(0), bookie(1)])
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(racks={"byOrdinal": ["a"]}))
    await world.run()
    found = await row(world)
    assert found is not None and found.ledgers == 0, "counted a moment ago, without the ledger"
    world.clock.forward(PAUSE_SECONDS)
    await world.run()
    found = await row(world)
    assert found is not None and (found.against, found.ledgers) == (1, 1)


async def test_what_cannot_be_counted_is_not_known_and_not_asked_at_each_pass() -> None:
    world = await brought_up()
    failed = list[str]()

    def fail(call: PortCall) -> None:
        if call.port == ZOOKEEPER and call.name == LEDGERS:
            failed.append(call.name)
            raise UnavailableError("connection loss")

    world.journal.before.append(fail)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(racks={"byOrdinal": ["a", "b"]}))
    await world.run()
    for _ in range(3):
        await world.round()
    found = await row(world)
    assert found is not None and (found.against, found.ledgers) == (None, None) and len(failed) == 1
    assert "is unknown" in await told(world)


def reads_of_ledgers(world: LedgerWorld) -> Callable[[], int]:
    """How often the tree of ledgers was listed since the last question."""
    seen = list[str]()
    world.journal.before.append(lambda call: seen.append(call.name) if call.name == LEDGERS else None)

    def asked() -> int:
        found = len(seen)
        seen.clear()
        return found

    return asked
