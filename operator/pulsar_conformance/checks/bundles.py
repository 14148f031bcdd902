"""Bundles: a topic's hash, its bundle, the bundle's owner; their number, boundaries and splits."""

from __future__ import annotations

import urllib.parse
import zlib
from typing import Any

from pulsar_conformance.admin import AdminError
from pulsar_conformance.context import Context
from pulsar_conformance.kit.bundles import TOP, boundaries, bundle_of, even, lookup_bundle, owner
from pulsar_conformance.model import check


@check(
    "bundle.lookup",
    proves="A topic's bundle is the one its CRC-32 falls in, and all topics of a bundle have one owner",
    concepts="B.lookup",
    seconds=4,
)
def lookup(ctx: Context) -> str:
    """50 names in 12 bundles: partitions and non-persistent ones among them; computed here and asked for."""
    namespace = ctx.new_namespace(bundles={"numBundles": 12})
    limits = boundaries(ctx, namespace)
    names = [f"persistent://{namespace}/topic-{i}" for i in range(20)]
    names += [f"persistent://{namespace}/parted-partition-{i}" for i in range(15)]
    names += [f"non-persistent://{namespace}/topic-{i}" for i in range(15)]
    owners: dict[str, set[str]] = {}
    for name in names:
        expected, found = bundle_of(name, limits), lookup_bundle(ctx, name)
        ctx.expect(
            found == expected, f"{name}: the broker returns {found}, its CRC-32 {zlib.crc32(name.encode()):#010x}"
        )
        owners.setdefault(found, set()).add(owner(ctx, name))
    split = {bundle: brokers for bundle, brokers in owners.items() if len(brokers) > 1}
    ctx.expect(not split, f"bundles with more than one owner: {split}")
    brokers = len(set().union(*owners.values()))
    ctx.expect(len(owners) >= 6, f"50 names fell into {len(owners)} of 12 bundles")
    return f"50 of 50 names in their CRC-32's bundle: {len(owners)} of 12 bundles, each with 1 of {brokers} owner(s)"


@check(
    "bundle.default",
    proves="A new namespace has defaultNumberOfNamespaceBundles bundles of the same size",
    concepts="B.bundles.default",
    seconds=1,
)
def default(ctx: Context) -> str:
    """Boundaries of a namespace made without any."""
    number = int(ctx.number("defaultNumberOfNamespaceBundles"))
    found = boundaries(ctx)
    ctx.expect(
        found == even(number), f"{len(found) - 1} bundles, {[f'{one:#x}' for one in found]}; the default is {number}"
    )
    return f"defaultNumberOfNamespaceBundles={number}: {', '.join(f'0x{one:08x}' for one in found)}"


@check(
    "bundle.boundaries",
    proves="A namespace has the number of bundles or the boundaries it was made with; impossible ones are refused",
    concepts=("B.bundles.default", "D.namespace.bundles"),
    seconds=2,
)
def explicit(ctx: Context) -> str:
    """Eight bundles; three at uneven boundaries; two sets that do not cover the range of hashes."""
    eight = boundaries(ctx, ctx.new_namespace(bundles={"numBundles": 8}))
    ctx.expect(eight == even(8), f"asked for 8 bundles, got {eight}")
    expected = [0, 0x10000000, 0x33333333, TOP]
    namespace = ctx.new_namespace(bundles=_bundles(expected))
    found = boundaries(ctx, namespace)
    ctx.expect(found == expected, f"asked for {expected}, got {found}")
    for i in range(10):
        name = f"persistent://{namespace}/topic-{i}"
        ctx.expect(lookup_bundle(ctx, name) == bundle_of(name, expected), f"{name} is in {lookup_bundle(ctx, name)}")
    refusal = ctx.refused(AdminError, lambda: ctx.new_namespace(bundles=_bundles([1, 0x10000000, TOP])))
    ctx.refused(AdminError, lambda: ctx.new_namespace(bundles=_bundles([0, 0x10000000])))
    return f"8 even ones; 3 at 0x10000000 and 0x33333333, lookups agree; gaps refused: {refusal.split(': ', 1)[1]}"


def _bundles(limits: list[int]) -> dict[str, Any]:
    return {"boundaries": [f"0x{limit:08x}" for limit in limits], "numBundles": len(limits) - 1}


@check(
    "bundle.split",
    proves="A bundle can be split in two at its middle; the other bundles stay, and its topics lose no message",
    concepts="B.split",
    seconds=6,
)
def split(ctx: Context) -> str:
    """Eight topics in two bundles with clients; the lower bundle is split and its halves are unloaded."""
    namespace = ctx.new_namespace(bundles={"numBundles": 2})
    topics = [ctx.topic(f"topic-{i}", namespace=namespace) for i in range(8)]
    consumers = {topic: ctx.consumer(topic) for topic in topics}
    producers = {topic: ctx.producer(topic) for topic in topics}
    for topic in topics:
        ctx.send(producers[topic], ["before"])
    ctx.admin.put(
        f"namespaces/{namespace}/0x00000000_0x80000000/split", unload=True, splitAlgorithmName="range_equally_divide"
    )
    expected = [0, 0x40000000, 0x80000000, TOP]
    ctx.eventually(lambda: boundaries(ctx, namespace) == expected, f"boundaries {[hex(one) for one in expected]}")
    for topic in topics:
        ctx.send(producers[topic], ["after"])
        got = ctx.texts(ctx.receive(consumers[topic], 2))
        ctx.expect(got == ["before", "after"], f"{topic} delivered {got}")
        found = lookup_bundle(ctx, topic)
        ctx.expect(found == bundle_of(topic, expected), f"{topic} is in {found}, not {bundle_of(topic, expected)}")
    listed = {
        bundle: ctx.admin.get(f"persistent/{namespace}?{urllib.parse.urlencode({'bundle': bundle})}")
        for bundle in (bundle_of(topic, expected) for topic in topics)
    }
    misplaced = [name for bundle, found in listed.items() for name in found if bundle_of(name, expected) != bundle]
    ctx.expect(not misplaced, f"served in another bundle than their hash's: {misplaced}")
    return f"0x00000000_0x80000000 split at 0x40000000; 8 topics went on, in {len(listed)} of 3 bundles by their hash"
