"""Every list of entries on a real Pulsar; see tests/support/entry_contract.py and tests/support/lists_scenario.py.

Pulsar keeps permissions also where authorization is off. That it enforces them is in test_permissions_real.py.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from tests.support.admin_contract import local_cluster
from tests.support.entry_contract import EntryContract
from tests.support.lists_scenario import Scenario
from tests.support.logical import World
from tests.support.policy_contract import Place, opened
from tests.support.recorder import CountingMetrics

pytestmark = pytest.mark.kind


@pytest.fixture
async def admin() -> AsyncIterator[AiohttpAdmin]:
    """The adapter."""
    found = AiohttpAdmin(CountingMetrics(), deadline=30.0)
    try:
        yield found
    finally:
        await found.close()


@pytest.fixture
async def place(admin: AiohttpAdmin, admin_url: str) -> AsyncIterator[Place]:
    """A namespace and a topic on the Pulsar of the test cluster."""
    async for found in opened(admin, admin_url):
        yield found


class TestEntriesReal(EntryContract):
    """See tests/support/entry_contract.py."""


@pytest.mark.parametrize("partitions", [None, 2])
async def test_set_read_back_changed_by_others_repaired_taken_back(
    admin: AiohttpAdmin, admin_url: str, partitions: int | None
) -> None:
    """The controllers of this process, on the real Pulsar."""
    cluster = await local_cluster(admin, admin_url)
    world = World(cluster, admin=admin, urls={cluster: admin_url})
    scenario = Scenario(world, cluster, admin_url, f"lists-{uuid.uuid4().hex[:8]}", partitions=partitions)
    try:
        await scenario.run()
    finally:
        await scenario.clean()
