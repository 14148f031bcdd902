"""Producers of one topic: who may produce, and which partition a message goes to."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import pulsar
from pulsar.exceptions import PulsarException

from pulsar_conformance.context import Context
from pulsar_conformance.kit.keyrouting import SCHEMES, partition_of
from pulsar_conformance.kit.sending import Answers, accepted
from pulsar_conformance.model import Check, CheckFailed, check

PARTITIONS = 4
WIDE = 7
"""Partitions for checks of hashes: with a prime number every bit of a hash counts."""
LONG_MS = 60_000
"""A publish delay that no check waits for."""
KEYS = (*(f"key-{i}" for i in range(24)), "hello", "Größe", "日本", "polygenelubricants", "a" * 50, "\U0001f600")
"""Among them: texts outside ASCII and outside the basic plane, and one whose Java hash code is the smallest int."""
MODE = pulsar.ProducerAccessMode
ROUND = pulsar.PartitionsRoutingMode.RoundRobinDistribution
SINGLE = pulsar.PartitionsRoutingMode.UseSinglePartition


# --- access modes


@check(
    "access_mode.shared",
    proves="Producers with Shared access are on a topic together",
    concepts="E.producer.shared",
    seconds=2,
)
def shared(ctx: Context) -> str:
    """Two clients send in turn; all messages arrive in that order and the broker sees both producers."""
    topic = ctx.topic()
    made = [
        accepted(
            lambda: ctx.producer(topic, client=ctx.client(), access_mode=MODE.Shared), "a Shared producer was refused"
        )
        for _ in range(2)
    ]
    for number in range(10):
        accepted(partial(ctx.send, made[number % 2], [f"m{number}"]), "a Shared producer may not send")
    modes = [publisher["accessMode"] for publisher in ctx.stats(topic)["publishers"]]
    ctx.expect(modes == ["Shared", "Shared"], f"producers on the topic: {modes}")
    got = ctx.receive(ctx.consumer(topic), 10)
    ctx.expect(ctx.texts(got) == [f"m{i}" for i in range(10)], f"received {ctx.texts(got)}")
    names = Counter(message.producer_name() for message in got)
    ctx.expect([*names.values()] == [5, 5], f"messages by producer: {dict(names)}")
    return f"2 producers at the same time, 5 messages of each received in order: {', '.join(names)}"


@check(
    "access_mode.exclusive",
    proves="A producer with Exclusive access is alone: others are refused until it is gone",
    concepts="E.producer.exclusive",
    seconds=3,
)
def exclusive(ctx: Context) -> str:
    """A second Exclusive one gets ProducerFenced, a Shared one ProducerBusy; both modes get in after the close."""
    topic, other = ctx.topic(), ctx.client()
    first = ctx.producer(topic, client=ctx.client(), access_mode=MODE.Exclusive)
    fenced = ctx.refused(pulsar.ProducerFenced, lambda: ctx.producer(topic, client=other, access_mode=MODE.Exclusive))
    busy = ctx.refused(pulsar.ProducerBusy, lambda: ctx.producer(topic, client=other, access_mode=MODE.Shared))
    accepted(lambda: ctx.send(first, ["first"]), "the first producer was disturbed")
    first.close()
    second = accepted(
        lambda: ctx.producer(topic, client=other, access_mode=MODE.Exclusive), "refused after the first one closed"
    )
    ctx.send(second, ["second"])
    got = ctx.texts(ctx.drain(ctx.consumer(topic), until=ctx.came("second")))
    ctx.expect(got == ["first", "second"], f"received {got}")
    return f"second Exclusive: {fenced}; Shared: {busy}; Exclusive accepted after the first closed"


@check(
    "access_mode.shared_first",
    proves="Exclusive access is refused while a Shared producer is there",
    concepts=("E.producer.exclusive", "E.producer.shared"),
    seconds=2,
)
def shared_first(ctx: Context) -> str:
    """The Shared producer continues; after it has closed the Exclusive one gets in."""
    topic, other = ctx.topic(), ctx.client()
    first = ctx.producer(topic, client=ctx.client(), access_mode=MODE.Shared)
    text = ctx.refused(pulsar.ProducerFenced, lambda: ctx.producer(topic, client=other, access_mode=MODE.Exclusive))
    accepted(lambda: ctx.send(first, ["first"]), "the Shared producer was disturbed")
    first.close()
    accepted(lambda: ctx.producer(topic, client=other, access_mode=MODE.Exclusive), "refused without another producer")
    return f"Exclusive with a Shared producer there: {text}; accepted after that one closed"


class Waiter:
    """A producer that waits for its turn, in a thread and with a separate client."""

    def __init__(self, ctx: Context, topic: str, name: str) -> None:
        self.name = name
        self._made: Any = None
        self._error: PulsarException | None = None
        client = ctx.client()
        self._thread = threading.Thread(target=self._run, args=(ctx, client, topic), name=name, daemon=True)
        self._thread.start()

    def _run(self, ctx: Context, client: Any, topic: str) -> None:
        try:
            self._made = ctx.producer(topic, client=client, producer_name=self.name, access_mode=MODE.WaitForExclusive)
        except PulsarException as error:
            self._error = error

    @property
    def waiting(self) -> bool:
        """Whether its turn has not come."""
        return self._thread.is_alive()

    def producer(self, within: float = 20) -> Any:
        """The producer once its turn has come. Raises CheckFailed if it does not come within this number of seconds."""
        self._thread.join(within)
        if self._made is None:
            raise CheckFailed(f"{self.name} is not the producer within {within:.0f} s: {self._error or 'it waits'}")
        return self._made


@check(
    "access_mode.wait",
    proves="Producers with WaitForExclusive access wait, and take over one by one in the order they came",
    concepts="E.producer.wait",
    seconds=4,
)
def wait(ctx: Context) -> str:
    """Two wait for the first; each close lets the next one in, and only that one."""
    topic = ctx.topic()
    first = ctx.producer(topic, client=ctx.client(), access_mode=MODE.Exclusive)
    waiters: list[Waiter] = []
    for number, name in enumerate(("second", "third"), 1):
        waiters.append(Waiter(ctx, topic, name))
        _until_waiting(ctx, topic, waiters, number)
    accepted(lambda: ctx.send(first, ["first"]), "the first producer was disturbed")
    first.close()
    for number, waiter in enumerate(waiters, 1):
        producer = waiter.producer()
        _until_waiting(ctx, topic, waiters[number:], len(waiters) - number)
        ctx.send(producer, [waiter.name])
        producer.close()
    got = ctx.receive(ctx.consumer(topic), 3)
    ctx.expect(ctx.texts(got) == ["first", "second", "third"], f"received {ctx.texts(got)}")
    return "2 waited (waitingPublishers 2); second took over when first closed, third when second closed"


def _until_waiting(ctx: Context, topic: str, waiters: Sequence[Waiter], count: int) -> None:
    ctx.eventually(lambda: ctx.stats(topic)["waitingPublishers"] == count, f"waitingPublishers is {count}")
    ctx.expect(all(waiter.waiting for waiter in waiters), "a producer does not wait for its turn")


@check(
    "access_mode.fencing",
    proves="A producer with ExclusiveWithFencing access takes over immediately; the previous producer is fenced",
    concepts="E.producer.exclusive",
    seconds=3,
)
def fencing(ctx: Context) -> str:
    """The first producer's next send fails with ProducerFenced, and again; nothing of it is stored."""
    topic = ctx.topic()
    first = ctx.producer(topic, client=ctx.client(), access_mode=MODE.Exclusive)
    ctx.send(first, ["first"])
    second = accepted(
        lambda: ctx.producer(topic, client=ctx.client(), access_mode=MODE.ExclusiveWithFencing),
        "the producer with fencing was refused",
    )
    text = ctx.refused(pulsar.ProducerFenced, lambda: first.send(b"fenced"))
    accepted(lambda: ctx.send(second, ["second"]), "the producer that took over was disturbed")
    ctx.refused(pulsar.ProducerFenced, lambda: first.send(b"fenced again"))
    modes = [publisher["accessMode"] for publisher in ctx.stats(topic)["publishers"]]
    ctx.expect(modes == ["ExclusiveWithFencing"], f"producers on the topic: {modes}")
    got = ctx.texts(ctx.drain(ctx.consumer(topic), until=ctx.came("second")))
    ctx.expect(got == ["first", "second"], f"received {got}")
    return f"took over while the first was connected; the first one's sends: {text}; only the new one's were stored"


