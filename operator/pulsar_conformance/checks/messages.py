"""Single messages: how large they may be, what a send promises, and what is carried with the payload."""

from __future__ import annotations

import hashlib
import itertools
import random
import time
from typing import Any

import pulsar

from pulsar_conformance.context import Context
from pulsar_conformance.java.protocol import JavaError
from pulsar_conformance.kit.sending import Answers, accepted, entries, place, stored
from pulsar_conformance.model import check

NAME = "sized"
LONG_MS = 60_000
"""A publish delay that no check waits for."""
BLOCKED_MS = 1_500
QUEUE = 5
LARGEST = 128 * 1024 * 1024
"""Above this limit a message would take more memory than a check should, bytes."""
TOPIC_LIMIT = 1_000


def _largest_payload(ctx: Context) -> int:
    """Bytes of the largest payload of a producer called NAME that sends nothing but the payload.

    Clients count the payload and the MessageMetadata (PulsarApi.proto) with it: here producer_name, sequence_id (below
    128) and publish_time (milliseconds, 6 bytes), each after a tag of 1 byte.
    """
    limit = int(ctx.number("maxMessageSize"))
    ctx.require(0 < limit <= LARGEST, f"needs a maxMessageSize of at most {LARGEST} bytes, it is {limit}")
    return limit - (2 + len(NAME)) - 2 - 7


@check(
    "size.largest",
    proves="A message as large as maxMessageSize allows is stored on bookies and read back equal from there",
    concepts="E.size",
    seconds=4,
)
def largest(ctx: Context) -> str:
    """Payload and metadata are exactly the limit; the topic is unloaded before the first read, so no cache has it."""
    size, topic = _largest_payload(ctx), ctx.topic()
    payload = random.Random(3).randbytes(size)
    producer = ctx.producer(topic, producer_name=NAME)
    accepted(lambda: producer.send(payload), f"{size} bytes were refused")
    producer.close()
    before = [ledger["ledgerId"] for ledger in ctx.internal_stats(topic)["ledgers"]]
    ctx.admin.put(f"{ctx.path(topic)}/unload")
    consumer = ctx.consumer(topic)
    after = [ledger["ledgerId"] for ledger in ctx.internal_stats(topic)["ledgers"]]
    ctx.expect(
        after[: len(before)] == before and len(after) > len(before),
        f"the topic was not loaded again: ledgers {before}, then {after}",
    )
    message = ctx.receive(consumer, 1)[0]
    ctx.expect(
        hashlib.sha256(message.data()).digest() == hashlib.sha256(payload).digest(),
        f"{len(message.data())} other bytes came than the {size} sent",
    )
    ctx.expect(message.message_id().ledger_id() == before[-1], f"read from ledger {message.message_id().ledger_id()}")
    limit = int(ctx.number("maxMessageSize"))
    return f"{size} bytes + {limit - size} of metadata = maxMessageSize {limit}: read back equal after an unload"


@check(
    "size.too_big",
    proves="A message one byte over maxMessageSize is refused, nothing of it is stored and the connection stays",
    concepts="E.size",
    seconds=2,
)
def too_big(ctx: Context) -> str:
    """MessageTooBig for one byte too many and for twice the limit; the same producer then stores a small message."""
    size, topic = _largest_payload(ctx) + 1, ctx.topic()
    producer = ctx.producer(topic, producer_name=NAME)
    before = _connection(ctx, topic)
    text = ctx.refused(pulsar.MessageTooBig, lambda: producer.send(b"x" * size))
    ctx.refused(pulsar.MessageTooBig, lambda: producer.send(b"x" * 2 * size))
    count = entries(ctx, topic)
    ctx.expect(count == 0, f"{count} entries are stored after the refusal")
    ctx.send(producer, ["small"])
    after = _connection(ctx, topic)
    ctx.expect(after == before, f"the connection changed from {before} to {after}")
    got = ctx.texts(ctx.drain(ctx.consumer(topic), until=ctx.came("small")))
    ctx.expect(got == ["small"], f"received {got}")
    return f"{size} bytes: {text}; nothing stored; a small message went over the same connection"


