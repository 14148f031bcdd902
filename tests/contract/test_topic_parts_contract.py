"""Subscriptions and schemas against the in-memory port and against the real adapter over HTTP."""

from __future__ import annotations

from tests.support.contracts.topic_parts import TopicPartsContract


class TestTopicPartsContract(TopicPartsContract):
    """See tests/support/contracts/topic_parts.py."""
