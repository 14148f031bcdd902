"""Durable and other positions, consumers of several topics, readers."""

from __future__ import annotations

import re
import time
from typing import Any

import pulsar

from pulsar_conformance.context import Context
from pulsar_conformance.model import CheckFailed, check


def _numbers(low: int, high: int) -> list[str]:
    return [f"m{number}" for number in range(low, high)]


def _subscriptions(ctx: Context, topic: str) -> dict[str, bool]:
    """Whether each subscription of the topic is durable, from its stats."""
    return {name: bool(one["durable"]) for name, one in ctx.stats(topic)["subscriptions"].items()}


def _cursors(ctx: Context, topic: str) -> set[str]:
    return set(ctx.internal_stats(topic)["cursors"])


def _java_texts(consumer: Any, count: int, within: float = 30) -> list[str]:
    """The next messages of a consumer of the Java client, acknowledged. Raises CheckFailed when one does not come."""
    out: list[str] = []
    deadline = time.monotonic() + within
    while len(out) < count:
        message = consumer.receive(max(50, int((deadline - time.monotonic()) * 1000)))
        if message is None:
            raise CheckFailed(f"{len(out)} of {count} messages within {within:.0f} s: {out[-5:]}")
        consumer.ack(message)
        out.append(message.data.decode())
    return out


# --- modes and positions


@check(
    "mode.durable",
    proves="A durable subscription keeps its position and what is published while none of its consumers is there",
    concepts="E.subscription.durable",
    seconds=4,
)
def durable(ctx: Context) -> str:
    """All consumers and clients leave, five messages are published, the topic is unloaded; then a new client comes."""
    topic = ctx.topic()
    producer = ctx.producer(topic)
    own = ctx.client()
    first = ctx.consumer(topic, client=own)
    ctx.send(producer, _numbers(0, 10))
    got = ctx.texts(ctx.receive(first, 4))
    ctx.expect(got == _numbers(0, 4), f"the first consumer got {got}")
    # Closing sends what is acknowledged and not yet told to the broker.
    first.close()
    own.close()
    ctx.send(producer, _numbers(10, 15))
    ctx.expect(_subscriptions(ctx, topic) == {"sub": True}, f"subscriptions: {_subscriptions(ctx, topic)}")
    # The cursor's ledger is made with the first acknowledgement; an unload in that moment forgets what is acknowledged.
    ctx.eventually(
        lambda: ctx.internal_stats(topic)["cursors"]["sub"]["state"] == "Open", "the cursor has its own ledger"
    )
    ctx.admin.put(f"{ctx.path(topic)}/unload")
    second = ctx.consumer(topic, client=ctx.client())
    got = ctx.texts(ctx.receive(second, 11))
    ctx.expect(got == _numbers(4, 15), f"it did not continue after m3: {got}")
    return "4 of 10 acknowledged, all consumers gone, 5 more sent, topic unloaded: a new consumer got m4 to m14"


@check(
    "mode.nondurable",
    proves="A NonDurable subscription goes with its consumer: no cursor stays, no message is kept for it",
    concepts="E.subscription.nondurable",
    seconds=5,
)
def nondurable(ctx: Context) -> str:
    """Beside a durable subscription, which holds what the other one lost."""
    topic = ctx.topic()
    kept = ctx.consumer(topic, "kept")
    passing = ctx.java_consumer(topic, "passing", mode="NonDurable", initial_position="Latest")
    producer = ctx.producer(topic)
    ctx.send(producer, _numbers(0, 5))
    got = _java_texts(passing, 5)
    ctx.expect(got == _numbers(0, 5), f"the consumer got {got}")
    durable = _subscriptions(ctx, topic)
    ctx.expect(durable == {"kept": True, "passing": False}, f"durable subscriptions, from the stats: {durable}")
    passing.close()
    ctx.eventually(lambda: _subscriptions(ctx, topic) == {"kept": True}, "the NonDurable subscription is gone")
    ctx.expect(_cursors(ctx, topic) == {"kept"}, f"cursors: {sorted(_cursors(ctx, topic))}")
    ctx.send(producer, _numbers(5, 10))
    again = ctx.java_consumer(topic, "passing", mode="NonDurable", initial_position="Latest")
    ctx.send(producer, _numbers(10, 12))
    got = _java_texts(again, 2)
    ctx.expect(got == _numbers(10, 12), f"messages sent while there was no consumer were kept: {got}")
    got = ctx.texts(ctx.receive(kept, 12))
    ctx.expect(got == _numbers(0, 12), f"the durable subscription got {got}")
    return "durable: false in stats, gone with its consumer; 5 messages sent then came to the durable one only"


