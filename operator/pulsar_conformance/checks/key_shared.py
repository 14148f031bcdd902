"""Key_Shared subscriptions: which consumer gets which keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pulsar

from pulsar_conformance.context import Context
from pulsar_conformance.kit import hashing, sharing
from pulsar_conformance.kit.keyed import (
    CONSISTENT,
    KEYS,
    MEMBERS,
    SUBSCRIPTION,
    expect_owned,
    hash_of,
    join,
    ranges_of,
    send_rounds,
    sticky_policy,
)
from pulsar_conformance.model import check

POINTS = "subscriptionKeySharedConsistentHashingReplicaPoints"
CLASSIC = "subscriptionKeySharedUseClassicPersistentImplementation"


@check(
    "key_shared.one_consumer",
    proves="Key_Shared: all messages of a key go to one consumer in the order sent, every message once",
    concepts=("E.key_shared.consistent", "E.key_shared.autosplit"),
    seconds=5,
)
def one_consumer(ctx: Context) -> str:
    """30 keys, their messages mixed, three consumers that all get some of the keys."""
    topic = ctx.topic()
    consumers = {name: join(ctx, topic, name) for name in MEMBERS}
    sent = send_rounds(ctx, topic, range(5))
    got = sharing.gather(ctx, consumers, len(sent))
    sharing.expect_once(ctx, got, sent)
    sharing.expect_ordered(ctx, got)
    ctx.expect(all(got.values()), f"a consumer got nothing: {sharing.sizes(got)}")
    return f"{len(sent)} messages of {len(KEYS)} keys, each key in order at one consumer: {sharing.sizes(got)}"


def _assigned(ctx: Context, expected: hashing.Ranges, hashed: Callable[[str], int]) -> str:
    """Consumers join in the order of MEMBERS, have the expected ranges and get the keys in them; the ranges' sizes."""
    topic = ctx.topic()
    consumers = {name: join(ctx, topic, name) for name in MEMBERS}
    reported = ranges_of(ctx, topic)
    ctx.expect(not hashing.gaps(reported), f"the ranges do not share out the hashes: {hashing.gaps(reported)[:3]}")
    known = {name: [(low, min(high, hashing.LAST_HASH)) for low, high in parts] for name, parts in reported.items()}
    for name in {**expected, **known}:
        other = set(known.get(name, ())) ^ set(expected.get(name, ()))
        ctx.expect(not other, f"{name} has other ranges than its name or place gives: {sorted(other)[:3]}")
    sent = send_rounds(ctx, topic, range(2))
    got = sharing.gather(ctx, consumers, len(sent))
    sharing.expect_once(ctx, got, sent)
    expect_owned(ctx, got, reported, hashed)
    shares = {name: sum(high - max(low, 1) + 1 for low, high in parts) for name, parts in known.items()}
    return ", ".join(f"{name} {share * 100 // hashing.LAST_HASH} %" for name, share in shares.items())


@check(
    "key_shared.consistent_hashing",
    proves="Consistent hashing: points on a ring, from the consumers' names, share out all hashes; keys go by hash",
    concepts="E.key_shared.consistent",
    seconds=5,
)
def consistent_hashing(ctx: Context) -> str:
    """The ring is computed from the names and the number of points and must be the one that the broker reports."""
    ctx.require(ctx.setting(CONSISTENT) == "true", f"keys are split by ranges here: set {CONSISTENT}=true")
    points = int(ctx.number(POINTS))
    shares = _assigned(ctx, hashing.ring_ranges(MEMBERS, points), hashing.ring_hash)
    return f"ranges are those of {points} points a consumer, hashes 1 to 65535 once: {shares}; 30 keys went by hash"


@check(
    "key_shared.auto_split",
    proves="Auto-split ranges: a consumer that joins takes half of the biggest range of hashes; keys go by hash",
    concepts="E.key_shared.autosplit",
    seconds=5,
)
def auto_split(ctx: Context) -> str:
    """The ranges are computed from the order of joining and must be those that the broker reports."""
    ctx.require(
        ctx.setting(CONSISTENT) == "false", f"keys go by consistent hashing here: set {CONSISTENT}=false for ranges"
    )
    shares = _assigned(ctx, hashing.split_ranges(MEMBERS), hashing.range_hash)
    return f"each new consumer halved the biggest range, hashes 0 to 65535 once: {shares}; 30 keys went by hash"


