"""Retry letters and dead letters of several topics and in a namespace where clients make no subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pulsar_conformance.checks.policies import backlog
from pulsar_conformance.checks.redelivery import settled, took
from pulsar_conformance.context import Context
from pulsar_conformance.kit.wire import Wire
from pulsar_conformance.model import check

NAMES = ("one", "two")
"""Topics of one namespace, each with a subscription of the same name."""
DELAY_MS = 300
NACK_MICROS = 100_000


@check(
    "retry.default_names",
    proves="Retry and dead letter topics are named after topic and subscription: two topics with subscriptions of one "
    "name do not get each other's letters",
    concepts="E.retry.names",
    seconds=5,
)
def default_names(ctx: Context) -> str:
    """The topics are not there before; the names are the Java client's own.

    Pulsar's proxy (4.0) answers the first question of a connection, whether a topic of the old name
    <subscription>-RETRY is there, as if it were. Behind such a proxy the clients here ask about another topic first.
    """
    topics = _topics(ctx)
    wire = ctx.tamper.wrap("client", Wire(ctx.instance.service_url, access=ctx.instance.access))
    misled = wire.finds(f"persistent://{ctx.namespace}/sub-RETRY")

    def consumer(name: str) -> Any:
        client = ctx.tamper.wrap("java.client", ctx.new_java())
        if misled:
            client.producer(topics[name]).close()
        return _consumer(ctx, client, topics[name], {"max_redeliver_count": 1})

    summary = _apart(ctx, topics, consumer, {name: (f"{name}-sub-RETRY", f"{name}-sub-DLQ") for name in NAMES})
    first = (
        "the service URL says of a topic that is not there that it is, when asked first, so the clients asked it of "
        "another before: declare both names"
        if misled
        else "asked first, the service URL says that sub-RETRY is not there"
    )
    return f"{summary}; {first}"


@check(
    "retry.declared_names",
    proves="With declared names two topics with subscriptions of one name do not get each other's letters, also "
    "behind a proxy",
    concepts="E.retry.names",
    seconds=5,
)
def declared_names(ctx: Context) -> str:
    """Clients that ask nothing else before."""
    topics = _topics(ctx)
    names = {name: (f"{name}-later", f"{name}-dead") for name in NAMES}

    def consumer(name: str) -> Any:
        retries, dead = (f"persistent://{ctx.namespace}/{one}" for one in names[name])
        policy = {"max_redeliver_count": 1, "retry_letter_topic": retries, "dead_letter_topic": dead}
        return _consumer(ctx, ctx.tamper.wrap("java.client", ctx.new_java()), topics[name], policy)

    return _apart(ctx, topics, consumer, names)


@check(
    "dead_letter.no_auto_subscription",
    proves="Where clients may make no subscription, a dead letter with an initial subscription waits at its source "
    "until that is made, and is not lost; without one it goes to its topic",
    concepts="E.dead_letter.initial",
    seconds=6,
)
def no_auto_subscription(ctx: Context) -> str:
    """Two subscriptions made by admin REST refuse a message; that of the dead letters is made at last."""
    ctx.policy("autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False})
    topic, later = ctx.topic(), "later"
    dead = {name: ctx.topic(f"dead-{name}") for name in ("with", "without")}
    consumers = {}
    for name, letters in dead.items():
        ctx.admin.put(f"{ctx.path(topic)}/subscription/{name}")
        initial = {"initial_subscription_name": later} if name == "with" else {}
        consumers[name] = ctx.java_consumer(
            topic,
            name,
            type="Shared",
            negativeAckRedeliveryDelayMicros=NACK_MICROS,
            dead_letter={"max_redeliver_count": 1, "dead_letter_topic": letters, **initial},
        )
    ctx.send(ctx.producer(topic), ["bad"])
    for name, consumer in consumers.items():
        for count in (0, 1):
            message = took(ctx, consumer, f"the message on {name}, time {count + 1}")
            ctx.expect(message.redelivery_count == count, f"{name}: redelivery count {message.redelivery_count}")
            consumer.nack(message)
    ctx.eventually(lambda: _arrived(ctx, dead["without"]) == 1, "the dead letter without a subscription is stored")
    settled(ctx, topic, "without")
    extra = consumers["with"].receive(1000)
    ctx.expect(extra is None, f"the message was refused twice, but {extra and extra.data!r} came")
    counts = (_arrived(ctx, dead["with"]), backlog(ctx, topic, "with"))
    ctx.expect(counts == (0, 1), f"dead letters and backlog without the subscription: {counts}, expected (0, 1)")
    ctx.admin.put(f"{ctx.path(dead['with'])}/subscription/{later}")
    ctx.eventually(lambda: _arrived(ctx, dead["with"]) == 1, "the dead letter goes where it waits for its reader")
    found = ctx.texts(ctx.receive(ctx.consumer(dead["with"], later), 1))
    ctx.expect(found == ["bad"], f"the dead letters are {found}")
    settled(ctx, topic, "with")
    subscriptions = sorted(ctx.stats(dead["without"])["subscriptions"])
    ctx.expect(not subscriptions, f"subscriptions of the dead letters without an initial one: {subscriptions}")
    return (
        "with an initial subscription: 0 dead letters, backlog 1 until it was made, then 1; without one: 1 immediately"
    )


def _topics(ctx: Context) -> dict[str, str]:
    # With a long tick the broker may deliver a delayed message that much too early.
    ctx.policy("delayedDelivery", {"active": True, "tickTime": 100})
    return {name: ctx.topic(name) for name in NAMES}


def _consumer(ctx: Context, client: Any, topic: str, policy: Mapping[str, Any]) -> Any:
    made = client.consumer(
        topic, "sub", type="Shared", retryEnable=True, dead_letter=policy, initial_position="Earliest"
    )
    return ctx.tamper.wrap("java.consumer", made)


def _apart(
    ctx: Context, topics: Mapping[str, str], consumer: Callable[[str], Any], names: Mapping[str, tuple[str, str]]
) -> str:
    """Put a message of each topic off twice: it comes again to its own consumer, then goes to its own dead letters."""
    consumers = {name: consumer(name) for name in topics}
    for name, topic in topics.items():
        ctx.send(ctx.producer(topic), [f"of {name}"])
    for turn in range(2):
        messages = {name: took(ctx, one, f"the message of {name}") for name, one in consumers.items()}
        for name, message in messages.items():
            described = f"of {name}, from {names[name][0] if turn else name}"
            received = f"{message.data.decode()}, from {message.topic.rsplit('/', 1)[1]}"
            ctx.expect(
                received == described, f"{name}'s consumer was to get the message {described}; it got {received}"
            )
            consumers[name].reconsume_later(message, DELAY_MS)
    for name, (_, dead) in names.items():
        full = f"persistent://{ctx.namespace}/{dead}"
        ctx.eventually(lambda full=full: _arrived(ctx, full) > 0, f"a dead letter in {dead}")  # type: ignore[misc]
        until = ctx.came(f"of {name}")
        letters = ctx.texts(ctx.drain(ctx.reader(full), until=until, quiet=0.3, ack=False))
        ctx.expect(letters == [f"of {name}"], f"{dead} was to hold the letter of {name} only, it holds {letters}")
    there = {topic.rsplit("/", 1)[1] for topic in ctx.admin.get(f"persistent/{ctx.namespace}")}
    expected = {*topics, *(one for pair in names.values() for one in pair)}
    ctx.expect(there == expected, f"topics {sorted(there)}, expected {sorted(expected)}")
    topic_names = " and ".join(f"{retries}, {dead}" for retries, dead in names.values())
    return f"2 topics, one subscription name: each message came again and died in its own topics ({topic_names})"


def _arrived(ctx: Context, topic: str) -> int:
    return int(ctx.stats(topic)["msgInCounter"])
