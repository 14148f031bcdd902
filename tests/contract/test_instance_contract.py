"""Resource groups and isolation policies against the in-memory port and against the real adapter over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.ports import AdminEndpoint, PulsarAdminPort
from tests.fakes.admin import FakeAdmin, serve
from tests.fakes.pulsar import FakePulsar
from tests.support.contracts.admin import local_cluster
from tests.support.contracts.instance import InstanceContract, Site, opened
from tests.support.core.recorder import CountingMetrics


@pytest.fixture(params=["port", "http"])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    """The fake in both of its shapes."""
    if request.param == "port":
        async for found in _opened(FakeAdmin(), "http://fake"):
            yield found
        return
    admin = AiohttpAdmin(CountingMetrics())
    try:
        async with serve(FakePulsar()) as (url, _):
            async for found in _opened(admin, url):
                yield found
    finally:
        await admin.close()


async def _opened(port: PulsarAdminPort, url: str) -> AsyncIterator[Site]:
    async for found in opened(port, AdminEndpoint(await local_cluster(port, url), url)):
        yield found


class TestInstanceContract(InstanceContract):
    """See tests/support/contracts/instance.py."""
