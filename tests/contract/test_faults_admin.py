"""Which 404 is Pulsar's, and may be read as "gone"; what is made of "come back later"."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.ports import AdminEndpoint, NotFoundError, UnavailableError
from tests.fakes.admin import serve
from tests.fakes.pulsar import FakePulsar
from tests.support.core.recorder import CountingMetrics
from tests.support.faults.http import PAGE

JETTY = {"servlet": "org.glassfish.jersey.servlet.ServletContainer", "message": "Not Found", "status": "404"}


async def ask(answer: web.Response, method: str) -> None:
    """A call that is answered so."""
    admin = AiohttpAdmin(CountingMetrics(), deadline=5)
    try:
        async with serve(FakePulsar(), script=lambda request: answer) as (url, _):
            await admin.call(AdminEndpoint("a", url), method, ("namespaces", "t", "n"))
    finally:
        await admin.close()


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize(
    ("body", "kind"),
    [(PAGE, "text/html"), ("default backend - 404", "text/plain"), ("", "text/plain"), ('"gone"', "application/json")],
    ids=["page", "line", "empty", "a word"],
)
async def test_somebody_elses_404_is_no_answer(method: str, body: str, kind: str) -> None:
    with pytest.raises(UnavailableError, match=r"404.*not from Pulsar"):
        await ask(web.Response(status=404, text=body, content_type=kind), method)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("body", [{"reason": "Namespace does not exist"}, JETTY], ids=["resource", "web server"])
async def test_pulsars_404_is_believed(method: str, body: dict[str, str]) -> None:
    with pytest.raises(NotFoundError):
        await ask(web.json_response(body, status=404), method)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_time_longer_than_the_deadline_is_told_at_once(status: int) -> None:
    seen: list[str] = []

    def busy(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(status=status, headers={"Retry-After": "60"})

    admin = AiohttpAdmin(CountingMetrics(), deadline=5)
    try:
        async with serve(FakePulsar(), script=busy) as (url, _):
            with pytest.raises(UnavailableError, match=f"HTTP {status}") as caught:
                await admin.call(AdminEndpoint("a", url), "GET", ("namespaces", "t", "n"))
    finally:
        await admin.close()
    assert caught.value.retry_after == 60
    assert len(seen) == 1


async def test_who_waits_for_the_next_attempt_keeps_nobody_from_calling() -> None:
    refused = asyncio.Event()

    def busy(request: web.Request) -> web.Response | None:
        if not request.path.endswith("/busy"):
            return None
        refused.set()
        return web.Response(status=429, headers={"Retry-After": "30"})

    admin = AiohttpAdmin(CountingMetrics(), deadline=60, concurrency=1)
    try:
        async with serve(FakePulsar(), script=busy) as (url, _):
            endpoint = AdminEndpoint("a", url)
            waiting = asyncio.create_task(admin.call(endpoint, "GET", ("tenants", "busy")))
            await refused.wait()
            assert await admin.call(endpoint, "GET", ("clusters",), deadline=10) == ["a"]
            assert not waiting.done()
            waiting.cancel()
    finally:
        await admin.close()
