"""The contract of metrics of pods against the fake and against the real adapter over HTTP, and what HTTP adds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from pulsar_operator.adapters.counters import KEPT_SECONDS, HttpCounters
from pulsar_operator.ports import RefusedError, UnavailableError
from tests.fakes.counters import FakeCounters
from tests.support.contracts.counters import NAMES, PAGE, CountersContract, CountersSite
from tests.support.core.clocks import SteppingClock
from tests.support.processes.launching import free_ports


class FakeSite(CountersSite):
    """The fake."""

    def __init__(self) -> None:
        self.port = self._fake = FakeCounters(SteppingClock())

    def serve(self, page: str | int) -> str:
        self._fake.pages["http://fake/metrics"] = page
        return "http://fake/metrics"

    def nowhere(self) -> str:
        return "http://nowhere/metrics"


class HttpSite(CountersSite):
    """The adapter, and a server of its pages."""

    def __init__(self, base: str, pages: list[str | int]) -> None:
        self.clock = SteppingClock()
        self.port = HttpCounters(self.clock)
        self._base, self._pages = base, pages

    def serve(self, page: str | int) -> str:
        self._pages.append(page)
        return f"{self._base}/{len(self._pages) - 1}"

    def nowhere(self) -> str:
        return f"http://127.0.0.1:{free_ports(1)[0]}/metrics"

    def change(self, page: str) -> None:
        """Another page at the last URL."""
        self._pages[-1] = page


@asynccontextmanager
async def over_http() -> AsyncIterator[HttpSite]:
    pages: list[str | int] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.match_info["page"] == "elsewhere":
            raise web.HTTPFound("/0")
        if request.match_info["page"] == "never":
            await asyncio.Event().wait()
        page = pages[int(request.match_info["page"])]
        return web.Response(status=page) if isinstance(page, int) else web.Response(text=page)

    app = web.Application()
    app.router.add_get("/{page}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield HttpSite(f"http://127.0.0.1:{runner.addresses[0][1]}", pages)
    finally:
        await runner.cleanup()


@pytest.fixture(params=["port", "http"])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[CountersSite]:
    """The fake, and the adapter."""
    if request.param == "port":
        yield FakeSite()
        return
    async with over_http() as found:
        yield found


class TestCountersContract(CountersContract):
    """See tests/support/contracts/counters.py."""


async def test_an_answer_is_given_again_for_a_while_and_says_how_old_it_is() -> None:
    async with over_http() as site:
        url = site.serve("requests_total 7")
        first = await site.port.read(url, NAMES)
        site.change("requests_total 8")
        assert await site.port.read(url, NAMES) == first
        site.clock.forward(KEPT_SECONDS)
        second = await site.port.read(url, NAMES)
        assert [each.value for each in second.samples] == [8.0]
        assert (second.at - first.at).total_seconds() > KEPT_SECONDS


async def test_a_line_in_two_pieces_and_other_lines_in_between() -> None:
    lines = [f'requests_total{{topic="{number:09}"}} {number}\nother_total 1\n' for number in range(9000)]
    async with over_http() as site:
        found = await site.port.read(site.serve("".join(lines)), NAMES)
        assert sum(each.value for each in found.samples) == sum(range(9000))


async def test_a_page_that_is_too_large_is_not_read() -> None:
    async with over_http() as site:
        reader = HttpCounters(SteppingClock(), max_bytes=1000)
        with pytest.raises(RefusedError, match="larger"):
            await reader.read(site.serve("requests_total 7\n" * 100), NAMES)


async def test_nobody_is_sent_elsewhere() -> None:
    async with over_http() as site:
        url = site.serve(PAGE).removesuffix("0") + "elsewhere"
        with pytest.raises(UnavailableError) as caught:
            await site.port.read(url, NAMES)
        assert caught.value.status == 302


async def test_a_page_that_does_not_come_is_waited_for_until_its_deadline() -> None:
    async with over_http() as site:
        url = site.serve(PAGE).removesuffix("0") + "never"
        with pytest.raises(UnavailableError, match="TimeoutError"):
            await HttpCounters(SteppingClock(), deadline=0.1).read(url, NAMES)
