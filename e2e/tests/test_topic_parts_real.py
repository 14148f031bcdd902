"""Subscriptions and schemas on a real Pulsar; see tests/support/topic_parts_contract.py."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pulsar_operator.adapters.admin import AiohttpAdmin
from tests.support.policy_contract import Place, opened
from tests.support.recorder import CountingMetrics
from tests.support.topic_parts_contract import TopicPartsContract

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


class TestTopicPartsReal(TopicPartsContract):
    """See tests/support/topic_parts_contract.py."""
