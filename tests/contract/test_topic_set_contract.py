"""Sets of topics against the in-memory port and against the real adapter over HTTP."""

from __future__ import annotations

from tests.support.topic_set_contract import TopicSetContract


class TestTopicSetContract(TopicSetContract):
    """See tests/support/topic_set_contract.py."""
