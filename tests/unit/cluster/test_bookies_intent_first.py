"""Before a bookie is made writable, the metadata store says that it is about to be. In memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from pulsar_operator.domain.dataplane.decommission.decommission_record import (
    DECOMMISSION_RECORD_PATH,
    parse_decommission_record,
)
from pulsar_operator.ports import UnavailableError
from tests.support.cluster.leaving_bookies import copying, left, well
from tests.support.cluster.ledgers import TOPICS, LedgerWorld, bookie, host, of_topic
from tests.support.core.journal import BOOKIES, PortCall
from tests.unit.cluster.test_bookies_without_room import filled, use


def recorded(world: LedgerWorld) -> bool | None:
    """Whether the metadata store says that the bookie may take entries; None = nothing is known of it."""
    node = world.store.nodes.get(DECOMMISSION_RECORD_PATH)
    record = parse_decommission_record(node.data) if node is not None else None
    return None if record is None else record.restoring or record.restored


async def stays() -> LedgerWorld:
    """Wanted again."""
    world = await LedgerWorld.up(3, closed=3)
    await copying(world)
    await world.resize(3)
    return world


async def without_room() -> LedgerWorld:
    """The others are full."""
    world = await filled((0, 2), (1, 2))
    await copying(world)
    use(world, 0, 80)
    use(world, 1, 80)
    return world


async def refused() -> LedgerWorld:
    """The specification wants fewer than its ensembles take."""
    world = await LedgerWorld.up(4, closed=3)
    await copying(world, 3)
    await world.resize(2)
    return world


Reachability = Callable[[], Awaitable[LedgerWorld]]
WAYS = pytest.mark.parametrize(("reach", "ordinal"), [(stays, 2), (without_room, 2), (refused, 3)])


@WAYS
async def test_the_intent_is_on_record_first(reach: Reachability, ordinal: int) -> None:
    world = await reach()
    found: list[bool | None] = []

    def look(call: PortCall) -> None:
        if (call.port, call.verb, call.name) == (BOOKIES, "set_readonly", "false"):
            found.append(recorded(world))

    world.journal.before.append(look)
    await world.settle(40)
    assert found == [True] and not world.bookies.servers[host(ordinal)].readonly


@WAYS
async def test_what_could_not_be_done_is_tried_again(reach: Reachability, ordinal: int) -> None:
    """The bookie does not answer the first time; nothing is taken for done."""
    world = await reach()
    failed: list[PortCall] = []

    def fail(call: PortCall) -> None:
        if (call.port, call.verb, call.name) == (BOOKIES, "set_readonly", "false") and not failed:
            failed.append(call)
            raise UnavailableError("connection reset")

    world.journal.before.append(fail)
    await world.settle(60)
    assert failed and not world.bookies.servers[host(ordinal)].readonly


async def test_one_that_took_entries_unseen_is_emptied_from_the_beginning() -> None:
    """The operator is killed once the bookie is writable; a ledger that was open before reaches it, its disks fill up,
    and it makes itself read-only."""
    world = await LedgerWorld.up(3, closed=3)
    await copying(world)
    topic, custom = TOPICS[0], of_topic("shop/orders/persistent/payments")
    (data, cursor), times = world.handles[topic], world.unloaded_times(topic)
    record = parse_decommission_record(world.store.nodes[DECOMMISSION_RECORD_PATH].data)
    assert record is not None and times and bookie(2) not in data.bookies
    assert world.bookies.servers[host(2)].readonly, "as its disks are full"
    world.store.put(DECOMMISSION_RECORD_PATH, record.before_restore().data())
    world.put(data.ledger, "OPEN", (bookie(0), bookie(2)), custom)
    world.look()
    on = {bookie(0): world.volume(bookie(0)), bookie(2): world.volume(bookie(2))}
    world.handles[topic] = [type(data)(data.ledger, on), cursor]
    world.copies = True
    await world.settle()
    await left(world)
    assert world.unloaded_times(topic) > times


async def test_one_that_stays_after_such_an_end_is_well() -> None:
    world = await LedgerWorld.up(3, closed=3)
    await copying(world)
    record = parse_decommission_record(world.store.nodes[DECOMMISSION_RECORD_PATH].data)
    assert record is not None
    world.store.put(DECOMMISSION_RECORD_PATH, record.before_restore().data())
    await world.resize(3)
    world.copies = True
    await world.settle()
    await well(world)