# --- routing


@check(
    "routing.round_robin",
    proves="Messages without a key go round all partitions, one after the other",
    concepts="E.routing.round_robin",
    seconds=3,
)
def round_robin(ctx: Context) -> str:
    """Twelve messages on four partitions: exactly in turn from wherever the client begins."""
    topic = ctx.topic(partitions=PARTITIONS)
    producer = ctx.producer(topic, message_routing_mode=ROUND)
    got = [producer.send(b"m").partition() for _ in range(3 * PARTITIONS)]
    ctx.expect(got == [(got[0] + i) % PARTITIONS for i in range(3 * PARTITIONS)], f"partitions in turn: {got}")
    counts = [ctx.stats(f"{topic}-partition-{i}")["msgInCounter"] for i in range(PARTITIONS)]
    ctx.expect(counts == [3] * PARTITIONS, f"messages by partition: {counts}")
    return f"12 messages went to partitions {got}; msgInCounter 3 on each"


@check(
    "routing.round_robin_batches",
    proves="With batching whole batches go round the partitions",
    concepts=("E.routing.round_robin", "E.batching"),
    seconds=3,
)
def round_robin_batches(ctx: Context) -> str:
    """Forty messages in batches of five: eight entries of five, two on each of four partitions."""
    topic = ctx.topic(partitions=PARTITIONS)
    producer = ctx.producer(
        topic,
        message_routing_mode=ROUND,
        batching_enabled=True,
        batching_max_messages=5,
        batching_max_publish_delay_ms=LONG_MS,
    )
    answers = Answers()
    for _ in range(10 * PARTITIONS):
        answers.send(producer, b"m")
    producer.flush()
    sizes = Counter((found.partition(), found.entry_id()) for found in answers.ids(10 * PARTITIONS))
    expected = {(partition, entry): 5 for partition in range(PARTITIONS) for entry in range(2)}
    ctx.expect(sizes == expected, f"messages by partition and entry: {dict(sorted(sizes.items()))}")
    return "40 messages, batching_max_messages 5, 4 partitions: 2 entries of 5 on each"


