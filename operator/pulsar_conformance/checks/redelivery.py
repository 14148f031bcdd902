"""Delivering again: negative acknowledgement, acknowledgement timeout, retry letter topic, dead letter topic."""

from __future__ import annotations

import time
from typing import Any

import pulsar

from pulsar_conformance.context import Context
from pulsar_conformance.model import check

SHARED = pulsar.ConsumerType.Shared
EARLY = 300
"""Milliseconds by which clients may be early: their timers have ticks."""


@check(
    "nack.delay",
    proves="A message acknowledged negatively comes again after the declared delay, not before, with a higher count",
    concepts="E.nack.delay",
    seconds=8,
)
def nack_delay(ctx: Context) -> str:
    """Of two messages one is refused twice; the acknowledged one stays away."""
    topic, delay = ctx.topic(), 2000
    consumer = ctx.consumer(topic, consumer_type=SHARED, negative_ack_redelivery_delay_ms=delay)
    ctx.send(ctx.producer(topic), ["good", "bad"])
    good, bad = ctx.receive(consumer, 2, ack=False)
    consumer.acknowledge(good)
    gaps = []
    for count in (1, 2):
        begin = time.monotonic()
        consumer.negative_acknowledge(bad)
        bad = ctx.receive(consumer, 1, ack=False)[0]
        gaps.append(round((time.monotonic() - begin) * 1000))
        ctx.expect(ctx.texts([bad]) == ["bad"], f"the refused message was expected, {ctx.texts([bad])} came")
        ctx.expect(gaps[-1] >= delay - EARLY, f"it came again after {gaps[-1]} ms, before the delay of {delay} ms")
        delivered = bad.redelivery_count()
        ctx.expect(delivered == count, f"redelivery count {delivered}, {count} was expected")
    consumer.acknowledge(bad)
    ctx.nothing(consumer, delay / 1000 * 1.5, "both are acknowledged")
    return (
        f"delay {delay} ms: came again after {gaps[0]} and {gaps[1]} ms with counts 1 and 2, and not once acknowledged"
    )


@check(
    "nack.backoff",
    proves="With a back-off a message refused again and again comes after growing delays",
    concepts="E.nack.backoff",
    seconds=9,
)
def nack_backoff(ctx: Context) -> str:
    """0.5 s, doubled each time."""
    topic = ctx.topic()
    backoff = {"min_delay_ms": 500, "max_delay_ms": 60_000, "multiplier": 2}
    consumer = ctx.java_consumer(topic, type="Shared", nack_backoff=backoff)
    ctx.send(ctx.producer(topic), ["bad"])
    message = took(ctx, consumer, "the message")
    gaps = []
    for expected in (500, 1000, 2000, 4000):
        begin = message.received_ms
        consumer.nack(message)
        message = took(ctx, consumer, f"it again, {expected} ms later")
        gaps.append(message.received_ms - begin)
        ctx.expect(
            gaps[-1] >= expected - EARLY, f"after {len(gaps)} refusals it came in {gaps[-1]} ms, not {expected} ms"
        )
    ctx.expect(gaps[-1] > gaps[0], f"the delays did not grow: {gaps} ms")
    consumer.ack(message)
    return f"0.5 s doubled each time: came again after {', '.join(map(str, gaps))} ms"


@check(
    "nack.cap",
    proves="The delay of a negative acknowledgement grows up to the back-off's maximum, and no further",
    concepts="E.nack.backoff",
    seconds=5,
)
def nack_cap(ctx: Context) -> str:
    """0.25 s, 16 times as long each time, at most 1 s: the third delay would be 64 s."""
    topic, most = ctx.topic(), 1000
    backoff = {"min_delay_ms": 250, "max_delay_ms": most, "multiplier": 16}
    consumer = ctx.java_consumer(topic, type="Shared", nack_backoff=backoff)
    ctx.send(ctx.producer(topic), ["bad"])
    message = took(ctx, consumer, "the message")
    gaps = []
    for expected in (250, most, most, most):
        begin = message.received_ms
        consumer.nack(message)
        message = took(ctx, consumer, f"it again, {expected} ms later")
        gaps.append(message.received_ms - begin)
        ctx.expect(
            gaps[-1] >= expected - EARLY, f"after {len(gaps)} refusals it came in {gaps[-1]} ms, not {expected} ms"
        )
    consumer.ack(message)
    return f"0.25 s, 16 times as long each time, at most {most} ms: came again after {', '.join(map(str, gaps))} ms"


