"""The kazoo adapter when servers stop, hang, lose everything or are not there at all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from e2e.support.eventually import eventually_async
from pulsar_operator.adapters.kazoo_zookeeper import KazooZooKeeper, canonical_servers
from pulsar_operator.ports import ConflictError, RefusedError, UnavailableError
from tests.support.processes.zookeeper import RealZooKeeper

T = TypeVar("T")
EVENTUALLY_SECONDS = 60.0


@pytest.fixture(scope="module")
def process() -> Iterator[RealZooKeeper]:
    with RealZooKeeper() as running:
        yield running


@pytest.fixture
def server(process: RealZooKeeper) -> RealZooKeeper:
    process.cleared()
    return process


@pytest.fixture
async def port() -> AsyncIterator[KazooZooKeeper]:
    # The deadline of a call comes long before the client itself gives up a server that is silent, which it does after
    # two thirds of the session's time.
    adapter = KazooZooKeeper(deadline_seconds=2, session_timeout_seconds=10)
    yield adapter
    await adapter.close()


async def answered(call: Callable[[], Awaitable[T]]) -> T:
    """The first answer that is not UnavailableError, within a deadline."""
    return await eventually_async(call, lambda _: True, what="an answer", retried=UnavailableError)


async def forgotten(port: KazooZooKeeper) -> None:
    """Wait until it has no client any more."""
    await eventually_async(lambda: port.open_ensembles, lambda left: not left, what="no client is open")


async def test_a_session_outlives_restarts_of_the_server(server: RealZooKeeper, port: KazooZooKeeper) -> None:
    session = await port.session(server.servers, "/c")
    await session.create("/a", b"kept")
    server.stop()
    with pytest.raises(UnavailableError, match=server.servers):
        await session.get("/a")
    server.start()
    node = await answered(lambda: session.get("/a"))
    assert node is not None
    assert node.data == b"kept"


async def test_a_client_whose_server_is_gone_is_dropped_without_being_asked(
    server: RealZooKeeper, port: KazooZooKeeper
) -> None:
    await port.session(server.servers)
    server.stop()
    await forgotten(port)


async def test_a_session_sees_an_emptied_server_as_empty(server: RealZooKeeper, port: KazooZooKeeper) -> None:
    session = await port.session(server.servers)
    await session.create("/a", b"")
    server.wipe()
    assert await answered(lambda: session.get("/a")) is None


async def test_a_hanging_server_meets_the_deadline_without_blocking_the_loop(
    server: RealZooKeeper, port: KazooZooKeeper
) -> None:
    session = await port.session(server.servers)
    await session.create("/a", b"")
    server.pause()
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    turning = asyncio.create_task(turn())
    with pytest.raises(UnavailableError, match="did not answer get /a within 2 s"):
        await session.get("/a")
    with pytest.raises(UnavailableError, match="accepted a session"):
        await session.get("/a")
    turning.cancel()
    assert turns > 100
    server.resume()
    assert await answered(lambda: session.get("/a")) is not None


async def test_a_write_without_answer_is_sent_at_most_once(server: RealZooKeeper, port: KazooZooKeeper) -> None:
    session = await port.session(server.servers)
    await session.create("/a", b"")
    server.pause()
    with pytest.raises(UnavailableError):
        # Of any version: a second one would be taken too, and seen.
        await port.run(server.servers, "set /a", lambda client: client.set_async("/a", b"1"))
    server.resume()
    node = await answered(lambda: session.get("/a"))
    assert node is not None
    assert node.version in (0, 1)


@pytest.mark.parametrize("servers", ["127.0.0.1:1", "no-such-host.invalid:2181", "127.0.0.1:1,127.0.0.1:2"])
async def test_nobody_there_is_unavailable_for_everyone_who_waits(servers: str) -> None:
    port = KazooZooKeeper(deadline_seconds=1)
    outcomes = await asyncio.gather(*(port.session(servers) for _ in range(5)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [UnavailableError] * 5
    assert servers in str(outcomes[0])
    assert port.open_ensembles == []
    await port.close()


async def test_sessions_on_one_ensemble_share_a_client_and_its_parallel_opening(
    server: RealZooKeeper, port: KazooZooKeeper
) -> None:
    sessions = await asyncio.gather(*(port.session(server.servers, f"/c{i}") for i in range(20)))
    assert port.open_ensembles == [server.servers]
    await asyncio.gather(*(session.create("/x", b"") for session in sessions))
    root = await port.session(f" {server.servers} ,")
    assert await root.children("/") == sorted([f"c{i}" for i in range(20)] + ["zookeeper"])


async def test_an_idle_client_is_closed_and_opened_again_when_needed(server: RealZooKeeper) -> None:
    port = KazooZooKeeper(deadline_seconds=10, idle_seconds=0.2)
    session = await port.session(server.servers)
    await session.create("/a", b"")
    await forgotten(port)
    with pytest.raises(ConflictError):
        await session.create("/a", b"")
    await port.close()


async def test_a_cancelled_call_leaves_the_client_usable(server: RealZooKeeper, port: KazooZooKeeper) -> None:
    session = await port.session(server.servers)
    waiting = asyncio.create_task(session.create("/a/b/c/d", b""))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await answered(lambda: session.get("/")) is not None


async def test_kazoo_says_nothing_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    port = KazooZooKeeper(deadline_seconds=1)
    with caplog.at_level(logging.DEBUG), pytest.raises(UnavailableError):
        await port.session("127.0.0.1:1,no-such-host.invalid:2181")
    await port.close()
    assert {record.name for record in caplog.records if record.name.startswith("kazoo")} == set()


async def test_servers_are_written_one_way() -> None:
    assert canonical_servers("a") == "a:2181"
    assert canonical_servers(" a:1 , b ,") == "a:1,b:2181"
    for nonsense in ("", ",", " "):
        with pytest.raises(RefusedError):
            canonical_servers(nonsense)
    port = KazooZooKeeper(deadline_seconds=1)
    with pytest.raises(RefusedError, match="do not have the form host:port"):
        await port.session("host:notaport")
    await port.close()


async def test_watches_are_told_when_the_session_ends_and_work_again_with_the_next(
    server: RealZooKeeper, port: KazooZooKeeper
) -> None:
    session = await port.session(server.servers)
    told = [asyncio.Event() for _ in range(3)]
    for number, event in enumerate(told):
        await session.watch(f"/{number}", event.set)
    server.stop()
    async with asyncio.timeout(EVENTUALLY_SECONDS):
        for event in told:
            await event.wait()
    server.start()
    again = asyncio.Event()
    await answered(lambda: session.watch("/0", again.set))
    await answered(lambda: session.create("/0", b""))
    async with asyncio.timeout(EVENTUALLY_SECONDS):
        await again.wait()


async def test_a_watch_that_was_not_answered_tells_nothing(server: RealZooKeeper, port: KazooZooKeeper) -> None:
    session = await port.session(server.servers)
    told: list[int] = []
    server.pause()
    with pytest.raises(UnavailableError):
        await session.watch("/a", lambda: told.append(1))
    server.resume()
    await answered(lambda: session.create("/a", b""))
    last = asyncio.Event()
    await answered(lambda: session.watch("/b", last.set))
    await answered(lambda: session.create("/b", b""))
    async with asyncio.timeout(EVENTUALLY_SECONDS):
        await last.wait()
    assert told == []


async def test_a_watch_whose_session_ended_before_the_answer_tells_nothing(server: RealZooKeeper) -> None:
    """The end of the client is seen before the error is."""
    port = KazooZooKeeper(deadline_seconds=EVENTUALLY_SECONDS, session_timeout_seconds=4)
    try:
        session = await port.session(server.servers)
        told: list[int] = []
        server.pause()
        with pytest.raises(UnavailableError):
            await session.watch("/a", lambda: told.append(1))
        assert port.open_ensembles == []
        assert told == []
    finally:
        server.resume()
        await port.close()


async def test_a_client_with_a_watch_is_not_idle(server: RealZooKeeper) -> None:
    watching, idle = KazooZooKeeper(idle_seconds=0.2), KazooZooKeeper(idle_seconds=0.2)
    try:
        told = asyncio.Event()
        await (await watching.session(server.servers)).watch("/a", told.set)
        # As soon as an equally idle client without a watch is gone, this one would be too.
        await (await idle.session(server.servers)).get("/")
        await forgotten(idle)
        assert watching.open_ensembles == [server.servers]
        assert not told.is_set()
        await (await idle.session(server.servers)).create("/a", b"")
        async with asyncio.timeout(EVENTUALLY_SECONDS):
            await told.wait()
        await forgotten(watching)
    finally:
        await watching.close()
        await idle.close()
