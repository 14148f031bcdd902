"""All ledgers are examined in slices on a real ZooKeeper, by an operator that is killed on the way."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from pulsar_operator.adapters.kazoo_zookeeper import KazooZooKeeper
from pulsar_operator.controllers.dataplane.bookkeeper.ledger_scan import examine_ledgers
from pulsar_operator.controllers.dataplane.bookkeeper.scan_store import forget_examination
from pulsar_operator.controllers.dataplane.bookkeeper.scan_sweep import Slice, Subject
from pulsar_operator.domain.bookkeeper.ledger_scan import Handles, LedgerScan
from pulsar_operator.domain.bookkeeper.ledger_scan_record import SCAN_PATH, Examining
from pulsar_operator.domain.bookkeeper.znodes import ledger_path
from pulsar_operator.ports import Node, ZooKeeperSession
from tests.support.bookkeeper.encoding import ledger
from tests.support.bookkeeper.every_ledger import ledgers_naming
from tests.support.processes.zookeeper import RealZooKeeper, real_zookeeper

__all__ = ["real_zookeeper"]

B0, B1, B2 = (f"c-bookie-{n}.c-bookie-headless.pulsar.svc.cluster.local:3181" for n in range(3))
COUNT = 12_000
PERCENT = COUNT // 100


class KilledError(Exception):
    """The operator's process ends."""


@dataclass
class Killable:
    """A session that notes which ledgers are read, and ends after so many."""

    inner: ZooKeeperSession
    left: int = 10**9
    reads: list[str] = field(default_factory=list)

    async def get(self, path: str) -> Node | None:
        if path.startswith("/ledgers/"):
            self.left -= 1
            if self.left < 0:
                raise KilledError
            self.reads.append(path)
        return await self.inner.get(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.fixture
async def session(real_zookeeper: RealZooKeeper) -> AsyncIterator[ZooKeeperSession]:
    port = KazooZooKeeper(deadline_seconds=60)
    yield await port.session(real_zookeeper.servers, f"/t{uuid.uuid4().hex}")
    await port.close()


def subject(token: str = "", handles: Handles | None = None) -> Subject:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    final, ident = token.startswith("gone"), uuid4().hex
    return Subject(B0, frozenset({B1, B2}), handles or Handles(), now, bool(token), token, final, ident)


async def test_a_removal_with_an_operator_that_is_killed(session: ZooKeeperSession) -> None:
    pairs, gate = ((B0, B1), (B1, B2), (B2, B0)), asyncio.Semaphore(256)

    async def create(number: int) -> None:
        state = "OPEN" if number >= COUNT - 100 else "CLOSED"
        data = ledger(pairs[number % 3], state, last=9, topic=f"t/n/persistent/topic-{number % 500}")
        async with gate:
            await session.create(ledger_path(number), data)

    await create(0)
    await create(10_000)
    await asyncio.gather(*(create(number) for number in range(1, COUNT) if number != 10_000))
    expected = await ledgers_naming(session, frozenset({B0}), alive=frozenset({B1, B2}))

    reads: list[str] = []
    for left in (3_333, 2_500):
        killed = Killable(session, left)
        with pytest.raises(KilledError):
            await examine_ledgers(killed, subject(), Slice(10**9, 1e9))
        repeated = len(set(reads) & set(killed.reads))
        assert repeated <= PERCENT, f"{repeated} of {COUNT} ledgers were read again"
        reads += killed.reads
    passes = 0
    last = Killable(session)
    found = await examine_ledgers(last, subject(), Slice(2_000, 1e9))
    while isinstance(found, Examining):
        passes += 1
        assert f"of about {COUNT:,}" in str(found)
        found = await examine_ledgers(last, subject(), Slice(2_000, 1e9))
    assert passes >= 3 and len(set(reads) & set(last.reads)) <= PERCENT + 100
    assert (found.scanned, found.naming, found.unfinished) == (COUNT, expected.naming, expected.unfinished)
    assert (found.writers, found.highest, found.only) == (expected.writers, expected.highest, expected.only)

    sizes = {}
    for name in await session.children(SCAN_PATH) or []:
        node = await session.get(f"{SCAN_PATH}/{name}")
        assert node is not None
        sizes[name] = len(node.data)
    assert max(sizes.values()) < 100_000 and sum(sizes.values()) < 20 * COUNT, sizes

    looks = Killable(session)
    found = await examine_ledgers(looks, subject("read-only/a/0", Handles(unloaded=COUNT)), Slice(10**9, 1e9))
    assert isinstance(found, LedgerScan) and found.naming == expected.naming
    assert len(looks.reads) < PERCENT + 100, "what was open, and a few that name it"
    await forget_examination(session)
    assert await session.get(SCAN_PATH) is None
