"""Advice on partitions and the verdict on the number of brokers."""

from __future__ import annotations

from math import inf

import pytest

from pulsar_operator.balance.model.cluster import Broker
from pulsar_operator.balance.model.hashing import partition_name, split_partition
from pulsar_operator.balance.sizing.provisioning import partition_advice, verdict
from pulsar_operator.balance.sizing.result import HottestTopic

TOPIC = "persistent://t/ns/orders"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        (partition_name(TOPIC, 0), (TOPIC, 0)),
        (partition_name(TOPIC, 31), (TOPIC, 31)),
        (TOPIC, (TOPIC, None)),
        (f"{TOPIC}-partition-", (f"{TOPIC}-partition-", None)),
        (f"{TOPIC}-partition-01", (f"{TOPIC}-partition-01", None)),
        (f"{TOPIC}-partition--1", (f"{TOPIC}-partition--1", None)),
        (f"{TOPIC}-partition-2147483647", (TOPIC, 2147483647)),
        (f"{TOPIC}-partition-2147483648", (f"{TOPIC}-partition-2147483648", None)),
        (f"{TOPIC}-partition-1-partition-2", (f"{TOPIC}-partition-1", 2)),
        (f"{TOPIC}-partition-٣", (f"{TOPIC}-partition-٣", None)),
    ],
)
def test_names_of_partitions(name: str, answer: tuple[str, int | None]) -> None:
    assert split_partition(name) == answer


def partitions(weights: list[float]) -> list[tuple[str, float]]:
    return [(partition_name(TOPIC, i), weight) for i, weight in enumerate(weights)]


@pytest.mark.parametrize(
    ("topics", "now", "needed", "words"),
    [
        ([(TOPIC, 200.0)], 0, 4, "not partitioned and carries 200%"),
        ([(TOPIC, 51.0)], 0, 2, "cannot convert the topic into a partitioned one"),
        (partitions([60.0, 60.0]), 2, 3, "Each of 3 partitions would carry at most 50%"),
        (partitions([80.0, 80.0, 80.0]), 3, 5, "Additional partitions change the partition of keys"),
        (partitions([100.0, 10.0, 10.0, 10.0]), 4, 5, "Check keys and routing"),
        # The last partition is idle, but it is there.
        ([(partition_name(TOPIC, 0), 90.0), (partition_name(TOPIC, 7), 0.0)], 8, 9, "One of 8 partitions"),
    ],
)
def test_a_topic_hotter_than_half_a_fair_share_needs_partitions(
    topics: list[tuple[str, float]], now: int, needed: int, words: str
) -> None:
    (advice,) = partition_advice(topics, 100.0)
    assert (advice.topic, advice.partitions_now, advice.partitions) == (TOPIC, now, needed)
    assert advice.weight == sum(weight for _, weight in topics)
    assert words in advice.reason


def test_cool_topics_need_none_and_the_hottest_comes_first() -> None:
    topics = [("persistent://t/ns/a", 50.0), ("persistent://t/ns/b", 60.0), ("persistent://t/ns/c", 90.0)]
    assert [each.topic[-1] for each in partition_advice(topics, 100.0)] == ["c", "b"]
    assert partition_advice(topics, 0.0) == ()
    assert len(partition_advice(topics, 100.0, share=0.1)) == 3
    with pytest.raises(ValueError, match="share is 0"):
        partition_advice(topics, 100.0, share=0.0)


@pytest.mark.parametrize(
    ("total", "capacity", "word", "wanted"),
    [
        (None, 100.0, "Unknown", 10),
        (500.0, None, "Unknown", 10),
        (700.0, 100.0, "RightSized", 10),
        (701.0, 100.0, "UnderProvisioned", 11),
        (1400.0, 100.0, "UnderProvisioned", 20),
        # Nine at the target would do, but not with the margin.
        (630.0, 100.0, "RightSized", 10),
        (567.0, 100.0, "OverProvisioned", 9),
        (70.0, 100.0, "OverProvisioned", 3),
        (0.0, 100.0, "OverProvisioned", 3),
    ],
)
def test_the_number_of_brokers(total: float | None, capacity: float | None, word: str, wanted: int) -> None:
    able = [*(Broker(f"b{i}") for i in range(10)), Broker("leaving", draining=True)]
    found = verdict(total, able, capacity=capacity, target=0.7, least=3)
    assert (found.verdict, found.brokers_now, found.brokers) == (word, 10, wanted)


def test_capacity_is_relative_and_a_hot_topic_is_named() -> None:
    large = [Broker("a", capacity=2.0), Broker("b", capacity=4.0)]
    found = verdict(400.0, large, capacity=100.0, target=0.7, hottest=300.0)
    assert found.verdict == "RightSized"
    assert "the utilization of 2 brokers would be 67%" in found.reason
    assert "add partitions to the topic instead of brokers" in found.reason
    assert "partitions" not in verdict(400.0, large, capacity=100.0, target=0.7, hottest=280.0).reason
    assert "capacity" in verdict(400.0, large, capacity=None).reason
    assert verdict(1.0, [], capacity=1.0).verdict == "UnderProvisioned"
    with pytest.raises(ValueError, match=r"target is 0\.0"):
        verdict(1.0, large, capacity=1.0, target=0.0)


def test_the_verdict_shows_the_hottest_topic_beside_what_the_largest_broker_carries() -> None:
    large = [Broker("a", capacity=2.0), Broker("b", capacity=4.0)]
    told = verdict(400.0, large, capacity=100.0, target=0.7, hottest=30.0, topic=TOPIC).hottest
    assert told == HottestTopic(topic=TOPIC, weight=30.0, carries=400.0, target=0.7)
    assert verdict(400.0, large, capacity=100.0, hottest=30.0).hottest is None
    assert verdict(400.0, large, capacity=inf, hottest=30.0, topic=TOPIC).hottest is None, "no broker is so large"
    assert verdict(400.0, large, capacity=None, hottest=30.0, topic=TOPIC).hottest is None
