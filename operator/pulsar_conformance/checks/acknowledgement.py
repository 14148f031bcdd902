"""Acknowledgement: single, cumulative and by place in a batch; what comes back after a reconnect, what never does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pulsar

from pulsar_conformance.context import Context
from pulsar_conformance.model import check

SHARED = pulsar.ConsumerType.Shared
TEN = [f"m{i}" for i in range(10)]
ODD, EVEN = TEN[1::2], TEN[::2]


@check(
    "ack.single",
    proves="On Shared each message is acknowledged alone, in any order; only the others come back after a reconnect",
    concepts="E.ack.single",
    seconds=5,
)
def single(ctx: Context) -> str:
    """The odd ones of ten are acknowledged, last first; mark-delete waits for the first even one, then moves on."""
    topic = ctx.topic()
    first = ctx.consumer(topic, consumer_type=SHARED)
    ids = ctx.send(ctx.producer(topic), TEN)
    got = ctx.receive(first, 10, ack=False)
    for message in reversed(got):
        if ctx.texts([message])[0] in ODD:
            first.acknowledge(message)
    backlog(ctx, topic, 5)
    marked = place(ctx, topic)
    ctx.expect(
        marked < ids[0].entry_id(),
        f"mark-delete is at entry {marked}, beyond messages that were not acknowledged",
    )
    first.close()
    second = ctx.consumer(topic, consumer_type=SHARED)
    back = sorted(ctx.texts(rest(ctx, second, 5)))
    ctx.expect(back == EVEN, f"{EVEN} were not acknowledged, {back} came back")
    end = ids[-1].entry_id()
    ctx.eventually(lambda: place(ctx, topic) == end, f"mark-delete at entry {end} once all are acknowledged")
    second.close()
    third = ctx.consumer(topic, consumer_type=SHARED)
    ctx.nothing(third, 1, "all are acknowledged")
    return (
        f"acknowledged {', '.join(reversed(ODD))}: came back {', '.join(EVEN)}; mark-delete {marked}, at the end {end}"
    )


@check(
    "ack.kept",
    proves="Acknowledgements are kept with the cursor: they hold after the topic was unloaded and loaded again",
    concepts=("C.cursor", "E.ack.single"),
    seconds=6,
)
def kept(ctx: Context) -> str:
    """Holes in what is acknowledged survive too: single acknowledgements behind mark-delete are written down."""
    topic = ctx.topic()
    consumer = ctx.consumer(topic, consumer_type=SHARED)
    ctx.send(ctx.producer(topic), TEN)
    for message in ctx.receive(consumer, 10, ack=False):
        if ctx.texts([message])[0] in ODD:
            consumer.acknowledge(message)
    backlog(ctx, topic, 5)
    consumer.close()
    ctx.admin.put(f"{ctx.path(topic)}/unload")
    again = ctx.consumer(topic, consumer_type=SHARED)
    back = sorted(ctx.texts(rest(ctx, again, 5)))
    ctx.expect(back == EVEN, f"after the unload {back} came, not the five that were not acknowledged")
    return f"after an unload the subscription still has 5 of 10: {', '.join(back)}"


@check(
    "ack.cumulative",
    proves="A cumulative acknowledgement settles a message and all before it",
    concepts="E.ack.cumulative",
    seconds=5,
)
def cumulative(ctx: Context) -> str:
    """Ten are received, the seventh is acknowledged cumulatively; the next consumer starts with the eighth."""
    topic = ctx.topic()
    first = ctx.consumer(topic)
    ids = ctx.send(ctx.producer(topic), TEN)
    got = ctx.receive(first, 10, ack=False)
    first.acknowledge_cumulative(got[6])
    entry = ids[6].entry_id()
    ctx.eventually(lambda: place(ctx, topic) == entry, f"mark-delete at entry {entry}, that of the seventh message")
    first.close()
    back = ctx.texts(rest(ctx, ctx.consumer(topic), 3))
    ctx.expect(back == TEN[7:], f"after the reconnect came {back}, not {TEN[7:]}")
    return f"one acknowledgement of m6: mark-delete at entry {entry}, after a reconnect only {', '.join(back)} came"


@check(
    "ack.cumulative_shared",
    proves="Cumulative acknowledgement is refused on Shared and Key_Shared, where a message may be another consumer's",
    concepts="E.ack.cumulative",
    seconds=4,
)
def cumulative_shared(ctx: Context) -> str:
    """The client refuses; nothing is acknowledged by it."""
    topic = ctx.topic()
    producer = ctx.producer(topic)
    refusals = []
    for name, kind in (("Shared", SHARED), ("Key_Shared", pulsar.ConsumerType.KeyShared)):
        consumer = ctx.consumer(topic, name, consumer_type=kind)
        producer.send(b"m", partition_key="k")
        message = ctx.receive(consumer, 1, ack=False)[0]
        refusals.append(
            ctx.refused(
                pulsar.CumulativeAcknowledgementNotAllowedError,
                lambda taker=consumer, found=message: taker.acknowledge_cumulative(found),  # type: ignore[misc]
            )
        )
    left = ctx.stats(topic)["subscriptions"]["Shared"]["msgBacklog"]
    ctx.expect(left == 2, f"2 messages were sent and none acknowledged, the backlog of the Shared one is {left}")
    return f"Shared and Key_Shared: {refusals[0]}; backlog stayed {left}"


@check(
    "ack.batch_whole",
    proves="Without batch-index acknowledgement a batch counts as one: a part acknowledged, all of it comes back",
    concepts="E.ack.batch_index",
    seconds=4,
)
def batch_whole(ctx: Context) -> str:
    """Five of the ten messages of one entry are acknowledged; all ten are delivered to the next consumer."""
    topic = ctx.topic()
    first = ctx.consumer(topic, consumer_type=SHARED)
    send_batch(ctx, topic)
    acknowledge_odd(ctx, first)
    first.close()
    second = ctx.consumer(topic, consumer_type=SHARED)
    back = sorted(ctx.texts(rest(ctx, second, 10)))
    ctx.expect(back == TEN, f"all ten of the batch were expected again, {back} came")
    backlog(ctx, topic, 0)
    return (
        "5 of the 10 messages of an entry acknowledged: all 10 came back; after the other acknowledgements none is left"
    )


@check(
    "ack.batch_index",
    proves="With batch-index acknowledgement only what was not acknowledged of a batch comes back",
    concepts="E.ack.batch_index",
    seconds=5,
)
def batch_index(ctx: Context) -> str:
    """Two subscriptions acknowledge the same five of one entry of ten; only one of them asks for it by index."""
    offered = ctx.setting("acknowledgmentAtBatchIndexLevelEnabled") == "true"
    ctx.require(offered, "brokers have acknowledgmentAtBatchIndexLevelEnabled=false: set it to true in broker.conf")
    topic = ctx.topic()
    came: dict[bool, list[str]] = {}
    takers = {by: ctx.consumer(topic, f"sub-{by}", consumer_type=SHARED, **index(by)) for by in (True, False)}
    send_batch(ctx, topic)
    for by, consumer in takers.items():
        acknowledge_odd(ctx, consumer)
        consumer.close()
        again = ctx.consumer(topic, f"sub-{by}", consumer_type=SHARED, **index(by))
        came[by] = sorted(ctx.texts(rest(ctx, again, 5)))
    ctx.expect(came[True] == EVEN, f"by index {EVEN} were left, {came[True]} came back")
    ctx.expect(came[False] == TEN, f"without it the whole batch was expected, {came[False]} came back")
    return f"5 of 10 of an entry acknowledged: by index {', '.join(came[True])} came back, without it all 10"


def index(by: bool) -> dict[str, Any]:
    """The subscribe option for it; none when it is not wanted, for that is the client's default."""
    return {"batch_index_ack_enabled": True} if by else {}


