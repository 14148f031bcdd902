"""Subscription types: who gets which message."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pulsar

from pulsar_conformance.context import Context
from pulsar_conformance.kit import hashing, sharing
from pulsar_conformance.model import check

RING = "activeConsumerFailoverConsistentHashing"


@check(
    "subscription.exclusive",
    proves="An Exclusive subscription has one consumer; a second one is refused while the first is there",
    concepts="E.subscription.exclusive",
    seconds=4,
)
def exclusive(ctx: Context) -> str:
    """The second consumer gets ConsumerBusy; after the first one has closed it gets in and continues where it
    stopped."""
    topic = ctx.topic()
    first = ctx.consumer(topic, consumer_type=pulsar.ConsumerType.Exclusive)
    refusal = ctx.refused(
        pulsar.ConsumerBusy,
        lambda: ctx.consumer(topic, client=ctx.client(), consumer_type=pulsar.ConsumerType.Exclusive),
    )
    producer = ctx.producer(topic)
    ctx.send(producer, [f"m{i}" for i in range(10)])
    got = ctx.texts(ctx.receive(first, 5))
    first.close()
    second = ctx.consumer(topic, consumer_type=pulsar.ConsumerType.Exclusive)
    got += ctx.texts(ctx.receive(second, 5))
    ctx.expect(got == [f"m{i}" for i in range(10)], f"the second consumer did not continue in order: {got}")
    return f"second consumer refused ({refusal}); after the first closed it received messages 6 to 10 of 10"


# --- Failover


def _standing(ctx: Context, topics: Any, name: str) -> Any:
    return ctx.consumer(topics, consumer_type=pulsar.ConsumerType.Failover, consumer_name=name)


def _active(ctx: Context, topics: Sequence[str]) -> list[str]:
    """The active consumer of each topic, from its stats; "" for none."""
    return [ctx.stats(topic)["subscriptions"]["sub"].get("activeConsumerName") or "" for topic in topics]


def _assignment(ctx: Context, partitions: Sequence[str], names: Sequence[str]) -> list[str]:
    """The consumer each partition must have: by turns of their sorted names, or by hash where the setting says so."""
    if ctx.setting(RING) == "true":
        return [hashing.failover_choice(partition, names) for partition in partitions]
    return [sorted(names)[number % len(names)] for number in range(len(partitions))]


def _expect_active(ctx: Context, topics: Sequence[str], expected: Sequence[str]) -> None:
    """The topics' active consumers become the expected ones."""

    def as_expected() -> bool:
        active = _active(ctx, topics)
        wrong = [(topic.rsplit("/", 1)[1], *pair) for topic, *pair in zip(topics, active, expected, strict=True)]
        wrong = [one for one in wrong if one[1] != one[2]]
        ctx.expect(not wrong, f"topic, active consumer, expected one: {wrong[:4]}")
        return True

    ctx.eventually(as_expected, "the active consumers")


def _send_each(ctx: Context, topics: Sequence[str], rounds: range) -> list[str]:
    """Messages to each topic, texts ``topic/number`` with the last part of the topic's name."""
    texts = []
    for topic in topics:
        producer = ctx.producer(topic)
        texts += [f"{topic.rsplit('/', 1)[1]}/{number}" for number in rounds]
        ctx.send(producer, texts[-len(rounds) :])
        producer.close()
    return texts


def _expect_own(ctx: Context, got: Mapping[str, list[Any]], topics: Sequence[str], active: Sequence[str]) -> None:
    """Every consumer got the messages of the topics it is active on, in order, and no others."""
    of_topic = dict(zip((topic.rsplit("/", 1)[1] for topic in topics), active, strict=True))
    for name, messages in got.items():
        last: dict[str, int] = {}
        for text in ctx.texts(messages):
            topic, number = text.rsplit("/", 1)
            ctx.expect(of_topic[topic] == name, f"{name} got {text}, but {of_topic[topic]} is active on {topic}")
            ctx.expect(int(number) > last.get(topic, -1), f"{name} got {text} after number {last.get(topic)}")
            last[topic] = int(number)


@check(
    "subscription.failover_partitioned",
    proves="Failover, partitioned topic: consumers sorted by name take partitions by turns; others get nothing of them",
    concepts="E.subscription.failover.partitioned",
    seconds=7,
)
def failover_partitioned(ctx: Context) -> str:
    """Three consumers that join in another order than that of their names, five partitions."""
    topic = ctx.topic(partitions=5)
    partitions = [f"{topic}-partition-{number}" for number in range(5)]
    consumers = {name: _standing(ctx, topic, name) for name in ("dog", "ant", "cat")}
    expected = _assignment(ctx, partitions, list(consumers))
    _expect_active(ctx, partitions, expected)
    sent = _send_each(ctx, partitions, range(6))
    got = sharing.gather(ctx, consumers, len(sent))
    sharing.expect_once(ctx, got, sent)
    _expect_own(ctx, got, partitions, expected)
    return f"partitions 0 to 4 have {', '.join(expected)}; of {len(sent)} messages each got only its own partitions'"


