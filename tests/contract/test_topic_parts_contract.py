"""Subscriptions and schemas against the in-memory port and against the real adapter over HTTP."""

from __future__ import annotations

from tests.support.topic_parts_contract import TopicPartsContract


class TestTopicPartsContract(TopicPartsContract):
    """See tests/support/topic_parts_contract.py."""
