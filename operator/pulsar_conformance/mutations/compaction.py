"""What breaks the checks of compaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsar_conformance.tamper import Mutation, Rule, change_admin, drop_admin, override, without


def filled(call: Callable[..., Any], data: bytes, **options: Any) -> Any:
    """No message is empty."""
    return call(data or b"full", **options)


NEVER = drop_admin("PUT", "/compaction$")

MUTATIONS = (
    Mutation("compaction.last_value", "never", "the topic is not compacted", (NEVER,)),
    Mutation(
        "compaction.last_value",
        "plain",
        "the consumer does not read compacted",
        (without("client", "subscribe", "is_read_compacted"),),
    ),
    Mutation(
        "compaction.last_value",
        "everywhere",
        "the other consumer reads compacted too",
        (override("client", "subscribe", is_read_compacted=True),),
    ),
    Mutation(
        "compaction.empty_deletes", "filled", "the message is not empty", (Rule("java.producer", "send", filled),)
    ),
    Mutation(
        "compaction.empty_deletes",
        "plain",
        "the reader does not read compacted",
        (without("client", "create_reader", "is_read_compacted"),),
    ),
    Mutation(
        "compaction.keyless",
        "keyed",
        "all messages have the same key",
        (override("producer", "send", partition_key="k"),),
    ),
    Mutation(
        "compaction.keyless",
        "plain",
        "the reader does not read compacted",
        (without("client", "create_reader", "is_read_compacted"),),
    ),
    Mutation(
        "compaction.threshold",
        "unset",
        "the namespace has no threshold",
        (drop_admin("PUT", "/compactionThreshold$"),),
    ),
    Mutation(
        "compaction.threshold",
        "low",
        "both topics are above the threshold",
        (change_admin("PUT", "/compactionThreshold$", lambda _body: 1000),),
    ),
)