@check(
    "subscription.failover_takeover",
    proves="Failover: when the active consumer closes, a standby continues in order at its position, without loss",
    concepts="E.subscription.failover.partitioned",
    seconds=8,
)
def failover_takeover(ctx: Context) -> str:
    """The active consumer of a partition leaves with six messages not acknowledged, and more are sent afterwards."""
    topic = ctx.topic(partitions=2)
    partitions = [f"{topic}-partition-{number}" for number in range(2)]
    consumers = {name: _standing(ctx, topic, name) for name in ("ant", "bee")}
    expected = _assignment(ctx, partitions, list(consumers))
    _expect_active(ctx, partitions, expected)
    lost, name = partitions[0], expected[0]
    active = consumers.pop(name)
    (other, standby), *_ = consumers.items()
    producer = ctx.producer(lost)
    texts = [f"m{number}" for number in range(15)]
    ctx.send(producer, texts[:10])
    messages = ctx.receive(active, 10, ack=False)
    ctx.expect(ctx.texts(messages) == texts[:10], f"the active consumer got {ctx.texts(messages)}")
    ctx.nothing(standby, 1.0, f"{other} stands by for this partition")
    for message in messages[:4]:
        active.acknowledge(message)
    active.close()
    _expect_active(ctx, [lost], [other])
    ctx.send(producer, texts[10:])
    got = ctx.texts(ctx.receive(standby, 11, within=30))
    ctx.expect(got == texts[4:], f"{other} did not continue with m4 in order: {got}")
    ctx.nothing(standby, 0.5, "all messages were there")
    return f"{name} acknowledged 4 of 10 and closed; {other}, with nothing before, got m4 to m14 in order, once"


@check(
    "subscription.failover_priority",
    proves="Failover, partitioned topic: only consumers of the best priority take partitions, others when these left",
    concepts="E.subscription.failover.partitioned",
    seconds=8,
)
def failover_priority(ctx: Context) -> str:
    """A consumer of the second priority, first by name, gets partitions only after those of the first priority left."""
    topic = ctx.topic(partitions=4)
    partitions = [f"{topic}-partition-{number}" for number in range(4)]
    consumers = {
        name: ctx.java_consumer(topic, type="Failover", consumerName=name, priorityLevel=level)
        for name, level in {"ant": 1, "dog": 0, "cat": 0}.items()
    }
    expected = _assignment(ctx, partitions, ["cat", "dog"])
    _expect_active(ctx, partitions, expected)
    consumers["cat"].close()
    _expect_active(ctx, partitions, ["dog"] * 4)
    consumers["dog"].close()
    _expect_active(ctx, partitions, ["ant"] * 4)
    return f"priority 0 has the partitions: {', '.join(expected)}; then dog alone; ant with priority 1 after both left"


@check(
    "subscription.failover_spare",
    proves="Failover with fewer partitions than consumers: those without a partition get nothing, and take over when "
    "the active ones leave",
    concepts="E.subscription.failover.partitioned",
    seconds=6,
)
def failover_spare(ctx: Context) -> str:
    """Two partitions and four consumers; the active ones close without acknowledging anything."""
    topic = ctx.topic(partitions=2)
    partitions = [f"{topic}-partition-{number}" for number in range(2)]
    consumers = {name: _standing(ctx, topic, name) for name in ("ant", "bee", "cat", "dog")}
    expected = _assignment(ctx, partitions, list(consumers))
    _expect_active(ctx, partitions, expected)
    sent = _send_each(ctx, partitions, range(5))
    got = sharing.gather(ctx, consumers, len(sent), ack=False, extra=0.3)
    sharing.expect_once(ctx, got, sent)
    _expect_own(ctx, got, partitions, expected)
    spare = [name for name in consumers if name not in expected]
    ctx.expect(not any(got[name] for name in spare), f"consumers without a partition got some: {sharing.sizes(got)}")
    for name in set(expected):
        consumers.pop(name).close()
    later = _assignment(ctx, partitions, spare)
    _expect_active(ctx, partitions, later)
    sent += _send_each(ctx, partitions, range(5, 8))
    again = sharing.gather(ctx, consumers, len(sent), extra=0.3)
    sharing.expect_once(ctx, again, sent)
    _expect_own(ctx, again, partitions, later)
    return (
        f"2 partitions, 4 consumers: {sharing.sizes(got)}; {', '.join(sorted(set(expected)))} closed: "
        f"{sharing.sizes(again)}, those 10 again and 6 more, each once and in order"
    )


