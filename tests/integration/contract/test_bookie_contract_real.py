"""A real bookie and a real auto-recovery, by the operator's own adapter."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from e2e.support.eventually import eventually_async
from pulsar_operator.adapters.bookie import HttpBookies
from pulsar_operator.adapters.kazoo_zookeeper import KazooZooKeeper
from pulsar_operator.domain.bookkeeper.znodes import ledger_path
from pulsar_operator.domain.dataplane.registration.metadata import Record, RecordState, local_nodes
from pulsar_operator.ports import ConflictError, NotFoundError, RefusedError, UnavailableError, ZooKeeperSession
from tests.support.contracts.bookies import BookiesContract, Ground
from tests.support.processes.bookkeeper import AUTORECOVERY, BOOKIE, BookKeeperProcess
from tests.support.processes.launching import free_ports
from tests.support.processes.zookeeper import RealZooKeeper, real_zookeeper

__all__ = ["real_zookeeper"]

CHROOT = "/c"
DEADLINE = 60.0
"""Seconds of a call, instead of 5: three JVMs share the machine with whatever else runs on it."""


@dataclass
class Running:
    """The processes of the module, and the port of their HTTP servers."""

    bookie: BookKeeperProcess
    autorecovery: BookKeeperProcess
    port: int


async def prepare(servers: str) -> None:
    """What the operator writes before bookies start."""
    kazoo = KazooZooKeeper(deadline_seconds=DEADLINE)
    session = await kazoo.session(servers, CHROOT)
    for write in local_nodes(Record("id-1", "c", RecordState.INITIALIZING), "ns/c"):
        await session.create(write.path, write.data)
    await kazoo.close()


@pytest.fixture(scope="module")
def running(real_zookeeper: RealZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    asyncio.run(prepare(real_zookeeper.servers))
    folder: Path = tmp_path_factory.mktemp("bookkeeper")
    store = real_zookeeper.servers + CHROOT
    http, port = free_ports(2)
    bookie = BookKeeperProcess(
        BOOKIE,
        folder / "bookie",
        host="127.0.0.2",
        http_port=http,
        bookie_port=port,
        store=store,
        ready="/api/v1/bookie/is_ready",
    )
    autorecovery = BookKeeperProcess(
        AUTORECOVERY,
        folder / "autorecovery",
        host="127.0.0.3",
        http_port=http,
        bookie_port=port,
        store=store,
        ready="/heartbeat",
    )
    with ExitStack() as stack:
        for process in (bookie, autorecovery):  # both start at once
            stack.enter_context(process)
        for process in (bookie, autorecovery):
            process.wait()
        yield Running(bookie, autorecovery, http)


async def gone(session: ZooKeeperSession, path: str) -> bool:
    """Deletes the node; auto-recovery, which may be closing this ledger, can write between the two calls."""
    node = await session.get(path)
    if node is None:
        return True
    with suppress(ConflictError):
        await session.delete(path, version=node.version)
    return False


@pytest.fixture
async def ground(running: Running, real_zookeeper: RealZooKeeper) -> AsyncIterator[Ground]:
    kazoo = KazooZooKeeper(deadline_seconds=DEADLINE)
    session = await kazoo.session(real_zookeeper.servers, CHROOT)
    port = HttpBookies(port=running.port, deadline=DEADLINE)

    async def restart() -> None:
        # Not in a thread of its own: the process would end with it (launching.py, pdeathsig).
        running.bookie.restart()

    async def work() -> None:
        """It works by itself."""

    bookie = running.bookie
    yield Ground(port, session, bookie.bookie_id, bookie.host, running.autorecovery.host, "127.0.0.4", restart, work)
    await port.set_readonly(bookie.host, False)
    await eventually_async(partial(gone, session, ledger_path(1)), what="the ledger is deleted", within=60)
    await kazoo.close()


class TestBookiesContractReal(BookiesContract):
    """See tests/support/contracts/bookies.py."""


async def test_bookkeeper_s_own_words_tell_a_refusal_from_a_missing_endpoint(running: Running) -> None:
    port = HttpBookies(port=running.port, deadline=DEADLINE)
    with pytest.raises(NotFoundError, match="HTTP 404, because the bookie has no such endpoint"):
        await port._call("GET", running.bookie.host, "/api/v1/bookie/nothing")
    with pytest.raises(RefusedError, match="404: ERROR parameters"):
        await port._call("PUT", running.autorecovery.host, "/api/v1/autorecovery/bookie", "rubbish")
    with pytest.raises(UnavailableError, match="500"):
        await port._call("PUT", running.bookie.host, "/api/v1/bookie/state/readonly", "rubbish")


async def test_with_the_store_away_the_deadline_ends_a_call(running: Running, real_zookeeper: RealZooKeeper) -> None:
    port = HttpBookies(port=running.port, deadline=2)
    real_zookeeper.pause()
    try:
        began = time.monotonic()
        with pytest.raises(UnavailableError, match="no answer within 2 s"):
            await port.recover(running.autorecovery.host, running.bookie.bookie_id)
        assert time.monotonic() - began < DEADLINE
    finally:
        real_zookeeper.resume()
