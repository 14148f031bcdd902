"""The adapter of BookKeeper's HTTP server, on the wire: what it sends, and what each answer means."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from pulsar_operator.adapters.bookie import HttpBookies
from pulsar_operator.adapters.fence import fence_of
from pulsar_operator.ports import DiskInfo, NotFoundError, PortError, RefusedError, UnavailableError

HOST = "127.0.0.1"
PAGE = "<html><body><h1>Resource not found</h1></body></html>"


@dataclass
class Site:
    """A server that answers what it is told to, and what it was asked."""

    port: int = 0
    answer: Callable[[], Awaitable[web.StreamResponse]] | None = None
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    peers: list[Any] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.text()
        self.asked.append((request.method, request.path, json.loads(body) if body else None))
        assert request.transport is not None
        self.peers.append(request.transport.get_extra_info("peername"))
        assert self.answer is not None
        return await self.answer()

    def says(self, text: str, status: int = 200, content_type: str = "text/plain") -> None:
        async def answer() -> web.StreamResponse:
            return web.Response(text=text, status=status, content_type=content_type)

        self.answer = answer

    def bookies(self, **options: Any) -> HttpBookies:
        return HttpBookies(port=self.port, **options)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    found = Site()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    server = web.TCPSite(runner, HOST, 0)
    await server.start()
    found.port = runner.addresses[0][1]
    yield found
    await runner.cleanup()


async def test_what_is_sent_and_read(site: Site) -> None:
    port = site.bookies()
    site.says('{\n  "readOnly" : true\n}')
    assert await port.readonly(HOST) is True
    await port.set_readonly(HOST, True)
    site.says('{"freeSpace": 5, "totalSpace": 7}')
    assert await port.disk(HOST) == DiskInfo(5, 7)
    site.says("Success send recovery request command.")
    await port.recover(HOST, "b-0.b.ns.svc.cluster.local:3181")
    assert site.asked == [
        ("GET", "/api/v1/bookie/state/readonly", None),
        ("PUT", "/api/v1/bookie/state/readonly", {"readOnly": True}),
        ("GET", "/api/v1/bookie/info", None),
        (
            "PUT",
            "/api/v1/autorecovery/bookie",
            {"bookie_src": ["b-0.b.ns.svc.cluster.local:3181"], "delete_cookie": False},
        ),
    ]
    assert len(set(site.peers)) == 4, "a connection of its own for each call"


@pytest.mark.parametrize(
    ("status", "text", "content_type", "error"),
    [
        (404, PAGE, "text/html", NotFoundError),
        (404, "", "text/plain", NotFoundError),
        (404, "ERROR parameters: x", "text/plain", RefusedError),
        (400, "Bookie is in forceReadOnly mode", "text/plain", RefusedError),
        (405, PAGE, "text/html", RefusedError),
        (302, "", "text/plain", UnavailableError),
        (408, "", "text/plain", UnavailableError),
        (429, "", "text/plain", UnavailableError),
        (500, "Internal Server Error", "text/plain", UnavailableError),
        (503, "", "text/plain", UnavailableError),
    ],
)
async def test_what_a_status_means(
    site: Site, status: int, text: str, content_type: str, error: type[PortError]
) -> None:
    site.says(text, status, content_type)
    for call in (site.bookies().set_readonly(HOST, True), site.bookies().recover(HOST, "b:3181")):
        with pytest.raises(error, match=str(status)) as caught:
            await call
        assert type(caught.value) is error
        assert getattr(caught.value, "status", status) == status
        assert "<" not in str(caught.value)
    assert len(site.asked) == 2, "nothing is tried twice"


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "{}", '{"readOnly": 1}', '{"freeSpace": -1, "totalSpace": 1}'])
async def test_an_answer_that_says_nothing_is_none(site: Site, text: str) -> None:
    site.says(text)
    for call in (site.bookies().readonly(HOST), site.bookies().set_readonly(HOST, True), site.bookies().disk(HOST)):
        with pytest.raises(UnavailableError):
            await call


async def test_a_bookie_that_stays_as_it_was_is_no_success(site: Site) -> None:
    site.says('{"readOnly": true}')
    with pytest.raises(UnavailableError, match="still read-only"):
        await site.bookies().set_readonly(HOST, False)


async def test_an_answer_without_end_is_none(site: Site) -> None:
    site.says(f'{{"readOnly": true, "more": "{"x" * 100_000}"}}')
    with pytest.raises(UnavailableError):
        await site.bookies().readonly(HOST)


async def test_the_deadline_ends_a_call(site: Site) -> None:
    asked, over = asyncio.Event(), asyncio.Event()

    async def silent() -> web.StreamResponse:
        asked.set()
        await over.wait()
        return web.Response()

    site.answer = silent
    with pytest.raises(UnavailableError, match=r"no answer within 0\.2 s"):
        async with asyncio.timeout(4):  # less than the adapter's own
            await site.bookies(deadline=0.2).set_readonly(HOST, True)
    over.set()
    assert asked.is_set()


async def test_nobody_and_no_host() -> None:
    for host in ("127.0.0.1", "no such host", ""):
        with pytest.raises(UnavailableError):
            await HttpBookies(port=1).readonly(host)


async def test_without_the_lease_nothing_is_written(site: Site) -> None:
    site.says('{"readOnly": true}')
    port = site.bookies(fence=fence_of(lambda: False))
    assert await port.readonly(HOST) is True
    for call in (port.set_readonly(HOST, True), port.recover(HOST, "b:3181")):
        with pytest.raises(UnavailableError, match="Lease"):
            await call
    assert [method for method, _, _ in site.asked] == ["GET"]
