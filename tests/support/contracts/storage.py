"""Facts about storage, read from a metadata store: in memory and on a real ZooKeeper; a subclass has ``store``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from pulsar_operator.controllers.dataplane.bookkeeper.ledger_count import LedgerCount, count_ledgers
from pulsar_operator.controllers.dataplane.bookkeeper.storage_facts import storage_facts
from pulsar_operator.domain.bookkeeper.ledger_scan import LedgerScan
from pulsar_operator.domain.bookkeeper.ledgers import LedgerState, LedgerUse
from pulsar_operator.domain.bookkeeper.storage_facts import StorageFacts, UnderReplicated
from pulsar_operator.domain.bookkeeper.znodes import (
    AUDITOR,
    AVAILABLE,
    COOKIES,
    DISABLE,
    READONLY,
    UNDER_REPLICATED,
    ledger_path,
)
from pulsar_operator.ports import Node, NotFoundError, UnavailableError, ZooKeeperSession
from tests.support.bookkeeper.encoding import bytes_field, framed, ledger, ledger_body
from tests.support.bookkeeper.every_ledger import ledgers_naming
from tests.support.bookkeeper.paths import lock_path, under_replicated_path

B0, B1, B2 = (f"c-bookie-{n}.c-bookie-headless.ns.svc.cluster.local:3181" for n in range(3))
CLEAN = UnderReplicated(0)
LONG = (1 << 32) + 5
"""Id of a ledger in the long layout."""
MANY = 3000


@dataclass
class Watching:
    """A session that counts what goes on, and calls ``before`` with each verb and path first."""

    inner: ZooKeeperSession
    before: Callable[[str, str], Any] = lambda verb, path: None
    reads: list[str] = field(default_factory=list)
    now: int = 0
    most: int = 0

    async def get(self, path: str) -> Node | None:
        return await self._counted("get", path, self.inner.get)

    async def children(self, path: str) -> list[str] | None:
        return await self._counted("children", path, self.inner.children)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} of a session that only reads")

    async def _counted(self, verb: str, path: str, call: Callable[[str], Any]) -> Any:
        self.reads.append(path)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            pause = self.before(verb, path)
            if pause is not None:
                await pause
            return await call(path)
        finally:
            self.now -= 1


@dataclass
class Store:
    """A store of a test's own, set up as the operator does."""

    session: ZooKeeperSession

    async def put(self, *paths: str, data: bytes = b"") -> None:
        for path in paths:
            await self.session.create(path, data)

    async def set_up(self) -> Store:
        await self.put(READONLY, "/ledgers/INSTANCEID")
        return self

    async def facts(self, **limits: int) -> StorageFacts:
        return await storage_facts(Watching(self.session), **limits)

    async def scan(self, *bookies: str, **bounds: int) -> LedgerScan:
        return await ledgers_naming(Watching(self.session), frozenset(bookies), **bounds)

    async def mark(self, number: int, text: str = "") -> None:
        await self.put(under_replicated_path(number), data=text.encode())


