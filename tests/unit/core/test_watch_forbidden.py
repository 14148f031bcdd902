"""A forbidden watch is asked for again: rights come and go with the namespace, the other watches must not end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from pulsar_operator.adapters.watch_monitor import patient


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


async def serve(api: Api) -> AsyncIterator[str]:
    """The API on a free port of 127.0.0.1."""
    app = web.Application()
    app.router.add_get("/apis/things", api.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}/apis/things"
    finally:
        await runner.cleanup()


async def test_asks_again_until_it_is_allowed() -> None:
    api = Api(403, 403, 200)
    async for url in serve(api):
        async with aiohttp.ClientSession(middlewares=(patient(0.0),)) as session, session.get(url) as response:
            assert response.status == 200
            assert await response.json() == {"status": 200}
    assert api.asked == 3


@pytest.mark.parametrize("status", [200, 401, 404, 410, 500])
async def test_other_answers_are_passed_on_at_once(status: int) -> None:
    api = Api(status)
    async for url in serve(api):
        async with aiohttp.ClientSession(middlewares=(patient(0.0),)) as session, session.get(url) as response:
            assert response.status == status
    assert api.asked == 1


async def test_the_deadline_of_the_request_ends_the_waiting() -> None:
    api = Api(403)
    limit = aiohttp.ClientTimeout(total=0.3)
    async for url in serve(api):
        async with aiohttp.ClientSession(middlewares=(patient(0.05),)) as session:
            with pytest.raises(TimeoutError):
                await session.get(url, timeout=limit)
    assert api.asked > 1
