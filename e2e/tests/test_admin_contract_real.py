"""The admin contract against a real Pulsar."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from tests.support.admin_contract import AdminContract, Site, opened

pytestmark = pytest.mark.kind


@pytest.fixture
async def site(admin: AiohttpAdmin, admin_url: str) -> AsyncIterator[Site]:
    """The Pulsar of the test cluster."""
    async for found in opened(admin, admin_url):
        yield found


class TestAdminContractReal(AdminContract):
    """See tests/support/admin_contract.py."""
