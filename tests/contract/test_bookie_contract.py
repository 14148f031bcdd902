"""BookKeeper's HTTP servers in memory, and what the fake alone can show: refusals, queues, copies."""

from __future__ import annotations

import pytest

from pulsar_operator.domain.bookkeeper.ledgers import decode_ledger
from pulsar_operator.domain.bookkeeper.znodes import AVAILABLE, READONLY, ledger_path
from pulsar_operator.ports import RefusedError, UnavailableError, ZooKeeperSession
from tests.fakes.bookies import FakeBookies
from tests.fakes.zookeeper import FakeZooKeeper
from tests.support.bookkeeper.copying import copy_from
from tests.support.bookkeeper.encoding import ledger
from tests.support.contracts.bookies import BookiesContract, Ground

B = [f"b{n}:3181" for n in range(4)]


@pytest.fixture
async def session() -> ZooKeeperSession:
    return await FakeZooKeeper().session("zk:2181", "/c")


@pytest.fixture
async def ground(session: ZooKeeperSession) -> Ground:
    bookies = FakeBookies()

    async def changed(host: str) -> None:
        places = (f"{AVAILABLE}/{B[0]}", f"{READONLY}/{B[0]}")
        for path in places:
            if (node := await session.get(path)) is not None:
                await session.delete(path, version=node.version)
        await session.create(places[bookies.servers[host].readonly], b"")

    async def restart() -> None:
        bookies.stop("b0")
        bookies.start("b0", bookie=True)
        await changed("b0")

    async def work() -> None:
        for bookie in bookies.servers["a0"].queue:
            await session.create(f"{AVAILABLE}/{B[1]}", b"")
            await copy_from(session, bookie)

    bookies.changed = changed
    await session.create(f"{READONLY}/x", b"")
    await session.delete(f"{READONLY}/x", version=0)
    bookies.start("a0", bookie=False)
    await restart()
    return Ground(bookies, session, B[0], "b0", "a0", "c0", restart, work)


class TestBookiesContract(BookiesContract):
    """See tests/support/contracts/bookies.py."""


async def test_a_bookie_that_may_not_change_refuses_only_a_change() -> None:
    bookies = FakeBookies()
    bookies.start("b0", bookie=True)
    bookies.refusing.add("b0")
    await bookies.set_readonly("b0", False)
    with pytest.raises(RefusedError) as caught:
        await bookies.set_readonly("b0", True)
    assert (caught.value.status, await bookies.readonly("b0")) == (400, False)


async def test_one_that_fails_inside_does_nothing() -> None:
    bookies = FakeBookies()
    bookies.start("a0", bookie=False)
    bookies.failing.add("a0")
    with pytest.raises(UnavailableError):
        await bookies.recover("a0", B[0])
    assert bookies.servers["a0"].queue == []


async def test_a_queue_keeps_repeats_and_dies_with_its_process() -> None:
    bookies = FakeBookies()
    bookies.see("a0", bookie=False, incarnation="1")
    await bookies.recover("a0", B[0])
    await bookies.recover("a0", B[0])
    bookies.see("a0", bookie=False, incarnation="1")
    assert bookies.servers["a0"].queue == [B[0], B[0]]
    bookies.see("a0", bookie=False, incarnation="2")
    assert bookies.servers["a0"].queue == []


async def members(session: ZooKeeperSession, number: int) -> tuple[str, ...]:
    node = await session.get(ledger_path(number))
    assert node is not None
    return decode_ledger(node.data).segments[0].bookies


async def test_a_copy_takes_writable_bookies_and_stops_at_the_first_bad_ledger(session: ZooKeeperSession) -> None:
    await session.create(f"{READONLY}/{B[0]}", b"")
    for bookie in B[1:]:
        await session.create(f"{AVAILABLE}/{bookie}", b"")
    for number in (1, 2, 3, 1 << 32):
        await session.create(ledger_path(number), ledger([B[0], B[1]], "CLOSED", 5, topic="t/n/persistent/a"))
    await session.create(ledger_path(9), ledger([B[1], B[2]], "CLOSED", 5))
    assert await copy_from(session, B[0], bad={2}) is False
    assert [await members(session, n) for n in (1, 2, 3)] == [(B[2], B[1]), (B[0], B[1]), (B[0], B[1])]
    assert await copy_from(session, B[0]) is True
    assert [await members(session, n) for n in (1, 2, 3, 1 << 32, 9)] == [(B[2], B[1])] * 4 + [(B[1], B[2])]
    node = await session.get(ledger_path(1))
    assert node is not None
    found = decode_ledger(node.data)
    assert (found.last_entry_id, found.topic) == (5, "persistent://t/n/a")


async def test_a_copy_without_another_bookie_stops(session: ZooKeeperSession) -> None:
    await session.create(f"{AVAILABLE}/{B[1]}", b"")
    await session.create(ledger_path(1), ledger([B[0], B[1]]))
    assert await copy_from(session, B[0]) is False
    assert await members(session, 1) == (B[0], B[1])
