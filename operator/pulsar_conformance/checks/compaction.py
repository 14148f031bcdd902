"""Compaction: the last value of each key, for those who ask for it."""

from __future__ import annotations

from pulsar_conformance.context import Context
from pulsar_conformance.model import check

KEYS = ("a", "b", "c")


@check(
    "compaction.last_value",
    proves="A consumer that reads compacted gets the last value of each key, another one all messages",
    concepts="E.compaction",
    seconds=6,
)
def last_value(ctx: Context) -> str:
    """What is sent after the compaction is read as it is."""
    topic = ctx.topic()
    producer = ctx.producer(topic)
    sent = []
    for round_ in range(3):
        for key in KEYS:
            sent.append(f"{key}{round_}")
            producer.send(sent[-1].encode(), partition_key=key)
    note = compact(ctx, topic)
    for text in ("a3", "a4"):
        sent.append(text)
        producer.send(text.encode(), partition_key="a")
    got = ctx.texts(ctx.receive(ctx.consumer(topic, "compacted", is_read_compacted=True), 5))
    everything = ctx.texts(ctx.receive(ctx.consumer(topic, "everything"), len(sent)))
    ctx.expect(got == ["a2", "b2", "c2", "a3", "a4"], f"read compacted: {got}")
    ctx.expect(everything == sent, f"without it all {len(sent)} were expected in order, {everything} came")
    return f"9 messages of 3 keys compacted, 2 sent after: compacted {', '.join(got)}; else all {len(sent)}{note}"


@check(
    "compaction.empty_deletes",
    proves="An empty message deletes its key at the next compaction",
    concepts="E.compaction",
    seconds=5,
)
def empty_deletes(ctx: Context) -> str:
    """Sent by the Java client.

    The broker (4.0) takes a message for empty by the size in its metadata, which the clients on top of the C++ one give
    only with compression; theirs without it are kept.
    """
    topic = ctx.topic()
    producer = ctx.java_producer(topic)
    for key in KEYS:
        producer.send(f"{key}0".encode(), key=key)
    producer.send(b"", key="b")
    note = compact(ctx, topic)
    got = compacted(ctx, topic, 2)
    ctx.expect(got == ["a0", "c0"], f"b was deleted by an empty message; read compacted: {got}")
    everything = ctx.texts(ctx.receive(ctx.reader(topic), 4, ack=False))
    ctx.expect(everything == ["a0", "b0", "c0", ""], f"without it all four were expected, {everything} came")
    return f"a0, b0, c0 and an empty b compacted: read compacted {', '.join(got)}{note}"


@check(
    "compaction.keyless",
    proves="Messages without a key are kept or dropped by compaction as topicCompactionRetainNullKey says",
    concepts="E.compaction",
    seconds=5,
)
def keyless(ctx: Context) -> str:
    """Two of them among messages with keys."""
    retained = ctx.setting("topicCompactionRetainNullKey")
    ctx.require(retained, "these brokers have no setting topicCompactionRetainNullKey (Pulsar 3.2 and later have it)")
    topic = ctx.topic()
    producer = ctx.producer(topic)
    ctx.send(producer, ["a0", "a1"], partition_key="a")
    ctx.send(producer, ["n0", "n1"])
    ctx.send(producer, ["b0"], partition_key="b")
    note = compact(ctx, topic)
    expected = ["a1", "n0", "n1", "b0"] if retained == "true" else ["a1", "b0"]
    got = compacted(ctx, topic, len(expected))
    ctx.expect(got == expected, f"topicCompactionRetainNullKey={retained}: {expected} were expected, {got} came")
    return f"topicCompactionRetainNullKey={retained}: a0, a1, b0, n0, n1 (no key) became {', '.join(got)}{note}"


@check(
    "compaction.threshold",
    proves="A topic above its namespace's compaction threshold is compacted by the broker, one below it is not",
    concepts="E.compaction",
    seconds=110,
)
def threshold(ctx: Context) -> str:
    """It looks every brokerServiceCompactionMonitorIntervalInSeconds; a compaction may fail once, see compact()."""
    limit = 20_000
    interval = ctx.interval("brokerServiceCompactionMonitorIntervalInSeconds")
    above, below = ctx.topic("above"), ctx.topic("below")
    text = "x" * 1000

    def fill(topic: str, numbers: range) -> None:
        ctx.send(ctx.producer(topic), [f"{number}{text}" for number in numbers], partition_key="k")

    def compacts(after: int) -> int:
        return ctx.eventually(
            lambda: (found := compacted_at(ctx, above)) > after and found,
            "the broker compacts the topic automatically",
            within=interval.seconds + interval.within,
            every=interval.every,
        )

    fill(below, range(10, 15))
    fill(above, range(10, 60))
    # Only now: the broker may look at any moment.
    ctx.policy("compactionThreshold", limit, method="PUT")
    first = compacts(after=0)
    got = ctx.texts(ctx.receive(ctx.reader(above, is_read_compacted=True), 1, ack=False))[0]
    ctx.expect(got.startswith("59"), f"the last of 50 values was expected, it begins {got[:5]}")
    # Once more, so that the broker has looked at the other topic too, and had the time to compact it.
    fill(above, range(60, 99))
    compacts(after=first)
    ctx.expect(not compacted_at(ctx, below), "the topic below the threshold was compacted too")
    return (
        f"threshold {limit} bytes, every {interval.seconds:.0f} s: 50 kB of one key became its last value, twice; "
        "5 kB stayed"
    )


def compacted(ctx: Context, topic: str, count: int) -> list[str]:
    """Returns at least ``count`` texts that a reader of the compacted topic gets."""
    reader = ctx.reader(topic, is_read_compacted=True)
    return ctx.texts(ctx.receive(reader, count, ack=False) + ctx.drain(reader, ack=False))


def compact(ctx: Context, topic: str) -> str:
    """Compact a topic and wait for the end; what went wrong before that, as a message. Raises CheckFailed without an
    end.

    A compaction may lose its connection when its reader goes back to the first message (apache/pulsar issue 25279); it
    is started again then, as the broker itself does at the next check its topics.
    """
    path = f"{ctx.path(topic)}/compaction"
    failed: list[str] = []
    ctx.admin.put(path)

    def done() -> bool:
        found = ctx.admin.get(path)
        if found["status"] == "ERROR":
            failed.append(found["lastError"])
            ctx.admin.put(path)
        return bool(found["status"] == "SUCCESS")

    ctx.eventually(done, "the compaction succeeds", within=60)
    return f"; compaction failed {len(failed)} times before" if failed else ""


def compacted_at(ctx: Context, topic: str) -> int:
    """When the topic was compacted last, in milliseconds since 1970; 0 for never."""
    return int(ctx.stats(topic)["compaction"]["lastCompactionSucceedTimestamp"])
