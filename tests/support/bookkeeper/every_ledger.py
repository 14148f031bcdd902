"""Which ledgers may have entries on a bookie, by one read of every ledger with nothing on record: a second opinion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pulsar_operator.controllers.core.bounded import each_of
from pulsar_operator.controllers.dataplane.bookkeeper.ledger_walk import IN_FLIGHT, decoded, groups
from pulsar_operator.domain.bookkeeper.disk_space import ENTRY
from pulsar_operator.domain.bookkeeper.ledger_scan import WRITTEN_BY_TOPICS, Handles, LedgerScan, NamingLedger
from pulsar_operator.domain.bookkeeper.ledgers import Ledger, LedgerState
from pulsar_operator.ports import ZooKeeperSession

KEPT: Final = 1000
"""Ledgers of each kind that a scan keeps; it counts all."""


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

    One read a ledger, ``in_flight`` at once. Raises PortError; NotFoundError where the store has no ledgers at all.
    """
    scan = _Scan(bookies, alive - bookies, handles or Handles(), kept)
    scanned = await _every_ledger(session, scan.judge, scan.cannot_read, in_flight)
    return scan.result(scanned)


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
        found = await decoded(path, node)
        if found.ledger is None:
            cannot_read(path)
        else:
            take(found.number, found.ledger)

    async for _, paths in groups(session, cannot_read):
        await each_of(paths, look, in_flight)
    return scanned


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
        self._note_writer(number, ledger, named=not ledger.members.isdisjoint(self._bookies))
        if not named:
            return
        self._naming += 1
        if len(self._bookies) == 1:
            self._weigh(ledger)
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
