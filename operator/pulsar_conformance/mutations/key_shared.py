"""What breaks the checks of Key_Shared subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulsar

from pulsar_conformance.kit.keyed import free_policy
from pulsar_conformance.tamper import Mutation, Rule, drop, override, without

_SHARED = override("client", "subscribe", consumer_type=pulsar.ConsumerType.Shared)


def _same_key(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return call(*args, **{**kwargs, "partition_key": "key-0"})


def _wider(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The consumer of the gap has joined from the start, under the name of the second one."""
    policy = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=[(10000, 39999), (50000, 65535)])
    return call(*args, **{**kwargs, "key_shared_policy": policy})


MUTATIONS = (
    Mutation("key_shared.one_consumer", "shared", "the consumers ask for a Shared subscription", (_SHARED,)),
    Mutation(
        "key_shared.one_consumer",
        "one_key",
        "all messages are sent with the same key",
        (Rule("producer", "send", _same_key),),
    ),
    Mutation(
        "key_shared.consistent_hashing",
        "names",
        "the consumers have one name, so the ring has other points",
        (override("client", "subscribe", consumer_name="dog"),),
    ),
    Mutation(
        "key_shared.consistent_hashing", "shared", "the consumers ask for a Shared subscription, no ranges", (_SHARED,)
    ),
    Mutation(
        "key_shared.consistent_hashing",
        "no_key",
        "messages are sent without a key",
        (without("producer", "send", "partition_key"),),
    ),
    Mutation("key_shared.auto_split", "shared", "the consumers ask for a Shared subscription, no ranges", (_SHARED,)),
    Mutation(
        "key_shared.sticky",
        "auto_split",
        "no ranges are declared",
        (without("client", "subscribe", "key_shared_policy"),),
    ),
    Mutation(
        "key_shared.sticky",
        "gap_taken",
        "another consumer declares the gap's range too",
        (Rule("client", "subscribe", _wider, lambda *_args, **kwargs: kwargs["consumer_name"] == "bee"),),
    ),
    Mutation(
        "key_shared.sticky_overlap",
        "no_ranges",
        "no ranges are declared",
        (without("client", "subscribe", "key_shared_policy"),),
    ),
    Mutation(
        "key_shared.batching",
        "default_batches",
        "batches are never by key",
        (override("client", "create_producer", batching_type=pulsar.BatchingType.Default),),
    ),
    Mutation(
        "key_shared.batching",
        "no_batches",
        "messages are not batched",
        (override("client", "create_producer", batching_enabled=False),),
    ),
    Mutation(
        "key_shared.batching",
        "no_contrast",
        "batches are always by key, so the contrast is missing",
        (override("client", "create_producer", batching_type=pulsar.BatchingType.KeyBased),),
    ),
    Mutation(
        "key_shared.java_batching",
        "default_batches",
        "batches are not by key",
        (override("java.client", "producer", key_based_batching=False),),
    ),
    Mutation(
        "key_shared.draining",
        "out_of_order",
        "the consumers allow delivery out of order",
        (override("client", "subscribe", key_shared_policy=free_policy()),),
    ),
    Mutation(
        "key_shared.draining",
        "no_ack",
        "the first consumer's acknowledgements do not leave",
        (drop("consumer", "acknowledge"),),
    ),
)
