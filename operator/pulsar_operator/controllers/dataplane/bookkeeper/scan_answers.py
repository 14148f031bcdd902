"""The result of an examination of all ledgers: a LedgerScan, with the topics that may write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pulsar_operator.controllers.dataplane.bookkeeper.ledger_walk import Found, ledgers_below
from pulsar_operator.controllers.dataplane.bookkeeper.scan_store import KEPT, ScanStore
from pulsar_operator.domain.bookkeeper.ledger_scan import Handles, LedgerScan, NamingLedger
from pulsar_operator.domain.bookkeeper.ledger_scan_record import ENSEMBLE_SHIFT, ONLY, UNFINISHED, topic_of_key
from pulsar_operator.domain.bookkeeper.ledgers import Ledger, LedgerState, LedgerUse
from pulsar_operator.domain.bookkeeper.znodes import ledger_path

SOME: Final = 32
"""Number of ledgers that still reference the bookie, and of topics that may write, that one pass reads."""


class ScanAnswers(ScanStore):
    """Computes results from the head and its chunks, with the ledgers that were read in this pass."""

    _rows: list[NamingLedger]
    _left: int

    async def _read(self, paths: list[str]) -> list[Found]:
        self._left -= len(paths)
        return await ledgers_below(self._session, paths)

    async def _result(self, handles: Handles, *, listed: bool) -> LedgerScan:
        """Returns the result. ``listed``: with the first KEPT ledgers, not only those that were read in this pass."""
        record = self._record
        read = {row.ledger: row for row in self._rows}
        rows = await self._listed(read) if listed else [read[number] for number in sorted(read)]
        unfinished = [row for row in rows if row.state is not LedgerState.CLOSED]
        return LedgerScan(
            scanned=record.examined,
            naming=record.naming,
            unfinished=sum(part.unfinished for part in record.parts),
            undecodable=record.undecodable,
            not_closed=tuple(sorted(unfinished, key=lambda row: (row.writer is None, row.ledger))),
            closed=tuple(row for row in rows if row.state is LedgerState.CLOSED),
            unreadable=tuple(sorted(await self._paths())),
            widest=await self._widest(rows),
            writers=await self._writers(handles),
            highest=record.highest,
            only=sum(part.only for part in record.parts if part.alive == self._digest),
            only_there=tuple(row for row in rows if row.only),
            bytes_by_peers={frozenset(key.split()): size for key, size in record.sizes.items()},
        )

    async def _listed(self, read: Mapping[int, NamingLedger]) -> list[NamingLedger]:
        """Returns the first ledgers that reference the bookie; those that were not read in this pass come from the
        record."""
        rows = list[NamingLedger]()
        for index, part in enumerate(self._record.parts):
            chunk = await self._chunk(index) if part.naming and len(rows) < KEPT else None
            for number in sorted(chunk.naming) if chunk is not None else ():
                flags = chunk.naming[number] if chunk is not None else 0
                state = LedgerState.OPEN if flags & UNFINISHED else LedgerState.CLOSED
                only = bool(flags & ONLY) and part.alive == self._digest
                size = flags >> ENSEMBLE_SHIFT
                known = NamingLedger(number, state, frozenset({self._bookie}), LedgerUse.OTHER, None, None, size, only)
                rows.append(read.get(number, known))
        return rows[:KEPT]

    async def _widest(self, rows: list[NamingLedger]) -> NamingLedger | None:
        """Returns the widest ledger that still references the bookie."""
        naming = [part for part in self._record.parts if part.naming]
        if not naming:
            return None
        part = max(naming, key=lambda each: each.ensemble)
        known = next((row for row in rows if row.ledger == part.widest), None)
        if known is not None:
            return known
        for found in await self._read([ledger_path(part.widest)]):
            if found.ledger is not None:
                return naming_row(found.number, found.ledger, self._bookie)
        return max(rows, key=lambda row: row.ensemble_size, default=None)

    async def _writers(self, handles: Handles) -> tuple[str, ...]:
        """Returns the first topics by name; the first of these are certain."""
        record, known = self._record, dict[str, list[int]]()
        if handles.unloaded < record.max_writer:
            for index, (last, _) in enumerate(record.blocks):
                if topic_of_key(last) <= handles.after:
                    continue
                known.update(await self._stored_block(index))
                if len({topic_of_key(key) for key in known if topic_of_key(key) > handles.after}) > KEPT:
                    break
        since = dict[str, int]()
        for index, part in enumerate(record.parts):
            if part.writer > handles.unloaded:
                for key, numbers in (await self._chunk(index)).later.items():
                    known[key] = [max(pair) for pair in zip(numbers, known.get(key, (-1, -1)), strict=True)]
            if index >= record.walked and known:
                since.update((await self._chunk(index)).since)
        topics = dict[str, list[int]]()
        for key, (newest, opened) in known.items():
            topic, passed = topic_of_key(key), since.get(key, -1)
            numbers = [newest if newest > passed else -1, opened]
            numbers = [number for number in numbers if number > handles.unloaded]
            if topic > handles.after and numbers:
                topics.setdefault(topic, []).extend(numbers)
        return tuple(await self._still_there(topics))

    async def _still_there(self, topics: dict[str, list[int]]) -> list[str]:
        """Returns topics by name, without those at the beginning whose ledgers are gone."""
        names = sorted(topics)
        kept = list[str]()
        while names and len(kept) < SOME:
            some, names = names[:SOME], names[SOME:]
            paths = [ledger_path(number) for topic in some for number in topics[topic]]
            there = {found.path for found in await self._read(paths)}
            kept += [topic for topic in some if any(ledger_path(number) in there for number in topics[topic])]
        return (kept + names)[:KEPT]


def naming_row(number: int, ledger: Ledger, bookie: str, *, only: bool = False) -> NamingLedger:
    """Returns the row of a ledger that references the bookie."""
    return NamingLedger(
        number,
        ledger.state,
        frozenset({bookie}),
        ledger.use,
        ledger.topic,
        ledger.cursor,
        ledger.ensemble_size,
        only,
    )
