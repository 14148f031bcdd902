"""Key_Shared subscriptions: delays, dead letters, delivery out of order, and hashes that no consumer has."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import pulsar

from pulsar_conformance.checks.delivery import CLOCKS
from pulsar_conformance.checks.policies import backlog
from pulsar_conformance.context import Context
from pulsar_conformance.kit import hashing, sharing
from pulsar_conformance.kit.keyed import (
    KEYS,
    SUBSCRIPTION,
    expect_owned,
    free_policy,
    hash_of,
    join,
    key_of,
    ranges_of,
    send_rounds,
    sticky_policy,
)
from pulsar_conformance.model import CheckFailed, check

TICK = 100
"""Milliseconds by which a delayed message may come early, as the namespaces here declare."""
SOON = (2500, 10_000, 40_000)
"""Milliseconds until the first of them is due. On a machine too slow to be ready by then, the check tries the next."""
REFUSALS = 2
"""Redeliveries before a message becomes a dead letter."""


def _reordered(texts: list[str]) -> set[str]:
    """Keys of which a message came after one that was sent later."""
    last: dict[str, int] = {}
    found = set()
    for text in texts:
        key, number = key_of(text), int(text.rsplit("/", 1)[1])
        if number < last.get(key, number):
            found.add(key)
        last[key] = number
    return found


def _joined_late(ctx: Context, topic: str, **options: Any) -> tuple[Any, Any, list[str]]:
    """A consumer that holds the first round of all keys, one that joins then, a second round; the keys that moved."""
    first = join(ctx, topic, "ant", **options)
    ctx.receive(first, len(send_rounds(ctx, topic, [0])), ack=False)
    second = join(ctx, topic, "bee", **options)
    hashed, ranges = hash_of(ctx), ranges_of(ctx, topic)
    moved = [key for key in KEYS if hashing.owner(ranges, hashed(key)) == "bee"]
    ctx.expect(moved, "no key moved to the consumer that joined")
    send_rounds(ctx, topic, [1])
    return first, second, moved


@check(
    "key_shared.out_of_order",
    proves="With allowOutOfOrderDelivery, a consumer that joins gets its keys immediately, and a key's order may be "
    "lost; without it the consumer waits and the order holds",
    concepts="E.key_shared.out_of_order",
    seconds=6,
)
def out_of_order(ctx: Context) -> str:
    """One consumer holds a message of each key, another joins, then the first one leaves without an acknowledgement."""
    strict, free = ctx.topic("strict"), ctx.topic("free")
    ant, bee, moved = _joined_late(ctx, free, key_shared_policy=free_policy())
    allowed = ctx.stats(free)["subscriptions"][SUBSCRIPTION]["allowOutOfOrderDelivery"]
    ctx.expect(allowed is True, f"stats say allowOutOfOrderDelivery {allowed}")
    refused = ctx.refused(pulsar.ConsumerBusy, lambda: join(ctx, free, "cat"))
    early = ctx.receive(bee, len(moved))
    sharing.expect_once(ctx, {"bee": early}, [f"{key}/1" for key in moved])
    ant.close()
    rest = ctx.receive(bee, 2 * len(KEYS) - len(moved))
    broken = _reordered(ctx.texts(early + rest))
    ctx.expect(broken == set(moved), f"{len(moved)} keys moved, {len(broken)} came out of order")

    ant, bee, moved = _joined_late(ctx, strict)
    ctx.nothing(bee, 1.0, "the first consumer still holds messages of the keys that moved")
    ant.close()
    got = ctx.receive(bee, 2 * len(KEYS))
    sharing.expect_once(ctx, {"bee": got}, [f"{key}/{number}" for number in (0, 1) for key in KEYS])
    sharing.expect_ordered(ctx, {"bee": got})
    return (
        f"allowed: {len(broken)} keys that moved came immediately, then their earlier messages, out of order; not "
        f"allowed: {len(moved)} keys waited, {len(KEYS)} in order; one that does not allow it is refused ({refused})"
    )


def _timed(ctx: Context, consumers: Mapping[str, Any], count: int, within: float) -> dict[str, list[tuple[Any, int]]]:
    """What each consumer got, acknowledged, with how many milliseconds after its time each message came."""
    got: dict[str, list[tuple[Any, int]]] = {name: [] for name in consumers}
    deadline = time.monotonic() + within
    while sum(map(len, got.values())) < count and time.monotonic() < deadline:
        for name, consumer in consumers.items():
            while (message := ctx.next(consumer, sharing.TURN)) is not None:
                got[name].append((message, round(time.time() * 1000) - int(message.properties()["due"])))
                consumer.acknowledge(message)
    for name, consumer in consumers.items():
        ctx.nothing(consumer, 0.5, f"{name} must get no further message, {count} messages were there")
    return got


def _prepared(
    ctx: Context, topic: str, keys: list[str], soon: int
) -> tuple[dict[str, Any], hashing.Ranges, int, list[str], float] | None:
    """Sends messages due late, due after ``soon`` milliseconds, and without a delay; then a second consumer joins.

    Returns the consumers, their ranges, when the second joined (Unix ms), the texts of the delayed messages, and within
    how many seconds they must come; None when the first of them was due before the consumer had joined.
    """
    consumers = {"ant": join(ctx, topic, "ant")}
    begin = round(time.time() * 1000)
    late = soon + 1000 + round(ctx.number("delayedDeliveryTickTimeMillis"))
    sent: list[str] = []
    for number, delay in ((0, late), (1, soon)):
        due = begin + delay
        sent += send_rounds(ctx, topic, [number], keys=keys, deliver_at=due, properties={"due": str(due)})
    now = send_rounds(ctx, topic, [2], keys=keys)
    first = ctx.texts(ctx.receive(consumers["ant"], len(keys)))
    came = round(time.time() * 1000)
    consumers["bee"] = join(ctx, topic, "bee")
    ranges, joined = ranges_of(ctx, topic), round(time.time() * 1000)
    ctx.expect(
        first == now or came > begin + soon - TICK, f"those without a delay were to come first, these came: {first[:4]}"
    )
    return (consumers, ranges, joined, sent, 30 + late / 1000) if joined < begin + soon - TICK else None


@check(
    "key_shared.delayed",
    proves="Key_Shared holds delayed messages back; each comes when it is due, to the consumer that has its key then, "
    "and those of a key come by their times",
    concepts=("E.key_shared.delayed", "E.delayed.after"),
    seconds=7,
)
def delayed(ctx: Context) -> str:
    """Ten keys, each with messages due late, soon and now; a second consumer joins before the delayed ones are due.

    Brokers look once in their own tick, whatever the namespace declares; what has become due by then goes by its place.
    """
    keys = KEYS[:10]
    namespace = ctx.new_namespace(delayed_delivery_policies={"active": True, "tickTime": TICK})
    topics = ((ctx.topic(f"due-in-{soon}", namespace=namespace), soon) for soon in SOON)
    prepared = next(filter(None, (_prepared(ctx, topic, keys, soon) for topic, soon in topics)), None)
    if prepared is None:
        raise CheckFailed(f"sending {3 * len(keys)} messages took longer than {SOON[-1] / 1000:.0f} s")
    consumers, ranges, joined, sent, within = prepared
    got = _timed(ctx, consumers, len(sent), within=within)
    plain = {name: [message for message, _late in found] for name, found in got.items()}
    sharing.expect_once(ctx, plain, sent)
    early = [late for found in got.values() for _message, late in found if late < -TICK - CLOCKS]
    ctx.expect(not early, f"{len(early)} came before their time, the first by {-early[0] if early else 0} ms")
    after = {
        name: [message for message in found if int(message.properties()["due"]) > joined + TICK + CLOCKS]
        for name, found in plain.items()
    }
    expect_owned(ctx, after, ranges, hash_of(ctx))
    ctx.expect(all(after.values()), f"a consumer got none of the delayed messages: {sharing.sizes(after)}")
    for name, found in after.items():
        order: dict[str, list[str]] = {}
        for text in ctx.texts(found):
            order.setdefault(key_of(text), []).append(text.rsplit("/", 1)[1])
        odd = {key: numbers for key, numbers in order.items() if numbers not in (["1", "0"], ["0"])}
        ctx.expect(not odd, f"{name} got keys in another order than that of their times: {odd}")
    lates = [late for found in got.values() for _message, late in found]
    return (
        f"{len(keys)} keys: those without a delay first, then {len(sent)} delayed by their times, {min(lates):+d} to "
        f"{max(lates):+d} ms, each to the owner of its key: {sharing.sizes(after)}"
    )


def _refuse(ctx: Context, consumers: Mapping[str, Any], bad: str) -> tuple[dict[str, list[Any]], list[tuple[str, int]]]:
    """Returns the good messages of each consumer until none arrives; and the consumers of the bad one, with its
    redelivery counts."""
    got: dict[str, list[Any]] = {name: [] for name in consumers}
    tries: list[tuple[str, int]] = []
    quiet = time.monotonic() + 20
    while time.monotonic() < quiet and len(tries) <= 2 * REFUSALS:
        for name, consumer in consumers.items():
            while (message := ctx.next(consumer, sharing.TURN)) is not None:
                quiet = time.monotonic() + (1.5 if tries else 20)
                if message.data() == bad.encode():
                    tries.append((name, message.redelivery_count()))
                    consumer.negative_acknowledge(message)
                else:
                    got[name].append(message)
                    consumer.acknowledge(message)
    return got, tries


@check(
    "key_shared.dead_letter",
    proves="Key_Shared: a message that is refused too often comes again to its key's consumer, then goes to the dead "
    "letter topic with its key; the other messages of its key are delivered",
    concepts=("E.key_shared.dead_letter", "E.dead_letter"),
    seconds=6,
)
def dead_letter(ctx: Context) -> str:
    """Two consumers and ten keys with three messages each, of which one is refused whenever it comes."""
    keys, bad = KEYS[:10], f"{KEYS[3]}/1"
    topic, dead = ctx.topic(), ctx.topic(f"topic-{SUBSCRIPTION}-DLQ")
    letters = ctx.consumer(dead, "watch")
    consumers = {
        name: join(
            ctx,
            topic,
            name,
            negative_ack_redelivery_delay_ms=100,
            dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(REFUSALS),
        )
        for name in ("ant", "bee")
    }
    owner = hashing.owner(ranges_of(ctx, topic), hash_of(ctx)(key_of(bad)))
    sent = send_rounds(ctx, topic, range(3), keys=keys)
    got, tries = _refuse(ctx, consumers, bad)
    expected = [(owner, count) for count in range(REFUSALS + 1)]
    ctx.expect(tries == expected, f"{bad} was to come with redelivery counts to {expected}, it came to {tries}")
    sharing.expect_once(ctx, got, [text for text in sent if text != bad])
    sharing.expect_ordered(ctx, got)
    letter = ctx.receive(letters, 1)[0]
    ctx.expect(letter.data() == bad.encode(), f"the dead letter is {letter.data()!r}")
    ctx.expect(letter.partition_key() == key_of(bad), f"the dead letter's key is {letter.partition_key()!r}")
    ctx.nothing(letters, 0.5, "one message was refused")
    ctx.eventually(lambda: backlog(ctx, topic, SUBSCRIPTION) == 0, "all is acknowledged at the source")
    return (
        f"{bad} came {len(tries)} times to {owner}, then to {dead.rsplit('/', 1)[1]} with its key; "
        f"the {len(sent) - 1} others once, in order: {sharing.sizes(got)}"
    )


def _without_ranges() -> pulsar.ConsumerKeySharedPolicy:
    """What the client's own classes refuse to say: sticky, but no range."""
    made = pulsar.ConsumerKeySharedPolicy()
    made.policy().set_key_shared_mode(pulsar.KeySharedMode.Sticky)
    return made


