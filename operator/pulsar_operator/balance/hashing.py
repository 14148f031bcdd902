"""Where a topic's name falls in the hash space of its namespace."""

from __future__ import annotations

from zlib import crc32

from pulsar_operator.balance.ranges import LAST_BOUNDARY

__all__ = ["LAST_BOUNDARY", "partition_name", "topic_hash"]


def topic_hash(name: str) -> int:
    """Position of a topic, 0 to 2^32 - 1: the CRC-32 of its full name (Pulsar's ConsistentHashingTopicBundleAssigner).

    The full name has domain and partition suffix: ``persistent://tenant/namespace/topic-partition-3``. CRC-32 is
    linear, so the partitions of a topic lie at fixed distances (by XOR) from each other, whatever the topic is called.
    """
    return crc32(name.encode())


def partition_name(topic: str, index: int) -> str:
    """Full name of one partition of a partitioned topic (Pulsar's class TopicName)."""
    return f"{topic}-partition-{index}"
