"""Chunked messages at the consumer: unfinished ones, their rate in the stats, and chunks on a Shared subscription."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pulsar

from pulsar_conformance.checks.policies import backlog
from pulsar_conformance.checks.redelivery import EARLY, took
from pulsar_conformance.context import Context
from pulsar_conformance.kit import sharing
from pulsar_conformance.model import check

SHARED = pulsar.ConsumerType.Shared
CHUNK = 1_000
"""Payload of one chunk, bytes."""
PAYLOAD = 2 * CHUNK - 500
"""Bytes of a message of two chunks."""
EXPIRE_MS = 1_000
NEVER_MS = 600_000
"""A time that no check waits for."""
LIMIT = 2


@check(
    "chunking.expiry",
    proves="A consumer gives up a chunked message that stays unfinished for expireTimeOfIncompleteChunkedMessage: its "
    "chunks are acknowledged, and nothing of it is delivered",
    concepts="E.chunking.pending",
    seconds=5,
)
def expiry(ctx: Context) -> str:
    """One message lacks its last chunk, a later one is whole; a second subscription's consumer waits ten minutes.

    The unfinished one comes first: the Java client (4.0.8) gives up none that comes after a whole chunked message.
    """
    topic, times = ctx.topic(), {"patient": NEVER_MS, "prompt": EXPIRE_MS}
    _unfinished(ctx, topic, list(times), unfinished=1)
    begin = time.monotonic()
    consumers = {
        name: ctx.java_consumer(topic, name, expireTimeOfIncompleteChunkedMessageMillis=expire)
        for name, expire in times.items()
    }
    for name, consumer in consumers.items():
        message = took(ctx, consumer, f"the whole message for {name}")
        ctx.expect(message.data == _payload(1), f"{name} got {message.data[:8]!r}, which is not the whole message")
        consumer.ack(message)
    ctx.eventually(lambda: backlog(ctx, topic, "prompt") == 0, "the unfinished message's chunk is acknowledged")
    gone = round((time.monotonic() - begin) * 1000)
    ctx.expect(gone >= EXPIRE_MS - EARLY, f"it was given up after {gone} ms, before {EXPIRE_MS} ms")
    for name, consumer in consumers.items():
        extra = consumer.receive(500)
        ctx.expect(extra is None, f"{name} got {extra and extra.data[:8]!r} of an unfinished message")
    left = backlog(ctx, topic, "patient")
    ctx.expect(left == 1, f"the consumer that waits {NEVER_MS} ms was to keep 1 chunk, its backlog is {left}")
    return (
        f"expiry {EXPIRE_MS} ms: the chunk was acknowledged after {gone} ms, nothing delivered; "
        f"with {NEVER_MS} ms backlog {left}; the whole message came to both"
    )


@check(
    "chunking.limit",
    proves="A consumer keeps at most maxPendingChunkedMessage unfinished messages; what it drops is acknowledged with "
    "autoAckOldestChunkedMessageOnQueueFull, and stays in the backlog without",
    concepts="E.chunking.pending",
    seconds=3,
)
def limit(ctx: Context) -> str:
    """Three unfinished messages and a whole one, two at a time; the same with room for all."""
    topic = ctx.topic()
    settings = {"dropped": (LIMIT, True), "kept": (LIMIT, False), "roomy": (10, True)}
    _unfinished(ctx, topic, list(settings), unfinished=3)
    consumers = {
        name: ctx.consumer(
            topic,
            name,
            max_pending_chunked_message=most,
            auto_ack_oldest_chunked_message_on_queue_full=settle,
        )
        for name, (most, settle) in settings.items()
    }
    for name, consumer in consumers.items():
        message = ctx.receive(consumer, 1)[0]
        ctx.expect(message.data() == _payload(3), f"{name} got {message.data()[:8]!r}, which is not the whole message")
    # The whole one takes a place too, until its last chunk comes: of the three unfinished ones the newest stays.
    expected = {"dropped": 1, "kept": 3, "roomy": 3}

    def settled() -> bool:
        backlogs = {name: backlog(ctx, topic, name) for name in settings}
        ctx.expect(backlogs == expected, f"backlogs {backlogs}, expected {expected}")
        return True

    ctx.eventually(settled, "the backlog of each subscription")
    for name, consumer in consumers.items():
        ctx.nothing(consumer, 0.3, f"{name} has no other whole message")
    settled()
    return (
        f"3 unfinished messages, then a whole one, at most {LIMIT} kept: 2 dropped and acknowledged (backlog 1), or "
        "dropped and left (backlog 3); with room for 10 none dropped (backlog 3); the whole one came to all"
    )


@check(
    "chunking.shared",
    proves="On Shared all chunks of a message go to one consumer, which gets it whole; what it leaves goes whole to "
    "another one",
    concepts="E.chunking.shared",
    seconds=5,
)
def shared(ctx: Context) -> str:
    """Two clients send at the same time, three chunks a message, to two consumers; then one consumer leaves."""
    topic = ctx.topic()
    producers = [
        ctx.tamper.wrap("java.client", ctx.new_java()).producer(
            topic, chunkingEnabled=True, batchingEnabled=False, chunkMaxMessageSize=CHUNK
        )
        for _ in range(2)
    ]
    consumers = {
        name: ctx.consumer(topic, consumer_type=SHARED, consumer_name=name, receiver_queue_size=100)
        for name in ("ant", "bee")
    }
    sent = [f"{number}/{which}/" for number in range(20) for which in range(2)]
    pending = [producers[int(text[-2])].send_async(text.encode().ljust(3 * CHUNK - 300, b"x")) for text in sent]
    for one in pending:
        one.result()
    stored = ctx.internal_stats(topic)["numberOfEntries"]
    ctx.expect(stored == 3 * len(sent), f"{len(sent)} messages of three chunks are {stored} entries")
    got = sharing.gather(ctx, consumers, len(sent), ack=False)
    whole = {name: [_whole(ctx, message) for message in messages] for name, messages in got.items()}
    ctx.expect(sorted(whole["ant"] + whole["bee"]) == sorted(sent), f"not each message once and whole: {whole}")
    ctx.expect(all(len(texts) >= 2 for texts in whole.values()), f"not shared out: {sharing.sizes(got)}")
    for message in got["bee"]:
        consumers["bee"].acknowledge(message)
    consumers["ant"].close()
    again = [_whole(ctx, message) for message in ctx.receive(consumers["bee"], len(got["ant"]))]
    ctx.expect(sorted(again) == sorted(whole["ant"]), f"ant left {whole['ant']}, bee got {again}")
    ctx.eventually(lambda: backlog(ctx, topic) == 0, "every chunk is acknowledged")
    ctx.nothing(consumers["bee"], 0.3, "all messages were acknowledged")
    return (
        f"{len(sent)} messages in {stored} chunks, each whole at one consumer: {sharing.sizes(got)}; ant closed "
        f"without acknowledging, bee got its {len(again)} whole; backlog 0"
    )


@check(
    "chunking.rate",
    proves="Topic stats show the rate of chunks of each producer and consumer (chunkedMessageRate)",
    concepts="E.chunking.rate",
    seconds=60,
)
def rate(ctx: Context) -> str:
    """Two producers of equal messages, one of them in chunks; the broker works the rates out in intervals."""
    interval = ctx.interval("statsUpdateFrequencyInSecs")
    topic = ctx.topic()
    options: dict[str, dict[str, Any]] = {
        "whole": {"chunkingEnabled": False},
        "chunks": {"chunkingEnabled": True, "chunkMaxMessageSize": CHUNK},
    }
    producers = {
        name: ctx.java_producer(topic, producerName=name, batchingEnabled=False, **own) for name, own in options.items()
    }
    consumer = ctx.consumer(topic)

    def rates() -> list[dict[str, Any]]:
        for producer in producers.values():
            producer.send(_payload(0))
        ctx.receive(consumer, 2)
        found = ctx.stats(topic)
        taker = found["subscriptions"]["sub"]["consumers"][0]
        known = taker["msgRateOut"] > 0 and all(one["msgRateIn"] > 0 for one in found["publishers"])
        return [taker, *found["publishers"]] if known else []

    taker, *publishers = ctx.eventually(
        rates, "both producers and the consumer have a rate", within=2 * interval.within, every=interval.every
    )
    by_producer = {one["producerName"]: (one["msgRateIn"], one["chunkedMessageRate"]) for one in publishers}
    out = taker["chunkedMessageRate"]
    total, chunked = by_producer["chunks"]
    ctx.expect(
        abs(chunked - total) < total / 100,
        f"chunks alone were sent at {total:.2f}/s, chunkedMessageRate is {chunked:.2f}",
    )
    ctx.expect(out > 0, f"chunks were delivered, the consumer's chunkedMessageRate is {out:.2f}")
    ctx.expect(by_producer["whole"][1] == 0, f"without chunking chunkedMessageRate is {by_producer['whole'][1]:.2f}")
    return (
        f"{chunked:.2f} chunks/s of {total:.2f} entries/s by the producer with chunking, 0 of "
        f"{by_producer['whole'][0]:.2f}/s by the other; {out:.2f} chunks/s to the consumer"
    )


def _payload(number: int) -> bytes:
    """A message of two chunks that knows its number."""
    return f"m{number}/".encode().ljust(PAYLOAD, b"x")


def _whole(ctx: Context, message: Any) -> str:
    """The number of a message of three chunks. Raises CheckFailed when it is not whole."""
    data = bytes(message.data())
    text = data.rstrip(b"x").decode()
    ctx.expect(len(data) == 3 * CHUNK - 300, f"message {text} has {len(data)} bytes")
    return text


def _unfinished(ctx: Context, topic: str, subscriptions: Sequence[str], *, unfinished: int) -> None:
    """Messages of two chunks, all but the newest without their last chunk for these subscriptions.

    Real clients send whole messages: that chunk is acknowledged for each subscription before anybody reads.
    """
    producer = ctx.java_producer(topic, chunkingEnabled=True, batchingEnabled=False, chunkMaxMessageSize=CHUNK)
    for name in subscriptions:
        ctx.consumer(topic, name).close()
    sent = [producer.send(_payload(number)) for number in range(unfinished + 1)]
    count = ctx.internal_stats(topic)["numberOfEntries"]
    ctx.expect(count == 2 * len(sent), f"{len(sent)} messages of two chunks are {count} entries")
    for name in subscriptions:
        settling = ctx.consumer(topic, name, receiver_queue_size=1)
        for place in sent[:-1]:
            ledger, entry, partition, batch = map(int, place.split(":"))
            settling.acknowledge(pulsar.MessageId(partition, ledger, entry, batch))
        settling.close()
        ctx.eventually(
            lambda name=name: backlog(ctx, topic, name) == unfinished + 2,  # type: ignore[misc]
            f"{unfinished} messages lack a chunk",
        )