@check(
    "mode.independent",
    proves="Several subscriptions of a topic, of any type, each get all messages and have separate positions",
    concepts=("E.subscription.durable", "E.subscription.shared"),
    seconds=4,
)
def independent(ctx: Context) -> str:
    """One subscription of each type; what one acknowledges stays in the backlog of the others."""
    topic = ctx.topic()
    kinds = ("Exclusive", "Failover", "Shared", "KeyShared")
    consumers = {
        kind: ctx.consumer(topic, f"by-{kind}", consumer_type=getattr(pulsar.ConsumerType, kind)) for kind in kinds
    }
    ctx.send(ctx.producer(topic), _numbers(0, 20))
    for place, (kind, consumer) in enumerate(consumers.items()):
        messages = ctx.receive(consumer, 20, ack=False)
        ctx.expect(sorted(ctx.texts(messages)) == sorted(_numbers(0, 20)), f"{kind} got {ctx.texts(messages)}")
        for message in messages[: 5 * place]:
            consumer.acknowledge(message)
    expected = {f"by-{kind}": 20 - 5 * place for place, kind in enumerate(kinds)}

    def backlogs() -> bool:
        found = ctx.stats(topic, getPreciseBacklog=True)["subscriptions"]
        backlogs = {name: one["msgBacklog"] for name, one in found.items()}
        ctx.expect(backlogs == expected, f"backlogs {backlogs}, expected {expected}")
        return True

    ctx.eventually(backlogs, "each subscription's own backlog")
    return f"each of {len(kinds)} subscriptions got all 20 messages; backlogs by their own acknowledgements: {expected}"


def _read_through(ctx: Context, topic: str) -> tuple[Any, list[Any]]:
    """A consumer that has got and acknowledged ten messages, and these."""
    consumer = ctx.consumer(topic)
    producer = ctx.producer(topic)
    ctx.send(producer, _numbers(0, 10))
    messages = ctx.receive(consumer, 10)
    ctx.expect(ctx.texts(messages) == _numbers(0, 10), f"the consumer got {ctx.texts(messages)}")
    return consumer, messages


@check(
    "mode.seek_id",
    proves="Seek to a message id: acknowledged messages come again from there on, or are left out when seeking forward",
    concepts="E.subscription.durable",
    seconds=4,
)
def seek_id(ctx: Context) -> str:
    """Back to the third message, to the earliest one and to the end."""
    topic = ctx.topic()
    consumer, messages = _read_through(ctx, topic)
    # The Python client goes on after the message it seeks to, unless start_message_id_inclusive.
    consumer.seek(messages[2].message_id())
    got = ctx.texts(ctx.receive(consumer, 7))
    ctx.expect(got == _numbers(3, 10), f"after seeking to m2: {got}")
    consumer.seek(pulsar.MessageId.earliest)
    got = ctx.texts(ctx.receive(consumer, 10))
    ctx.expect(got == _numbers(0, 10), f"after seeking to the earliest: {got}")
    consumer.seek(pulsar.MessageId.earliest)
    consumer.seek(pulsar.MessageId.latest)
    ctx.send(ctx.producer(topic), ["next"])
    got = ctx.texts(ctx.receive(consumer, 1))
    ctx.expect(got == ["next"], f"after seeking to the latest: {got}")
    return "10 acknowledged; seek to m2: m3 to m9 again; to earliest: all 10; to latest: only the one sent after it"


@check(
    "mode.seek_time",
    proves="Seek to a time: messages published then or later come again, earlier ones do not",
    concepts="E.subscription.durable",
    seconds=4,
)
def seek_time(ctx: Context) -> str:
    """The time is the publish time of a message in the middle that is later than the one before it."""
    topic = ctx.topic()
    consumer, messages = _read_through(ctx, topic)
    times = [message.publish_timestamp() for message in messages]
    producer = ctx.producer(topic)
    while times[-1] == times[-2]:
        ctx.send(producer, [f"m{len(times)}"])
        times.append(ctx.receive(consumer, 1)[0].publish_timestamp())
    middle = next((at for at in range(4, len(times)) if times[at] > times[at - 1]), len(times) - 1)
    consumer.seek(times[middle])
    got = ctx.texts(ctx.receive(consumer, len(times) - middle))
    ctx.expect(got == _numbers(middle, len(times)), f"after seeking to the publish time of m{middle}: {got}")
    return (
        f"{len(times)} acknowledged; seek to the publish time of m{middle}: {got[0]} to {got[-1]} came again in order"
    )


