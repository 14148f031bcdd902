"""What breaks the checks of non-persistent topics on other subscription types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulsar

from pulsar_conformance.tamper import Mutation, Rule, override


def _stored(call: Callable[..., Any], topic: str, *args: Any, **kwargs: Any) -> Any:
    """A client of a persistent topic of the same name."""
    return call(topic.replace("non-persistent://", "persistent://"), *args, **kwargs)


def _asked_of_it(call: Callable[..., Any], method: str, path: str, *args: Any, **query: Any) -> Any:
    """Admin REST of that topic."""
    return call(method, path.replace("non-persistent/", "persistent/"), *args, **query)


PERSISTENT = (
    Rule("admin", "call", _asked_of_it),
    Rule("client", "subscribe", _stored),
    Rule("client", "create_producer", _stored),
)


MUTATIONS = (
    *(
        Mutation(
            f"topic.nonpersistent_{name}",
            "other",
            f"the consumers ask for a {other.name} subscription",
            (override("client", "subscribe", consumer_type=other),),
        )
        for name, other in (
            ("shared", pulsar.ConsumerType.Failover),
            ("failover", pulsar.ConsumerType.Shared),
            ("key_shared", pulsar.ConsumerType.Shared),
        )
    ),
    *(
        Mutation(f"topic.nonpersistent_{name}", "persistent", "the topic is persistent", PERSISTENT)
        for name in ("shared", "failover", "key_shared")
    ),
)
