"""Every list of entries on a real Pulsar; see tests/support/entry_contract.py and tests/support/lists_scenario.py.

Pulsar keeps permissions also where authorization is off. That it enforces them is in test_permissions_real.py.
"""

from __future__ import annotations

import uuid

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.ports import AdminEndpoint
from tests.support.entry_contract import EntryContract
from tests.support.lists_scenario import Scenario
from tests.support.logical import World


class TestEntriesReal(EntryContract):
    """See tests/support/entry_contract.py."""


@pytest.mark.parametrize("partitions", [None, 2])
async def test_set_read_back_changed_by_others_repaired_taken_back(
    admin: AiohttpAdmin, endpoint: AdminEndpoint, partitions: int | None
) -> None:
    """The controllers of this process, on the real Pulsar."""
    world = World(endpoint.cluster, admin=admin, urls={endpoint.cluster: endpoint.url})
    tenant = f"lists-{uuid.uuid4().hex[:8]}"
    await Scenario(world, endpoint.cluster, endpoint.url, tenant, partitions=partitions).run()
