"""What breaks the checks of positions, of consumers of several topics and of readers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pulsar

from pulsar_conformance.tamper import Mutation, Rule, drop, override


def _unsubscribing(call: Any) -> Any:
    """The consumer does not close but removes its subscription."""
    return call.__self__.unsubscribe()


def _closing(call: Any) -> Any:
    """The consumer does not remove its subscription but closes."""
    return call.__self__.close()


def _coming_back(call: Any) -> Any:
    """The subscription is made again, where it was, as soon as it was removed."""
    consumer = call.__self__
    topic = consumer.topic()
    call()
    consumer._client.subscribe(topic, "sub", initial_position=pulsar.InitialPosition.Earliest).close()


def _one_subscription(call: Callable[..., Any], topic: Any, _subscription: str, **kwargs: Any) -> Any:
    return call(topic, "one", **{**kwargs, "consumer_type": pulsar.ConsumerType.Shared})


def _one_topic_less(call: Callable[..., Any], topics: Any, *args: Any, **kwargs: Any) -> Any:
    return call(topics[:-1], *args, **kwargs)


def _pattern(text: str) -> Callable[..., Any]:
    def change(call: Callable[..., Any], pattern: Any, *args: Any, **kwargs: Any) -> Any:
        return call(re.compile(pattern.pattern.replace("orders-.*", text)), *args, **kwargs)

    return change


def _java_pattern(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return call(*args, **{**kwargs, "pattern": kwargs["pattern"].replace("orders-.*", "orders-0")})


def _starting(position: Any) -> Callable[..., Any]:
    def change(call: Callable[..., Any], topic: str, _start: Any, **kwargs: Any) -> Any:
        return call(topic, position, **kwargs)

    return change


def _subscribing(call: Any, topic: str, _start: Any, **_kwargs: Any) -> Any:
    """A durable consumer takes the reader's place."""
    return call.__self__.subscribe(topic, "like-a-reader", initial_position=pulsar.InitialPosition.Earliest)


MUTATIONS = (
    Mutation(
        "mode.durable",
        "unsubscribed",
        "the consumer unsubscribes where it would close",
        (Rule("consumer", "close", _unsubscribing),),
    ),
    Mutation("mode.durable", "no_ack", "the acknowledgements do not leave", (drop("consumer", "acknowledge"),)),
    Mutation(
        "mode.nondurable",
        "durable",
        "the subscription is durable",
        (override("java.client", "consumer", mode="Durable"),),
    ),
    Mutation(
        "mode.independent",
        "same",
        "all consumers are of one subscription",
        (Rule("client", "subscribe", _one_subscription),),
    ),
    Mutation("mode.independent", "no_ack", "acknowledgements do not leave", (drop("consumer", "acknowledge"),)),
    Mutation("mode.seek_id", "dropped", "seek does nothing", (drop("consumer", "seek"),)),
    Mutation(
        "mode.seek_id",
        "earliest",
        "every seek goes to the earliest message",
        (Rule("consumer", "seek", lambda call, *_args: call(pulsar.MessageId.earliest)),),
    ),
    Mutation(
        "mode.seek_id",
        "not_forward",
        "seek to the latest message does nothing",
        (Rule("consumer", "seek", lambda _call, _to: None, lambda to: to is pulsar.MessageId.latest),),
    ),
    Mutation("mode.seek_time", "dropped", "seek does nothing", (drop("consumer", "seek"),)),
    Mutation(
        "mode.seek_time",
        "earlier",
        "seek goes to a minute before",
        (Rule("consumer", "seek", lambda call, time_ms: call(time_ms - 60_000)),),
    ),
    Mutation(
        "mode.unsubscribe",
        "closed",
        "the consumer closes where it would unsubscribe",
        (Rule("consumer", "unsubscribe", _closing),),
    ),
    Mutation(
        "mode.unsubscribe",
        "again",
        "the subscription is made again as soon as it was removed",
        (Rule("consumer", "unsubscribe", _coming_back),),
    ),
    Mutation("mode.unsubscribe", "dropped", "unsubscribe does nothing", (drop("consumer", "unsubscribe"),)),
    Mutation(
        "multi.list",
        "one_less",
        "the last topic of the list is left out",
        (Rule("client", "subscribe", _one_topic_less),),
    ),
    Mutation(
        "multi.regex",
        "narrow",
        "the pattern matches one topic only",
        (Rule("client", "subscribe", _pattern("orders-0")),),
    ),
    Mutation("multi.regex", "wide", "the pattern matches every topic", (Rule("client", "subscribe", _pattern(".*")),)),
    Mutation(
        "multi.regex_later",
        "fixed",
        "the pattern matches the topic that was there only",
        (Rule("java.client", "consumer", _java_pattern),),
    ),
    Mutation(
        "reader.earliest",
        "latest",
        "the reader starts at the end",
        (Rule("client", "create_reader", _starting(pulsar.MessageId.latest)),),
    ),
    Mutation(
        "reader.latest",
        "earliest",
        "the reader starts at the beginning",
        (Rule("client", "create_reader", _starting(pulsar.MessageId.earliest)),),
    ),
    Mutation(
        "reader.from_id",
        "inclusive",
        "every reader starts with the message it names",
        (override("client", "create_reader", start_message_id_inclusive=True),),
    ),
    Mutation(
        "reader.from_id",
        "exclusive",
        "every reader starts after the message it names",
        (override("client", "create_reader", start_message_id_inclusive=False),),
    ),
    Mutation(
        "reader.no_cursor",
        "consumer",
        "a durable consumer reads",
        (Rule("client", "create_reader", _subscribing),),
    ),
)
