"""The admin contract against the in-memory port and against the real adapter over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.ports import AdminEndpoint, PulsarAdminPort
from tests.fakes.admin import FakeAdmin, serve
from tests.fakes.pulsar import FakePulsar
from tests.support.contracts.admin import AdminContract, Site, local_cluster, opened
from tests.support.core.recorder import CountingMetrics


@pytest.fixture(params=["port", "http"])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """The fake in both of its shapes."""
    if request.param == "port":
        yield await _opened(FakeAdmin(), "http://fake")
        return
    admin = AiohttpAdmin(CountingMetrics())
    try:
        async with serve(FakePulsar()) as (url, _):
            yield await _opened(admin, url)
    finally:
        await admin.close()


async def _opened(port: PulsarAdminPort, url: str) -> Site:
    return await opened(port, AdminEndpoint(await local_cluster(port, url), url))


class TestAdminContract(AdminContract):
    """See tests/support/contracts/admin.py."""
