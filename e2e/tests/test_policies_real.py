"""Every row of the policy table on a real Pulsar; see tests/support/policy_contract.py."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from tests.support.policy_contract import Place, PolicyContract, opened
from tests.support.recorder import CountingMetrics

pytestmark = pytest.mark.kind


@pytest.fixture
async def place(admin_url: str) -> AsyncIterator[Place]:
    """A namespace and a topic on the Pulsar of the test cluster."""
    admin = AiohttpAdmin(CountingMetrics(), deadline=30.0)
    try:
        async for found in opened(admin, admin_url):
            yield found
    finally:
        await admin.close()


class TestPoliciesReal(PolicyContract):
    """See tests/support/policy_contract.py."""
