"""Every list of entries on a real Pulsar; see tests/support/contracts/entries.py and tests/support/logical/lists.py.

Pulsar keeps permissions also where authorization is off. That it enforces them is in test_permissions_real.py.
"""

from __future__ import annotations

import uuid

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.ports import AdminEndpoint
from tests.support.contracts.entries import EntryContract
from tests.support.logical.lists import Scenario
from tests.support.logical.world import LogicalWorld


class TestEntriesReal(EntryContract):
    """See tests/support/contracts/entries.py."""


@pytest.mark.parametrize("partitions", [None, 2])
async def test_set_read_back_changed_by_others_repaired_taken_back(
    admin: AiohttpAdmin, endpoint: AdminEndpoint, partitions: int | None
) -> None:
    """The controllers of this process, on the real Pulsar."""
    world = LogicalWorld(endpoint.cluster, admin=admin, urls={endpoint.cluster: endpoint.url})
    tenant = f"lists-{uuid.uuid4().hex[:8]}"
    await Scenario(world, endpoint.cluster, endpoint.url, tenant, partitions=partitions).run()
