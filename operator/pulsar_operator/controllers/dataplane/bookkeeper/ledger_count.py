"""Counts the ledgers that violate a rule, in slices over several passes.

The progress is in one znode, so that an operator that was killed continues after the last recorded ledger. Ledgers that
are created or change during the count may be missed: the number is for people, and no action depends on it.
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
    """The count so far."""

    rule: str
    """Identifies the rule; another rule starts another count."""
    ledgers: int = 0
    """Number of ledgers that were read."""
    counted: int = 0
    """Number of them that violate the rule."""
    undecodable: int = 0
    """Number of ledgers that cannot be decoded."""
    after: int = -1
    """Id up to which all ledgers were read."""
    total: int = 0
    """Approximate number of ledgers."""

    def data(self) -> bytes:
        """Returns the content of the znode."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True)
class Slice:
    """Maximum number of ledgers that one pass reads."""

    ledgers: int = 50_000
    seconds: float = 30.0


SLICE: Final = Slice()


def parse_count(data: bytes) -> LedgerCount | None:
    """Parses the znode; None if it cannot be read, which means that nothing was counted."""
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
    """Continues the count of ledgers that violate the rule ``rule``; returns the count, or its progress. Without
    ``act`` nothing is written. Raises PortError; NotFoundError if the store has no node for ledgers at all."""
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
