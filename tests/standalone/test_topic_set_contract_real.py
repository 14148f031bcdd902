"""Sets of topics on a real Pulsar; see tests/support/topic_set_contract.py."""

from __future__ import annotations

from tests.support.topic_set_contract import TopicSetContract


class TestTopicSetReal(TopicSetContract):
    """See tests/support/topic_set_contract.py."""
