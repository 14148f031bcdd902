"""Subscriptions and schemas on a real Pulsar; see tests/support/contracts/topic_parts.py."""

from __future__ import annotations

from tests.support.contracts.topic_parts import TopicPartsContract


class TestTopicPartsReal(TopicPartsContract):
    """See tests/support/contracts/topic_parts.py."""