@check(
    "routing.single",
    proves="In single partition mode messages without a key all go to one partition, those with a key by its hash",
    concepts="E.routing.single",
    seconds=3,
)
def single(ctx: Context) -> str:
    """Twelve messages without key on one partition; the keys are spread and stay where they are."""
    topic = ctx.topic(partitions=PARTITIONS)
    producer = ctx.producer(topic, message_routing_mode=SINGLE)
    plain = {producer.send(b"m").partition() for _ in range(12)}
    ctx.expect(len(plain) == 1, f"messages without a key went to partitions {sorted(plain)}")
    keyed = [[producer.send(b"m", partition_key=key).partition() for key in KEYS] for _ in range(2)]
    ctx.expect(keyed[0] == keyed[1], "a key's partition changed")
    ctx.expect(len({*keyed[0]}) == PARTITIONS, f"{len(KEYS)} keys went to partitions {sorted({*keyed[0]})}")
    return f"12 messages without key on partition {plain.pop()}, {len(KEYS)} keys over {PARTITIONS} partitions"


@check(
    "routing.custom_python",
    proves="A router of the client's own chooses the partition, from the message (Python client)",
    concepts="E.routing.custom",
    seconds=3,
)
def custom_python(ctx: Context) -> str:
    """The router goes by the payload's length; key and round robin do not count."""
    topic = ctx.topic(partitions=PARTITIONS)
    asked: list[int] = []

    def router(message: Any, partitions: int) -> int:
        asked.append(partitions)
        return len(message.data()) * 3 % partitions

    producer = ctx.producer(topic, message_router=router)
    lengths = [5, 5, 2, 7, 4, 4, 1, 3, 6, 2]
    got = [producer.send(b"x" * length, partition_key="same").partition() for length in lengths]
    expected = [length * 3 % PARTITIONS for length in lengths]
    ctx.expect(got == expected, f"partitions {got}, the router chose {expected}")
    ctx.expect(asked == [PARTITIONS] * len(lengths), f"the router got {sorted({*asked})} as the number of partitions")
    return f"router by payload length: {len(lengths)} messages of one key on partitions {got}, as it chose"


