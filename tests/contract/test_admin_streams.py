"""The adapter's streams over HTTP: pieces, deadlines, breaks, limits, and what else runs meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from aiohttp import web

from pulsar_operator.adapters.admin import PIECE_BYTES, AiohttpAdmin
from pulsar_operator.balance.model.load import CostModel
from pulsar_operator.balance.model.pieces import FormatError
from pulsar_operator.balance.model.statistics import TopicTraffic
from pulsar_operator.ports import (
    AdminEndpoint,
    DeadlineError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from tests.fakes.broker_stats import FakeTopic, document
from tests.support.core.recorder import CountingMetrics

PATH = ("broker-stats", "topics")
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@pytest.fixture
async def admin() -> AsyncIterator[AiohttpAdmin]:
    """The adapter, whose calls take short answers alone."""
    found = AiohttpAdmin(CountingMetrics(), deadline=30.0, most_bytes=100_000, streams=2)
    yield found
    await found.close()


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[AdminEndpoint]:
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield AdminEndpoint("a", f"http://127.0.0.1:{runner.addresses[0][1]}")
    finally:
        await runner.cleanup()


def streaming(pieces: list[bytes], *, then: Callable[[web.BaseRequest], Awaitable[None]] | None = None) -> Handler:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        if then is not None:
            await then(request)
        return response

    return answer


async def test_an_answer_longer_than_a_call_takes(admin: AiohttpAdmin) -> None:
    topics = [FakeTopic(f"persistent://t/n/{number}", 1.0, 1.0, 10.0, 10.0, 1, (1,)) for number in range(500)]
    pieces = list(document(topics, bundles=1))
    reader, sizes = TopicTraffic(CostModel(), lambda _: False), []

    def feed(piece: bytes) -> None:
        sizes.append(len(piece))
        reader.feed(piece)

    async with serving(streaming(pieces)) as endpoint:
        with pytest.raises(UnavailableError, match="more than 100000 bytes"):
            await admin.call(endpoint, "GET", PATH)
        await admin.stream(endpoint, PATH, feed)
    reader.end()
    assert len(reader.namespaces["t/n"].cells()) == 500
    assert sum(sizes) == sum(map(len, pieces)) > 100_000 and max(sizes) <= PIECE_BYTES


async def test_a_broker_that_never_ends_its_answer_is_cut_at_the_deadline(admin: AiohttpAdmin) -> None:
    async def forever(request: web.BaseRequest) -> None:
        await asyncio.Event().wait()

    async with serving(streaming([b'{"a":'], then=forever)) as endpoint:
        with pytest.raises(DeadlineError, match=r"got no complete answer within 0\.3 s \(received 5 bytes\)"):
            await admin.stream(endpoint, PATH, lambda _: None, deadline=0.3)


async def test_a_broker_that_sends_nothing_more_is_not_waited_for() -> None:
    """One that goes on to send is, although it takes longer in all."""

    async def slowly(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(8):
            await response.write(b"x")
            await asyncio.sleep(0.2)
        if request.path.endswith("metrics"):
            await asyncio.Event().wait()
        return response

    admin, got = AiohttpAdmin(CountingMetrics(), silence=1.0), list[bytes]()
    try:
        async with serving(slowly) as endpoint:
            await admin.stream(endpoint, PATH, got.append, deadline=60)
            assert b"".join(got) == b"x" * 8
            with pytest.raises(DeadlineError, match=r"received no data for 1 s \(received 8 bytes\)"):
                await admin.stream(endpoint, ("broker-stats", "metrics"), got.append, deadline=60)
    finally:
        await admin.close()


async def test_a_broker_that_never_begins_is_cut_at_the_deadline(admin: AiohttpAdmin) -> None:
    async def hang(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(hang) as endpoint:
        with pytest.raises(DeadlineError, match=r"got no complete answer within 0\.3 s$"):
            await admin.stream(endpoint, PATH, lambda _: None, deadline=0.3)


async def test_an_answer_that_breaks_off_is_not_asked_again(admin: AiohttpAdmin) -> None:
    asked: list[str] = []
    got: list[bytes] = []

    taken = asyncio.Event()

    def taking(piece: bytes) -> None:
        got.append(piece)
        taken.set()

    async def cut(request: web.BaseRequest) -> None:
        asked.append(request.path)
        await taken.wait()
        assert request.transport is not None
        request.transport.abort()

    async with serving(streaming([b"x" * 1000], then=cut)) as endpoint:
        with pytest.raises(UnavailableError, match=r"failed after 1000 bytes of the answer \("):
            await admin.stream(endpoint, PATH, taking, deadline=30)
    assert len(asked) == 1 and b"".join(got) == b"x" * 1000


async def test_what_passes_before_the_answer_is_tried_again(admin: AiohttpAdmin) -> None:
    asked: list[str] = []
    got: list[bytes] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(status=503) if len(asked) < 3 else web.Response(body=b"[1]")

    async with serving(answer) as endpoint:
        await admin.stream(endpoint, PATH, got.append)
    assert len(asked) == 3 and b"".join(got) == b"[1]"


@pytest.mark.parametrize(
    ("status", "error"), [(404, NotFoundError), (403, RefusedError), (500, UnavailableError), (204, None)]
)
async def test_errors_are_those_of_a_call(admin: AiohttpAdmin, status: int, error: type[Exception] | None) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"reason": "bang"}, status=status) if error else web.Response(status=status)

    got: list[bytes] = []
    async with serving(answer) as endpoint:
        if error is None:
            await admin.stream(endpoint, PATH, got.append)
        else:
            with pytest.raises(error, match="bang"):
                await admin.stream(endpoint, PATH, got.append)
    assert got == []


async def test_what_the_reader_refuses_ends_the_request(admin: AiohttpAdmin) -> None:
    """A document of endless depth: a clear error about it, at once, and the connection is given up."""
    left = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b'{"a":' * 1000)
                await asyncio.sleep(0)
        finally:
            left.set()

    reader = TopicTraffic(CostModel(), lambda _: False)
    async with serving(answer) as endpoint:
        with pytest.raises(FormatError, match="nested more than 64 levels deep"):
            await admin.stream(endpoint, PATH, reader.feed)
        await asyncio.wait_for(left.wait(), 10)


async def test_no_compressed_answer_is_asked_for(admin: AiohttpAdmin) -> None:
    got: list[bytes] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        encodings = request.headers.get("Accept-Encoding", "")
        if "gzip" in encodings:
            return web.Response(body=gzip.compress(b"packed"), headers={"Content-Encoding": "gzip"})
        return web.Response(body=encodings.encode())

    async with serving(answer) as endpoint:
        await admin.stream(endpoint, PATH, got.append)
    assert b"".join(got) == b"identity"


async def test_a_compressed_answer_that_nobody_asked_for_is_read_in_pieces_as_well(admin: AiohttpAdmin) -> None:
    """A thousand times as long as what is sent; the other end is a proxy that ignores ``Accept-Encoding: identity``."""
    length, sizes = 64 << 20, list[int]()
    packed = gzip.compress(bytes(length), 9)

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    async with serving(answer) as endpoint:
        tracemalloc.start()
        try:
            await admin.stream(endpoint, PATH, lambda piece: sizes.append(len(piece)))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert sum(sizes) == length and max(sizes) <= PIECE_BYTES
    assert peak < 8 << 20, peak


async def test_a_compressed_answer_that_is_cut_is_no_answer(admin: AiohttpAdmin) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(body=gzip.compress(b"[]" * 100)[:-12], headers={"Content-Encoding": "gzip"})

    async def garbage(request: web.BaseRequest) -> web.Response:
        return web.Response(body=b"[]" * 100, headers={"Content-Encoding": "gzip"})

    for handler in (answer, garbage):
        reader = TopicTraffic(CostModel(), lambda _: False)
        async with serving(handler) as endpoint:
            with pytest.raises((UnavailableError, FormatError)):
                await admin.stream(endpoint, PATH, reader.feed, deadline=2)
                reader.end()


async def test_streams_take_turns_and_calls_do_not_wait_for_them(admin: AiohttpAdmin) -> None:
    """Two at once; the third begins when one ends, and its deadline begins with it."""
    running, most = 0, 0
    go, begun = asyncio.Event(), asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal running, most
        if request.path.endswith("brokers"):
            return web.json_response(["b"])
        running += 1
        most = max(most, running)
        if running == 2:
            begun.set()
        await go.wait()
        running -= 1
        return web.Response(body=b"[]")

    async with serving(answer) as endpoint, asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(admin.stream(endpoint, PATH, lambda _: None))
        await begun.wait()
        assert await admin.call(endpoint, "GET", ("brokers",)) == ["b"]
        go.set()
    assert most == 2


async def test_others_run_between_two_pieces(admin: AiohttpAdmin) -> None:
    """However fast an answer comes: what is read at once would keep the loop for as long as there is more."""
    turns = 0
    between: list[int] = []

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with serving(streaming([b"x" * 1_000_000])) as endpoint:
        counting = asyncio.create_task(count())
        await admin.stream(endpoint, PATH, lambda _: between.append(turns))
        counting.cancel()
    assert len(between) > 20 and all(a < b for a, b in pairwise(between))
