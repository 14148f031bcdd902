"""The admin contract against a real Pulsar."""

from __future__ import annotations

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from pulsar_operator.ports import AdminEndpoint
from tests.support.contracts.admin import AdminContract, Site, opened


@pytest.fixture
async def site(admin: AiohttpAdmin, endpoint: AdminEndpoint) -> Site:
    """A tenant of the test's own on the shared Pulsar."""
    return await opened(admin, endpoint)


class TestAdminContractReal(AdminContract):
    """See tests/support/contracts/admin.py."""