class StorageContract:
    """What holds on every metadata store."""

    async def test_a_store_where_no_bookie_ever_was(self, store: Store) -> None:
        nobody: frozenset[str] = frozenset()
        assert await store.facts() == StorageFacts(nobody, nobody, nobody, CLEAN, None, False)

    async def test_a_store_without_a_place_for_bookies_says_nothing(self, store: Store) -> None:
        for path in (READONLY, AVAILABLE):
            await store.session.delete(path, version=0)
        with pytest.raises(NotFoundError, match=AVAILABLE):
            await store.facts()

    async def test_bookies(self, store: Store) -> None:
        await store.put(f"{AVAILABLE}/{B0}", f"{AVAILABLE}/{B1}", f"{READONLY}/{B1}")
        await store.put(*(f"{COOKIES}/{bookie}" for bookie in (B0, B1, B2)))
        facts = await store.facts()
        assert (facts.writable, facts.readonly) == ({B0}, {B1})
        assert facts.cookies == {B0, B1, B2}
        assert (facts.registered, facts.missing) == ({B0, B1}, {B2})

    @pytest.mark.parametrize(
        ("data", "auditor"),
        [(f'"{B2}"'.encode(), B2), (B2.encode(), B2), (b"", ""), (b"\xff", "\ufffd"), (b'{"a":1}', '{"a":1}')],
    )
    async def test_the_auditor(self, store: Store, data: bytes, auditor: str) -> None:
        await store.put(AUDITOR, data=data)
        assert (await store.facts()).auditor == auditor

    async def test_replication_switched_off(self, store: Store) -> None:
        await store.put(DISABLE)
        assert (await store.facts()).disabled

    async def test_marks_are_counted_and_branches_that_were_left_are_not(self, store: Store) -> None:
        await store.mark(7, 'replica: "x"\nctime: 1700000002000\n')
        await store.mark(LONG, f'replica: "{B0}"\nctime: 1700000001000\n')
        await store.mark(8, "gibberish")
        await store.put(f"{UNDER_REPLICATED}/0000/0000/0000/0001", f"{UNDER_REPLICATED}/0000/0002", lock_path(9))
        found = (await store.facts()).under_replicated
        assert found == UnderReplicated(3, False, datetime.fromtimestamp(1700000001, UTC), (7, 8, LONG))

    async def test_branches_alone_are_no_marks(self, store: Store) -> None:
        await store.put(f"{UNDER_REPLICATED}/0000/0000/0000/0001")
        assert (await store.facts()).under_replicated == CLEAN

    async def test_twenty_are_listed(self, store: Store) -> None:
        for number in range(30):
            await store.mark(number)
        found = (await store.facts()).under_replicated
        assert (found.count, found.ledgers, found.oldest) == (30, tuple(range(20)), None)

    async def test_the_count_ends_at_its_limit_and_says_so(self, store: Store) -> None:
        for number in range(6):
            await store.mark(number)
        assert (await store.facts(limit=10)).under_replicated.at_least is False
        for limit in range(10):
            found = (await store.facts(limit=limit)).under_replicated
            assert found.at_least, limit
            assert found.count == max(0, limit - 4)

    @pytest.mark.parametrize("name", ["urL1", "urLabcdefghij", "urL0000000001x", "urL9999999999999999999"])
    async def test_a_mark_of_nobody_knows_what(self, store: Store, name: str) -> None:
        await store.put(f"{UNDER_REPLICATED}/0000/0000/0000/0001/{name}")
        assert (await store.facts()).under_replicated == UnderReplicated(0, at_least=True)

    async def test_a_tree_that_is_deeper_than_it_should_be(self, store: Store) -> None:
        await store.put(f"{UNDER_REPLICATED}/0000/0000/0000/0001/0002/urL0000000001")
        assert (await store.facts()).under_replicated == UnderReplicated(0, at_least=True)

    async def test_ledgers_that_name_a_bookie(self, store: Store) -> None:
        await store.put(ledger_path(3), data=ledger([B0, B1], "OPEN", topic="t/n/persistent/a"))
        await store.put(ledger_path(4), data=ledger([B0, B1], "IN_RECOVERY"))
        await store.put(ledger_path(5), data=ledger([B0, B1], "CLOSED", last=0, topic="t/n/persistent/b+c"))
        await store.put(ledger_path(6), data=ledger([B0, B1], "CLOSED", last=-1))
        await store.put(ledger_path(LONG), data=ledger([B1, B2], "CLOSED", last=9))
        await store.put(ledger_path(2**31 - 2), data=ledger([B2, B1], "OPEN"))
        scan = await store.scan(B0)
        assert (scan.scanned, scan.naming, scan.unfinished, scan.undecodable) == (6, 3, 2, 0)
        assert [(row.ledger, row.state, row.topic) for row in (*scan.not_closed, *scan.closed)] == [
            (3, LedgerState.OPEN, "persistent://t/n/a"),
            (4, LedgerState.IN_RECOVERY, None),
            (5, LedgerState.CLOSED, "persistent://t/n/b c"),
        ]
        assert scan.not_closed[0].use is LedgerUse.DATA
        both = await store.scan(B0, B2)
        assert both.naming == 5
        assert {row.ledger: row.bookies for row in both.closed} == {5: {B0}, LONG: {B2}}
        assert both.not_closed[-1].bookies == {B2}
        assert (await store.scan("c-bookie-00.c-bookie-headless.ns.svc.cluster.local:3181")).clear
        assert not scan.clear

    async def test_what_is_no_ledger_is_passed_over(self, store: Store) -> None:
        """And branches that ledgers left."""
        await store.put(f"{COOKIES}/{B0}", "/ledgers/LAYOUT", "/ledgers/idgen/ID-1", "/ledgers/idgen-long/HOB-1")
        await store.put("/ledgers/00/0001", "/ledgers/000/0000/0000/0000")
        await store.mark(1)
        scan = await store.scan(B0)
        assert (scan.scanned, scan.clear) == (0, True)

    @pytest.mark.parametrize(
        "path",
        [
            "/ledgers/L0000000001",  # the flat layout
            "/ledgers/hob",
            "/ledgers/0",
            "/ledgers/0000",
            "/ledgers/00/1",
            "/ledgers/00/available",
            "/ledgers/00/0000/0000",
            "/ledgers/00/0000/L000",
            "/ledgers/000/0000/0000/L0000",
            "/ledgers/000/0000/0000/0000/0000",
            "/ledgers/999/9999/9999/9999/L9999",
        ],
    )
    async def test_what_may_be_a_ledger_is_unknown_and_not_none(self, store: Store, path: str) -> None:
        await store.put(path, data=ledger([B1]))
        scan = await store.scan(B0)
        assert (scan.naming, scan.undecodable, scan.unreadable, scan.clear) == (0, 1, (path,), False)

    @pytest.mark.parametrize("data", [b"", b"x", ledger([B1])[:-1], ledger([B1]).replace(b"\t3\n", b"\t4\n")])
    async def test_metadata_that_cannot_be_read_is_unknown_and_not_none(self, store: Store, data: bytes) -> None:
        await store.put(ledger_path(1), data=data)
        await store.put(ledger_path(2), data=ledger([B1]))
        scan = await store.scan(B0)
        assert (scan.scanned, scan.naming, scan.undecodable, scan.clear) == (2, 0, 1, False)
        assert scan.unreadable == (ledger_path(1),)

    async def test_ledgers_are_counted(self, store: Store) -> None:
        for number, bookies in ((1, [B0, B1]), (2, [B1]), (LONG, [B0])):
            await store.put(ledger_path(number), data=ledger(bookies))
        await store.put(ledger_path(3), data=b"garbage")
        found = await count_ledgers(Watching(store.session), "r", lambda each: each.names(B0), act=False)
        assert isinstance(found, LedgerCount)
        assert (found.ledgers, found.counted, found.undecodable) == (3, 2, 1)

    async def test_ledgers_of_a_store_that_has_none_are_not_counted(self, store: Store) -> None:
        def gone(verb: str, path: str) -> None:
            raise UnavailableError("connection loss")

        with pytest.raises(UnavailableError):
            await count_ledgers(Watching(store.session, gone), "r", lambda each: True)

    async def test_a_ledger_of_very_many_segments(self, store: Store) -> None:
        """Decoded in a thread, and just as strictly."""
        large = ledger_body(quorums=(1, 1, 1), segments=[(n, [B0 if n == 700 else B1]) for n in range(1000)])
        await store.put(ledger_path(1), data=framed(large))
        await store.put(ledger_path(2), data=framed(large + bytes_field(8, b"again")))
        scan = await store.scan(B0)
        assert (scan.naming, scan.unreadable) == (1, (ledger_path(2),))

    async def test_a_ledger_that_vanishes_after_it_was_listed_is_gone(self, store: Store) -> None:
        path = ledger_path(1)
        await store.put(path, data=ledger([B0]))
        await store.put(ledger_path(2), data=ledger([B1]))

        async def vanish() -> None:
            await store.session.delete(path, version=0)

        watching = Watching(store.session, lambda verb, at: vanish() if (verb, at) == ("get", path) else None)
        scan = await ledgers_naming(watching, frozenset({B0}))
        assert (scan.scanned, scan.clear) == (1, True)

    async def test_a_branch_that_vanishes_after_it_was_listed_is_gone(self, store: Store) -> None:
        await store.put("/ledgers/00/0001")

        async def vanish() -> None:
            await store.session.delete("/ledgers/00/0001", version=0)

        watching = Watching(store.session, lambda verb, at: vanish() if at == "/ledgers/00/0001" else None)
        assert (await ledgers_naming(watching, frozenset({B0}))).clear

    async def test_a_mark_that_vanishes_after_it_was_counted(self, store: Store) -> None:
        path = under_replicated_path(1)
        await store.mark(1, "ctime: 1\n")

        async def vanish() -> None:
            await store.session.delete(path, version=0)

        watching = Watching(store.session, lambda verb, at: vanish() if at == path else None)
        assert (await storage_facts(watching)).under_replicated == UnderReplicated(1, False, None, (1,))

    async def test_a_store_without_ledgers_at_all_says_nothing(self, store: Store) -> None:
        for path in (READONLY, AVAILABLE, "/ledgers/INSTANCEID", "/ledgers"):
            await store.session.delete(path, version=0)
        with pytest.raises(NotFoundError, match="/ledgers"):
            await store.scan(B0)

    async def test_errors_of_the_store_rise_and_nothing_goes_on(self, store: Store) -> None:
        for number in range(100):
            await store.put(ledger_path(number), data=ledger([B0]))

        def fail(verb: str, path: str) -> None:
            if path == ledger_path(50):
                raise UnavailableError("away")

        watching = Watching(store.session, fail)
        with pytest.raises(UnavailableError, match="away"):
            await ledgers_naming(watching, frozenset({B0}), in_flight=4)
        assert watching.now == 0
        reads = len(watching.reads)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (len(watching.reads), reads < 100) == (reads, True)

    async def test_thousands_of_ledgers_with_few_reads_at_once_and_little_kept(self, store: Store) -> None:
        data = {0: ledger([B0, B1], "CLOSED", last=3), 1: ledger([B0, B1], "OPEN"), 2: ledger([B1, B2], "OPEN")}
        numbers = [*range(0, MANY * 4, 4)]  # over two branches
        gate = asyncio.Semaphore(64)

        async def create(number: int) -> None:
            async with gate:
                await store.session.create(ledger_path(number), data[number // 4 % 3])

        await create(0)
        await create(numbers[-1])
        await asyncio.gather(*(create(number) for number in numbers[1:-1]))
        watching = Watching(store.session)
        scan = await ledgers_naming(watching, frozenset({B0}), in_flight=8, kept=100)
        assert (scan.scanned, scan.naming, scan.unfinished) == (MANY, 2000, 1000)
        assert (len(scan.not_closed), len(scan.closed), scan.undecodable) == (100, 100, 0)
        assert watching.most == 8
        assert (
            len(watching.reads) == len(set(watching.reads)) == MANY + len({number // 10000 for number in numbers}) + 2
        )
