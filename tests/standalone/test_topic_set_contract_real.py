"""Sets of topics on a real Pulsar; see tests/support/contracts/topic_sets.py."""

from __future__ import annotations

from tests.support.contracts.topic_sets import TopicSetContract


class TestTopicSetReal(TopicSetContract):
    """See tests/support/contracts/topic_sets.py."""