def _of(texts: list[str], low: int, high: int) -> list[str]:
    return [text for text in texts if low <= hashing.range_hash(key_of(text)) <= high]


@check(
    "key_shared.sticky_without_ranges",
    proves="A sticky consumer without ranges is refused, as is one that names none beside sticky ones; messages of "
    "ranges whose consumer left wait until another one declares them",
    concepts="E.key_shared.sticky",
    seconds=5,
)
def sticky_without_ranges(ctx: Context) -> str:
    """Refused by the client and by the broker; then all hashes have a consumer, none, one half of them, the other."""
    topic = ctx.topic()
    half = hashing.LAST_HASH // 2
    client = ctx.refused(ValueError, sticky_policy)
    bare = partial(join, ctx, topic, "bare", key_shared_policy=_without_ranges())
    broker = ctx.refused(pulsar.ConsumerAssignError, bare)
    ant = join(ctx, topic, "ant", key_shared_policy=sticky_policy((0, hashing.LAST_HASH)))
    ctx.refused(pulsar.ConsumerAssignError, bare)
    other = ctx.refused(pulsar.ConsumerBusy, lambda: join(ctx, topic, "auto"))
    sent = send_rounds(ctx, topic, [0])
    sharing.expect_once(ctx, {"ant": (first_round := ctx.receive(ant, len(sent), ack=False))}, sent)
    ant.close()
    sent += send_rounds(ctx, topic, [1])
    waiting = backlog(ctx, topic, SUBSCRIPTION)
    ctx.expect(waiting == len(sent), f"{len(sent)} messages were to wait, {waiting} do")
    parts = {"bee": (0, half), "cat": (half + 1, hashing.LAST_HASH)}
    got: dict[str, list[Any]] = {}
    for name, part in parts.items():
        expected = _of(sent, *part)
        got |= sharing.gather(ctx, {name: join(ctx, topic, name, key_shared_policy=sticky_policy(part))}, len(expected))
        sharing.expect_once(ctx, {name: got[name]}, expected)
    sharing.expect_ordered(ctx, got)
    return (
        f"refused by the client ({client}), by the broker ({broker}), without sticky mode ({other}); of {len(sent)} "
        f"messages, {len(first_round)} of them once delivered, each half came with its range: {sharing.sizes(got)}"
    )
