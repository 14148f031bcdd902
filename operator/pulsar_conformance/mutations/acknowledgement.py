"""What breaks the checks of acknowledgement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulsar

from pulsar_conformance.tamper import Mutation, Rule, drop, override, without


def at_once(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Receive, and acknowledge what came."""
    message = call(*args, **kwargs)
    consumer: Any = call.__self__  # type: ignore[attr-defined]
    consumer.acknowledge(message)
    return message


def alone(call: Callable[..., Any], message: Any) -> None:
    """Acknowledge one message where all up to it were meant."""
    consumer: Any = call.__self__  # type: ignore[attr-defined]
    consumer.acknowledge(message)


def rewound(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Subscribe, and set the cursor back to the first message."""
    consumer = call(*args, **options)
    consumer.seek(pulsar.MessageId.earliest)
    return consumer


LOST = drop("consumer", "acknowledge")
EARLY = Rule("consumer", "receive", at_once)

MUTATIONS = (
    Mutation("ack.single", "lost", "acknowledgements do not leave", (LOST,)),
    Mutation("ack.single", "early", "messages are acknowledged when they are received", (EARLY,)),
    Mutation("ack.kept", "lost", "acknowledgements do not leave", (LOST,)),
    Mutation(
        "ack.kept",
        "forgotten",
        "the cursor loses its acknowledgements when a consumer comes",
        (Rule("client", "subscribe", rewound),),
    ),
    Mutation(
        "ack.cumulative",
        "single",
        "only the message itself is acknowledged",
        (Rule("consumer", "acknowledge_cumulative", alone),),
    ),
    Mutation(
        "ack.cumulative", "lost", "the acknowledgement does not leave", (drop("consumer", "acknowledge_cumulative"),)
    ),
    Mutation(
        "ack.cumulative_shared",
        "failover",
        "the subscriptions are Failover, where it is allowed",
        (override("client", "subscribe", consumer_type=pulsar.ConsumerType.Failover),),
    ),
    Mutation(
        "ack.batch_whole",
        "unbatched",
        "the messages are sent one by one",
        (without("client", "create_producer", "batching_enabled"),),
    ),
    Mutation("ack.batch_whole", "early", "messages are acknowledged when they are received", (EARLY,)),
    Mutation(
        "ack.batch_index",
        "off",
        "no consumer asks for it",
        (without("client", "subscribe", "batch_index_ack_enabled"),),
    ),
    Mutation(
        "ack.batch_index",
        "everywhere",
        "the consumer that does not ask for it has it too",
        (override("client", "subscribe", batch_index_ack_enabled=True),),
    ),
)
