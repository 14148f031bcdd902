"""The bookies that are left must have room for what is copied from one that leaves: asked before, and meanwhile. In
memory."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

import pytest

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME
from pulsar_operator.domain.bookkeeper.znodes import ledger_path
from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.domain.dataplane.decommission.ended_copies import FIRST_SECONDS, MOST_SECONDS
from pulsar_operator.ports import PODS, DiskInfo, Json, UnavailableError
from tests.support.bookkeeper.encoding import framed, ledger_body
from tests.support.cluster.leaving_bookies import copies_asked, copying, left, well
from tests.support.cluster.ledgers import TOPICS, WORKLOAD, LedgerWorld, bookie, host
from tests.support.cluster.world import NS
from tests.support.core.journal import BOOKIES, KUBERNETES, ZOOKEEPER, PortCall

GIB = 1 << 30


async def filled(*pairs: tuple[int, int], size: int = 30 * GIB) -> LedgerWorld:
    """Three bookies of 100 GiB, little of it used but on the last one, with closed ledgers on these pairs."""
    world = await LedgerWorld.up(3, topics=TOPICS[:1])
    for pair in pairs:
        names = [bookie(n) for n in pair]
        number = world.ledger(state="CLOSED", on=names).ledger
        body = ledger_body(state="CLOSED", segments=[(0, names)], last=9, length=size)
        world.store.put(ledger_path(number), framed(body))
    for ordinal in range(3):
        use(world, ordinal, 70 if ordinal == 2 else 10)
    return world


def use(world: LedgerWorld, ordinal: int, percent: int) -> None:
    world.bookies.disks[host(ordinal)] = DiskInfo((100 - percent) * GIB, 100 * GIB)


@pytest.mark.parametrize("how", ["removed", "given a new volume"])
async def test_nothing_is_moved_that_has_no_room(how: str) -> None:
    """The remaining bookies are at 93 %."""
    world = await filled((0, 2), (1, 2))
    use(world, 0, 93)
    use(world, 1, 93)
    if how == "removed":
        await world.resize(2)
    else:
        await world.backstage.edit(PODS, NS, f"{WORKLOAD}-2", lambda obj: _annotate(obj, "the disk fails"))
    await world.settle(60)
    status, reason, text = await world.progressing()
    assert (status, reason) == ("False", "DecommissionRefused")
    assert f"Bookie {bookie(2)} cannot be {how}, because " in text
    assert (
        "60 GiB must be copied from the bookie. The 2 remaining writable bookies have 0 B of space below the mark"
        in text
    ), text
    assert "95 %" in text and "raise spec.bookkeeper.replicas" in text
    assert not copies_asked(world) and DECOMMISSION_RECORD_PATH not in world.store.nodes
    assert not world.bookies.servers[host(2)].readonly

    use(world, 0, 50)
    use(world, 1, 50)
    await world.settle()
    if how == "removed":
        await left(world)
    else:
        await well(world)


def _annotate(obj: Json, why: str) -> None:
    obj["metadata"].setdefault("annotations", {})[ANNOTATION_REPLACE_VOLUME] = why


async def test_it_counts_where_a_copy_may_go() -> None:
    """Bookie 0 has room for everything, and has one half of each ledger: all goes to bookie 1."""
    world = await filled((0, 2), (0, 2))
    use(world, 1, 50)
    await world.resize(2)
    await world.settle(60)
    _, reason, text = await world.progressing()
    assert (
        reason == "DecommissionRefused"
        and f"Bookie {bookie(1)} would receive about 60 GiB, but has only 43 GiB" in text
    ), text


async def test_a_bookie_that_does_not_say_how_full_it_is_is_waited_for() -> None:
    world = await filled((0, 2))
    world.bookies.disks[host(1)] = DiskInfo(0, 0)
    await world.resize(2)
    await world.settle(60)
    assert f"cannot read how full the ledger disks of bookie {bookie(1)} are" in (await world.progressing())[2]
    assert DECOMMISSION_RECORD_PATH not in world.store.nodes
    use(world, 1, 10)
    await world.settle()
    await left(world)


async def test_a_copy_ends_before_a_bookie_is_full_and_goes_on_once_there_is_room() -> None:
    """Clients write while it is copied."""
    world = await filled((0, 2), (1, 2))
    await copying(world)

    async def asked() -> bool:
        return bool(copies_asked(world))

    await world.until(asked)
    pod = (await world.get(PODS, "east-autorecovery-0"))["metadata"]["uid"]
    use(world, 0, 80)
    use(world, 1, 80)
    await world.settle(60)
    assert (await world.get(PODS, "east-autorecovery-0"))["metadata"]["uid"] != pod, "the copy goes on in it"
    assert not world.bookies.servers[host(2)].readonly
    status, reason, text = await world.progressing()
    assert (status, reason) == ("False", "DecommissionRefused") and "has only 13 GiB" in text, text
    told = [event.message for event in world.journal.events if event.reason == "DecommissionRefused"]
    assert len(told) == 1 and "its ledgers are no longer copied" in told[0]
    world.clock.forward(24 * 3600)
    await world.settle(60)
    assert DECOMMISSION_RECORD_PATH not in world.store.nodes, "it is not tried before there is room"

    use(world, 0, 40)
    use(world, 1, 40)
    world.copies = True
    await world.settle()
    await left(world)


async def test_a_bookie_that_falls_silent_meanwhile_gets_no_other_copy() -> None:
    world = await filled((0, 2), (1, 2))
    await copying(world)
    await world.settle(20)
    before = len(copies_asked(world))
    world.bookies.disks[host(1)] = DiskInfo(0, 0)
    world.clock.forward(400)
    await world.settle(40)
    assert len(copies_asked(world)) == before
    assert "cannot read how full the ledger disks" in (await world.progressing())[2]
    use(world, 1, 10)
    world.copies = True
    await world.settle()
    await left(world)


CALLS = [
    (KUBERNETES, "delete", "east-autorecovery-0"),
    (BOOKIES, "set_readonly", ""),
    (ZOOKEEPER, "delete", DECOMMISSION_RECORD_PATH),
]


@pytest.mark.parametrize("call", CALLS, ids=[f"{port} {verb}" for port, verb, _ in CALLS])
async def test_a_copy_ends_also_where_a_call_fails(call: tuple[str, str, str]) -> None:
    """Each call that ends it fails once, and again."""
    world = await filled((0, 2), (1, 2))
    await copying(world)

    async def asked() -> bool:
        return bool(copies_asked(world))

    await world.until(asked)
    use(world, 0, 80)
    use(world, 1, 80)
    failed: list[PortCall] = []

    def fail(made: PortCall) -> None:
        if (made.port, made.verb) == call[:2] and made.name.startswith(call[2]) and len(failed) < 2:
            failed.append(made)
            raise UnavailableError("connection reset")

    world.journal.before.append(fail)
    await world.settle(80)
    assert len(failed) == 2, "nothing would be proved"
    assert (await world.progressing())[1] == "DecommissionRefused"
    assert not world.bookies.servers[host(2)].readonly and DECOMMISSION_RECORD_PATH not in world.store.nodes
    world.clock.forward(3600)
    use(world, 0, 40)
    use(world, 1, 40)
    world.copies = True
    await world.settle()
    await left(world)


async def test_the_next_copy_begins_after_a_delay_that_doubles() -> None:
    """There is room whenever no copy is made, and none as soon as one begins."""
    world = await filled((0, 2), (1, 2))
    world.copies = False
    await world.resize(2)
    begun: list[datetime] = []
    for _ in range(400):
        copying = ((await world.row(2)) or {}).get("step") == "Copying"
        for ordinal in range(2):
            use(world, ordinal, 93 if copying else 10)
        await world.round()
        events = [each for each in world.journal.events if "its ledgers are no longer copied" in each.message]
        if len(events) > len(begun):
            begun.append(world.clock.now())
        world.clock.forward(30)
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(begun)]
    assert len(gaps) >= 3 and all(gap >= FIRST_SECONDS * 2**number for number, gap in enumerate(gaps)), gaps
    status, reason, text = await world.progressing()
    assert (status, reason) == ("False", "DecommissionRefused")
    assert (
        f"was ended {len(begun)} times when the other bookies had too little space" in text and "tries again at" in text
    )
    world.clock.forward(MOST_SECONDS)
    world.copies = True
    for ordinal in range(2):
        use(world, ordinal, 10)
    await world.settle()
    await left(world)
