"""Key_Shared subscriptions: consumers that join one, messages by key, the ranges that the broker reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pulsar

from pulsar_conformance.context import Context
from pulsar_conformance.kit import hashing
from pulsar_conformance.kit.sharing import keys_of

SUBSCRIPTION = "keys"
MEMBERS = ("ant", "bee", "cat")
KEYS = [f"key-{number}" for number in range(30)]
CONSISTENT = "subscriptionKeySharedUseConsistentHashing"


def join(ctx: Context, topic: str, name: str, **options: Any) -> Any:
    """A consumer of the subscription; keyword arguments as Context.consumer."""
    return ctx.consumer(topic, SUBSCRIPTION, consumer_type=pulsar.ConsumerType.KeyShared, consumer_name=name, **options)


def send_rounds(
    ctx: Context, topic: str, rounds: Sequence[int], *, keys: Sequence[str] = KEYS, **options: Any
) -> list[str]:
    """One message of each key in each round, unbatched, with what else is asked for; their texts, ``key/round``."""
    producer = ctx.producer(topic)
    texts = [f"{key}/{number}" for number in rounds for key in keys]
    for text in texts:
        producer.send(text.encode(), partition_key=key_of(text), **options)
    return texts


def key_of(text: str) -> str:
    """The key of a message by its text."""
    return text.rsplit("/", 1)[0]


def ranges_of(ctx: Context, topic: str) -> hashing.Ranges:
    """The ranges of each consumer, from the topic's stats."""
    found = ctx.stats(topic)["subscriptions"][SUBSCRIPTION]
    ctx.expect(found["type"] == "Key_Shared", f"the subscription is {found['type']}, not Key_Shared")
    consumers = found["consumers"]
    ctx.require(
        all(one.get("keyHashRangeArrays") is not None for one in consumers),
        "topic stats have no keyHashRangeArrays: Pulsar 4.0 or later has them",
    )
    return {one["consumerName"]: [(low, high) for low, high in one["keyHashRangeArrays"]] for one in consumers}


def hash_of(ctx: Context) -> Callable[[str], int]:
    """Returns the hash that decides for subscriptions without their own ranges, by the broker's settings."""
    return hashing.ring_hash if ctx.setting(CONSISTENT) == "true" else hashing.range_hash


def expect_owned(
    ctx: Context, got: Mapping[str, list[Any]], ranges: hashing.Ranges, hashed: Callable[[str], int]
) -> None:
    """Every key came to the consumer whose ranges hold its hash."""
    for key, names in keys_of(got).items():
        place = hashed(key)
        owner = hashing.owner(ranges, place)
        ctx.expect(names == {owner}, f"{key} has hash {place}, of {owner or 'no consumer'}, but {sorted(names)} got it")


def free_policy() -> pulsar.ConsumerKeySharedPolicy:
    """What a consumer says that allows messages out of order."""
    return pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.AutoSplit, allow_out_of_order_delivery=True)


def sticky_policy(*ranges: tuple[int, int]) -> pulsar.ConsumerKeySharedPolicy:
    """What a consumer says that takes these ranges of hashes, both ends included."""
    return pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=list(ranges))
