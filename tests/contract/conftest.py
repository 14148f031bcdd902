"""Where contracts of the logical plane run: the in-memory Pulsar as a port, and behind the real adapter over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.ports import AdminEndpoint, PulsarAdminPort
from tests.fakes.admin import FakeAdmin, serve
from tests.fakes.pulsar import FakePulsar
from tests.support.contracts.admin import local_cluster
from tests.support.contracts.policies import Place, placed, with_other, with_tenant
from tests.support.core.recorder import CountingMetrics


@pytest.fixture(params=["port", "http"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """The fake in both of its shapes, as a newer Pulsar and as the oldest that is run."""
    if request.param == "port":
        yield await _opened(FakeAdmin(FakePulsar(version="4.2.0")), "http://fake")
        return
    admin = AiohttpAdmin(CountingMetrics())
    try:
        async with serve(FakePulsar()) as (url, _):
            yield await _opened(admin, url)
    finally:
        await admin.close()


async def _opened(admin: PulsarAdminPort, url: str) -> Place:
    endpoint = AdminEndpoint(await local_cluster(admin, url), url)
    await with_other(admin, endpoint)
    return await placed(admin, endpoint, await with_tenant(admin, endpoint, "contract"), "n")