@check(
    "nack.ordered",
    proves="On Exclusive and Failover a negative acknowledgement brings the message and all later ones again, in order",
    concepts="E.nack.ordered",
    seconds=4,
)
def nack_ordered(ctx: Context) -> str:
    """Of five messages the first two are acknowledged and the third is refused, on both types at the same time."""
    topic, delay = ctx.topic(), 1000
    kinds = (pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Failover)
    consumers = {
        kind.name: ctx.consumer(topic, kind.name, consumer_type=kind, negative_ack_redelivery_delay_ms=delay)
        for kind in kinds
    }
    ctx.send(ctx.producer(topic), [f"m{number}" for number in range(5)])
    begins, gaps = {}, {}
    for name, consumer in consumers.items():
        messages = ctx.receive(consumer, 5, ack=False)
        for message in messages[:2]:
            consumer.acknowledge(message)
        begins[name] = time.monotonic()
        consumer.negative_acknowledge(messages[2])
    for name, consumer in consumers.items():
        again = ctx.receive(consumer, 1)
        gaps[name] = round((time.monotonic() - begins[name]) * 1000)
        again += ctx.receive(consumer, 2)
        ctx.expect(ctx.texts(again) == ["m2", "m3", "m4"], f"{name}: m2 was refused, {ctx.texts(again)} came")
        ctx.expect(gaps[name] >= delay - EARLY, f"{name}: m2 came after {gaps[name]} ms, before {delay} ms")
        counts = [message.redelivery_count() for message in again]
        ctx.expect(counts == [0, 0, 0], f"{name}: redelivery counts {counts}; these types do not count")
    for name, consumer in consumers.items():
        ctx.nothing(consumer, 0.5, f"{name}: all are acknowledged")
    listed = ", ".join(f"{name} {gap} ms" for name, gap in gaps.items())
    return f"m2 of m0 to m4 refused with {delay} ms: m2, m3, m4 came again in order ({listed}), count 0; m0, m1 did not"


@check(
    "ack_timeout.redelivered",
    proves="A message not acknowledged within the timeout comes again, one acknowledged in time does not",
    concepts="E.ack_timeout",
    seconds=7,
)
def ack_timeout(ctx: Context) -> str:
    """Two messages are received, one is acknowledged."""
    topic, limit = ctx.topic(), 2000
    consumer = ctx.java_consumer(topic, type="Shared", ackTimeoutMillis=limit, tickDurationMillis=100)
    ctx.send(ctx.producer(topic), ["settled", "forgotten"])
    settled, forgotten = took(ctx, consumer, "a message"), took(ctx, consumer, "a message")
    consumer.ack(settled)
    again = took(ctx, consumer, f"the forgotten one after {limit} ms")
    gap = again.received_ms - forgotten.received_ms
    ctx.expect(again.data == b"forgotten", f"the message that was not acknowledged was expected, {again.data!r} came")
    ctx.expect(gap >= limit - EARLY, f"it came again after {gap} ms, before the timeout of {limit} ms")
    ctx.expect(again.redelivery_count == 1, f"redelivery count {again.redelivery_count}, 1 was expected")
    consumer.ack(again)
    extra = consumer.receive(int(limit * 1.5))
    ctx.expect(extra is None, f"all are acknowledged, but {extra and extra.data!r} came")
    return f"timeout {limit} ms: the forgotten message came again after {gap} ms, the acknowledged one did not"


@check(
    "ack_timeout.backoff",
    proves="With a back-off a message that is never acknowledged comes after growing delays",
    concepts="E.ack_timeout.backoff",
    seconds=11,
)
def ack_timeout_backoff(ctx: Context) -> str:
    """The client waits for the timeout and then for the back-off: 0.5 s, tripled each time."""
    topic = ctx.topic()
    backoff = {"min_delay_ms": 500, "max_delay_ms": 60_000, "multiplier": 3}
    consumer = ctx.java_consumer(
        topic, type="Shared", ackTimeoutMillis=1000, tickDurationMillis=100, ack_timeout_backoff=backoff
    )
    ctx.send(ctx.producer(topic), ["forgotten"])
    message = took(ctx, consumer, "the message")
    gaps = []
    for expected in (500, 1500, 4500):
        begin = message.received_ms
        message = took(ctx, consumer, f"it again, {expected} ms later")
        gaps.append(message.received_ms - begin)
        ctx.expect(gaps[-1] >= expected - EARLY, f"time {len(gaps)} it came in {gaps[-1]} ms, not after {expected} ms")
    ctx.expect(gaps[-1] > gaps[0], f"the delays did not grow: {gaps} ms")
    consumer.ack(message)
    return f"timeout 1 s, back-off 0.5 s tripled each time: came again after {', '.join(map(str, gaps))} ms"


