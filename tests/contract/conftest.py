"""Where contracts of the logical plane run: the in-memory Pulsar as a port, and behind the real adapter over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from tests.fakes.admin import FakeAdmin, serve
from tests.fakes.pulsar import FakePulsar
from tests.support.policy_contract import Place, opened
from tests.support.recorder import CountingMetrics


@pytest.fixture(params=["port", "http"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """The fake in both of its shapes, as a newer Pulsar and as the oldest that is run."""
    if request.param == "port":
        async for found in opened(FakeAdmin(FakePulsar(version="4.2.0")), "http://fake"):
            yield found
        return
    admin = AiohttpAdmin(CountingMetrics())
    try:
        async with serve(FakePulsar()) as (url, _):
            async for found in opened(admin, url):
                yield found
    finally:
        await admin.close()
