"""Deduplication, delayed delivery and compaction: what is stored once, delivered later, and read by key."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pulsar

from pulsar_conformance.context import Context
from pulsar_conformance.model import check

SHARED = pulsar.ConsumerType.Shared
CLOCKS = 100
"""Milliseconds by which the clocks of client and broker may differ."""
FAR = 600
"""Seconds: a delay that no check waits for."""


@check(
    "deduplication.stored_once",
    proves="With deduplication a message sent again under its producer name and sequence id is stored once",
    concepts=("E.deduplication", "D.namespace.deduplication"),
    seconds=4,
)
def stored_once(ctx: Context) -> str:
    """Five messages, three of them twice; another producer's messages with the same sequence ids are its own."""
    topic = deduplicated(ctx)
    first = ctx.producer(topic, producer_name="first")
    ids = [send_as(first, number) for number in (0, 1, 2, 3, 4)]
    again = [send_as(first, number) for number in (2, 3, 4)]
    other = ctx.producer(topic, producer_name="other")
    ctx.send(other, ["o1"], sequence_id=1)
    stored = everything(ctx, topic, 6)
    ctx.expect(stored == ["m0", "m1", "m2", "m3", "m4", "o1"], f"sent 0 to 4, then 2 to 4 again; stored: {stored}")
    entries = {found.entry_id() for found in again}
    ctx.expect(entries == {-1}, f"repeated messages must get no entry, they got entries {entries}")
    return f"8 sent by one name, {len(ids)} stored, 3 repeated got no place; id 1 of another name was stored"


@check(
    "deduplication.after_reconnect",
    proves="Deduplication holds for a new producer of the same name, also after the topic was unloaded",
    concepts=("E.deduplication", "D.namespace.deduplication"),
    seconds=5,
)
def after_reconnect(ctx: Context) -> str:
    """The broker returns the last sequence id to the new producer; what an interrupted one sends again is dropped."""
    topic = deduplicated(ctx)
    first = ctx.producer(topic, producer_name="same")
    for number in (0, 1, 2):
        send_as(first, number)
    first.close()
    last_ids = []
    for number in (3, 4):
        again = ctx.producer(topic, producer_name="same")
        last_ids.append(again.last_sequence_id())
        for sent in (number - 1, number):
            send_as(again, sent)
        again.close()
        ctx.admin.put(f"{ctx.path(topic)}/unload")
    ctx.expect(last_ids == [2, 3], f"the broker must return the last sequence ids 2 and 3, it returned {last_ids}")
    stored = everything(ctx, topic, 5)
    ctx.expect(stored == ["m0", "m1", "m2", "m3", "m4"], f"sent 0-2, 2-3 and 3-4 by one name; stored: {stored}")
    return f"last sequence ids: {last_ids[0]}, after an unload {last_ids[1]}; 7 sent over three connections, 5 stored"


@check(
    "delayed.after",
    proves="On Shared a message sent with deliverAfter comes after the delay, not before; others overtake it",
    concepts="E.delayed.after",
    seconds=5,
)
def deliver_after(ctx: Context) -> str:
    """The broker may be early by its tick unless isDelayedDeliveryDeliverAtTimeStrict."""
    offered(ctx)
    early, delay = tick(ctx), delay_for(ctx)
    topic = ctx.topic()
    consumer = ctx.consumer(topic, consumer_type=SHARED)
    producer = ctx.producer(topic)
    producer.send(b"later", deliver_after=timedelta(milliseconds=delay))
    producer.send(b"now")
    now, later = ctx.receive(consumer, 2, within=delay / 1000 + 30)
    gap = round(time.time() * 1000) - later.publish_timestamp()
    order = ctx.texts([now, later])
    ctx.expect(order == ["now", "later"], f"the message without a delay was to come first, it went {order}")
    ctx.expect(gap >= delay - early - CLOCKS, f"it came after {gap} ms, {delay} ms were declared (tick {early} ms)")
    return (
        f"declared {delay} ms (tick {early} ms): came {gap} ms after it was sent, behind a later message without delay"
    )


@check(
    "delayed.at",
    proves="On Shared a message sent with deliverAt comes at that time, not before",
    concepts="E.delayed.at",
    seconds=5,
)
def deliver_at(ctx: Context) -> str:
    """A time given in milliseconds since 1970; one in the past is no delay."""
    offered(ctx)
    early, delay = tick(ctx), delay_for(ctx)
    topic = ctx.topic()
    consumer = ctx.consumer(topic, consumer_type=SHARED)
    producer = ctx.producer(topic)
    due = round(time.time() * 1000) + delay
    producer.send(b"later", deliver_at=due)
    producer.send(b"past", deliver_at=due - 60_000)
    past, later = ctx.receive(consumer, 2, within=delay / 1000 + 30)
    late = round(time.time() * 1000) - due
    order = ctx.texts([past, later])
    ctx.expect(order == ["past", "later"], f"the message whose time has passed was to come first, it went {order}")
    ctx.expect(late >= -early - CLOCKS, f"it came {-late} ms before its time (tick {early} ms)")
    return (
        f"due {delay} ms ahead (tick {early} ms): came {late:+d} ms from its time; one due in the past came immediately"
    )