def send_batch(ctx: Context, topic: str) -> None:
    """Ten messages in one entry. Raises CheckFailed when they are more."""
    producer = ctx.producer(topic, batching_enabled=True, batching_max_publish_delay_ms=5000)
    ids: list[Any] = []
    for text in TEN:
        producer.send_async(text.encode(), lambda _result, message_id: ids.append(message_id))
    producer.flush()
    ctx.eventually(lambda: len(ids) == len(TEN), "ten messages are sent")
    entries = {(found.ledger_id(), found.entry_id()) for found in ids}
    ctx.expect(len(entries) == 1, f"ten messages were to be one batch, they are in {len(entries)} entries")


def acknowledge_odd(ctx: Context, consumer: Any) -> None:
    """Receive ten and acknowledge every second one."""
    got = ctx.receive(consumer, 10, ack=False)
    for message in _named(ctx, got, ODD):
        consumer.acknowledge(message)


def rest(ctx: Context, consumer: Any, count: int) -> list[Any]:
    """Receives and acknowledges at least ``count`` messages, and any others that arrive with them."""
    return ctx.receive(consumer, count) + ctx.drain(consumer)


def backlog(ctx: Context, topic: str, count: int, subscription: str = "sub") -> None:
    """Waits until this number of messages of a subscription are not acknowledged."""
    ctx.eventually(
        lambda: precise(ctx, topic, subscription) == count, f"{count} messages of {subscription} not acknowledged"
    )


def precise(ctx: Context, topic: str, subscription: str = "sub") -> int:
    """Its backlog, counted one by one: the cheap figure does not see holes."""
    return int(ctx.stats(topic, getPreciseBacklog=True)["subscriptions"][subscription]["msgBacklog"])


def place(ctx: Context, topic: str, subscription: str = "sub") -> int:
    """The entry up to which everything is acknowledged; -1 before the first one."""
    position = ctx.internal_stats(topic)["cursors"][subscription]["markDeletePosition"]
    return int(str(position).split(":")[1])


def _named(ctx: Context, messages: Iterable[Any], texts: list[str]) -> list[Any]:
    return [message for message in messages if ctx.texts([message])[0] in texts]
