"""What the metadata store says of bookies, of copies, and of which ledgers name a bookie: looked at, nothing written.

The bookies' own HTTP lists are not asked: each makes a manager of under-replicated ledgers, whose listener on the store
is never taken off (class PulsarLedgerUnderreplicationManager of Pulsar 4.0.8).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from pulsar_operator.domain.bookkeeper.facts import LISTED, StorageFacts, UnderReplicated, moment
from pulsar_operator.domain.bookkeeper.ledgers import Ledger, LedgerState, decode_ledger
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.scan import WRITTEN_BY_TOPICS, Handles, LedgerScan, NamingLedger
from pulsar_operator.domain.bookkeeper.space import ENTRY
from pulsar_operator.domain.bookkeeper.znodes import (
    AUDITOR,
    AVAILABLE,
    COOKIES,
    DISABLE,
    LEDGERS,
    LOST_BOOKIE_RECOVERY_DELAY,
    NOT_LEDGERS,
    READONLY,
    READONLY_NAME,
    UNDER_REPLICATED,
    is_level,
    ledger_id,
    levels_below,
    marked_ledger,
    parse_auditor,
    parse_delay,
    parse_mark,
)
from pulsar_operator.ports import Node, NotFoundError, UnavailableError, ZooKeeperSession

T = TypeVar("T")
R = TypeVar("R")

IN_FLIGHT: Final = 32
"""Reads at once; the store serves others meanwhile."""
MARKS_LIMIT: Final = 1000
"""Reads of the tree of under-replicated ledgers in one look: each ledger has a branch of its own."""
SCAN_SECONDS: Final = 150.0
"""Of one look at all ledgers: half of what a pass may take."""
KEPT: Final = 1000
"""Ledgers of each kind that a scan keeps; it counts all."""
LARGE: Final = 16 * 1024
"""Bytes of metadata from which on it is decoded in a thread: a ledger of thousands of segments takes that long."""
ROOT_LEVELS: Final = 4
"""Levels of the tree of under-replicated ledgers above its leaves."""


async def storage_facts(session: ZooKeeperSession, *, limit: int = MARKS_LIMIT) -> StorageFacts:
    """The facts, complete. ``limit`` is the number of reads of the tree of under-replicated ledgers.

    Raises PortError; NotFoundError where the store has no place for bookies at all, so that nothing is known of them.
    """
    available, readonly, cookies = await _each((AVAILABLE, READONLY, COOKIES), session.children, IN_FLIGHT)
    if available is None:
        raise NotFoundError(f"{AVAILABLE} does not exist, so nothing is known of bookies")
    auditor, disabled, delay = await _each((AUDITOR, DISABLE, LOST_BOOKIE_RECOVERY_DELAY), session.get, IN_FLIGHT)
    return StorageFacts(
        # While a bookie changes between the two it is in both (class BookieStateManager).
        writable=frozenset(available) - {READONLY_NAME} - frozenset(readonly or ()),
        readonly=frozenset(readonly or ()),
        cookies=frozenset(cookies or ()),
        under_replicated=await _under_replicated(session, limit),
        auditor=None if auditor is None else parse_auditor(auditor.data),
        disabled=disabled is not None,
        lost_bookie_recovery_delay=_delay(delay),
    )


def _delay(node: Node | None) -> int | None:
    try:
        return None if node is None else parse_delay(node.data)
    except UndecodableError:
        return None


async def _under_replicated(session: ZooKeeperSession, limit: int) -> UnderReplicated:
    """Level by level. Branches without a leaf are left behind by ledgers that were copied, and count for nothing."""
    found: dict[int, str] = {}
    level, left, cut = [UNDER_REPLICATED], limit, False
    for _ in range(ROOT_LEVELS + 1):
        cut = cut or len(level) > left
        paths, level = level[:left], []
        left -= len(paths)
        for path, names in zip(paths, await _each(paths, session.children, IN_FLIGHT), strict=True):
            for name in names or ():
                try:
                    ledger = marked_ledger(name)
                except UndecodableError:
                    cut = True  # marks something, nobody knows what
                    continue
                if ledger is not None:
                    found[ledger] = f"{path}/{name}"
                else:
                    level.append(f"{path}/{name}")
    listed = tuple(sorted(found)[:LISTED])
    nodes = await _each([found[ledger] for ledger in listed], session.get, IN_FLIGHT)
    marked = [moment(_marked(node)) for node in nodes]
    oldest = min((each for each in marked if each is not None), default=None)
    return UnderReplicated(len(found), cut or bool(level), oldest, listed)


def _marked(node: Node | None) -> int | None:
    try:
        return None if node is None else parse_mark(node.data).ctime
    except UndecodableError:
        return None


async def ledgers_naming(
    session: ZooKeeperSession,
    bookies: frozenset[str],
    *,
    alive: frozenset[str] = frozenset(),
    handles: Handles | None = None,
    in_flight: int = IN_FLIGHT,
    kept: int = KEPT,
) -> LedgerScan:
    """Look at every ledger for those that may have entries on one of the bookies; on none else of those ``alive``.

    One read a ledger, ``in_flight`` at once: for when a bookie leaves or is missed, not for every pass. Memory grows
    with the topics whose newest ledger names one, not with the ledgers. Raises PortError, also after SCAN_SECONDS, so
    that the rest of a pass has its time; NotFoundError where the store has no place for ledgers at all.
    """
    scan = _Scan(bookies, alive - bookies, handles or Handles(), kept)
    scanned = await _every_ledger(session, scan.judge, scan.cannot_read, in_flight)
    return scan.result(scanned)


async def count_ledgers(
    session: ZooKeeperSession, counts: Callable[[Ledger], bool], *, in_flight: int = IN_FLIGHT
) -> LedgerCount:
    """Look at every ledger, as above, and count. Raises PortError, also after SCAN_SECONDS."""
    found = LedgerCount()

    def take(_number: int, ledger: Ledger) -> None:
        found.ledgers += 1
        found.counted += counts(ledger)

    def cannot_read(_path: str) -> None:
        found.undecodable += 1

    await _every_ledger(session, take, cannot_read, in_flight)
    return found


async def _every_ledger(
    session: ZooKeeperSession, take: Callable[[int, Ledger], None], cannot_read: Callable[[str], None], in_flight: int
) -> int:
    """Read all, one after another; how many were there. One that is gone by now names nobody."""
    scanned = 0

    async def look(path: str) -> None:
        nonlocal scanned
        node = await session.get(path)
        if node is None:
            return
        scanned += 1
        try:
            number, large = ledger_id(path), len(node.data) > LARGE
            ledger = await asyncio.to_thread(decode_ledger, node.data) if large else decode_ledger(node.data)
        except UndecodableError:
            cannot_read(path)
        else:
            take(number, ledger)

    try:
        async with asyncio.timeout(SCAN_SECONDS):
            async for paths in _parents(session, cannot_read):
                await _each(paths, look, in_flight)
    except TimeoutError:
        text = f"ledgers could not be looked at in {SCAN_SECONDS:g} s: {scanned} were, and there are more"
        raise UnavailableError(text) from None
    return scanned


@dataclass
class LedgerCount:
    """What a look at every ledger counted."""

    ledgers: int = 0
    """That were read."""
    counted: int = 0
    """Those of them that were asked for."""
    undecodable: int = 0
    """That nobody can read."""


class _Scan:
    """What was found so far."""

    def __init__(self, bookies: frozenset[str], alive: frozenset[str], handles: Handles, kept: int) -> None:
        self._bookies, self._alive, self._kept = bookies, alive, kept
        self._handles = handles
        self._highest = -1
        self._open: set[str] = set()
        self._newest: dict[tuple[str, str | None], int] = {}
        self._only = 0
        self._only_there: list[NamingLedger] = []
        self._naming = self._unfinished = self._undecodable = 0
        self._by_bookie = dict.fromkeys(sorted(bookies), 0)
        self._written: list[NamingLedger] = []
        self._not_closed: list[NamingLedger] = []
        self._closed: list[NamingLedger] = []
        self._widest: NamingLedger | None = None
        self._unreadable: list[str] = []
        self._bytes: dict[frozenset[str], int] = {}

    def cannot_read(self, path: str) -> None:
        """Something is there that says nothing."""
        self._undecodable += 1
        if len(self._unreadable) < self._kept:
            self._unreadable.append(path)

    def _note_writer(self, number: int, ledger: Ledger, *, named: bool) -> None:
        """A topic's handle is on a ledger that is not closed, or that is the newest of its kind; what is passed by a
        newer one is no handle's. Ledgers come by id, or nearly so: one that comes late is taken for the newest."""
        if ledger.use not in WRITTEN_BY_TOPICS or ledger.topic is None or ledger.topic <= self._handles.after:
            return
        key, suspect = (ledger.topic, ledger.cursor), self._handles.suspect
        closed = ledger.state is LedgerState.CLOSED
        counts = named or (suspect is not None and closed and number > suspect)
        if not counts or number <= self._handles.unloaded:
            if number > self._newest.get(key, number):
                del self._newest[key]
        elif not closed:
            self._open.add(ledger.topic)
        else:
            self._newest[key] = max(number, self._newest.get(key, number))

    def judge(self, number: int, ledger: Ledger) -> None:
        """Take one ledger."""
        self._highest = max(self._highest, number)
        named = ledger.named_of(self._bookies)
        self._note_writer(number, ledger, named=bool(named))
        if not named:
            return
        self._naming += 1
        if len(self._bookies) == 1:
            self._weigh(ledger)
        for bookie in named:
            self._by_bookie[bookie] += 1
        unfinished = ledger.state is not LedgerState.CLOSED
        self._unfinished += unfinished
        only = ledger.only_on(named, self._alive)
        row = NamingLedger(
            number, ledger.state, named, ledger.use, ledger.topic, ledger.cursor, ledger.ensemble_size, only
        )
        self._only += only
        if only and len(self._only_there) < self._kept:
            self._only_there.append(row)
        if self._widest is None or row.ensemble_size > self._widest.ensemble_size:
            self._widest = row
        rows = self._written if row.writer is not None else self._not_closed if unfinished else self._closed
        if len(rows) < self._kept:
            rows.append(row)

    def _weigh(self, ledger: Ledger) -> None:
        """What is to be copied, by who has it too. Past so many sets of bookies it counts as had by nobody else: then
        it is spread over so many that no bookie gets much more than another."""
        (bookie,) = self._bookies
        for others, size in ledger.bytes_on(bookie, ENTRY).items():
            key = others if others in self._bytes or len(self._bytes) < self._kept else frozenset[str]()
            self._bytes[key] = self._bytes.get(key, 0) + size

    def result(self, scanned: int) -> LedgerScan:
        """All of it."""
        return LedgerScan(
            scanned=scanned,
            naming=self._naming,
            unfinished=self._unfinished,
            undecodable=self._undecodable,
            by_bookie=self._by_bookie,
            not_closed=tuple(sorted(self._written + self._not_closed, key=lambda row: row.ledger)),
            closed=tuple(sorted(self._closed, key=lambda row: row.ledger)),
            unreadable=tuple(sorted(self._unreadable)),
            widest=self._widest,
            writers=tuple(sorted(self._open | {topic for topic, _ in self._newest})[: self._kept]),
            highest=self._highest,
            only=self._only,
            only_there=tuple(sorted(self._only_there, key=lambda row: row.ledger)),
            bytes_by_peers=self._bytes,
        )