@check(
    "delayed.order",
    proves="Delayed messages come in the order of their times, not of their sending",
    concepts=("E.delayed.after", "D.namespace.delayed"),
    seconds=6,
)
def in_order(ctx: Context) -> str:
    """With the broker's usual tick of a second those due within it go by their place; the namespace declares 0.1 s.

    Messages that are overdue together go by their place too, so that a broker which is a second late has not shown its
    order: then they are sent again.
    """
    namespace = ctx.new_namespace(delayed_delivery_policies={"active": True, "tickTime": 100})
    for attempt in range(ATTEMPTS):
        gaps, order = _delayed(ctx, ctx.topic(f"topic-{attempt}", namespace=namespace))
        early = [gap for gap, seconds in zip(gaps, order, strict=True) if gap < float(seconds) * 1000 - 100 - CLOCKS]
        ctx.expect(not early, f"came before their time: {early} ms of {gaps} ms (tick 100 ms)")
        late = max(gap - float(seconds) * 1000 for gap, seconds in zip(gaps, order, strict=True))
        if order == ["0", "1.5", "3", "4.5"] or late < LATE_MILLISECONDS:
            break
    ctx.expect(order == ["0", "1.5", "3", "4.5"], f"sent with 4.5, 1.5, 3 and 0 s, they came in the order {order}")
    return f"sent with 4.5, 1.5, 3 and 0 s: came in the order {', '.join(order)} after {gaps} ms"


ATTEMPTS = 3
LATE_MILLISECONDS = 1000
"""Of the 1,500 between two messages."""


def _delayed(ctx: Context, topic: str) -> tuple[list[int], list[str]]:
    """Messages with delays, by their seconds: how long each took, in milliseconds, in the order they came."""
    consumer = ctx.consumer(topic, consumer_type=SHARED)
    producer = ctx.producer(topic)
    for seconds in (4.5, 1.5, 3):
        producer.send(str(seconds).encode(), deliver_after=timedelta(seconds=seconds))
    producer.send(b"0")
    gaps, order = list[int](), list[str]()
    for message in (ctx.receive(consumer, 1, within=30)[0] for _ in range(4)):
        gaps.append(round(time.time() * 1000) - message.publish_timestamp())
        order += ctx.texts([message])
    return gaps, order


@check(
    "delayed.exclusive",
    proves="An Exclusive subscription ignores delays: a delayed message is delivered to it immediately",
    concepts="E.delayed.after",
    seconds=2,
)
def exclusive(ctx: Context) -> str:
    """A limit that Pulsar documents: only Shared and Key_Shared subscriptions hold messages back."""
    return f"Exclusive: {at_once(ctx, ctx.namespace, pulsar.ConsumerType.Exclusive)}"


@check(
    "delayed.policy_off",
    proves="In a namespace with delayed delivery off a delayed message is delivered immediately on Shared too",
    concepts="D.namespace.delayed",
    seconds=2,
)
def policy_off(ctx: Context) -> str:
    """The namespace's policy goes before the brokers' setting."""
    namespace = ctx.new_namespace(delayed_delivery_policies={"active": False, "tickTime": 1000})
    return f"Shared, policy off: {at_once(ctx, namespace, SHARED)}"


def deduplicated(ctx: Context) -> str:
    """A topic of a namespace with deduplication, once the broker says that it is on."""
    ctx.policy("deduplication", True)
    topic = ctx.topic()
    ctx.eventually(lambda: ctx.stats(topic)["deduplicationStatus"] == "Enabled", "deduplication is on for the topic")
    return topic


def send_as(producer: Any, number: int) -> Any:
    """Send the message of a sequence id; its place."""
    return producer.send(f"m{number}".encode(), sequence_id=number)


def everything(ctx: Context, topic: str, count: int) -> list[str]:
    """Returns the texts of all stored messages, which must be at least ``count``."""
    reader = ctx.reader(topic)
    return ctx.texts(ctx.receive(reader, count, ack=False) + ctx.drain(reader, ack=False))


def offered(ctx: Context) -> None:
    """Skip the check where delayed delivery is off."""
    on = ctx.setting("delayedDeliveryEnabled") == "true"
    ctx.require(on, "brokers have delayedDeliveryEnabled=false: set it to true in broker.conf")


def tick(ctx: Context) -> int:
    """Milliseconds by which the broker may deliver early."""
    strict = ctx.setting("isDelayedDeliveryDeliverAtTimeStrict") == "true"
    return 0 if strict else round(ctx.number("delayedDeliveryTickTimeMillis"))


def delay_for(ctx: Context) -> int:
    """A delay well above the tick, in milliseconds."""
    return 1500 + 2 * round(ctx.number("delayedDeliveryTickTimeMillis"))


def at_once(ctx: Context, namespace: str, kind: pulsar.ConsumerType) -> str:
    """A message with a long delay arrives nevertheless. Raises CheckFailed when it does not."""
    topic = ctx.topic(namespace=namespace)
    consumer = ctx.consumer(topic, consumer_type=kind)
    ctx.producer(topic).send(b"later", deliver_after=timedelta(seconds=FAR))
    message = ctx.receive(consumer, 1)[0]
    gap = round(time.time() * 1000) - message.publish_timestamp()
    return f"sent with a delay of {FAR} s, came after {gap} ms"