def _connection(ctx: Context, topic: str) -> tuple[str, str]:
    publishers = ctx.stats(topic)["publishers"]
    ctx.expect(len(publishers) == 1, f"{len(publishers)} producers are connected, not 1")
    return publishers[0]["address"], publishers[0]["connectedSince"]


@check(
    "size.topic_policy",
    proves="The broker itself refuses a message over the topic's maxMessageSize policy, and keeps the connection",
    concepts="E.size",
    seconds=4,
)
def topic_policy(ctx: Context) -> str:
    """The Java client sends it (the limit of a topic is the broker's alone to know) and gets NotAllowedException."""
    ctx.require(ctx.setting("topicLevelPoliciesEnabled") == "true", "needs topicLevelPoliciesEnabled=true")
    topic = ctx.topic()
    producer = ctx.java_producer(topic, batchingEnabled=False)
    ctx.admin.post(f"{ctx.path(topic)}/maxMessageSize", TOPIC_LIMIT)
    # The broker learns of a topic's policies by an event, so a message or two may still pass.
    text = ctx.eventually(lambda: _refusal(producer), f"{2 * TOPIC_LIMIT} bytes are refused")
    ctx.expect("NotAllowedException" in text, f"refused with {text}")
    count = entries(ctx, topic)
    ctx.expect(_refusal(producer), "refused once, then accepted")
    ctx.expect(entries(ctx, topic) == count, "a refused message was stored")
    before = _connection(ctx, topic)
    accepted(lambda: producer.send(b"y" * (TOPIC_LIMIT // 2)), "a message within the limit was refused")
    ctx.expect(_connection(ctx, topic) == before, "the connection changed")
    ctx.expect(entries(ctx, topic) == count + 1, f"{entries(ctx, topic)} entries, not {count + 1}")
    return f"policy {TOPIC_LIMIT}: {2 * TOPIC_LIMIT} bytes refused ({text[:60]}), {TOPIC_LIMIT // 2} bytes stored"


def _refusal(producer: Any) -> str:
    try:
        producer.send(b"x" * 2 * TOPIC_LIMIT)
    except JavaError as error:
        return str(error)
    return ""


@check(
    "send.sync",
    proves="A synchronous send returns when the message is stored, with ids that only grow",
    concepts="E.send.sync",
    seconds=2,
)
def sync(ctx: Context) -> str:
    """After each of the first sends the entry is there; all ids grow strictly and are those received."""
    topic, texts = ctx.topic(), [f"m{i}" for i in range(50)]
    producer = ctx.producer(topic)
    ids = []
    for number, text in enumerate(texts):
        ids.append(place(producer.send(text.encode())))
        if number < 3:
            count = entries(ctx, topic)
            ctx.expect(count == number + 1, f"{count} entries when send {number + 1} returned")
    ctx.expect(all(one < two for one, two in itertools.pairwise(ids)), f"ids do not grow: {ids}")
    got = ctx.receive(ctx.consumer(topic), 50)
    ctx.expect(ctx.texts(got) == texts, f"received {ctx.texts(got)}")
    ctx.expect([place(message.message_id()) for message in got] == ids, "received under other ids than sent")
    return f"50 ids strictly increasing, {ids[0]} to {ids[-1]}; each entry there when its send returned"


@check(
    "send.async",
    proves="Asynchronous sends are answered in their order, each with Ok and an id that is larger than the last",
    concepts="E.send.async",
    seconds=2,
)
def asynchronous(ctx: Context) -> str:
    """Five hundred sends begun without waiting: callbacks in order, ids growing, messages received in order."""
    topic, count = ctx.topic(), 500
    producer = ctx.producer(topic)
    answers = Answers()
    for i in range(count):
        answers.send(producer, f"m{i}".encode())
    ids = [place(found) for found in answers.ids(count, within=30)]
    order = [answer.number for answer in answers.got]
    ctx.expect(order == [*range(count)], f"answered in another order: {order[:20]}")
    ctx.expect(all(one < two for one, two in itertools.pairwise(ids)), "ids do not grow strictly")
    got = ctx.texts(ctx.receive(ctx.consumer(topic), count, within=30))
    ctx.expect(got == [f"m{i}" for i in range(count)], "received in another order than sent")
    return f"{count} callbacks in order, all Ok, ids strictly increasing to {ids[-1]}; received in that order"


@check(
    "send.flush",
    proves="flush sends what waits in a batch and returns when all of it is stored and answered",
    concepts="E.send.async",
    seconds=2,
)
def flush(ctx: Context) -> str:
    """Nothing is stored before it; when it returns, every callback has been called."""
    topic = ctx.topic()
    producer = ctx.producer(topic, batching_enabled=True, batching_max_publish_delay_ms=LONG_MS)
    answers = Answers()
    for i in range(10):
        answers.send(producer, f"m{i}".encode())
    before = entries(ctx, topic)
    ctx.expect(before == 0 and not answers.got, f"{before} entries, {len(answers.got)} callbacks before the flush")
    producer.flush()
    done, after = len(answers.got), entries(ctx, topic)
    ctx.expect(done == 10, f"flush returned after {done} of 10 callbacks")
    answers.ids(10)
    ctx.expect(after == 1, f"{after} entries when flush returned")
    return "10 messages waited (0 entries, 0 callbacks); when flush returned, 1 entry and 10 callbacks"


@check(
    "send.queue_full",
    proves="A send to a full queue fails with ProducerQueueIsFull when the producer is not to block",
    concepts="E.send.async",
    seconds=2,
)
def queue_full(ctx: Context) -> str:
    """A batch that is not sent keeps the queue of five full: sends six and seven fail immediately, the five are
    stored."""
    topic = ctx.topic()
    producer = ctx.producer(
        topic,
        batching_enabled=True,
        batching_max_publish_delay_ms=LONG_MS,
        max_pending_messages=QUEUE,
        block_if_queue_full=False,
    )
    answers = Answers()
    for i in range(QUEUE + 2):
        answers.send(producer, f"m{i}".encode())
    got = answers.wait(2, within=5)
    numbered = [(answer.number, answer.result) for answer in got]
    full = pulsar.Result.ProducerQueueIsFull
    ctx.expect(numbered == [(QUEUE, full), (QUEUE + 1, full)], f"answers: {numbered}")
    producer.flush()
    answers.wait(QUEUE + 2)
    received = ctx.texts(ctx.drain(ctx.consumer(topic), until=ctx.came(f"m{QUEUE - 1}")))
    ctx.expect(received == [f"m{i}" for i in range(QUEUE)], f"received {received}")
    return f"max_pending_messages {QUEUE}: sends {QUEUE + 1} and {QUEUE + 2} got {full.name}, the first {QUEUE} stored"


@check(
    "send.queue_blocks",
    proves="With block_if_queue_full a send to a full queue waits for room, and no message fails",
    concepts="E.send.async",
    seconds=3,
)
def queue_blocks(ctx: Context) -> str:
    """The sixth send returns only when the batch of the first five has gone, which its publish delay decides."""
    topic = ctx.topic()
    producer = ctx.producer(
        topic,
        batching_enabled=True,
        batching_max_publish_delay_ms=BLOCKED_MS,
        max_pending_messages=QUEUE,
        block_if_queue_full=True,
    )
    answers = Answers()
    begin = time.monotonic()
    for i in range(QUEUE + 1):
        answers.send(producer, f"m{i}".encode())
    waited = (time.monotonic() - begin) * 1000
    ctx.expect(waited >= BLOCKED_MS * 0.9, f"send {QUEUE + 1} returned after {waited:.0f} ms, with the queue full")
    answers.send(producer, f"m{QUEUE + 1}".encode())
    producer.flush()
    answers.ids(QUEUE + 2)
    received = ctx.texts(ctx.receive(ctx.consumer(topic), QUEUE + 2))
    ctx.expect(received == [f"m{i}" for i in range(QUEUE + 2)], f"received {received}")
    return (
        f"send {QUEUE + 1} with {QUEUE} pending waited {waited:.0f} ms (batch delay {BLOCKED_MS}); all {QUEUE + 2} Ok"
    )


@check(
    "send.carried",
    proves="Properties, key, ordering key and event time arrive unchanged, with the producer's name",
    concepts=("E.send.sync", "E.send.async"),
    seconds=2,
)
def carried(ctx: Context) -> str:
    """One message by send and one by send_async in a batch."""
    topic = ctx.topic()
    consumer = ctx.consumer(topic)
    properties = {"unit": "°C", "empty": "", "long": "x" * 2_000}
    meta: dict[str, Any] = {
        "properties": properties,
        "partition_key": "Schlüssel-1",
        "ordering_key": "order-7",
        "event_timestamp": 1_600_000_000_123,
    }
    plain = ctx.producer(topic, producer_name="plain")
    batching = ctx.producer(topic, producer_name="batching", batching_enabled=True)
    answers = Answers()
    plain.send(b"one", **meta)
    answers.send(batching, b"two", **meta)
    batching.flush()
    answers.ids(1)
    got = ctx.receive(consumer, 2)
    for message, name in zip(got, ("plain", "batching"), strict=True):
        ctx.expect(message.properties() == properties, f"{name}: properties are {message.properties()}")
        ctx.expect(message.partition_key() == meta["partition_key"], f"{name}: key is {message.partition_key()!r}")
        ctx.expect(message.ordering_key() == meta["ordering_key"], f"{name}: ordering key {message.ordering_key()!r}")
        ctx.expect(message.event_timestamp() == meta["event_timestamp"], f"{name}: time {message.event_timestamp()}")
        ctx.expect(message.producer_name() == name, f"{name}: producer {message.producer_name()!r}")
    return f"alone and in a batch: {len(properties)} properties, key, ordering key, event time, producer name equal"


@check(
    "send.publish_time",
    proves="A message carries the time at which its producer published it",
    concepts=("E.send.sync", "E.send.async"),
    seconds=2,
)
def publish_time(ctx: Context) -> str:
    """By the clock of the producer's client, between the call of send and its return; it never goes back."""
    topic = ctx.topic()
    consumer, producer = ctx.consumer(topic), ctx.producer(topic)
    times: list[int] = []
    for number in range(3):
        begin = _now_ms()
        producer.send(f"m{number}".encode())
        end = _now_ms()
        published = ctx.receive(consumer, 1)[0].publish_timestamp()
        ctx.expect(begin <= published <= end, f"published at {published}, send was called from {begin} to {end}")
        times.append(published)
    ctx.expect(times == sorted(times), f"publish times go back: {times}")
    return f"3 publish times within the calls of send, {times[-1] - times[0]} ms from first to last"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@check(
    "send.sequence_ids",
    proves="Messages get sequence ids from the producer's first one on, or the one they are given",
    concepts=("E.send.sync", "E.send.async"),
    seconds=2,
)
def sequence_ids(ctx: Context) -> str:
    """Asked of the producer after each send, and of the broker for what it stored."""
    topic, expected = ctx.topic(), [42, 43, 44, 100]
    ctx.consumer(topic).close()
    producer = ctx.producer(topic, initial_sequence_id=expected[0] - 1)
    reported = []
    for number in expected:
        given = {"sequence_id": number} if number == 100 else {}
        producer.send(b"m", **given)
        reported.append(producer.last_sequence_id())
    ctx.expect(reported == expected, f"the producer returns {reported}, not {expected}")
    stored_ids = [int(stored(ctx, topic, position)["x-pulsar-sequence-id"]) for position in range(1, 5)]
    ctx.expect(stored_ids == expected, f"stored with {stored_ids}, not {expected}")
    return f"initial_sequence_id {expected[0] - 1}, the fourth message given 100: stored with {stored_ids}"
