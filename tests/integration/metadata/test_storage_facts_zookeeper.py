"""Facts about storage on a real ZooKeeper, also as BookKeeper's and Pulsar's own classes write it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pulsar_operator.adapters.kazoo_zookeeper import KazooZooKeeper
from pulsar_operator.api.constants import Reason
from pulsar_operator.controllers.dataplane.bookkeeper.storage_facts import storage_facts
from pulsar_operator.domain.bookkeeper.ledgers import LedgerState, LedgerUse
from pulsar_operator.domain.bookkeeper.storage_facts import replicated
from pulsar_operator.domain.bookkeeper.znodes import parse_mark
from tests.support.bookkeeper.classes import written_store
from tests.support.bookkeeper.every_ledger import ledgers_naming
from tests.support.bookkeeper.paths import LOCKS, under_replicated_path
from tests.support.contracts.storage import StorageContract, Store
from tests.support.processes.zookeeper import RealZooKeeper, real_zookeeper

__all__ = ["real_zookeeper"]

B0, B1, B2 = (f"c-bookie-{n}.c-bookie-headless.pulsar.svc.cluster.local:3181" for n in range(3))


@pytest.fixture
async def kazoo() -> AsyncIterator[KazooZooKeeper]:
    port = KazooZooKeeper(deadline_seconds=60)
    yield port
    await port.close()


@pytest.fixture
async def store(real_zookeeper: RealZooKeeper, kazoo: KazooZooKeeper) -> Store:
    return await Store(await kazoo.session(real_zookeeper.servers, f"/t{uuid.uuid4().hex}")).set_up()


class TestStorageContractZooKeeper(StorageContract):
    """See tests/support/contracts/storage.py."""


async def test_what_bookkeeper_and_pulsar_write_themselves(
    real_zookeeper: RealZooKeeper, kazoo: KazooZooKeeper, tmp_path: Path
) -> None:
    session = await kazoo.session(real_zookeeper.servers)
    with written_store(real_zookeeper.servers, tmp_path / "java.log"):
        facts = await storage_facts(session)
        scan = await ledgers_naming(session, frozenset({B1}))
        cookie = await session.get(f"/ledgers/cookies/{B0}")
        locks = await session.children(LOCKS)
    assert (facts.writable, facts.readonly, facts.missing) == ({B0}, {B1}, {B2})
    assert facts.cookies == {B0, B1, B2}
    assert (facts.auditor, facts.disabled) == (B2, True)
    lacking = facts.under_replicated
    assert (lacking.count, lacking.at_least, lacking.ledgers) == (3, False, (4, 9, (1 << 32) + 6))
    assert lacking.oldest is not None
    assert cookie is not None
    assert f'bookieHost: "{B0}"\n'.encode() in cookie.data
    assert len(locks or []) == 1
    assert (scan.scanned, scan.naming, scan.undecodable) == (4, 3, 0)
    assert [(row.ledger, row.state, row.use, row.topic, row.cursor) for row in (*scan.not_closed, *scan.closed)] == [
        (3, LedgerState.OPEN, LedgerUse.DATA, "persistent://public/default/a-partition-3", None),
        (4, LedgerState.IN_RECOVERY, LedgerUse.CURSOR, "persistent://t/n/a b+cä%", "sub/1"),
        ((1 << 32) + 6, LedgerState.CLOSED, LedgerUse.DATA, "persistent://public/default/a", None),
    ]
    assert replicated(facts)[1] is Reason.REPLICATION_DISABLED
    mark = await session.get(under_replicated_path((1 << 32) + 6))
    assert mark is not None
    assert parse_mark(mark.data).replicas == (B2, B2.replace("-2.", "-3."))
    facts = await storage_facts(session)  # the session of those who wrote it is closed
    assert (facts.auditor, facts.registered, facts.missing) == (None, frozenset(), {B0, B1, B2})
