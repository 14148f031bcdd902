"""Delayed messages and what else acts on a topic: batches, TTL, backlog quotas, the deletion of ledgers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Any

import pulsar

from pulsar_conformance.checks.delivery import CLOCKS, FAR, SHARED, offered, tick
from pulsar_conformance.checks.policies import NO_RETENTION, backlog
from pulsar_conformance.checks.storage import ledger_ids, prompt_cursors, settled, trim, unload
from pulsar_conformance.context import Context
from pulsar_conformance.kit.sending import Answers, entries, place
from pulsar_conformance.model import check

LONG = timedelta(seconds=FAR)
LIMIT = 20_000
"""Bytes of a backlog quota, of which 30 messages of a kilobyte are too many."""
_BLOCKED = (pulsar.ProducerBlockedQuotaExceededError, pulsar.ProducerBlockedQuotaExceededException)
GROUP = 6
"""Messages sent together."""


def _subscription(ctx: Context, topic: str) -> dict[str, Any]:
    return dict(ctx.stats(topic, getPreciseBacklog=True)["subscriptions"]["sub"])


def _expect_delayed(ctx: Context, topic: str, count: int) -> None:
    """Waits until the broker has counted this number of messages as delayed."""
    ctx.eventually(lambda: _subscription(ctx, topic)["msgDelayed"] == count, f"{count} messages count as delayed")


def _left(ctx: Context, topic: str, count: int) -> None:
    """Waits until this number of messages are not acknowledged."""
    ctx.eventually(lambda: backlog(ctx, topic) == count, f"a backlog of {count}")


def _delay(message: Any) -> int:
    """How many milliseconds ago it was published."""
    return round(time.time() * 1000) - int(message.publish_timestamp())


def _single(ctx: Context, topic: str, consumer: Any, batched: list[Any], delayed: list[Any]) -> str:
    """Judge the entries of messages sent in groups, each without a delay but the second; the evidence."""
    ctx.expect(
        len(set(delayed)) == GROUP and not set(delayed) & set(batched),
        f"{GROUP} delayed messages went to the entries {delayed}, the others to {batched}",
    )
    # The Java client sends a batch that waits when it comes to a delayed message, the C++ client goes on filling it.
    batches = len(set(batched))
    ctx.expect(batches in (1, 2), f"2 groups without a delay were to be 1 or 2 batches, they are in {batched}")
    total = entries(ctx, topic)
    ctx.expect(total == GROUP + batches, f"{GROUP + batches} entries were expected, there are {total}")
    got = ctx.texts(ctx.receive(consumer, 2 * GROUP))
    ctx.expect(not [text for text in got if text.startswith("later")], f"delayed messages came immediately: {got}")
    ctx.nothing(consumer, 0.5, f"the others have a delay of {FAR} s")
    return f"{2 * GROUP} messages without a delay in {batches} batch(es), {GROUP} delayed in {GROUP} separate entries"


def _names() -> list[str]:
    return [f"{kind}{number}" for kind in ("first", "later", "last") for number in range(GROUP)]


@check(
    "delayed.single",
    proves="Each delayed message is a separate entry even if its producer batches; other messages are batched",
    concepts="E.delayed.single",
    seconds=2,
)
def single(ctx: Context) -> str:
    """Six messages, six delayed ones, six messages, then a flush, which alone would end a batch."""
    offered(ctx)
    topic = ctx.topic()
    consumer = ctx.consumer(topic, consumer_type=SHARED)
    producer = ctx.producer(topic, batching_enabled=True, batching_max_publish_delay_ms=60_000)
    answers = Answers()
    for name in _names():
        delay = {"deliver_after": LONG} if name.startswith("later") else {}
        answers.send(producer, name.encode(), **delay)
    producer.flush()
    numbered = {answer.number: place(answer.id) for answer in answers.wait(3 * GROUP)}
    alone = [numbered[number][2] for number in range(GROUP, 2 * GROUP)]
    ctx.expect(set(alone) == {-1}, f"the delayed messages were to be in no batch, their places in one are {alone}")
    places = [numbered[number][:2] for number in range(3 * GROUP)]
    return _single(ctx, topic, consumer, [*places[:GROUP], *places[2 * GROUP :]], places[GROUP : 2 * GROUP])


@check(
    "delayed.java_single",
    proves="The Java client sends each delayed message as a separate entry too, even if the producer batches",
    concepts="E.delayed.single",
    seconds=2,
)
def java_single(ctx: Context) -> str:
    """The same with a producer of the Java client."""
    offered(ctx)
    topic = ctx.topic()
    consumer = ctx.consumer(topic, consumer_type=SHARED)
    producer = ctx.java_producer(topic, batchingEnabled=True, batchingMaxPublishDelayMicros=60_000_000)
    pending = []
    for name in _names():
        delay = {"deliver_after_ms": FAR * 1000} if name.startswith("later") else {}
        pending.append(producer.send_async(name.encode(), **delay))
    producer.flush()
    places = [tuple(one.result().split(":")[:2]) for one in pending]
    return _single(ctx, topic, consumer, [*places[:GROUP], *places[2 * GROUP :]], places[GROUP : 2 * GROUP])


@check(
    "delayed.ttl",
    proves="A delayed message whose TTL ends before its time expires and never comes; with a longer TTL it comes",
    concepts=("E.delayed.kept", "E.ttl"),
    seconds=7,
)
def ttl(ctx: Context) -> str:
    """The same message in two namespaces, with a TTL of a second and of a minute, and due in four seconds."""
    offered(ctx)
    delay = 4000
    consumers, topics = {}, {}
    for seconds in (1, 60):
        namespace = ctx.new_namespace()
        ctx.policy("messageTTL", seconds, namespace=namespace)
        topics[seconds] = ctx.topic(namespace=namespace)
        consumers[seconds] = ctx.consumer(topics[seconds], consumer_type=SHARED)
    for seconds in (1, 60):
        producer = ctx.producer(topics[seconds])
        producer.send(b"later", deliver_after=timedelta(milliseconds=delay))
        producer.send(b"now")
        first = ctx.texts(ctx.receive(consumers[seconds], 1))
        ctx.expect(first == ["now"], f"the message without a delay was to come first, {first} came")
    _expect_delayed(ctx, topics[60], 1)
    more = itertools.cycle((1, 0))

    def expired() -> bool:
        # A change of the TTL makes the broker look at once.
        longer = next(more)
        for seconds, topic in topics.items():
            ctx.policy("messageTTL", seconds + longer, namespace=topic.split("://")[1].rsplit("/", 1)[0])
        return backlog(ctx, topics[1]) == 0

    ctx.eventually(expired, "the TTL of 1 s acknowledges the delayed message")
    left = backlog(ctx, topics[60])
    ctx.expect(left == 1, f"of the message with a TTL of 60 s {left} are left")
    message = ctx.receive(consumers[60], 1, within=delay / 1000 + 30)[0]
    gap = _delay(message)
    ctx.expect(gap >= delay - tick(ctx) - CLOCKS, f"it came after {gap} ms, {delay} ms were declared")
    # Another broker may have that topic, and look up to a tick later.
    ctx.nothing(consumers[1], ctx.number("delayedDeliveryTickTimeMillis") / 1000 + 0.5, "the message had expired")
    return f"due after {delay} ms: with TTL 1 s it expired and did not come, with TTL 60 s it came after {gap} ms"


def _filled(ctx: Context, topic: str, delayed: Iterable[int]) -> Any:
    """A consumer that has acknowledged, of 30 messages of 1 kB, all but the delayed ones, given by their numbers."""
    later = set(delayed)
    consumer = ctx.consumer(topic, consumer_type=SHARED)
    producer = ctx.producer(topic)
    for number in range(30):
        delay = {"deliver_after": LONG} if number in later else {}
        producer.send(f"{number:04}".encode() + b"x" * 1000, **delay)
    ctx.receive(consumer, 30 - len(later))
    _expect_delayed(ctx, topic, len(later))
    _left(ctx, topic, len(later))
    return consumer


def _takes(ctx: Context, topic: str) -> bool:
    ctx.producer(topic, client=ctx.client(operation_timeout_seconds=5)).close()
    return True


@check(
    "delayed.quota",
    proves="Delayed messages count against the backlog quota, and one of them has everything behind it count, though "
    "that is acknowledged",
    concepts=("E.delayed.kept", "E.backlog"),
    seconds=5,
)
def quota(ctx: Context) -> str:
    """Of 30 kB with a quota of 20 kB all, the first message only, or nothing is delayed; the rest is acknowledged."""
    offered(ctx)
    topics = {name: ctx.topic(name) for name in ("all", "one", "none")}
    delayed = {"all": range(30), "one": range(1), "none": range(0)}
    consumers = {name: _filled(ctx, topic, delayed[name]) for name, topic in topics.items()}
    for name, consumer in consumers.items():
        ctx.nothing(consumer, 0.3, f"{name}: the others have a delay of {FAR} s")
    body = {"limitSize": LIMIT, "limitTime": -1, "policy": "producer_exception"}
    ctx.policy("backlogQuota", body, backlogQuotaType="destination_storage")
    sizes = {}
    for name, topic in topics.items():
        ctx.eventually(partial(_limited, ctx, topic), "the quota is in force on the topic")
        sizes[name] = int(ctx.stats(topic)["backlogSize"])
    errors = {name: ctx.refused(_BLOCKED, partial(_takes, ctx, topics[name])) for name in ("all", "one")}
    _takes(ctx, topics["none"])
    ctx.expect(sizes["one"] > LIMIT >= sizes["none"], f"bytes of backlog: {sizes}")
    ctx.admin.post(f"{ctx.path(topics['one'])}/subscription/sub/skip_all")
    ctx.eventually(lambda: _works(ctx, topics["one"]), "a producer is accepted once the delayed message is skipped")
    return (
        f"quota {LIMIT} B, 30 messages: refused ({errors['all'].split()[-1]}) with 30 delayed ({sizes['all']} B) and 1 "
        f"delayed before 29 acknowledged ({sizes['one']} B); accepted with none ({sizes['none']} B) and after a skip"
    )


def _limited(ctx: Context, topic: str) -> bool:
    return bool(ctx.stats(topic)["backlogQuotaLimitSize"] == LIMIT)


def _works(ctx: Context, topic: str) -> bool:
    try:
        return _takes(ctx, topic)
    except _BLOCKED:
        return False


@check(
    "delayed.evicted",
    proves="consumer_backlog_eviction drops delayed messages too, the oldest first, long before their time",
    concepts=("E.delayed.kept", "E.backlog"),
    seconds=65,
)
def evicted(ctx: Context) -> str:
    """30 delayed messages of 1 kB and a quota of 20 kB; nothing is ever delivered."""
    ctx.require(ctx.setting("backlogQuotaCheckEnabled") == "true", "backlogQuotaCheckEnabled is false")
    interval = ctx.interval("backlogQuotaCheckIntervalInSeconds")
    offered(ctx)
    topic = ctx.topic()
    consumer = _filled(ctx, topic, range(30))
    body = {"limitSize": LIMIT, "limitTime": -1, "policy": "consumer_backlog_eviction"}
    ctx.policy("backlogQuota", body, backlogQuotaType="destination_storage")
    begin = time.monotonic()
    ctx.eventually(
        lambda: backlog(ctx, topic) < 30,
        "the broker drops delayed messages",
        within=interval.within,
        every=interval.every,
    )
    took = time.monotonic() - begin
    ctx.nothing(consumer, 0.5, f"the delay is {FAR} s")
    left = backlog(ctx, topic)
    ctx.expect(0 < left <= LIMIT // 1000, f"{left} of 30 messages are left under a quota of {LIMIT // 1000} kB")
    return (
        f"30 messages delayed by {FAR} s, quota {LIMIT // 1000} kB: after {took:.0f} s the {30 - left} oldest dropped"
    )


@check(
    "delayed.ledger",
    proves="A delayed message keeps its ledger, and those after it, until it was delivered and acknowledged; it comes "
    "after its topic has changed its owner",
    concepts=("E.delayed.kept", "C.ledger.delete"),
    seconds=7,
)
def ledger(ctx: Context) -> str:
    """Two topics of three ledgers without retention, all acknowledged but one delayed message in one of them."""
    offered(ctx)
    delay = 4000
    prompt_cursors(ctx)
    ctx.policy("retention", NO_RETENTION)
    topics = {name: ctx.topic(name) for name in ("delayed", "plain")}
    consumers = {name: ctx.consumer(topic, consumer_type=SHARED) for name, topic in topics.items()}
    producers = {name: ctx.producer(topic) for name, topic in topics.items()}
    producers["delayed"].send(b"later", deliver_after=timedelta(milliseconds=delay))
    late: list[tuple[Any, int]] = []
    ids: dict[str, list[int]] = {}
    for name, topic in topics.items():
        for turn in range(3):
            ctx.send(producers[name], [f"m{turn}{number}" for number in range(5)])
            if turn < 2:
                unload(ctx, topic)
        plain = 0
        while plain < 15:
            message = ctx.receive(consumers[name], 1, ack=False)[0]
            if message.data() == b"later":
                # A slow machine: it is not acknowledged before the trim all the same.
                late.append((message, _delay(message)))
                continue
            consumers[name].acknowledge(message)
            plain += 1
        ids[name] = ledger_ids(ctx, topic)
    for name, count in (("delayed", 1), ("plain", 0)):
        _left(ctx, topics[name], count)
        settled(ctx, topics[name])

    def gone(name: str) -> bool:
        trim(ctx, topics[name])
        return ledger_ids(ctx, topics[name]) == ids[name][2:]

    ctx.eventually(lambda: gone("plain"), "the ledgers of which all is acknowledged are deleted", every=0.5)
    trim(ctx, topics["delayed"])
    kept = ledger_ids(ctx, topics["delayed"])
    ctx.expect(kept == ids["delayed"], f"of ledgers {ids['delayed']} only {kept} are left, with a message to come")
    if not late:
        message = ctx.receive(consumers["delayed"], 1, within=delay / 1000 + 30, ack=False)[0]
        late.append((message, _delay(message)))
    ((message, gap),) = late
    ctx.expect(message.data() == b"later", f"{message.data()!r} came, not the delayed message")
    ctx.expect(gap >= delay - tick(ctx) - CLOCKS, f"it came after {gap} ms, {delay} ms were declared")
    consumers["delayed"].acknowledge(message)
    ctx.eventually(lambda: gone("delayed"), "its ledger is deleted once it is acknowledged", every=0.5)
    return (
        f"ledgers {ids['delayed']} all stayed for 1 delayed message, which came after {gap} ms and 2 unloads; then 2 "
        "of 3 were deleted, as those of a topic without a delay before"
    )