def _topics_of_all(ctx: Context, names: Sequence[str], count: int) -> list[str]:
    """Topics orders-0, orders-1 ... without those that would give one consumer much more than an even share."""
    chosen: dict[str, str] = {}
    for number in itertools.count():
        topic = ctx.topic(f"orders-{number}", create=False)
        name = hashing.failover_choice(topic, names)
        if list(chosen.values()).count(name) <= count // len(names):
            chosen[ctx.topic(f"orders-{number}")] = name
        if len(chosen) == count:
            break
    return list(chosen)


@check(
    "subscription.failover_hash",
    proves="Failover, many topics: the hash of a topic's name chooses its active consumer, so consumers share topics",
    concepts="E.subscription.failover.hash",
    seconds=10,
)
def failover_hash(ctx: Context) -> str:
    """16 topics, three consumers on all of them; the choice is computed, and for most topics outlives one leaving."""
    topics = _topics_of_all(ctx, ("ant", "bee", "cat"), 16)
    consumers = {name: _standing(ctx, topics, name) for name in ("ant", "bee", "cat")}
    expected = [hashing.failover_choice(topic, consumers) for topic in topics]
    _expect_active(ctx, topics, expected)
    sent = _send_each(ctx, topics, range(3))
    got = sharing.gather(ctx, consumers, len(sent))
    sharing.expect_once(ctx, got, sent)
    _expect_own(ctx, got, topics, expected)
    consumers.pop("bee").close()
    later = [hashing.failover_choice(topic, consumers) for topic in topics]
    _expect_active(ctx, topics, later)
    moved = [number for number, name in enumerate(expected) if later[number] != name]
    ctx.expect(all(expected[number] == "bee" for number in moved), "topics of a consumer that stayed have moved")
    counts = ", ".join(f"{name} {expected.count(name)}" for name in sorted(set(expected)))
    return f"16 topics: {counts}, as their names' hashes say; after bee left only its {len(moved)} topics moved"


# --- Shared


def _round(ctx: Context, topic: str, names: Sequence[str]) -> dict[str, Any]:
    return {name: ctx.consumer(topic, consumer_type=pulsar.ConsumerType.Shared, consumer_name=name) for name in names}


@check(
    "subscription.shared",
    proves="Shared: messages go round the consumers, each message to exactly one of them",
    concepts="E.subscription.shared",
    seconds=4,
)
def shared(ctx: Context) -> str:
    """Messages sent one by one to three consumers that all wait: none gets less than a tenth of them."""
    topic = ctx.topic()
    consumers = _round(ctx, topic, ("ant", "bee", "cat"))
    sent = [f"m{number}" for number in range(60)]
    ctx.send(ctx.producer(topic), sent)
    got = sharing.gather(ctx, consumers, len(sent))
    sharing.expect_once(ctx, got, sent)
    ctx.expect(min(len(messages) for messages in got.values()) >= 6, f"not shared out: {sharing.sizes(got)}")
    return f"{len(sent)} messages, each to exactly one consumer: {sharing.sizes(got)}"


@check(
    "subscription.shared_takeover",
    proves="Shared: what a consumer got and did not acknowledge goes to the others when it closes, and nothing else",
    concepts="E.subscription.shared",
    seconds=4,
)
def shared_takeover(ctx: Context) -> str:
    """One of two consumers acknowledges half of its share and closes."""
    topic = ctx.topic()
    consumers = _round(ctx, topic, ("ant", "bee"))
    sent = [f"m{number}" for number in range(40)]
    ctx.send(ctx.producer(topic), sent)
    got = sharing.gather(ctx, consumers, len(sent), ack=False)
    ctx.expect(all(got.values()), f"not shared out: {sharing.sizes(got)}")
    for message in got["bee"]:
        consumers["bee"].acknowledge(message)
    done = len(got["ant"]) // 2
    for message in got["ant"][:done]:
        consumers["ant"].acknowledge(message)
    consumers["ant"].close()
    left = ctx.texts(got["ant"][done:])
    again = ctx.receive(consumers["bee"], len(left))
    ctx.expect(sorted(ctx.texts(again)) == sorted(left), f"{left} were left, {ctx.texts(again)} came")
    ctx.nothing(consumers["bee"], 0.5, "all others were acknowledged")
    return f"{sharing.sizes(got)}; ant acknowledged {done} and closed, bee got exactly its other {len(left)}"