@check(
    "key_shared.sticky",
    proves="Sticky ranges: a consumer gets exactly the keys in the ranges it declared; others wait until one declares",
    concepts="E.key_shared.sticky",
    seconds=6,
)
def sticky(ctx: Context) -> str:
    """Two consumers declare ranges and leave a gap; keys in the gap come only to a third consumer that declares it."""
    topic = ctx.topic()
    declared = {"ant": [(0, 9999), (40000, 49999)], "bee": [(10000, 39999)], "cat": [(50000, 65535)]}
    consumers = {
        name: join(ctx, topic, name, key_shared_policy=sticky_policy(*declared[name])) for name in ("ant", "bee")
    }
    stated = ranges_of(ctx, topic)
    ctx.expect(
        stated == {name: declared[name] for name in consumers},
        f"stats show other ranges than declared: {dict(stated)}",
    )
    sent = send_rounds(ctx, topic, range(2))
    covered = [text for text in sent if hashing.owner(declared, hashing.range_hash(text.rsplit("/", 1)[0])) != "cat"]
    late = [text for text in sent if text not in covered]
    got = sharing.gather(ctx, consumers, len(covered))
    sharing.expect_once(ctx, got, covered)
    added = sharing.gather(
        ctx, {"cat": join(ctx, topic, "cat", key_shared_policy=sticky_policy((50000, 65535)))}, len(late)
    )
    sharing.expect_once(ctx, added, late)
    expect_owned(ctx, {**got, **added}, declared, hashing.range_hash)
    return f"{sharing.sizes(got)} messages, all of declared hashes; {len(late)} of the gap came when cat declared it"


@check(
    "key_shared.sticky_overlap",
    proves="Sticky ranges that overlap those of another consumer are refused; ones that do not are accepted",
    concepts="E.key_shared.sticky",
)
def sticky_overlap(ctx: Context) -> str:
    """Overlaps of every kind are refused, ranges in the gaps are not."""
    topic = ctx.topic()
    join(ctx, topic, "ant", key_shared_policy=sticky_policy((100, 200), (300, 400)))
    overlaps = {"end": (150, 250), "edge": (200, 299), "inside": (310, 320), "around": (0, 65535)}
    refusal = ""
    for kind, one in overlaps.items():
        again = partial(join, ctx, topic, kind, key_shared_policy=sticky_policy(one))
        refusal = ctx.refused(pulsar.ConsumerAssignError, again)
    join(ctx, topic, "bee", key_shared_policy=sticky_policy((0, 99), (201, 299), (401, 65535)))
    return f"{len(overlaps)} overlapping ranges refused ({refusal}); those between the first consumer's were accepted"


