"""A real bookie that starts while an earlier process of its id is still registered: by Java alone, and by the start
program."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from e2e.support.eventually import LOCAL, eventually
from pulsar_operator.adapters.kazoo_zookeeper import KazooZooKeeper
from pulsar_operator.domain.dataplane.registration.metadata import Record, RecordState, local_nodes
from tests.support.processes.bookkeeper import BOOKIE, START_SECONDS, BookKeeperProcess
from tests.support.processes.launching import free_ports
from tests.support.processes.zookeeper import RealZooKeeper, real_zookeeper

__all__ = ["real_zookeeper"]

CHROOT = "/c"
READY = "/api/v1/bookie/is_ready"


async def prepare(servers: str) -> None:
    """What the operator writes before bookies start."""
    kazoo = KazooZooKeeper(deadline_seconds=60)
    session = await kazoo.session(servers, CHROOT)
    for write in local_nodes(Record("id-1", "c", RecordState.INITIALIZING), "ns/c"):
        await session.create(write.path, write.data)
    await kazoo.close()


@pytest.fixture(scope="module")
def stopped(real_zookeeper: RealZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> BookKeeperProcess:
    """A bookie that served once, and was stopped."""
    asyncio.run(prepare(real_zookeeper.servers))
    http, port = free_ports(2)
    store = real_zookeeper.servers + CHROOT
    folder: Path = tmp_path_factory.mktemp("bookie")
    bookie = BookKeeperProcess(
        BOOKIE, folder, host="127.0.0.4", http_port=http, bookie_port=port, store=store, ready=READY
    )
    with bookie:
        bookie.wait()
        with client(real_zookeeper) as asked:
            data, _ = asked.get(f"{CHROOT}/ledgers/available/{bookie.bookie_id}")
            asked.create("/registration", data)
    return bookie


@contextmanager
def client(zookeeper: RealZooKeeper) -> Iterator[KazooClient]:
    found = KazooClient(hosts=zookeeper.servers, timeout=10)
    found.start(timeout=30)
    try:
        yield found
    finally:
        found.stop()
        found.close()


@contextmanager
def earlier(zookeeper: RealZooKeeper, bookie: BookKeeperProcess) -> Iterator[None]:
    """The session of an earlier process of the bookie, with what that registered."""
    with client(zookeeper) as session:
        data, _ = session.get("/registration")
        session.create(f"{CHROOT}/ledgers/available/{bookie.bookie_id}", data, ephemeral=True)
        yield


def says(bookie: BookKeeperProcess, words: str) -> None:
    def told() -> bool:
        text = bookie.log.read_text(errors="replace")
        assert words in text, text[-2000:]
        return True

    eventually(told, within=START_SECONDS, what=f"the bookie says {words}", every=LOCAL)


def test_java_alone_takes_its_own_registration_for_that_of_another(
    real_zookeeper: RealZooKeeper, stopped: BookKeeperProcess
) -> None:
    """The reason for the wait: a Pulsar that knows its own needs none."""
    try:
        with earlier(real_zookeeper, stopped):
            stopped.begin()
            says(stopped, "is already locked")
    finally:
        stopped.stop()


def test_the_start_program_waits_and_the_bookie_registers(
    real_zookeeper: RealZooKeeper, stopped: BookKeeperProcess
) -> None:
    try:
        with earlier(real_zookeeper, stopped):
            stopped.begin_as_in_the_image()
            says(stopped, f"to expire: {CHROOT}/ledgers/available/{stopped.bookie_id}, 90 s at most")
        stopped.wait()
        said = stopped.log.read_text(errors="replace")
        assert "the registration of an earlier process is gone, after" in said
        assert "is already locked" not in said
    finally:
        stopped.stop()
