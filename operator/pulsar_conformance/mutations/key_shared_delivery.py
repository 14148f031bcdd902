"""What breaks the checks of delays, dead letters and order on Key_Shared subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulsar

from pulsar_conformance.kit.keyed import free_policy, sticky_policy
from pulsar_conformance.mutations.delivery import faded, switched
from pulsar_conformance.tamper import Mutation, Rule, drop, override, without

_ALL = (0, 65535)


def _named(*names: str) -> Callable[..., bool]:
    return lambda *_args, **options: options.get("consumer_name") in names


def _on(topic: str) -> Callable[..., bool]:
    return lambda where, *_args, **_options: where.endswith(topic)


def _later(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return call(*args, **{**options, "deliver_at": options["deliver_at"] + 3000})


def _earlier(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return call(*args, **{**options, "deliver_at": options["deliver_at"] - 2000})


def _delayed(*ends: bytes) -> Callable[..., bool]:
    return lambda data, **options: "deliver_at" in options and data.endswith(ends)


def _changed(**changes: Any) -> Callable[..., Any]:
    return lambda call, *args, **options: call(*args, **{**options, **changes})


def _same_key(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return call(*args, **{**options, "partition_key": "key-3"})


_SHARED = override("client", "subscribe", consumer_type=pulsar.ConsumerType.Shared)
_KEYED = Rule(
    "client",
    "subscribe",
    _changed(consumer_type=pulsar.ConsumerType.Shared),
    lambda *_args, **options: options.get("consumer_type") == pulsar.ConsumerType.KeyShared,
)

MUTATIONS = (
    Mutation(
        "key_shared.out_of_order",
        "in_order",
        "no consumer allows delivery out of order",
        (without("client", "subscribe", "key_shared_policy"),),
    ),
    Mutation(
        "key_shared.out_of_order",
        "always",
        "every consumer allows delivery out of order",
        (Rule("client", "subscribe", _changed(key_shared_policy=free_policy()), _on("/strict")),),
    ),
    Mutation(
        "key_shared.out_of_order",
        "stays",
        "the first consumer does not leave",
        (drop("consumer", "close"),),
    ),
    Mutation("key_shared.delayed", "faded", "the delays are lost", (Rule("producer", "send", faded),)),
    Mutation("key_shared.delayed", "off", "the namespace has delayed delivery off", (switched(False),)),
    Mutation(
        "key_shared.delayed",
        "early",
        "the times are two seconds too early",
        (Rule("producer", "send", _earlier, _delayed(b"/0", b"/1")),),
    ),
    Mutation(
        "key_shared.delayed",
        "turned",
        "what is due first is due last",
        (Rule("producer", "send", _later, _delayed(b"/1")),),
    ),
    Mutation(
        "key_shared.delayed",
        "one_key",
        "all messages are sent with the same key",
        (Rule("producer", "send", _same_key),),
    ),
    Mutation(
        "key_shared.dead_letter",
        "no_policy",
        "the consumers have no dead letter topic",
        (without("client", "subscribe", "dead_letter_policy"),),
    ),
    Mutation("key_shared.dead_letter", "shared", "the consumers ask for a Shared subscription", (_KEYED,)),
    Mutation(
        "key_shared.dead_letter",
        "one_key",
        "messages are sent without a key",
        (without("producer", "send", "partition_key"),),
    ),
    Mutation(
        "key_shared.sticky_without_ranges",
        "ranges",
        "the consumer that has none names all hashes",
        (Rule("client", "subscribe", _changed(key_shared_policy=sticky_policy(_ALL)), _named("bare")),),
    ),
    Mutation(
        "key_shared.sticky_without_ranges",
        "gap_taken",
        "the consumer of one half names all hashes",
        (Rule("client", "subscribe", _changed(key_shared_policy=sticky_policy(_ALL)), _named("bee")),),
    ),
)