@check(
    "mode.unsubscribe",
    proves="Unsubscribe removes the subscription with its position; it is refused while another consumer is there",
    concepts="E.subscription.durable",
    seconds=4,
)
def unsubscribe(ctx: Context) -> str:
    """A Shared subscription with two consumers, then with one; a new one of the same name starts again."""
    topic = ctx.topic()
    first, second = (ctx.consumer(topic, consumer_type=pulsar.ConsumerType.Shared) for _ in range(2))
    producer = ctx.producer(topic)
    refusal = ctx.refused(pulsar.PulsarException, first.unsubscribe)
    second.close()
    ctx.send(producer, _numbers(0, 5))
    ctx.receive(first, 2)
    first.unsubscribe()
    ctx.expect(not _subscriptions(ctx, topic), f"subscriptions: {_subscriptions(ctx, topic)}")
    ctx.expect(not _cursors(ctx, topic), f"cursors: {sorted(_cursors(ctx, topic))}")
    again = ctx.consumer(topic, initial_position=pulsar.InitialPosition.Latest)
    ctx.send(producer, ["next"])
    got = ctx.texts(ctx.receive(again, 1))
    ctx.expect(got == ["next"], f"the new subscription has the old position: {got}")
    return f"refused with two consumers ({refusal}); with one the subscription and its cursor are deleted"


# --- several topics


@check(
    "multi.list",
    proves="One consumer takes from all topics of a list, also of several namespaces, each message once",
    concepts="E.subscription.list",
    seconds=4,
)
def topic_list(ctx: Context) -> str:
    """Three topics in two namespaces, one of them partitioned; a fourth topic is not in the list."""
    topics = [ctx.topic("one"), ctx.topic("two", partitions=2), ctx.topic("one", namespace=ctx.new_namespace())]
    other = ctx.topic("other")
    consumer = ctx.consumer(topics)
    sent = {}
    for place, topic in enumerate([*topics, other]):
        texts = [f"{place}/{number}" for number in range(10)]
        ctx.send(ctx.producer(topic), texts)
        sent.update(dict.fromkeys(texts, topic))
    messages = ctx.receive(consumer, 30)
    expected = sorted(text for text, topic in sent.items() if topic != other)
    ctx.expect(sorted(ctx.texts(messages)) == expected, f"got {sorted(ctx.texts(messages))}")
    for message, text in zip(messages, ctx.texts(messages), strict=True):
        origin = message.topic_name()
        ctx.expect(origin.split("-partition-")[0] == sent[text], f"{text} of {sent[text]} is reported as of {origin}")
    ctx.nothing(consumer, 0.5, "all messages of the list's topics were there")
    return (
        "30 messages of 3 topics (one partitioned, one of another namespace), each once with its topic; other topic: 0"
    )


@check(
    "multi.regex",
    proves="A pattern subscription takes from every topic of the namespace that matches, and from no other",
    concepts="E.subscription.regex",
    seconds=4,
)
def regex(ctx: Context) -> str:
    """Two matching topics, one that only begins alike in another namespace, one with another name."""
    matching = [ctx.topic(f"orders-{number}") for number in range(2)]
    others = [ctx.topic("bills-0"), ctx.topic("orders-0", namespace=ctx.new_namespace())]
    for place, topic in enumerate([*matching, *others]):
        ctx.send(ctx.producer(topic), [f"{place}/{number}" for number in range(5)])
    consumer = ctx.consumer(re.compile(f"persistent://{ctx.namespace}/orders-.*"))
    got = ctx.texts(ctx.receive(consumer, 10))
    expected = sorted(f"{place}/{number}" for place in range(2) for number in range(5))
    ctx.expect(sorted(got) == expected, f"got {sorted(got)}")
    ctx.nothing(consumer, 1.0, "all messages of the matching topics were there")
    return "10 messages of the 2 topics that match, none of the 2 others"


@check(
    "multi.regex_later",
    proves="A pattern subscription finds a topic that is created later, and gets its messages from the first one on",
    concepts="E.subscription.regex",
    seconds=6,
)
def regex_later(ctx: Context) -> str:
    """The Java client, configured to look for topics every second; the topic is created after the subscription, with
    messages in it."""
    ctx.send(ctx.producer(ctx.topic("orders-0")), _numbers(0, 3))
    consumer = ctx.java_consumer(
        [], pattern=f"persistent://{ctx.namespace}/orders-.*", patternAutoDiscoveryPeriod=1, type="Shared"
    )
    got = _java_texts(consumer, 3)
    ctx.expect(sorted(got) == _numbers(0, 3), f"of the topic that was there: {got}")
    for name in ("bills-1", "orders-1"):
        ctx.send(ctx.producer(ctx.topic(name)), [f"{name}/{number}" for number in range(5)])
    got = _java_texts(consumer, 5)
    ctx.expect(sorted(got) == [f"orders-1/{number}" for number in range(5)], f"of the later topic: {got}")
    extra = consumer.receive(500)
    ctx.expect(extra is None, f"all messages were there, but {extra.data if extra else ''!r} came")
    return "3 messages of the topic that was there, 5 of the matching topic created later, none of another new topic"


