"""Subscriptions and schemas on a real Pulsar; see tests/support/topic_parts_contract.py."""

from __future__ import annotations

import pytest

from tests.support.topic_parts_contract import TopicPartsContract

pytestmark = pytest.mark.kind


class TestTopicPartsReal(TopicPartsContract):
    """See tests/support/topic_parts_contract.py."""
