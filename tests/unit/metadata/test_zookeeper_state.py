"""The state of one server, from sockets that answer like ZooKeeper and from some that do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from pulsar_operator.adapters.kazoo_zookeeper import KazooZooKeeper
from pulsar_operator.adapters.zookeeper_state import MOST_BYTES, ServerStates, address_of
from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState
from pulsar_operator.ports import RefusedError, UnavailableError
from tests.fakes.zookeeper import Call, FakeZooKeeper
from tests.support.cluster.zookeeper_hooks import HookedZooKeeper
from tests.support.core.journal import ZOOKEEPER, Journal, PortCall, TappedZooKeeper

SRVR = """\
Zookeeper version: 3.9.4-7246445ec281f3dbf53dc54e970c914f39713903, built on 2025-08-19 19:53 UTC
Latency min/avg/max: 0/0.0/0
Received: 5
Sent: 4
Connections: 1
Outstanding: 0
Zxid: 0x{zxid:x}
Mode: {mode}
Node count: 5
"""
MNTR = "zk_version\t3.9.4\nzk_server_state\tleader\nzk_synced_followers\t{}\nzk_synced_observers\t7\nzk_learners\t9\n"
NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"
UNLISTED = "{} is not executed because it is not in the whitelist.\n"

Serve = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[tuple[str, list[str]]]:
    """A server's address, and the words it was asked; ``serve`` gets each with where the answer goes."""
    asked: list[str] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked.append((await reader.readexactly(4)).decode())
            await serve(asked[-1], writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        server.close()


def answers(**words: str) -> Serve:
    """As ZooKeeper does: the answer, and the end."""

    async def serve(word: str, writer: asyncio.StreamWriter) -> None:
        text = words[word].encode("utf-8", "surrogateescape")
        # In two pieces, as a network may deliver it.
        writer.write(text[:7])
        await writer.drain()
        await asyncio.sleep(0)
        writer.write(text[7:])
        await writer.drain()

    return serve


async def state_of(serve: Serve, states: ServerStates | None = None) -> tuple[ServerState, list[str]]:
    async with listening(serve) as (server, asked):
        return await (states or ServerStates()).of(server), asked


@pytest.mark.parametrize("mode", ["follower", "observer", "standalone"])
async def test_who_does_not_lead_is_asked_once(mode: str) -> None:
    found, asked = await state_of(answers(srvr=SRVR.format(mode=mode, zxid=0x100000002)))
    assert (found.mode, found.zxid, found.synced_followers) == (mode, 0x100000002, None)
    assert asked == ["srvr"]


@pytest.mark.parametrize(("number", "followers"), [("0", 0), ("2", 2), ("2.0", 2), ("12", 12)])
async def test_a_leader_says_how_many_follow(number: str, followers: int) -> None:
    serve = answers(srvr=SRVR.format(mode="leader", zxid=2**63 + 1), mntr=MNTR.format(number))
    assert await state_of(serve) == (ServerState("leader", 2**63 + 1, followers), ["srvr", "mntr"])


async def test_lines_may_end_as_on_windows() -> None:
    text = SRVR.format(mode="leader", zxid=1).replace("\n", "\r\n")
    serve = answers(srvr=text, mntr=MNTR.format("1.0").replace("\n", "\r\n"))
    assert (await state_of(serve))[0] == ServerState("leader", 1, 1)


@pytest.mark.parametrize(
    ("srvr", "words"),
    [
        (NOT_SERVING, "not currently serving requests"),
        (UNLISTED.format("srvr"), "not in the whitelist"),
        ("", "answered command srvr with: nothing"),
        ("\n \n", "nothing"),
        ("HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/1.1 400"),
        (SRVR.format(mode="read-only", zxid=1), "answered command srvr with"),
        (SRVR.format(mode="leading", zxid=1), "answered command srvr with"),
        (SRVR.format(mode="", zxid=1), "answered command srvr with"),
        (SRVR.format(mode="follower", zxid=1).replace("Zxid: 0x1", "Zxid: 0x"), "answered command srvr with"),
        (SRVR.format(mode="follower", zxid=2**64), "answered command srvr with"),
        ("say Mode: follower\nZxid: 0x1\n", "say Mode"),
        ("Mode: follower\nand Zxid: 0x1\n", "Mode: follower"),
        ("\udcff\udcfe\0\x1b[31m\u202e\n", r"with: [?\ufffd]+\[31m\?$"),
    ],
)
async def test_anything_else_is_unavailable_in_its_words(srvr: str, words: str) -> None:
    with pytest.raises(UnavailableError, match=words) as raised:
        await state_of(answers(srvr=srvr))
    assert len(str(raised.value)) < 300 and str(raised.value).isprintable()


async def test_words_are_cut_and_without_secrets() -> None:
    with pytest.raises(UnavailableError) as raised:
        await state_of(answers(srvr="password=s3cret " + "x" * 5000))
    assert "s3cret" not in str(raised.value) and len(str(raised.value)) < 300


@pytest.mark.parametrize(
    "mntr",
    [
        NOT_SERVING,
        UNLISTED.format("mntr"),
        "",
        MNTR.format("2").replace("zk_synced_followers\t2\n", ""),
        MNTR.format("-1"),
        MNTR.format("NaN"),
        MNTR.format("1.5"),
        MNTR.format("99999"),
        MNTR.format(""),
        "x zk_synced_followers\t2\n",
    ],
)
async def test_a_leader_that_does_not_say_who_follows_is_unavailable(mntr: str) -> None:
    """It may have stopped leading between the two words."""
    with pytest.raises(UnavailableError, match="answered command mntr with"):
        await state_of(answers(srvr=SRVR.format(mode="leader", zxid=1), mntr=mntr))


async def silent(word: str, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def never_closed(word: str, writer: asyncio.StreamWriter) -> None:
    """Whether that was all of it, nobody knows."""
    writer.write(SRVR.format(mode="follower", zxid=1).encode())
    await asyncio.sleep(60)


async def dripping(word: str, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.01)


async def second_word_never_answered(word: str, writer: asyncio.StreamWriter) -> None:
    if word == "srvr":
        writer.write(SRVR.format(mode="leader", zxid=1).encode())
    else:
        await asyncio.sleep(60)


@pytest.mark.parametrize("serve", [silent, never_closed, dripping, second_word_never_answered])
async def test_the_deadline_is_for_everything(serve: Serve) -> None:
    with pytest.raises(UnavailableError, match=r"did not answer within 0\.3 s"):
        await state_of(serve, ServerStates(deadline_seconds=0.3))


@pytest.mark.parametrize("word", ["srvr", "mntr"])
async def test_an_answer_without_end_is_cut(word: str) -> None:
    """It is given up where it is too long, not at the deadline, and what it began with is no answer."""
    sent = 0

    async def serve(asked: str, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        start = SRVR.format(mode="leader", zxid=1) if asked == "srvr" else MNTR.format("2")
        writer.write(start.encode())
        while asked == word and sent < 1024:
            writer.write(b"x" * 1023 + b"\n")
            await writer.drain()
            sent += 1

    with pytest.raises(UnavailableError, match=f"answered {word} with more than {MOST_BYTES} bytes"):
        await state_of(serve, ServerStates(deadline_seconds=30))
    assert sent >= MOST_BYTES // 1024 - 1


async def test_an_answer_of_the_most_is_read() -> None:
    text = SRVR.format(mode="follower", zxid=1)
    text += "x" * (MOST_BYTES - len(text))
    assert (await state_of(answers(srvr=text)))[0] == ServerState("follower", 1)
    with pytest.raises(UnavailableError, match="more than"):
        await state_of(answers(srvr=text + "x"))


async def test_a_name_that_does_not_resolve_and_one_that_cannot() -> None:
    for host in ("no-such-host.invalid", "a" * 64 + ".example"):
        with pytest.raises(UnavailableError, match=r"does not answer|did not answer"):
            await ServerStates().of(f"{host}:2181")


def test_addresses() -> None:
    assert address_of("zk-0.zk.ns.svc.cluster.local:2181") == ("zk-0.zk.ns.svc.cluster.local", 2181)
    assert address_of("[::1]:65535") == ("::1", 65535)
    for nonsense in (
        "",
        "zk",
        "zk:",
        ":1",
        "[]:1",
        "zk:0",
        "zk:65536",
        "zk:-1",
        "zk:+1",
        "zk: 1",
        "zk:\u0663",
        "a:1,b:2",
    ):
        with pytest.raises(RefusedError, match="does not have the form host:port"):
            address_of(nonsense)


async def test_the_port_asks_one_server_and_keeps_nothing() -> None:
    port = KazooZooKeeper()
    async with listening(answers(srvr=SRVR.format(mode="follower", zxid=1))) as (server, asked):
        assert await port.server_state(server) == ServerState("follower", 1)
        assert port.open_ensembles == []
        await port.close()
        with pytest.raises(UnavailableError, match="closed"):
            await port.server_state(server)
    assert asked == ["srvr"]


async def test_the_fake_answers_what_it_is_told_through_hooks_and_taps() -> None:
    fake, journal = FakeZooKeeper(), Journal()
    hooked = HookedZooKeeper(fake)
    port = TappedZooKeeper(hooked, journal)
    with pytest.raises(UnavailableError):
        await port.server_state("zk-0:2181")
    fake.states["zk-0:2181"] = ServerState("leader", 5, 2)
    assert await port.server_state("zk-0:2181") == ServerState("leader", 5, 2)
    call = Call("zk-0:2181", "state", "", 1)
    assert (hooked.calls[1], fake.calls[1]) == (call, call) and not call.is_write
    assert journal.calls[1] == PortCall(ZOOKEEPER, "state", "zk-0:2181", "", False) and journal.attempts == []

    def fail(_: Call) -> None:
        raise UnavailableError("cut")

    for hooks in (fake.before, fake.after, hooked.before, hooked.after):
        hooks.append(fail)
        with pytest.raises(UnavailableError, match="cut"):
            await port.server_state("zk-0:2181")
        hooks.clear()
    assert await port.server_state("zk-0:2181") == ServerState("leader", 5, 2)