# --- readers


@check(
    "reader.earliest",
    proves="A reader from the earliest message reads all there is, then what is sent",
    concepts="E.reader",
)
def reader_earliest(ctx: Context) -> str:
    """Five messages before it, two after; at the end there is nothing to read."""
    topic = ctx.topic()
    producer = ctx.producer(topic)
    ctx.send(producer, _numbers(0, 5))
    reader = ctx.reader(topic, pulsar.MessageId.earliest)
    got = ctx.texts(ctx.receive(reader, 5, ack=False))
    more = reader.has_message_available()
    ctx.send(producer, _numbers(5, 7))
    later = reader.has_message_available()
    got += ctx.texts(ctx.receive(reader, 2, ack=False))
    ctx.expect(got == _numbers(0, 7), f"read {got}")
    ctx.expect(not more and later, f"messages available: {more} at the end, {later} after two more were sent")
    return "read m0 to m4, then was at the end, then m5 and m6 when they were sent"


@check("reader.latest", proves="A reader from the latest message reads only what is sent after it", concepts="E.reader")
def reader_latest(ctx: Context) -> str:
    """Five messages before it, two after."""
    topic = ctx.topic()
    producer = ctx.producer(topic)
    ctx.send(producer, _numbers(0, 5))
    reader = ctx.reader(topic, pulsar.MessageId.latest)
    ctx.send(producer, _numbers(5, 7))
    got = ctx.texts(ctx.receive(reader, 2, ack=False))
    ctx.expect(got == _numbers(5, 7), f"read {got}")
    return "of 5 messages before it none, both messages after it"


@check(
    "reader.from_id",
    proves="A reader from a message id starts after that message, or with it when inclusive",
    concepts="E.reader",
)
def reader_from_id(ctx: Context) -> str:
    """Two readers from the same message, and one from the middle of a batch."""
    topic = ctx.topic()
    ids = ctx.send(ctx.producer(topic), _numbers(0, 6))
    after = ctx.texts(ctx.receive(ctx.reader(topic, ids[2]), 3, ack=False))
    ctx.expect(after == _numbers(3, 6), f"from m2, exclusive: {after}")
    with_it = ctx.texts(ctx.receive(ctx.reader(topic, ids[2], start_message_id_inclusive=True), 4, ack=False))
    ctx.expect(with_it == _numbers(2, 6), f"from m2, inclusive: {with_it}")
    batched = ctx.topic("batched")
    producer = ctx.producer(batched, batching_enabled=True, batching_max_publish_delay_ms=60_000)
    for text in _numbers(0, 6):
        producer.send_async(text.encode(), None)
    producer.flush()
    first_read = ctx.receive(ctx.reader(batched), 6, ack=False)
    entries = {(one.message_id().ledger_id(), one.message_id().entry_id()) for one in first_read}
    ctx.expect(len(entries) == 1, f"the batch came in {len(entries)} entries")
    inside = ctx.texts(ctx.receive(ctx.reader(batched, first_read[2].message_id()), 3, ack=False))
    ctx.expect(inside == _numbers(3, 6), f"from m2 of a batch: {inside}")
    return "from m2: m3 to m5; inclusive: m2 to m5; from m2 within a batch of 6: m3 to m5"


@check(
    "reader.no_cursor",
    proves="A reader acknowledges nothing and leaves no cursor: the next one reads the same again",
    concepts="E.reader",
)
def reader_no_cursor(ctx: Context) -> str:
    """While it reads its subscription is not durable, after it closed there is none."""
    topic = ctx.topic()
    ctx.send(ctx.producer(topic), _numbers(0, 5))
    for _ in range(2):
        reader = ctx.reader(topic)
        got = ctx.texts(ctx.receive(reader, 5, ack=False))
        ctx.expect(got == _numbers(0, 5), f"read {got}")
        durable = _subscriptions(ctx, topic)
        ctx.expect(list(durable.values()) == [False], f"durable subscriptions, from the stats: {durable}")
        reader.close()
        ctx.eventually(lambda: not _subscriptions(ctx, topic), "the reader's subscription is gone")
        ctx.expect(not _cursors(ctx, topic), f"cursors: {sorted(_cursors(ctx, topic))}")
    return "two readers one after another read the same 5 messages; durable: false while they did, no cursor after"