@check(
    "retry.letter",
    proves="A message put off goes to the retry letter topic, comes after its delay, and at last to the dead letters",
    concepts=("E.retry", "E.dead_letter"),
    seconds=8,
)
def retry(ctx: Context) -> str:
    """Put off three times with at most two retries; the original is acknowledged immediately.

    The topics have their usual names, but declared: a Java client that asks through Pulsar's proxy (4.0) whether topics
    with the names of Pulsar 2.7 exist, <subscription>-RETRY and <subscription>-DLQ, may get the answer that they do,
    and then uses them.
    """
    # With a long tick the broker may deliver a delayed message that much too early.
    tick, delay = 100, 1500
    namespace = ctx.new_namespace(delayed_delivery_policies={"active": True, "tickTime": tick})
    topic = ctx.topic(namespace=namespace)
    retries, dead = (ctx.topic(f"topic-sub-{name}", namespace=namespace) for name in ("RETRY", "DLQ"))
    letters = ctx.consumer(dead, "watch")
    policy = {"max_redeliver_count": 2, "retry_letter_topic": retries, "dead_letter_topic": dead}
    consumer = ctx.java_consumer(topic, type="Shared", retryEnable=True, dead_letter=policy)
    sent = ctx.producer(topic).send(b"later", properties={"own": "1"}, partition_key="k")
    message = took(ctx, consumer, "the message")
    gaps = []
    for times in (1, 2):
        consumer.reconsume_later(message, delay)
        message = took(ctx, consumer, f"it from {retries}")
        gaps.append(message.received_ms - message.publish_time_ms)
        properties = dict(message.properties)
        ctx.expect(message.topic == retries, f"it came from {message.topic}, not {retries}")
        ctx.expect(gaps[-1] >= delay - EARLY, f"it came {gaps[-1]} ms after it was put off, not {delay} ms")
        expected = {"RECONSUMETIMES": str(times), "REAL_TOPIC": topic, "DELAY_TIME": str(delay), "own": "1"}
        ctx.expect(
            expected.items() <= properties.items(), f"its properties must contain {expected}, they are {properties}"
        )
    consumer.reconsume_later(message, delay)
    letter = ctx.receive(letters, 1)[0]
    origin = letter.properties().get("ORIGIN_MESSAGE_ID", "")
    ctx.expect(letter.data() == b"later", f"the dead letter is {letter.data()!r}")
    ctx.expect(letter.properties().get("REAL_TOPIC") == topic, f"the dead letter's properties: {letter.properties()}")
    ctx.expect(origin.startswith(f"{sent.ledger_id()}:{sent.entry_id()}:"), f"its origin is {origin}, not {sent}")
    for where in (topic, retries):
        settled(ctx, where)
    return (
        f"put off by {delay} ms: from -RETRY after {gaps[0]} and {gaps[1]} ms, the third time to -DLQ; no backlog left"
    )


@check(
    "dead_letter.after_max",
    proves="A message refused more often than allowed goes to the dead letter topic, and is acknowledged at its source",
    concepts="E.dead_letter",
    seconds=5,
)
def dead_letter(ctx: Context) -> str:
    """At most two redeliveries: three deliveries, then the dead letter topic; a good message stays out of it."""
    topic = ctx.topic()
    dead = ctx.topic("topic-sub-DLQ")
    letters = ctx.consumer(dead, "watch")
    consumer = ctx.consumer(
        topic,
        consumer_type=SHARED,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(2),
    )
    producer = ctx.producer(topic)
    bad = producer.send(b"bad", properties={"own": "1"})
    producer.send(b"good")
    counts = refuse(ctx, consumer, letters)
    letter = ctx.receive(letters, 1)[0]
    ctx.expect(counts == [0, 1, 2], f"it was to be delivered with redelivery counts 0, 1 and 2, these were {counts}")
    properties = letter.properties()
    expected = {"REAL_TOPIC": topic, "ORIGIN_MESSAGE_ID": str(bad), "own": "1"}
    ctx.expect(letter.data() == b"bad", f"the dead letter is {letter.data()!r}")
    ctx.expect(expected.items() <= properties.items(), f"its properties must contain {expected}, they are {properties}")
    settled(ctx, topic)
    ctx.nothing(letters, 1, "one message was refused")
    return f"delivered 3 times, then in {dead.rsplit('/', 1)[1]} with ORIGIN_MESSAGE_ID {bad}; backlog 0 at the source"


