"""Which ledgers may have entries on a bookie: examined in slices, over several passes.

All ledgers are read once (the examination); the result is kept in the metadata store
(domain/bookkeeper/ledger_scan_record.py), and an operator that was killed continues after the last recorded ledger.
From then on a pass reads:

* ledgers made since: those in the last parents of the tree that are not on record;
* once the bookie takes nothing, each ledger that was not closed and did not name it: it may have come to name it since,
  by an ensemble change. This happens once;
* ledgers that name it, in turn, until SOME that still do were read: how many are left is known, and which of them no
  longer do is determined with few reads of those that do. A check up to SOME ledgers is exact;
* of a bookie that is lost, all ledgers that name it once other bookies are alive than when they were read: a person
  decides about those that are nowhere else (scan_sweep.py).

A closed ledger that does not name a bookie comes to name it by replication alone, which writes to writable bookies
(class ReplicationWorker, by EnsemblePlacementPolicy.replaceBookie, whose known bookies are the writable ones). So while
a bookie is read-only, or gone, such ledgers are settled. An examination of which this holds from before its first
ledger on is ``quiet``. The first one of a removal is not: it is made before the bookie becomes read-only, to determine
whether that may begin. So a second one is made before the action that cannot be undone, once no ledger is known to name
it any more. One that finds the bookie writable in between is void, and begins again.

Cost of a removal: two reads of each ledger, one more of each that was open, one or two more of each that named it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from pulsar_operator.controllers.dataplane.bookkeeper.ledger_walk import about_how_many, groups, number_of
from pulsar_operator.controllers.dataplane.bookkeeper.scan_store import block_path, forget_examination
from pulsar_operator.controllers.dataplane.bookkeeper.scan_sweep import (
    BATCH,
    SLICE,
    OverError,
    ScanSweep,
    Slice,
    Subject,
)
from pulsar_operator.domain.bookkeeper.ledger_scan import LedgerScan
from pulsar_operator.domain.bookkeeper.ledger_scan_record import (
    CHUNK_LEDGERS,
    Chunk,
    Examining,
    Part,
    ScanRecord,
    Writers,
    block_data,
    counts,
    flags_of,
    is_closed,
    key_of,
)
from pulsar_operator.domain.bookkeeper.ledgers import Ledger
from pulsar_operator.domain.bookkeeper.znodes import SHORT_IDS, ledger_path
from pulsar_operator.domain.conditions import parse_time
from pulsar_operator.ports import UnavailableError, ZooKeeperSession

log = logging.getLogger(__name__)

MARGIN: Final = 10_000
"""Number of ids below the highest in which ledgers may still appear: an id is taken before its znode exists."""
STALE_SECONDS: Final = 3600.0
"""Age in seconds at which an examination for a bookie whose decommission has not begun starts again."""
GONE: Final = "gone"
"""Prefix of the token of a bookie that has no pod and is not registered."""
TEXT: Final = 400_000
"""Maximum characters of names in one chunk: a znode has 1 MB at most."""


class LedgerExamination(ScanSweep):
    """One pass over an examination. Raises PortError of the store."""

    def __init__(self, session: ZooKeeperSession, subject: Subject, limit: Slice) -> None:
        super().__init__(session, subject, limit)
        self._walked = Chunk()

    async def run(self) -> LedgerScan | Examining:
        """Continues the examination; returns its result once all ledgers were read, in earlier passes or in this
        one."""
        began = await self._load()
        try:
            if not self._record.done:
                await self._walk()
                if not began:
                    # Whether the bookie took nothing all the time is known in the next pass.
                    return self._progress()
            found = await self._again()
            if found.naming or not self._subject.final or self._record.quiet or found.undecodable:
                return found
            await self._begin(quiet=True)
            await self._walk()
            return await self._again()
        except OverError:
            return self._progress()

    def _progress(self) -> Examining:
        record = self._record
        if record.done and self._subject.token and record.opens:
            return Examining(max(0, record.total - record.opens), record.total, "open ledgers")
        if record.done and self._subject.listed and (stale := self._stale()):
            return Examining(record.naming - stale, record.naming, f"ledgers of bookie {record.bookie}")
        return Examining(record.examined, record.total)

    async def _load(self) -> bool:
        """Loads the record. Returns whether the examination begins with this pass."""
        subject, record = self._subject, await self._load_record()
        if record is not None and record.bookie == self._bookie and record.suspect == subject.handles.suspect:
            written_at = parse_time(record.written_at)
            # Also one of the future: the clock was wrong then, or is now.
            stale = written_at is None or abs((subject.now - written_at).total_seconds()) > STALE_SECONDS
            void = record.quiet and not subject.moved and record.token != subject.token
            if not void and (subject.begun or not stale):
                self._record = record
                return False
        await self._begin(quiet=subject.token.startswith(GONE))
        return True

    async def _begin(self, *, quiet: bool) -> None:
        total = await about_how_many(self._session)
        subject = self._subject
        self._rows, self._walked = [], Chunk()
        token = subject.token if quiet else ""
        # One that is not quiet and one that is may begin in the same pass.
        ident, suspect = f"{subject.ident}/{'quiet' if quiet else 'first'}", subject.handles.suspect
        await self._new_record(ScanRecord(self._bookie, ident, suspect, quiet, token, total=total))

    # --------------------------------------------------------------------------------------------- all, one time

    async def _walk(self) -> None:
        """Reads all ledgers after the last recorded one. Raises OverError."""
        record, writers, bad = self._record, Writers(self._record.suspect), list[str]()
        for index in range(len(record.parts)):
            writers.replay(await self._chunk(index))
            del self._chunks[index]
        begin, before = asyncio.get_running_loop().time(), record.examined
        try:
            async for lowest, paths in groups(self._session, bad.append, record.after + 1):
                await self._bad(bad)
                record.floor = lowest
                todo = [path for path in paths if not 0 <= number_of(path) <= record.after]
                while todo:
                    size = max(1, min(BATCH, record.step - len(self._walked.ids), self._left))
                    some, todo = todo[:size], todo[size:]
                    await self._examine(some, writers)
            await self._bad(bad)
            await self._flush()
        finally:
            spent = asyncio.get_running_loop().time() - begin
            text = "bookie %s: %d of about %d ledgers examined, %.0f a second"
            rate = (record.examined - before) / spent if spent else 0.0
            log.debug(text, self._bookie, record.examined, max(record.total, record.examined), rate)
        await self._finish(writers)

    async def _bad(self, paths: list[str]) -> None:
        for path in paths:
            await self._cannot_read(path)
        paths.clear()

    async def _examine(self, paths: list[str], writers: Writers) -> None:
        """Examines some ledgers, in order of their ids."""
        quiet = self._record.quiet
        for found in await self._read(paths):
            number, ledger = found.number, found.ledger
            if ledger is None:
                await self._cannot_read(found.path)
                if number >= 0:
                    self._walked.ids.append(number)
                continue
            flags = flags_of(ledger, self._bookie, self._alive)
            self._walked.ids.append(number)
            writers.take(number, ledger, named=self._bookie in ledger.members, chunk=self._walked)
            if flags is not None:
                self._walked.put(number, ledger, flags, self._bookie)
            elif not quiet and not is_closed(ledger):
                self._walked.opens.append(number)
        full = len(self._walked.ids) >= self._record.step or self._walked.text >= TEXT
        if full or self._used_up():
            await self._flush()
        if self._used_up():
            raise OverError

    async def _flush(self) -> None:
        """Writes the results to the record."""
        record, chunk = self._record, self._walked
        if chunk.ids:
            self._chunks[len(record.parts)] = chunk
            self._dirty.add(len(record.parts))
            record.parts.append(Part(alive=self._digest))
            record.after = chunk.ids[-1]
            record.highest = max(record.highest, record.after)
            record.examined += len(chunk.ids)
            self._walked = Chunk()
        await self._save()
        self._chunks.clear()

    async def _finish(self, writers: Writers) -> None:
        record = self._record
        for index, block in enumerate(writers.blocks(CHUNK_LEDGERS)):
            await self._put(block_path(index), block_data(block, record.ident))
            record.blocks.append((max(block), len(block)))
            record.max_writer = max(record.max_writer, *(number for numbers in block.values() for number in numbers))
        record.done, record.walked = True, len(record.parts)
        record.floor = min(record.floor, _floor(record))
        self._changed = True
        await self._save()

    # ------------------------------------------------------------------------------------------------ what is new

    async def _again(self) -> LedgerScan:
        """Reads recorded ledgers again, and ledgers that were created since. Raises OverError."""
        if self._subject.token and not self._record.relied:
            self._record.relied = self._changed = True
        if self._record.undecodable:
            await self._read_again()
        if self._subject.token and self._record.opens:
            await self._opened()
        await self._made_since()
        if self._subject.listed:
            await self._count_again()
        if self._subject.token:
            # What they take is known once their topics are unloaded.
            self._record.sweep_unfinished = await self._sweep(self._record.sweep_unfinished, unfinished=True)
        self._record.sweep = await self._sweep(self._record.sweep, unfinished=False)
        if self._recount:
            await self._save()
            await self._count_sizes()
        await self._save()
        return await self._result(self._subject.handles, listed=self._subject.listed)

    async def _read_again(self) -> None:
        """Reads again what could not be decoded."""
        kept = list[str]()
        before = await self._paths()
        for found in await self._read(before):
            if found.ledger is None:
                kept.append(found.path)
            else:
                await self._new(found.number, found.ledger)
        if len(kept) != len(before):
            if self._record.undecodable > len(before):
                raise ValueError("some ledgers that could not be read are not listed, and may be readable now")
            self._record.undecodable -= len(before) - len(kept)
            self._unreadable, self._unreadable_changed, self._changed = kept, True, True

    async def _opened(self) -> None:
        """Reads ledgers that were not closed: one that came to reference the bookie while it took entries does so
        now."""
        for index, part in enumerate(self._record.parts):
            if not part.opens:
                continue
            chunk = await self._touched(index)
            todo, chunk.opens = chunk.opens, []
            for found in await self._read([ledger_path(number) for number in todo]):
                if found.ledger is None:
                    await self._cannot_read(found.path)
                else:
                    self._judge(chunk, found.number, found.ledger)
            self._dirty.add(index)
            await self._leave_chunk(index)
            if self._used_up() and self._record.opens:
                raise OverError

    async def _made_since(self) -> None:
        record, bad = self._record, list[str]()
        known = set[int]()
        for index, part in enumerate(record.parts):
            if part.last >= record.floor:
                known.update((await self._chunk(index)).ids)
        async for _, paths in groups(self._session, bad.append, record.floor):
            await self._bad(bad)
            unreadable = set(await self._paths())
            numbered = [(number_of(path), path) for path in paths if path not in unreadable]
            todo = [path for number, path in numbered if number < 0 or (number >= record.floor and number not in known)]
            while todo:
                some, todo = todo[:BATCH], todo[BATCH:]
                for found in await self._read(some):
                    if found.ledger is None:
                        await self._cannot_read(found.path)
                    else:
                        await self._new(found.number, found.ledger)
                if self._used_up():
                    await self._save()
                    raise OverError
        await self._bad(bad)
        record.floor = max(record.floor, _floor(record))

    async def _new(self, number: int, ledger: Ledger) -> None:
        """Adds a ledger that is not recorded."""
        record = self._record
        last = len(record.parts) - 1
        chunk = await self._touched(last) if last >= record.walked else None
        if chunk is None or len(chunk.ids) >= CHUNK_LEDGERS or chunk.text >= TEXT:
            record.parts.append(Part(alive=self._digest))
            last, chunk = last + 1, Chunk()
            self._chunks[last] = chunk
        chunk.ids.append(number)
        self._dirty.add(last)
        record.highest = max(record.highest, number)
        record.examined += 1
        self._judge(chunk, number, ledger, new=True)

    def _judge(self, chunk: Chunk, number: int, ledger: Ledger, *, new: bool = False) -> None:
        record, flags = self._record, flags_of(ledger, self._bookie, self._alive)
        key = key_of(ledger)
        if flags is not None:
            chunk.put(number, ledger, flags, self._bookie)
        elif new and not self._subject.token and not is_closed(ledger):
            chunk.opens.append(number)
        if key is None:
            return
        if counts(number, ledger, named=self._bookie in ledger.members, suspect=record.suspect):
            known = chunk.later.setdefault(key, [-1, -1])
            chunk.text += len(key)
            place = 0 if is_closed(ledger) else 1
            known[place] = max(known[place], number)
        elif new:
            chunk.since[key] = max(number, chunk.since.get(key, number))
            chunk.text += len(key)


async def examine_ledgers(
    session: ZooKeeperSession, subject: Subject, limit: Slice | None = None
) -> LedgerScan | Examining:
    """Continues the examination: returns its result, or its progress. Raises PortError."""
    try:
        return await LedgerExamination(session, subject, limit or SLICE).run()
    except ValueError as error:
        # Somebody else wrote there, or half of it is gone: it begins again.
        await forget_examination(session)
        raise UnavailableError(f"the examination of ledgers starts again, because {error}") from None


def _floor(record: ScanRecord) -> int:
    """Returns the lowest id of later ledgers. Ids of the long layout do not show where the next one of the short layout
    is."""
    highest = max((each for part in record.parts for each in (part.first, part.last) if each < SHORT_IDS), default=0)
    return max(0, (highest - MARGIN) // MARGIN * MARGIN)
