"""What breaks the checks of subscription types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulsar

from pulsar_conformance.tamper import Mutation, Rule, drop, override

_SHARED = override("client", "subscribe", consumer_type=pulsar.ConsumerType.Shared)


def _of_its_own(call: Callable[..., Any], topic: Any, _subscription: str, **kwargs: Any) -> Any:
    return call(topic, f"of-{kwargs['consumer_name']}", **kwargs)


def _named(name: str) -> Callable[..., bool]:
    return lambda *_args, **kwargs: bool(kwargs.get("consumer_name") == name)


def _renamed(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return call(*args, **{**kwargs, "consumer_name": "zebra"})


MUTATIONS = (
    Mutation("subscription.exclusive", "shared", "both consumers ask for a Shared subscription", (_SHARED,)),
    Mutation("subscription.failover_partitioned", "shared", "the consumers ask for a Shared subscription", (_SHARED,)),
    Mutation(
        "subscription.failover_partitioned",
        "name",
        "the consumer that is first by name has another one",
        (Rule("client", "subscribe", _renamed, _named("ant")),),
    ),
    Mutation("subscription.failover_takeover", "shared", "the consumers ask for a Shared subscription", (_SHARED,)),
    Mutation(
        "subscription.failover_takeover", "stays", "the active consumer never closes", (drop("consumer", "close"),)
    ),
    Mutation(
        "subscription.failover_takeover",
        "no_ack",
        "the active consumer's acknowledgements do not leave, so messages come twice",
        (drop("consumer", "acknowledge"),),
    ),
    Mutation(
        "subscription.failover_priority",
        "same_priority",
        "all consumers have the same priority",
        (override("java.client", "consumer", priorityLevel=0),),
    ),
    Mutation("subscription.failover_spare", "shared", "the consumers ask for a Shared subscription", (_SHARED,)),
    Mutation("subscription.failover_spare", "stays", "the active consumers never close", (drop("consumer", "close"),)),
    Mutation("subscription.failover_hash", "shared", "the consumers ask for a Shared subscription", (_SHARED,)),
    Mutation(
        "subscription.failover_hash",
        "name",
        "one consumer has another name, so another place among the hashes",
        (Rule("client", "subscribe", _renamed, _named("cat")),),
    ),
    Mutation(
        "subscription.shared",
        "failover",
        "the consumers ask for a Failover subscription",
        (override("client", "subscribe", consumer_type=pulsar.ConsumerType.Failover),),
    ),
    Mutation(
        "subscription.shared",
        "apart",
        "each consumer has a separate subscription",
        (Rule("client", "subscribe", _of_its_own),),
    ),
    Mutation("subscription.shared_takeover", "stays", "the consumer never closes", (drop("consumer", "close"),)),
    Mutation(
        "subscription.shared_takeover",
        "no_ack",
        "acknowledgements do not leave, so settled messages come again",
        (drop("consumer", "acknowledge"),),
    ),
)
