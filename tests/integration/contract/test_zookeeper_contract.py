"""What every ZooKeeperPort does: the same tests on the fake and on kazoo with a real server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from pulsar_operator.adapters.kazoo_zookeeper import KazooZooKeeper
from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState
from pulsar_operator.ports import (
    ConflictError,
    Node,
    NotFoundError,
    RefusedError,
    UnavailableError,
    ZooKeeperPort,
    ZooKeeperSession,
)
from tests.fakes.zookeeper import FakeZooKeeper
from tests.support.processes.launching import free_ports
from tests.support.processes.zookeeper import RealZooKeeper, real_zookeeper

__all__ = ["real_zookeeper"]


@dataclass
class Subject:
    """A port, the servers string of an ensemble, and a chroot nobody else uses."""

    port: ZooKeeperPort
    servers: str
    chroot: str

    async def session(self) -> ZooKeeperSession:
        return await self.port.session(self.servers, self.chroot)


@pytest.fixture(params=["fake", "kazoo"])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    chroot = f"/contract/{uuid.uuid4().hex}"
    if request.param == "fake":
        yield Subject(FakeZooKeeper(), "zk:2181", chroot)
        return
    server: RealZooKeeper = request.getfixturevalue("real_zookeeper")
    port = KazooZooKeeper()
    yield Subject(port, server.servers, chroot)
    await port.close()


async def test_opening_a_session_creates_nothing_not_even_the_chroot(subject: Subject) -> None:
    below = await subject.session()
    whole = await subject.port.session(subject.servers)
    assert await below.get("/") is None
    assert await below.get("/a") is None
    assert await below.children("/") is None
    assert await whole.get(subject.chroot) is None


async def test_create_makes_the_missing_parents_empty_and_the_chroot_with_them(subject: Subject) -> None:
    session = await subject.session()
    await session.create("/a/b/c", b"x")
    assert await session.get("/a/b/c") == Node(b"x", 0)
    assert await session.get("/a/b") == Node(b"", 0)
    assert await session.get("/") == Node(b"", 0)
    assert await (await subject.port.session(subject.servers, "/")).get(subject.chroot + "/a/b/c") == Node(b"x", 0)


async def test_create_of_an_existing_node_conflicts_and_keeps_it(subject: Subject) -> None:
    session = await subject.session()
    await session.create("/a", b"first")
    with pytest.raises(ConflictError):
        await session.create("/a", b"second")
    with pytest.raises(ConflictError):
        await session.create("/", b"")
    assert await session.get("/a") == Node(b"first", 0)


async def test_one_of_many_concurrent_creates_of_a_node_wins_and_shared_parents_are_no_conflict(
    subject: Subject,
) -> None:
    session = await subject.session()
    outcomes = await asyncio.gather(
        *(session.create(f"/p/q/{i % 2}", str(i).encode()) for i in range(10)), return_exceptions=True
    )
    assert [type(o) for o in outcomes if o is not None] == [ConflictError] * 8
    assert await session.children("/p/q") == ["0", "1"]


async def test_children_are_sorted_names_and_none_without_the_node(subject: Subject) -> None:
    session = await subject.session()
    for name in ("b", "a", "c/d"):
        await session.create(f"/n/{name}", b"")
    assert await session.children("/n") == ["a", "b", "c"]
    assert await session.children("/n/a") == []
    assert await session.children("/absent") is None


async def test_set_is_compare_and_set(subject: Subject) -> None:
    session = await subject.session()
    await session.create("/a", b"0")
    await session.set("/a", b"1", version=0)
    assert await session.get("/a") == Node(b"1", 1)
    for stale in (0, 2, -1):
        with pytest.raises(ConflictError):
            await session.set("/a", b"2", version=stale)
    with pytest.raises(NotFoundError):
        await session.set("/absent", b"", version=0)
    assert await session.get("/a") == Node(b"1", 1)


async def test_a_node_that_was_made_again_is_told_from_the_one_before(subject: Subject) -> None:
    session = await subject.session()
    await session.create("/a", b"x")
    first = await session.get("/a")
    await session.set("/a", b"y", version=0)
    second = await session.get("/a")
    await session.delete("/a", version=1)
    await session.create("/a", b"x")
    third = await session.get("/a")
    assert first is not None and second is not None and third is not None
    assert first.created == second.created < third.created and (first.version, third.version) == (0, 0)


async def test_delete_wants_the_version_and_no_children(subject: Subject) -> None:
    session = await subject.session()
    await session.create("/a/b", b"")
    with pytest.raises(ConflictError):
        await session.delete("/a", version=0)
    for stale in (1, -1):
        with pytest.raises(ConflictError):
            await session.delete("/a/b", version=stale)
    await session.delete("/a/b", version=0)
    await session.delete("/a", version=0)
    assert await session.get("/a") is None
    with pytest.raises(NotFoundError):
        await session.delete("/a", version=0)


async def test_content_is_bytes_of_any_kind(subject: Subject) -> None:
    session = await subject.session()
    content = bytes(range(256)) * 100
    await session.create("/bin/ä-é", content)
    assert await session.get("/bin/ä-é") == Node(content, 0)
    assert await session.children("/bin") == ["ä-é"]


@pytest.mark.parametrize("path", ["", "a", "/a/", "/a//b", "/../x", "/a/./b", "/a/..", "/a\0b"])
async def test_paths_that_are_none_are_refused(subject: Subject, path: str) -> None:
    session = await subject.session()
    with pytest.raises(RefusedError):
        await session.get(path)
    with pytest.raises(RefusedError):
        await session.create(path, b"")
    if path:
        with pytest.raises(RefusedError):
            await subject.port.session(subject.servers, path)


async def test_a_closed_port_is_unavailable(subject: Subject) -> None:
    session = await subject.session()
    await subject.port.close()
    with pytest.raises(UnavailableError):
        await session.get("/")
    with pytest.raises(UnavailableError):
        await subject.session()


async def test_a_server_says_what_it_is(subject: Subject) -> None:
    """The real one is alone; what an ensemble says is in test_zookeeper_state_real.py."""
    if isinstance(subject.port, FakeZooKeeper):
        subject.port.states[subject.servers] = ServerState("standalone", 7)
    state = await subject.port.server_state(subject.servers)
    assert (state.mode, state.synced_followers) == ("standalone", None) and state.zxid >= 0


async def test_a_server_that_is_not_there_is_unavailable(subject: Subject) -> None:
    (port,) = free_ports(1)
    with pytest.raises(UnavailableError, match=f"127.0.0.1:{port}"):
        await subject.port.server_state(f"127.0.0.1:{port}")


@pytest.mark.parametrize("server", ["", "zk", "zk:", ":2181", "zk:port", "zk:0", "zk:65536", "a:2181,b:2181"])
async def test_one_server_is_host_and_port(subject: Subject, server: str) -> None:
    with pytest.raises(RefusedError, match="does not have the form host:port"):
        await subject.port.server_state(server)


async def test_a_closed_port_asks_no_server(subject: Subject) -> None:
    if isinstance(subject.port, FakeZooKeeper):
        subject.port.states[subject.servers] = ServerState("standalone", 7)
    await subject.port.close()
    with pytest.raises(UnavailableError):
        await subject.port.server_state(subject.servers)


class Told:
    """Counts what a watch says."""

    def __init__(self) -> None:
        self.times = 0
        self.event = asyncio.Event()

    def __call__(self) -> None:
        self.times += 1
        self.event.set()

    async def soon(self) -> None:
        """Wait until it was told. Raises TimeoutError."""
        async with asyncio.timeout(10):
            await self.event.wait()
        self.event.clear()


async def test_a_watch_tells_once_of_creation_change_and_deletion(subject: Subject) -> None:
    session, told = await subject.session(), Told()
    assert await session.watch("/a", told) is None
    await session.create("/a", b"0")
    await told.soon()
    states = [await session.watch("/a", told)]
    await session.set("/a", b"1", version=0)
    await told.soon()
    states.append(await session.watch("/a", told))
    await session.delete("/a", version=1)
    await told.soon()
    assert await session.watch("/a", told) is None
    await session.create("/a", b"0")
    await told.soon()
    states.append(await session.watch("/a", told))
    assert None not in states and len(set(states)) == 3, "each write leaves another state, also one made anew"
    assert told.times == 4


async def test_a_watch_that_fired_is_over_and_reads_and_children_fire_none(subject: Subject) -> None:
    session, told, last = await subject.session(), Told(), Told()
    await session.create("/a", b"0")
    await session.watch("/a", told)
    await session.get("/a")
    await session.create("/a/child", b"")
    await session.set("/a/child", b"1", version=0)
    await session.set("/a", b"1", version=0)
    await told.soon()
    await session.watch("/b", last)
    await session.set("/a", b"2", version=1)
    await session.create("/b", b"")
    await last.soon()  # events come in order: the one of /a would be here
    assert told.times == 1


async def test_several_watches_of_one_node_are_all_told(subject: Subject) -> None:
    session, told = await subject.session(), [Told() for _ in range(3)]
    for each in told:
        await session.watch("/a", each)
    await session.create("/a", b"")
    for each in told:
        await each.soon()


async def test_a_path_that_cannot_be_watched_is_refused(subject: Subject) -> None:
    session, told = await subject.session(), Told()
    for path in ("a", "/a//b", "/../a"):
        with pytest.raises(RefusedError):
            await session.watch(path, told)
    assert told.times == 0
