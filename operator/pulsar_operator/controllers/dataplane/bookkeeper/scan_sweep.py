"""Reads ledgers that reference a bookie again: in turn, or all of them once other bookies are alive than before."""

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
"""Number of ledgers that are read before the slice is checked, and judged in the order of their ids."""


@dataclass(frozen=True)
class Slice:
    """Maximum number of ledgers that one pass reads, so that other clusters and phases can run."""

    ledgers: int = 100_000
    seconds: float = 60.0


SLICE: Final = Slice()


@dataclass(frozen=True)
class Subject:
    """The examined bookie, with what this pass knows of it."""

    bookie: str
    alive: frozenset[str]
    handles: Handles
    now: datetime
    begun: bool
    """Whether its decommission has begun and it takes no entries now."""
    token: str
    """See ScanRecord.token; empty if it may take entries."""
    final: bool
    """Whether the next action cannot be undone, so that the examination must be quiet."""
    ident: str
    """Unique id of an examination that begins in this pass."""
    listed: bool = False
    """Whether the first KEPT ledgers are listed: those of a lost bookie, which may be abandoned."""
    moved: bool = False
    """Whether the token may change: the action that cannot be undone was carried out."""


class OverError(Exception):
    """The pass has read its maximum; what it found is recorded."""


class ScanSweep(ScanAnswers):
    """The part of an examination that reads recorded ledgers again. Raises PortError."""

    def __init__(self, session: ZooKeeperSession, subject: Subject, limit: Slice) -> None:
        super().__init__(session, subject.bookie, subject.alive, subject.now)
        self._subject, self._left = subject, limit.ledgers
        self._until = asyncio.get_running_loop().time() + limit.seconds
        self._rows = []

    def _stale(self) -> int:
        """Returns ledgers of which it is not known whether they are on a bookie that is alive now."""
        return sum(part.naming for part in self._record.parts if part.alive != self._digest)

    async def _count_again(self) -> None:
        """Reads them part by part: a part is counted as a whole, at least one in each pass. Raises OverError."""
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
        """Reads ledgers that reference the bookie, or those of them that were not closed, from where the last pass
        ended; at most once around. Returns where this one ended."""
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
        """Returns how many of them still reference the bookie and have the flags ``counted``."""
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
