"""A forbidden watch is asked for again: rights come and go with the namespace, the other watches must not end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from pulsar_operator.adapters.watch_monitor import WatchMonitor, patient
from pulsar_operator.ports import PODS


class Api:
    """Answers with the given statuses in turn, the last one for ever."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.asked = 0

    async def answer(self, request: web.Request) -> web.Response:
        """One request."""
        self.asked += 1
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return web.json_response({"status": status}, status=status)


def monitor() -> WatchMonitor:
    """One that knows of no stream."""
    return WatchMonitor(lambda: 0.0)


async def serve(api: Api, path: str = "/apis/things") -> AsyncIterator[str]:
    """The API on a free port of 127.0.0.1."""
    app = web.Application()
    app.router.add_get(path, api.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}{path}"
    finally:
        await runner.cleanup()


async def test_asks_again_until_it_is_allowed() -> None:
    api = Api(403, 403, 200)
    async for url in serve(api):
        async with (
            aiohttp.ClientSession(middlewares=(patient(monitor(), 0.0),)) as session,
            session.get(url) as response,
        ):
            assert response.status == 200
            assert await response.json() == {"status": 200}
    assert api.asked == 3


@pytest.mark.parametrize("status", [200, 400, 401, 404, 410, 429, 500])
async def test_other_answers_are_passed_on_at_once(status: int) -> None:
    api = Api(status)
    async for url in serve(api):
        async with (
            aiohttp.ClientSession(middlewares=(patient(monitor(), 0.0),)) as session,
            session.get(url) as response,
        ):
            assert response.status == status
    assert api.asked == 1


async def test_the_deadline_of_the_request_ends_the_waiting() -> None:
    api = Api(403)
    limit = aiohttp.ClientTimeout(total=0.3)
    async for url in serve(api):
        async with aiohttp.ClientSession(middlewares=(patient(monitor(), 0.05),)) as session:
            with pytest.raises(TimeoutError):
                await session.get(url, timeout=limit)
    assert api.asked > 1


@pytest.mark.parametrize("status", [403, 404, 500, 503])
async def test_a_stream_without_an_answer_is_asked_for_again_and_told(status: int) -> None:
    """One kind or namespace of many: the framework would end all watches."""
    streams = WatchMonitor(lambda: 0.0)
    streams.expect([PODS], ["a", "b"])
    api = Api(status, status, 200)
    problems: list[str | None] = []

    async def look(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        problems.append(streams.refusals())
        return await handler(request)

    async for url in serve(api, "/api/v1/namespaces/a/pods"):
        async with (
            aiohttp.ClientSession(middlewares=(patient(streams, 0.0), look)) as session,
            session.get(url) as response,
        ):
            assert response.status == 200
    refused = f"cannot watch /api/v1/namespaces/a/pods (HTTP {status})"
    assert problems == [None, refused, refused] and streams.refusals() is None


def test_many_refusals_are_one_sentence() -> None:
    streams = WatchMonitor(lambda: 0.0)
    streams.expect([PODS], list("abcde"))
    for name in "abcde":
        streams.answered(f"/api/v1/namespaces/{name}/pods", 403)
    told = streams.refusals()
    assert told is not None and told.endswith("and 2 more") and "/c/pods" in told and "/d/pods" not in told