@check(
    "dead_letter.initial_subscription",
    proves="With an initial subscription dead letters are kept for a later consumer; without one they are deleted",
    concepts="E.dead_letter.initial",
    seconds=7,
)
def initial_subscription(ctx: Context) -> str:
    """Two subscriptions refuse a message; their dead letter topics are unloaded and trimmed before anybody reads."""
    automatic = ctx.setting("allowAutoSubscriptionCreation") != "false"
    ctx.require(automatic, "brokers have allowAutoSubscriptionCreation=false: set it to true in broker.conf")
    keep_nothing = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
    namespace = ctx.new_namespace(retention_policies=keep_nothing)
    topic = ctx.topic(namespace=namespace)
    found: dict[str, list[str]] = {}
    policies = {
        "with": pulsar.ConsumerDeadLetterPolicy(1, initial_subscription_name="later"),
        "without": pulsar.ConsumerDeadLetterPolicy(1),
    }
    takers = {
        name: ctx.consumer(
            topic, name, consumer_type=SHARED, negative_ack_redelivery_delay_ms=100, dead_letter_policy=policy
        )
        for name, policy in policies.items()
    }
    ctx.send(ctx.producer(topic), ["bad"])
    for name, consumer in takers.items():
        dead = ctx.topic(f"topic-{name}-DLQ", namespace=namespace)
        refuse(ctx, consumer, None)
        settled(ctx, topic, name)
        arrived = ctx.stats(dead)["msgInCounter"]
        ctx.expect(arrived == 1, f"one dead letter was expected in {dead}, {arrived} came")
        consumer.close()
        ctx.admin.put(f"{ctx.path(dead)}/unload")
    left = {name: trimmed(ctx, f"{topic}-{name}-DLQ") for name in takers}
    ctx.expect(left["with"] == 1, f"the initial subscription was to keep 1 message, {left['with']} are stored")
    ctx.eventually(lambda: trimmed(ctx, f"{topic}-without-DLQ") == 0, "a dead letter without a subscription is deleted")
    for name in takers:
        later = ctx.consumer(f"{topic}-{name}-DLQ", "later")
        found[name] = ctx.texts(ctx.receive(later, 1) if name == "with" else ctx.drain(later))
    ctx.expect(found == {"with": ["bad"], "without": []}, f"read later: {found}")
    return "after unload and trim the dead letter with an initial subscription was still read, the one without was gone"


def took(ctx: Context, consumer: Any, what: str, within: float = 20) -> Any:
    """The next message of a Java consumer. Raises CheckFailed when none comes."""
    message = consumer.receive(int(within * 1000))
    ctx.expect(message is not None, f"not within {within:.0f} s: {what}")
    return message


def refuse(ctx: Context, consumer: Any, letters: Any, most: int = 8) -> list[int]:
    """Refuse every "bad" message until none comes; its redelivery counts. Raises CheckFailed when it never ends."""
    counts: list[int] = []
    while True:
        message = ctx.next(consumer, 1.5 if counts else 20)
        if message is None:
            ctx.expect(counts, "the message was never delivered")
            return counts
        if message.data() == b"bad":
            counts.append(message.redelivery_count())
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
        ctx.expect(len(counts) < most, f"it is still delivered after {most} refusals, no dead letter")


def settled(ctx: Context, topic: str, subscription: str = "sub") -> None:
    """Wait until a subscription has nothing left to deliver."""
    ctx.eventually(
        lambda: ctx.stats(topic, getPreciseBacklog=True)["subscriptions"][subscription]["msgBacklog"] == 0,
        f"everything in {topic} is acknowledged on {subscription}",
    )


def trimmed(ctx: Context, topic: str) -> int:
    """Asks the broker to delete messages that no subscription needs; returns the number of stored messages."""
    ctx.admin.post(f"{ctx.path(topic)}/trim")
    return int(ctx.internal_stats(topic)["numberOfEntries"])
