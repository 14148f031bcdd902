"""The admin contract against the in-memory port and against the real adapter over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from tests.fakes.admin import FakeAdmin, serve
from tests.fakes.pulsar import FakePulsar
from tests.support.admin_contract import AdminContract, Site, opened
from tests.support.recorder import CountingMetrics


@pytest.fixture(params=["port", "http"])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """The fake in both of its shapes."""
    if request.param == "port":
        async for found in opened(FakeAdmin(), "http://fake"):
            yield found
        return
    admin = AiohttpAdmin(CountingMetrics())
    try:
        async with serve(FakePulsar()) as (url, _):
            async for found in opened(admin, url):
                yield found
    finally:
        await admin.close()


class TestAdminContract(AdminContract):
    """See tests/support/admin_contract.py."""
