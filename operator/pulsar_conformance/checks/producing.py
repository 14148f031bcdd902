"""Producing: batching, chunking and compression, and what the broker stores of it."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import pulsar

from pulsar_conformance.context import Context
from pulsar_conformance.kit.sending import Answers, accepted, entries, place, stored
from pulsar_conformance.model import Check, check

LONG_MS = 60_000
"""A publish delay that no check waits for."""
DELAY_MS = 1_500
CHUNKS = 3
SMALL_CHUNK = 10_000
"""Payload of one chunk, bytes."""
SMALL_CHUNKS = 60
CHUNKS_PER_SECOND = 20
"""Publish rate of the topic in chunks a second: a third of a message."""
LARGEST_CHUNKED = 32 * 1024 * 1024
"""Above this limit a chunked message would take more memory than a check should, bytes."""
COMPRESSIONS = {
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}
ROWS = 2_000
SHRINKS = 4
"""How many times smaller the rows get at least."""


@check(
    "batching.one_entry",
    proves="Several messages of a batching producer are one entry, and each is received on its own",
    concepts="E.batching",
    seconds=2,
)
def one_entry(ctx: Context) -> str:
    """Twenty messages have the same ledger and entry id and the places 0 to 19 in the batch."""
    topic, texts = ctx.topic(), [f"m{i}" for i in range(20)]
    consumer = ctx.consumer(topic)
    producer = ctx.producer(topic, batching_enabled=True, batching_max_publish_delay_ms=LONG_MS)
    answers = Answers()
    for text in texts:
        answers.send(producer, text.encode())
    producer.flush()
    ids = [place(found) for found in answers.ids(20)]
    ctx.expect(
        len({found[:2] for found in ids}) == 1 and [found[2] for found in ids] == [*range(20)], f"not one batch: {ids}"
    )
    ctx.expect(entries(ctx, topic) == 1, f"{entries(ctx, topic)} entries for 20 messages")
    batch_size = stored(ctx, topic).get("x-pulsar-num-batch-message")
    ctx.expect(batch_size == "20", f"the broker sees {batch_size} messages in the entry")
    got = ctx.receive(consumer, 20)
    ctx.expect(ctx.texts(got) == texts, f"received {ctx.texts(got)}")
    ctx.expect([place(message.message_id()) for message in got] == ids, "received under other ids than sent")
    return f"20 messages are entry {ids[0][0]}:{ids[0][1]}, batch_index 0 to 19; numberOfEntries 1"


@check(
    "batching.off",
    proves="Without batching every message is a separate entry",
    concepts="E.batching",
    seconds=2,
)
def batching_off(ctx: Context) -> str:
    """Twenty messages sent without waiting for answers are twenty entries."""
    topic = ctx.topic()
    producer = ctx.producer(topic, batching_enabled=False, batching_max_publish_delay_ms=LONG_MS)
    answers = Answers()
    for i in range(20):
        answers.send(producer, f"m{i}".encode())
    producer.flush()
    ids = [place(found) for found in answers.ids(20)]
    ctx.expect(len({found[:2] for found in ids}) == 20, f"messages share entries: {ids}")
    ctx.expect({found[2] for found in ids} == {-1}, f"messages have a place in a batch: {ids}")
    ctx.expect(entries(ctx, topic) == 20, f"{entries(ctx, topic)} entries for 20 messages")
    return "20 messages without batching: 20 entries, batch_index -1 each"


@check(
    "batching.max_messages",
    proves="A batch goes out when it holds batching_max_messages, before its delay is over",
    concepts="E.batching",
    seconds=2,
)
def max_messages(ctx: Context) -> str:
    """Twenty messages in batches of five are answered without a flush and are four entries."""
    topic = ctx.topic()
    producer = ctx.producer(
        topic, batching_enabled=True, batching_max_messages=5, batching_max_publish_delay_ms=LONG_MS
    )
    answers = Answers()
    for i in range(20):
        answers.send(producer, f"m{i}".encode())
    sizes = Counter(place(found)[:2] for found in answers.ids(20))
    ctx.expect([*sizes.values()] == [5] * 4, f"batches of {[*sizes.values()]} messages")
    ctx.expect(entries(ctx, topic) == 4, f"{entries(ctx, topic)} entries")
    return "20 messages, batching_max_messages 5, delay 60 s, no flush: 4 entries of 5"


@check(
    "batching.max_bytes",
    proves="A batch goes out before it would grow over batching_max_allowed_size_in_bytes",
    concepts="E.batching",
    seconds=2,
)
def max_bytes(ctx: Context) -> str:
    """Messages of 1000 bytes with a limit of 4096: four in each entry, as the client counts payloads and headers."""
    topic, limit = ctx.topic(), 4_096
    consumer = ctx.consumer(topic)
    producer = ctx.producer(
        topic,
        batching_enabled=True,
        batching_max_allowed_size_in_bytes=limit,
        batching_max_publish_delay_ms=LONG_MS,
    )
    answers = Answers()
    for _ in range(9):
        answers.send(producer, b"x" * 1_000)
    sizes = Counter(place(found)[:2] for found in answers.ids(8))
    ctx.expect([*sizes.values()] == [4, 4], f"batches of {[*sizes.values()]} messages of 1000 bytes")
    ctx.expect(entries(ctx, topic) == 2, f"{entries(ctx, topic)} entries before the flush")
    producer.flush()
    answers.ids(9)
    ctx.receive(consumer, 9)
    return (
        f"messages of 1000 bytes, limit {limit}, delay 60 s: 2 entries of 4 were sent without the delay, the 9th waited"
    )


@check(
    "batching.delay",
    proves="A batch that does not fill goes out after batching_max_publish_delay_ms, and not before",
    concepts="E.batching",
    seconds=4,
)
def delay(ctx: Context) -> str:
    """One lonely message is answered after the delay, with nothing else sent and no flush."""
    producer = ctx.producer(ctx.topic(), batching_enabled=True, batching_max_publish_delay_ms=DELAY_MS)
    answers = Answers()
    begin = time.monotonic()
    answers.send(producer, b"alone")
    found = answers.ids(1, within=15)[0]
    waited = (time.monotonic() - begin) * 1000
    ctx.expect(waited >= DELAY_MS * 0.9, f"stored after {waited:.0f} ms, the delay is {DELAY_MS} ms")
    ctx.expect(place(found)[2] == 0, f"not sent as a batch: {found}")
    return f"a single message in a batch was stored after {waited:.0f} ms, batching_max_publish_delay_ms {DELAY_MS}"


@check(
    "batching.by_key",
    proves="With batching by key a batch holds messages of one key only",
    concepts=("E.batching", "E.key_shared.batching"),
    seconds=2,
)
def by_key(ctx: Context) -> str:
    """Twelve messages of three keys in turn are three entries, one a key."""
    topic = ctx.topic()
    consumer = ctx.consumer(topic)
    producer = ctx.producer(
        topic,
        batching_enabled=True,
        batching_type=pulsar.BatchingType.KeyBased,
        batching_max_publish_delay_ms=LONG_MS,
    )
    answers = Answers()
    for i in range(12):
        answers.send(producer, f"m{i}".encode(), partition_key=f"key{i % 3}")
    producer.flush()
    answers.ids(12)
    by_entry: dict[tuple[int, int], list[str]] = {}
    for message in ctx.receive(consumer, 12):
        by_entry.setdefault(place(message.message_id())[:2], []).append(message.partition_key())
    ctx.expect(
        sorted(by_entry.values()) == [[f"key{i}"] * 4 for i in range(3)],
        f"keys by entry: {sorted(by_entry.values())}",
    )
    return "12 messages of 3 keys in turn are 3 entries with 4 messages of one key each"


def _chunked(ctx: Context) -> int:
    limit = int(ctx.number("maxMessageSize"))
    ctx.require(
        0 < limit <= LARGEST_CHUNKED,
        f"a chunked message is larger than maxMessageSize {limit}: needs one of at most {LARGEST_CHUNKED} bytes",
    )
    return limit


@check(
    "chunking.whole",
    proves="A message over maxMessageSize is stored as several entries and arrives whole",
    concepts="E.chunking",
    seconds=4,
)
def whole(ctx: Context) -> str:
    """More than twice the limit: three entries, one message, equal bytes."""
    size = 2 * _chunked(ctx) + 1_000
    payload, topic = random.Random(1).randbytes(size), ctx.topic()
    producer = ctx.producer(topic, chunking_enabled=True)
    accepted(lambda: producer.send(payload, properties={"name": "large"}), "a chunked message was refused")
    count = entries(ctx, topic)
    ctx.expect(count == CHUNKS, f"{size} bytes are {count} entries, not {CHUNKS}")
    consumer = ctx.consumer(topic)
    message = ctx.receive(consumer, 1)[0]
    ctx.expect(message.data() == payload, f"{len(message.data())} bytes came, not the {size} sent")
    ctx.expect(message.properties() == {"name": "large"}, f"properties are {message.properties()}")
    ctx.nothing(consumer, 0.5, "one message was sent")
    ctx.eventually(
        lambda: ctx.stats(topic)["subscriptions"]["sub"]["msgBacklog"] == 0, "no backlog: each chunk is acknowledged"
    )
    return f"{size} bytes: {count} entries in internalStats, one message with equal bytes; backlog 0 after one ack"


@check(
    "chunking.interleaved",
    proves="Chunks of two producers may lie between each other; both messages arrive whole",
    concepts="E.chunking",
    seconds=7,
)
def interleaved(ctx: Context) -> str:
    """Two clients send at the same time, slowed down by the broker.

    The Java client is used because its chunk size can be set. Under a publish rate the broker reads a little from each
    connection in turn; without one it may have read a whole message before the other client begins.
    """
    ctx.policy("publishRate", {"publishThrottlingRateInMsg": CHUNKS_PER_SECOND, "publishThrottlingRateInByte": -1})
    topic, both = ctx.topic(), 2 * SMALL_CHUNKS
    payloads = [random.Random(seed).randbytes(SMALL_CHUNKS * SMALL_CHUNK) for seed in (1, 2)]
    options: dict[str, Any] = {"chunkingEnabled": True, "batchingEnabled": False, "chunkMaxMessageSize": SMALL_CHUNK}
    producers = [ctx.tamper.wrap("java.producer", ctx.new_java().producer(topic, **options)) for _ in payloads]
    consumer = ctx.consumer(topic)
    sent = [producer.send_async(payload) for producer, payload in zip(producers, payloads, strict=True)]
    ends = sorted(int(pending.result().split(":")[1]) for pending in sent)
    got = [message.data() for message in ctx.receive(consumer, 2)]
    ctx.expect(sorted(got) == sorted(payloads), "not the two messages that were sent")
    count = entries(ctx, topic)
    ctx.expect(count == both, f"{count} entries for two messages of {SMALL_CHUNKS} chunks")
    # The message that ends last takes the last entry; the other one ends in the middle when they came in turn.
    ctx.expect(ends[0] != SMALL_CHUNKS - 1, "no chunk of one producer came among those of the other")
    return f"two messages of {SMALL_CHUNKS} chunks ended at entries {ends[0]}, {ends[1]} of {both}; both whole"


@check(
    "chunking.not_with_batching",
    proves="The client refuses a producer with both batching and chunking",
    concepts="E.chunking",
    seconds=1,
)
def not_with_batching(ctx: Context) -> str:
    """The producer is not made, and the broker has none."""
    topic = ctx.topic()
    text = ctx.refused(ValueError, lambda: ctx.producer(topic, batching_enabled=True, chunking_enabled=True))
    ctx.expect(not ctx.stats(topic)["publishers"], "the topic has a producer")
    return f"refused: {text}"


@check(
    "chunking.persistent_only",
    proves="A non-persistent topic takes no chunked message",
    concepts="E.chunking",
    seconds=2,
)
def persistent_only(ctx: Context) -> str:
    """With chunking on, a message over the limit is refused; a small one arrives."""
    ctx.require(ctx.setting("enableNonPersistentTopics") == "true", "needs enableNonPersistentTopics=true")
    size = 2 * _chunked(ctx) + 1_000
    topic = ctx.topic(persistent=False)
    consumer = ctx.consumer(topic)
    producer = ctx.producer(topic, chunking_enabled=True)
    text = ctx.refused(pulsar.MessageTooBig, lambda: producer.send(b"x" * size))
    ctx.send(producer, ["small"])
    got = ctx.texts(ctx.receive(consumer, 1))
    ctx.expect(got == ["small"], f"received {got}")
    return f"{size} bytes refused ({text}); a small message arrived"


def _compressed(name: str, kind: pulsar.CompressionType) -> Check:
    @check(
        f"compression.{name}",
        proves=f"A payload compressed with {name.upper()} is stored small and received unchanged",
        concepts=f"E.compression.{name}",
        seconds=2,
    )
    def run(ctx: Context) -> str:
        topic = ctx.topic()
        consumer = ctx.consumer(topic)
        payload = "".join(
            f"sensor {i % 7} in the machine hall: {20 + i % 5} degrees Celsius\n" for i in range(ROWS)
        ).encode()
        ctx.producer(topic, compression_type=kind).send(payload)
        stats = ctx.stats(topic)
        arrived, size = int(stats["bytesInCounter"]), int(stats["storageSize"])
        ctx.expect(
            0 < max(arrived, size) * SHRINKS <= len(payload),
            f"{len(payload)} bytes sent, bytesInCounter {arrived}, storageSize {size}: not {SHRINKS} times smaller",
        )
        headers = stored(ctx, topic)
        with_, before = headers.get("x-pulsar-compression"), headers.get("x-pulsar-uncompressed-size")
        ctx.expect(with_ == name.upper(), f"the stored message is compressed with {with_}")
        ctx.expect(before == str(len(payload)), f"the stored message says {before} bytes, not {len(payload)}")
        message = ctx.receive(consumer, 1)[0]
        ctx.expect(message.data() == payload, f"{len(message.data())} other bytes came than the {len(payload)} sent")
        return f"{len(payload)} bytes sent, bytesInCounter {arrived}, storageSize {size}, marked {with_}, equal"

    return run


COMPRESSION = tuple(_compressed(name, kind) for name, kind in COMPRESSIONS.items())
