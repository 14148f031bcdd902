"""How many ledgers are against a rule: counted in slices, over as many passes as it takes.

How far the count is stands in one znode, so that an operator that was killed continues after the last ledger on record.
What is made or changes while it is counted may be missed: the number is for people, and nothing is done by it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from pulsar_operator.controllers.dataplane.bookkeeper.ledger_walk import (
    about_how_many,
    groups,
    ledgers_below,
    number_of,
)
from pulsar_operator.domain.bookkeeper.ledger_scan_record import CHUNKS, LEAST, Examining
from pulsar_operator.domain.bookkeeper.ledgers import Ledger
from pulsar_operator.ports import ZooKeeperSession

log = logging.getLogger(__name__)

COUNT_PATH: Final = "/pulsar-operator/ledger-count"
BATCH: Final = 500


@dataclass
class LedgerCount:
    """What was counted so far."""

    rule: str
    """Stands for the rule; another one is another count."""
    ledgers: int = 0
    """That were read."""
    counted: int = 0
    """Those of them that are against it."""
    undecodable: int = 0
    """That nobody can read."""
    after: int = -1
    """All ledgers up to this id were read."""
    total: int = 0
    """About so many there are."""

    def data(self) -> bytes:
        """Content of the znode."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True)
class Slice:
    """What one pass reads at most."""

    ledgers: int = 50_000
    seconds: float = 30.0


SLICE: Final = Slice()


def parse_count(data: bytes) -> LedgerCount | None:
    """What the znode says; None where that cannot be read: then nothing was counted."""
    try:
        return LedgerCount(**json.loads(data))
    except (ValueError, TypeError, RecursionError):
        return None


async def count_ledgers(
    session: ZooKeeperSession,
    rule: str,
    against: Callable[[Ledger], bool],
    *,
    act: bool = True,
    limit: Slice | None = None,
) -> LedgerCount | Examining:
    """Go on with the count of ledgers against the rule that ``rule`` stands for: the count, or how far it is. Without
    ``act`` nothing is written. Raises PortError; NotFoundError where the store has no place for ledgers at all."""
    return await _Counting(session, against, act, limit or SLICE).run(rule)


class _Counting:
    def __init__(self, session: ZooKeeperSession, against: Callable[[Ledger], bool], act: bool, limit: Slice) -> None:
        self._session, self._against, self._act = session, against, act
        self._left, self._until = limit.ledgers, asyncio.get_running_loop().time() + limit.seconds
        self._count = LedgerCount("")
        self._version: int | None = None

    async def run(self, rule: str) -> LedgerCount | Examining:
        node = await self._session.get(COUNT_PATH)
        self._version = node.version if node is not None else None
        count = parse_count(node.data) if node is not None else None
        if count is None or count.rule != rule:
            count = LedgerCount(rule, total=await about_how_many(self._session))
        self._count, bad, written = count, set[str](), count.ledgers
        step = max(LEAST, count.total // CHUNKS)
        async for _, paths in groups(self._session, bad.add, count.after + 1):
            todo = [path for path in paths if not 0 <= number_of(path) <= count.after]
            while todo:
                size = max(1, min(BATCH, step, self._left))
                some, todo = todo[:size], todo[size:]
                await self._some(some)
                over = self._left <= 0 or asyncio.get_running_loop().time() > self._until
                if over or count.ledgers - written >= step:
                    written = count.ledgers
                    await self._save()
                if over:
                    log.debug("%d of about %d ledgers counted", count.ledgers, max(count.total, count.ledgers))
                    return Examining(count.ledgers, count.total)
        count.undecodable += len(bad)
        if self._act and self._version is not None:
            await self._session.delete(COUNT_PATH, version=self._version)
        return count

    async def _some(self, paths: list[str]) -> None:
        count = self._count
        self._left -= len(paths)
        for found in await ledgers_below(self._session, paths):
            count.after = max(count.after, found.number)
            if found.ledger is None:
                count.undecodable += 1
            else:
                count.ledgers += 1
                count.counted += self._against(found.ledger)

    async def _save(self) -> None:
        if not self._act:
            return
        if self._version is None:
            await self._session.create(COUNT_PATH, self._count.data())
            self._version = 0
        else:
            await self._session.set(COUNT_PATH, self._count.data(), version=self._version)
            self._version += 1
