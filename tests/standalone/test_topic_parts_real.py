"""Subscriptions and schemas on a real Pulsar; see tests/support/topic_parts_contract.py."""

from __future__ import annotations

from tests.support.topic_parts_contract import TopicPartsContract


class TestTopicPartsReal(TopicPartsContract):
    """See tests/support/topic_parts_contract.py."""