async def _parents(session: ZooKeeperSession, cannot_read: Callable[[str], None]) -> AsyncIterator[list[str]]:
    """Paths of the ledgers of one parent after the other; a parent has 10,000 at most."""
    top = await session.children(LEDGERS)
    if top is None:
        raise NotFoundError(f"{LEDGERS} does not exist, so nothing is known of ledgers")
    for name in top:
        levels = levels_below(name)
        if levels is not None:
            async for paths in _below(session, f"{LEDGERS}/{name}", levels, cannot_read):
                yield paths
        elif name not in NOT_LEDGERS:
            cannot_read(f"{LEDGERS}/{name}")


async def _below(
    session: ZooKeeperSession, path: str, levels: int, cannot_read: Callable[[str], None]
) -> AsyncIterator[list[str]]:
    names = await session.children(path) or []
    if levels == 0:
        yield [f"{path}/{name}" for name in names]
        return
    for name in names:
        if not is_level(name):
            cannot_read(f"{path}/{name}")
            continue
        async for paths in _below(session, f"{path}/{name}", levels - 1, cannot_read):
            yield paths


async def _each(items: Iterable[T], call: Callable[[T], Awaitable[R]], in_flight: int) -> list[R]:
    """The answers for all items in their order, so many calls at once. The first error ends all of them and rises."""
    listed = list(items)
    answers: dict[int, R] = {}
    pending = iter(enumerate(listed))

    async def work() -> None:
        for place, item in pending:
            answers[place] = await call(item)

    workers = [asyncio.ensure_future(work()) for _ in range(min(in_flight, len(listed)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [answers[place] for place in range(len(listed))]
