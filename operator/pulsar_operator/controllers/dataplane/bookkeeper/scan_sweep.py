"""Ledgers that name a bookie are read again: in turn, or all of them once other bookies are alive than before."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pulsar_operator.controllers.dataplane.bookkeeper.scan_answers import SOME, ScanAnswers, naming_row
from pulsar_operator.controllers.dataplane.bookkeeper.scan_store import KEPT
from pulsar_operator.domain.bookkeeper.ledger_scan import Handles
from pulsar_operator.domain.bookkeeper.ledger_scan_record import ONLY, UNFINISHED, Part, flags_of
from pulsar_operator.domain.bookkeeper.znodes import ledger_path
from pulsar_operator.ports import ZooKeeperSession

BATCH: Final = 500
"""Ledgers that are read before the slice is checked, and judged in the order of their ids."""


@dataclass(frozen=True)
class Slice:
    """What one pass reads at most: other clusters and phases have their turn."""

    ledgers: int = 100_000
    seconds: float = 60.0


SLICE: Final = Slice()


@dataclass(frozen=True)
class Subject:
    """Whose ledgers are looked for, and what is known of it in this pass."""

    bookie: str
    alive: frozenset[str]
    handles: Handles
    now: datetime
    begun: bool
    """Whether it has begun to leave: it takes nothing at this moment."""
    token: str
    """See ScanRecord.token; empty = it may take entries."""
    final: bool
    """Whether what comes next cannot be taken back, so that the examination must be quiet."""
    ident: str
    """Stands for the examination that begins in this pass, if one does: no other pass has the same."""
    listed: bool = False
    """Whether the first KEPT ledgers are to be listed: those of a bookie that is lost, which may be given up."""
    moved: bool = False
    """Whether the token may be another one: what could not be taken back was done."""


class OverError(Exception):
    """The pass has read what it may; what it found is on record."""


class ScanSweep(ScanAnswers):
    """The part of an examination that reads again what is on record as naming the bookie. Raises PortError."""

    def __init__(self, session: ZooKeeperSession, subject: Subject, limit: Slice) -> None:
        super().__init__(session, subject.bookie, subject.alive, subject.now)
        self._subject, self._left = subject, limit.ledgers
        self._until = asyncio.get_running_loop().time() + limit.seconds
        self._rows = []

    def _stale(self) -> int:
        """Ledgers of which it is not known whether they are on one of the bookies that are alive by now."""
        return sum(part.naming for part in self._record.parts if part.alive != self._digest)

    async def _count_again(self) -> None:
        """Read those, part by part: a part is counted as a whole, at least one in each pass. Raises OverError."""
        for index, part in enumerate(self._record.parts):
            if not part.naming or part.alive == self._digest:
                continue
            await self._sweep_some(index, sorted((await self._chunk(index)).naming), 0)
            self._record.parts[index].alive = self._digest
            self._dirty.add(index)
            await self._leave_chunk(index)
            if self._used_up() and self._stale():
                await self._save()
                raise OverError

    async def _sweep(self, last: list[int], *, unfinished: bool) -> list[int]:
        """Ledgers that name the bookie, or those of them that were not closed, from where the last look ended; around
        once at most. Where this one ended."""
        record, still = self._record, 0
        before = last if last[0] < len(record.parts) else [0, -1]
        at = before
        order = [*range(before[0], len(record.parts)), *range(before[0] + 1)]
        for place, index in enumerate(order):
            if index >= len(record.parts) or not self._to_sweep(record.parts[index], unfinished):
                continue
            flags, size = (await self._chunk(index)).naming, SOME
            todo = sorted(number for number in flags if not unfinished or flags[number] & UNFINISHED)
            if index == before[0]:
                todo = [number for number in todo if (number > before[1]) is (place == 0)]
            while todo:
                if still >= SOME or self._used_up():
                    self._changed = self._changed or at != last
                    return at
                some, todo = todo[:size], todo[size:]
                found = await self._sweep_some(index, some, UNFINISHED if unfinished else 0)
                still, size = still + found, SOME if found else BATCH
                at = [index, some[-1]]
            await self._leave_chunk(index)
        self._changed = self._changed or last != [0, -1]
        return [0, -1]

    @staticmethod
    def _to_sweep(part: Part, unfinished: bool) -> int:
        return part.unfinished if unfinished else part.naming

    async def _sweep_some(self, index: int, numbers: list[int], counted: int) -> int:
        """How many of them still name the bookie, and have the flags ``counted``."""
        chunk, still = await self._touched(index), 0
        paths = {number: ledger_path(number) for number in numbers}
        found = {each.number: each for each in await self._read([*paths.values()])}
        for number, path in paths.items():
            each, before = found.get(number), chunk.naming[number]
            flags = flags_of(each.ledger, self._bookie, self._alive) if each is not None and each.ledger else None
            if each is not None and each.ledger is None:
                await self._cannot_read(path)
            if flags is None or each is None or each.ledger is None:
                chunk.drop(number)
            else:
                sizes = chunk.sizes.get(number)
                chunk.put(number, each.ledger, flags, self._bookie)
                still += flags & counted == counted
                if chunk.sizes.get(number) != sizes:
                    self._dirty.add(index)
                if len(self._rows) < KEPT:
                    self._rows.append(naming_row(number, each.ledger, self._bookie, only=bool(flags & ONLY)))
            if flags != before:
                self._dirty.add(index)
        return still

    def _used_up(self) -> bool:
        return self._left <= 0 or asyncio.get_running_loop().time() > self._until
