"""Sets of topics against the in-memory port and against the real adapter over HTTP."""

from __future__ import annotations

from tests.support.contracts.topic_sets import TopicSetContract


class TestTopicSetContract(TopicSetContract):
    """See tests/support/contracts/topic_sets.py."""