def _batches(ctx: Context, topic: str, kind: pulsar.BatchingType) -> tuple[dict[str, list[Any]], int, int]:
    """Send 6 flushes of 24 messages of 6 keys; what each of two consumers got, number of batches, of mixed ones."""
    consumers = {name: join(ctx, topic, name) for name in MEMBERS[:2]}
    hashed, ranges = hash_of(ctx), ranges_of(ctx, topic)
    by_owner = {name: [key for key in KEYS if hashing.owner(ranges, hashed(key)) == name][:3] for name in consumers}
    keys = [key for pair in zip(*by_owner.values(), strict=True) for key in pair]
    # Far more time than the sends take: only flush ends a batch.
    producer = ctx.producer(topic, batching_enabled=True, batching_type=kind, batching_max_publish_delay_ms=60_000)
    sent = []
    for flush in range(6):
        # Each flush begins with a key of the other consumer than the one before.
        for at in range(24):
            key = keys[(flush + at) % len(keys)]
            sent.append(f"{key}/{flush * 24 + at}")
            producer.send_async(sent[-1].encode(), None, partition_key=key)
        producer.flush()
    got = sharing.gather(ctx, consumers, len(sent))
    sharing.expect_once(ctx, got, sent)
    entries: dict[tuple[int, int], set[str]] = {}
    for message in (one for messages in got.values() for one in messages):
        place = (message.message_id().ledger_id(), message.message_id().entry_id())
        entries.setdefault(place, set()).add(message.partition_key())
    ctx.expect(len(entries) <= len(sent) // 2, f"{len(sent)} messages came in {len(entries)} entries: no batches")
    return got, len(entries), sum(len(keys) > 1 for keys in entries.values())


@check(
    "key_shared.batching",
    proves="Batches by key hold one key each, so that Key_Shared keeps its promise; default batches mix keys",
    concepts="E.key_shared.batching",
    seconds=8,
)
def batching(ctx: Context) -> str:
    """The same messages in batches by key and in default batches, whose first key alone decides who gets them."""
    got, batches, mixed = _batches(ctx, ctx.topic("by-key"), pulsar.BatchingType.KeyBased)
    ctx.expect(not mixed, f"{mixed} of {batches} batches by key hold several keys")
    sharing.expect_ordered(ctx, got)
    other, default_batches, default_mixed = _batches(ctx, ctx.topic("default"), pulsar.BatchingType.Default)
    torn = sum(len(names) > 1 for names in sharing.keys_of(other).values())
    ctx.expect(default_mixed and torn, f"default batches: {default_mixed} mixed, {torn} keys at two consumers")
    return (
        f"144 messages in {batches} batches of one key, each key at one consumer; "
        f"default: {default_mixed} of {default_batches} batches mixed, {torn} of 6 keys at two consumers"
    )


@check(
    "key_shared.java_batching",
    proves="The Java client's key based batches hold one key each; every key is at one consumer, in order",
    concepts="E.key_shared.batching",
    seconds=6,
)
def java_batching(ctx: Context) -> str:
    """144 messages of 6 keys, sent by turns, flushed at the end."""
    topic = ctx.topic()
    consumers = {name: join(ctx, topic, name) for name in MEMBERS}
    producer = ctx.java_producer(
        topic, key_based_batching=True, batchingEnabled=True, batchingMaxPublishDelayMicros=60_000_000
    )
    sent = [f"{KEYS[number % 6]}/{number}" for number in range(144)]
    pending = [producer.send_async(text.encode(), key=text.rsplit("/", 1)[0]) for text in sent]
    producer.flush()
    entries: dict[str, set[str]] = {}
    for text, one in zip(sent, pending, strict=True):
        entries.setdefault(one.result().rsplit(":", 2)[0], set()).add(text.rsplit("/", 1)[0])
    mixed = sum(len(keys) > 1 for keys in entries.values())
    ctx.expect(len(entries) <= len(sent) // 2, f"{len(sent)} messages came in {len(entries)} entries: no batches")
    ctx.expect(not mixed, f"{mixed} of {len(entries)} batches hold several keys")
    got = sharing.gather(ctx, consumers, len(sent))
    sharing.expect_once(ctx, got, sent)
    sharing.expect_ordered(ctx, got)
    return f"{len(sent)} messages in {len(entries)} batches, each of one key at one consumer: {sharing.sizes(got)}"


def _draining(ctx: Context, topic: str, name: str) -> dict[str, Any]:
    found = ctx.stats(topic)["subscriptions"][SUBSCRIPTION]["consumers"]
    return next(dict(one) for one in found if one["consumerName"] == name)


@check(
    "key_shared.draining",
    proves="A key moves to a new consumer only once its earlier messages are settled; stats show the draining hashes",
    concepts="E.key_shared.draining",
    seconds=8,
)
def draining(ctx: Context) -> str:
    """PIP-379: the hashes that move to the new consumer drain; an acknowledgement ends that for its hash alone."""
    ctx.require(
        ctx.setting(CLASSIC) == "false",
        f"draining hashes are shown by Pulsar 4.0 or later with {CLASSIC}=false",
    )
    topic = ctx.topic()
    ant = join(ctx, topic, "ant")
    sent = send_rounds(ctx, topic, range(1))
    unacknowledged = {message.partition_key(): message for message in ctx.receive(ant, len(sent), ack=False)}
    bee = join(ctx, topic, "bee")
    hashed, ranges = hash_of(ctx), ranges_of(ctx, topic)
    moved = [key for key in KEYS if hashing.owner(ranges, hashed(key)) == "bee"]
    consumer_stats = ctx.eventually(
        lambda: (found := _draining(ctx, topic, "ant"))["drainingHashesCount"] and found,
        f"draining hashes in the stats of the first consumer, for {len(moved)} keys that move",
    )
    shown = {one["hash"]: one["unackMsgs"] for one in consumer_stats["drainingHashes"]}
    ctx.expect(
        shown == {hashed(key): 1 for key in moved} and consumer_stats["drainingHashesCount"] == len(shown),
        f"draining {shown}, where {sorted(hashed(key) for key in moved)} with one message each was expected",
    )
    second = send_rounds(ctx, topic, range(1, 2))
    stay = [text for text in second if text.rsplit("/", 1)[0] not in moved]
    sharing.expect_once(ctx, {"ant": ctx.receive(ant, len(stay))}, stay)
    ctx.nothing(bee, 1.0, "the first consumer still holds messages of the keys that moved")
    ant.acknowledge(unacknowledged.pop(moved[0]))
    first = ctx.texts(ctx.receive(bee, 1))
    ctx.expect(first == [f"{moved[0]}/1"], f"{moved[0]} was acknowledged, and {first} came")
    ctx.nothing(bee, 0.5, f"only {moved[0]} was acknowledged")
    for message in unacknowledged.values():
        ant.acknowledge(message)
    rest = {"bee": ctx.receive(bee, len(moved) - 1)}
    sharing.expect_once(ctx, rest, [f"{key}/1" for key in moved[1:]])
    done = ctx.eventually(
        lambda: (found := _draining(ctx, topic, "ant"))["drainingHashesCount"] == 0 and found, "no hash drains"
    )
    ctx.expect(
        done["drainingHashesClearedTotal"] == len(moved),
        f"{done['drainingHashesClearedTotal']} of {len(moved)} hashes cleared",
    )
    return (
        f"{len(moved)} of {len(KEYS)} keys moved and drained (drainingHashesCount {len(moved)}); "
        "the new consumer got each only after its acknowledgement, then 0 drain"
    )
