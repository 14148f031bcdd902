"""kopf's part: it opens and closes the streams, and its end is the end of the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import kopf
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from e2e.support.eventually import eventually_async
from pulsar_operator.handlers import lifecycle
from pulsar_operator.handlers.lifecycle import EndedError


class Streams:
    """Runs until it is cancelled, or ends as it is told."""

    def __init__(self, error: Exception | None = None, *, ends: bool = False) -> None:
        self.error, self.ends = error, ends
        self.opened, self.closed = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        self.opened.set()
        try:
            if self.error is not None:
                raise self.error
            if not self.ends:
                await asyncio.Event().wait()
        finally:
            self.closed.set()


class Discovery:
    """What kopf asks once, at its start."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.missing = False

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if self.missing:
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        return web.json_response({"/api": {"versions": []}, "/apis": {"groups": []}}[request.path])


@pytest.fixture(name="discovery")
async def discovery_and_url() -> AsyncIterator[tuple[Discovery, str]]:
    discovery = Discovery()
    app = web.Application()
    app.router.add_get("/{path:.*}", discovery.answer)
    async with TestServer(app) as server:
        yield discovery, str(server.make_url("/"))


async def run(streams: Streams, url: str, stop: asyncio.Event) -> None:
    async def session() -> tuple[str, aiohttp.ClientSession]:
        return url, aiohttp.ClientSession()

    await lifecycle.run(streams.run, session, stop=stop, started=asyncio.Event())


async def test_it_opens_the_streams_watches_nothing_itself_and_closes_them(discovery: tuple[Discovery, str]) -> None:
    asked, url = discovery
    streams, stop = Streams(), asyncio.Event()
    running = asyncio.create_task(run(streams, url, stop))
    await asyncio.wait_for(streams.opened.wait(), 30)
    await eventually_async(lambda: set(asked.asked) == {"/api", "/apis"}, what="kopf asks what is served")
    assert not running.done() and not streams.closed.is_set()
    stop.set()
    await asyncio.wait_for(running, 30)
    assert streams.closed.is_set()
    assert set(asked.asked) == {"/api", "/apis"}


@pytest.mark.parametrize("error", [None, RuntimeError("broken")])
async def test_streams_that_end_end_it(discovery: tuple[Discovery, str], error: Exception | None) -> None:
    with pytest.raises(EndedError, match="the watch streams ended") as caught:
        await asyncio.wait_for(run(Streams(error, ends=True), discovery[1], asyncio.Event()), 30)
    assert caught.value.__cause__ is error


async def test_kopf_that_fails_ends_it(discovery: tuple[Discovery, str]) -> None:
    discovery[0].missing = True
    streams = Streams()
    with pytest.raises(EndedError, match="kopf"):
        await asyncio.wait_for(run(streams, discovery[1], asyncio.Event()), 30)
    assert streams.closed.is_set()


@pytest.mark.parametrize("error", [None, RuntimeError("broken")])
async def test_kopf_that_returns_ends_it(monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> None:
    async def operator(**_: Any) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(kopf, "operator", operator)
    with pytest.raises(EndedError, match="kopf ended") as caught:
        await run(Streams(), "http://127.0.0.1:1", asyncio.Event())
    assert caught.value.__cause__ is error


async def test_kopf_that_survives_its_cancellation_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As its watchers did: they swallowed it, so that kopf.operator never returned."""
    monkeypatch.setattr(lifecycle, "END_SECONDS", 0.1)
    over = asyncio.Event()

    async def operator(registry: Any, **_: Any) -> None:
        for handler in registry._activities.get_all_handlers():
            if handler.activity.value == "cleanup":
                await handler.fn()
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    monkeypatch.setattr(kopf, "operator", operator)
    with pytest.raises(EndedError, match="kopf closed the watch streams"):
        await asyncio.wait_for(run(Streams(), "http://127.0.0.1:1", asyncio.Event()), 30)
    over.set()
