"""Where a topic's name falls in the hash space of its namespace."""

from __future__ import annotations

import re
from zlib import crc32

from pulsar_operator.balance.model.ranges import LAST_BOUNDARY

__all__ = ["LAST_BOUNDARY", "partition_name", "split_partition", "topic_hash"]

_PARTITION = re.compile(r"(.+)-partition-(0|[1-9][0-9]{0,9})", re.DOTALL)

MAX_PARTITION = (1 << 31) - 1
"""Indexes are Java's int."""


def topic_hash(name: str) -> int:
    """Position of a topic, 0 to 2^32 - 1: the CRC-32 of its full name (Pulsar's ConsistentHashingTopicBundleAssigner).

    The full name has domain and partition suffix: ``persistent://tenant/namespace/topic-partition-3``. CRC-32 is
    linear, so the partitions of a topic lie at fixed distances (by XOR) from each other, whatever the topic is called.
    """
    return crc32(name.encode())


def partition_name(topic: str, index: int) -> str:
    """Returns the full name of one partition of a partitioned topic (Pulsar's class TopicName)."""
    return f"{topic}-partition-{index}"


def split_partition(name: str) -> tuple[str, int | None]:
    """Partitioned topic and index of a partition's full name; the name and None when it is not a partition's.

    An index with a leading zero or sign does not count (Pulsar's class TopicName, method getPartitionIndex).
    """
    found = _PARTITION.fullmatch(name)
    if found is None or (index := int(found[2])) > MAX_PARTITION:
        return name, None
    return found[1], index
