"""What users or Pulsar say decides neither how long a pass takes nor how much memory it needs."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.adapters.admin_answers import interpret
from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.topic_parts import TopicSchema
from pulsar_operator.controllers.logical.initial_bundles import MAX_CONSIDERED, _names_of_topics
from pulsar_operator.domain.logical.pulsar_names import MOST_PARTITIONS, partition_count
from pulsar_operator.domain.logical.schema import LiveSchema, is_same
from pulsar_operator.domain.logical.subscriptions import partitions_without_stats
from pulsar_operator.ports import UnavailableError
from tests.support.logical.world import LogicalWorld

DEEP = "[" * 200_000


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        ({"partitions": 3}, 3),
        ({"partitions": 0}, 0),
        ({"partitions": None}, 0),
        ({}, 0),
        ({"partitions": MOST_PARTITIONS}, MOST_PARTITIONS),
        ({"partitions": MOST_PARTITIONS + 1}, None),
        ({"partitions": 2**31 - 1}, None),
        ({"partitions": -1}, None),
        ({"partitions": "3"}, None),
        ({"partitions": True}, None),
        ([], None),
        (None, None),
    ],
)
def test_a_number_of_partitions(answer: Any, count: int | None) -> None:
    assert partition_count(answer) == count


@pytest.mark.parametrize("policy", ["Delete", "ForceDelete"])
@pytest.mark.parametrize("persistent", [True, False])
async def test_a_topic_with_more_partitions_than_there_can_be_is_not_gone_through(
    policy: str, persistent: bool
) -> None:
    w = LogicalWorld("a", "b")
    w.tenant()
    w.namespace()
    w.topic(partitions=2, persistent=persistent, deletionPolicy=policy)
    await w.run()
    assert w.condition(Kind.TOPIC, "x")[0] == "True"
    name = f"{'' if persistent else 'non-'}persistent://t/n/x"
    w.pulsar.partitioned[name] = 2**31 - 1
    await w.run()
    assert w.condition(Kind.TOPIC, "x")[:2] == ("Unknown", "AdminUnreachable")
    assert "no usable number of partitions of topic x" in w.condition(Kind.TOPIC, "x")[2]


def test_statistics_without_partitions_are_not_counted_up_to_any_number() -> None:
    assert partitions_without_stats({"metadata": {"partitions": 2}, "partitions": {}}) == [0, 1]
    assert partitions_without_stats({"metadata": {"partitions": 2**31 - 1}, "partitions": {}}) is None


def test_an_answer_that_is_nested_too_deeply_is_none() -> None:
    class Answer:
        status, body, page, retry_after = 200, DEEP.encode(), False, None

    answer: Any = Answer()
    with pytest.raises(UnavailableError, match="not JSON"):
        interpret(answer, "GET /x")
    answer.status = 500
    with pytest.raises(UnavailableError, match="HTTP 500"):
        interpret(answer, "GET /x")
    answer.status = 404
    with pytest.raises(UnavailableError, match="not from Pulsar"):
        interpret(answer, "GET /x")


def test_a_definition_that_is_nested_too_deeply_is_compared_as_text() -> None:
    wanted = TopicSchema.model_validate({"type": "Json", "definition": DEEP[:5000]})
    assert is_same(wanted, LiveSchema(0, "JSON", DEEP[:5000], {}))
    assert not is_same(wanted, LiveSchema(0, "JSON", DEEP, {}))


def test_of_very_many_declared_partitions_every_nth_topic_is_checked() -> None:
    topics = [{"metadata": {"name": f"t{n}"}, "spec": {"partitions": 10_000}} for n in range(1000)]
    found = list(_names_of_topics(topics, "t/n"))
    assert len(found) == MAX_CONSIDERED
    few = [{"metadata": {"name": "a"}, "spec": {}}, {"metadata": {"name": "b"}, "spec": {"partitions": 2}}]
    assert list(_names_of_topics(few, "t/n")) == [
        "persistent://t/n/a",
        "persistent://t/n/b-partition-0",
        "persistent://t/n/b-partition-1",
    ]
