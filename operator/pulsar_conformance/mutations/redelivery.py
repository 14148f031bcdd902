"""What breaks the checks of delivering again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulsar

from pulsar_conformance.tamper import Mutation, Rule, change_admin, drop, override, without


def at_once(call: Callable[..., Any], message: Any, _delay_ms: int) -> None:
    """Put a message off by nothing."""
    call(message, 0)


def constant(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A consumer with the same delay each time in place of a back-off."""
    kwargs.pop("nack_backoff")
    return call(*args, negativeAckRedeliveryDelayMicros=500_000, **kwargs)


def uncapped(call: Callable[..., Any], *args: Any, nack_backoff: Any, **kwargs: Any) -> Any:
    """A consumer whose delay may grow to ten minutes."""
    return call(*args, nack_backoff={**nack_backoff, "max_delay_ms": 600_000}, **kwargs)


def endless(call: Callable[..., Any], *args: Any, dead_letter: Any, **kwargs: Any) -> Any:
    """A consumer that may put a message off ten times."""
    return call(*args, dead_letter={**dead_letter, "max_redeliver_count": 10}, **kwargs)


def keeping(policies: Any) -> Any:
    """The namespace's policies with a retention that keeps what everybody acknowledged."""
    return {**policies, "retention_policies": {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}}


MUTATIONS = (
    Mutation(
        "nack.delay",
        "eager",
        "the client asks again after 0.1 s",
        (override("client", "subscribe", negative_ack_redelivery_delay_ms=100),),
    ),
    Mutation("nack.delay", "lost", "the refusal does not leave", (drop("consumer", "negative_acknowledge"),)),
    Mutation(
        "nack.delay",
        "uncounted",
        "the subscription is Exclusive, where the broker does not count",
        (without("client", "subscribe", "consumer_type"),),
    ),
    Mutation(
        "nack.backoff", "constant", "the delay is the same each time", (Rule("java.client", "consumer", constant),)
    ),
    Mutation("nack.backoff", "lost", "the refusal does not leave", (drop("java.consumer", "nack"),)),
    Mutation("nack.cap", "none", "the delay has no maximum", (Rule("java.client", "consumer", uncapped),)),
    Mutation("nack.cap", "lost", "the refusal does not leave", (drop("java.consumer", "nack"),)),
    Mutation(
        "nack.ordered",
        "shared",
        "the consumers ask for a Shared subscription",
        (override("client", "subscribe", consumer_type=pulsar.ConsumerType.Shared),),
    ),
    Mutation(
        "nack.ordered",
        "eager",
        "the client asks again after 0.1 s",
        (override("client", "subscribe", negative_ack_redelivery_delay_ms=100),),
    ),
    Mutation("nack.ordered", "no_ack", "acknowledgements do not leave", (drop("consumer", "acknowledge"),)),
    Mutation(
        "ack_timeout.redelivered",
        "none",
        "the consumer has no acknowledgement timeout",
        (without("java.client", "consumer", "ackTimeoutMillis"),),
    ),
    Mutation(
        "ack_timeout.redelivered",
        "eager",
        "the timeout is half as long",
        (override("java.client", "consumer", ackTimeoutMillis=1000),),
    ),
    Mutation("ack_timeout.redelivered", "lost", "acknowledgements do not leave", (drop("java.consumer", "ack"),)),
    Mutation(
        "ack_timeout.backoff",
        "constant",
        "the timeout is the same each time",
        (without("java.client", "consumer", "ack_timeout_backoff"),),
    ),
    Mutation(
        "retry.letter",
        "at_once",
        "messages are put off by nothing",
        (Rule("java.consumer", "reconsume_later", at_once),),
    ),
    Mutation("retry.letter", "lost", "messages are not put off at all", (drop("java.consumer", "reconsume_later"),)),
    Mutation(
        "retry.letter",
        "endless",
        "ten retries are allowed",
        (Rule("java.client", "consumer", endless),),
    ),
    Mutation(
        "dead_letter.after_max",
        "none",
        "the consumer has no dead letter topic",
        (without("client", "subscribe", "dead_letter_policy"),),
    ),
    Mutation(
        "dead_letter.after_max",
        "sooner",
        "one redelivery is allowed",
        (override("client", "subscribe", dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1)),),
    ),
    Mutation("dead_letter.after_max", "lost", "refusals do not leave", (drop("consumer", "negative_acknowledge"),)),
    Mutation(
        "dead_letter.initial_subscription",
        "none",
        "no initial subscription is declared",
        (override("client", "subscribe", dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1)),),
    ),
    Mutation(
        "dead_letter.initial_subscription",
        "retention",
        "the namespace retains messages without a subscription",
        (change_admin("PUT", r"^namespaces/[^/]+/[^/]+$", keeping),),
    ),
)