@check(
    "routing.custom_java",
    proves="A router of the client's own chooses the partition (Java client)",
    concepts="E.routing.custom",
    seconds=3,
)
def custom_java(ctx: Context) -> str:
    """The router takes the last partition for every key."""
    producer = ctx.java_producer(ctx.topic(partitions=PARTITIONS), router="last", batchingEnabled=False)
    got = {_partition(producer.send(b"m", key=key)) for key in KEYS}
    ctx.expect(got == {PARTITIONS - 1}, f"partitions {sorted(got)}, the router chose {PARTITIONS - 1}")
    return f"router of the last partition: {len(KEYS)} keys all on partition {PARTITIONS - 1}"


@check(
    "routing.key",
    proves="Messages of one key always go to one partition, from every producer, and arrive in order",
    concepts="E.routing.key",
    seconds=3,
)
def key(ctx: Context) -> str:
    """Two clients in both routing modes, three rounds of keys; each key's messages come in the order sent."""
    topic = ctx.topic(partitions=WIDE)
    producers = [ctx.producer(topic, client=ctx.client(), message_routing_mode=mode) for mode in (ROUND, SINGLE)]
    found: dict[str, set[int]] = {}
    for number in range(3):
        for name in KEYS:
            sent = producers[number % 2].send(str(number).encode(), partition_key=name)
            found.setdefault(name, set()).add(sent.partition())
    moved = {name: sorted(places) for name, places in found.items() if len(places) > 1}
    ctx.expect(not moved, f"keys on several partitions: {moved}")
    used = {place for places in found.values() for place in places}
    ctx.expect(len(used) == WIDE, f"{len(KEYS)} keys use partitions {sorted(used)} of {WIDE}")
    order: dict[str, list[str]] = {}
    for message in ctx.receive(ctx.consumer(topic), 3 * len(KEYS)):
        order.setdefault(message.partition_key(), []).append(message.data().decode())
    wrong = {name: texts for name, texts in order.items() if texts != ["0", "1", "2"]}
    ctx.expect(not wrong, f"received out of order: {wrong}")
    return f"{len(KEYS)} keys, 2 producers, 3 messages each: one partition a key, {len(used)} partitions used, in order"


def _by_hash(scheme: str, name: str) -> Check:
    @check(
        f"routing.key_{name}",
        proves=f"A key goes to the partition its {scheme} gives (Java client; Python client by a router)",
        concepts="E.routing.key",
        seconds=4,
    )
    def run(ctx: Context) -> str:
        topic = ctx.topic(partitions=WIDE)
        expected = {text: partition_of(text, WIDE, scheme) for text in KEYS}
        # Java's default is JavaStringHash, which is so proved to be the default too.
        options = {} if scheme == "JavaStringHash" else {"hashingScheme": scheme}
        java = ctx.java_producer(topic, batchingEnabled=False, **options)
        _expect_partitions("Java", expected, {text: _partition(java.send(b"m", key=text)) for text in KEYS})
        python = ctx.producer(
            topic, message_router=lambda message, count: partition_of(message.partition_key(), count, scheme)
        )
        chosen = {text: python.send(b"m", partition_key=text).partition() for text in KEYS}
        _expect_partitions("Python", expected, chosen)
        plain = ctx.producer(topic)
        same = sum(plain.send(b"m", partition_key=text).partition() == expected[text] for text in KEYS)
        return (
            f"{len(KEYS)} keys on {WIDE} partitions as computed, Java and Python; Python's own hash agrees for {same}"
        )

    return run


KEY_HASHES = tuple(_by_hash(scheme, name) for scheme, name in zip(SCHEMES, ("java_string", "murmur3"), strict=True))


def _expect_partitions(client: str, expected: dict[str, int], got: dict[str, int]) -> None:
    wrong = {text[:20]: (got[text], expected[text]) for text in expected if got[text] != expected[text]}
    if wrong:
        raise CheckFailed(f"{client}: {len(wrong)} of {len(expected)} keys elsewhere (got, hash): {wrong}")


def _partition(java_id: str) -> int:
    return int(java_id.split(":")[2])
