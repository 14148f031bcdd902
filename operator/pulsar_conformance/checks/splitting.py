"""Bundles over their limit of topics, messages or bytes are split by the load manager, and a half moves."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

from pulsar_conformance.context import Context
from pulsar_conformance.kit.brokers import host_of, names_in, several
from pulsar_conformance.kit.bundles import TOP, boundaries
from pulsar_conformance.kit.sending import Answers, heads
from pulsar_conformance.model import check

WHOLE = 1 << 32
OVER = 1.6
"""Times its limit a bundle gets: enough to be split once, and a half is then within the limit."""
SHARE = 3
"""Messages to the bundle over its limit for each one to the bundle that must stay as it is."""
BUNDLES = 3
"""That are to be split."""
TOPICS = 100
MESSAGES = 300
MEGABYTES = 1
"""The most topics, messages a second and megabytes a second that a check goes over."""


@check(
    "rebalancing.split_by_topics",
    proves="Pulsar splits bundles with more topics than their limit, halves move to other brokers, nothing is lost",
    concepts="B.split",
    seconds=60,
)
def split_by_topics(ctx: Context) -> str:
    """Four topics more than the limit in three bundles, two less in another: a namespace's system topic counts too."""
    limit = _limit(ctx, "loadBalancerNamespaceBundleMaxTopics", TOPICS, "topics")
    found = _split(ctx, (limit + 4, limit - 2), rate=30, payload=0)
    return f"{limit + 4} topics each, limit {limit}: {found}; the bundle with {limit - 2} topics is whole"


@check(
    "rebalancing.split_by_rate",
    proves="Pulsar splits bundles with more messages a second than their limit, halves move to other brokers, nothing "
    "is lost",
    concepts="B.split",
    seconds=60,
)
def split_by_rate(ctx: Context) -> str:
    """What is published counts, and what is delivered (class BundleSplitterTask: mean rates since the first report)."""
    limit = _limit(ctx, "loadBalancerNamespaceBundleMaxMsgRate", MESSAGES, "messages a second")
    found = _split(ctx, (8, 8), rate=OVER * limit / 2, payload=0)
    return (
        f"{OVER * limit:.0f} messages/s each in and out, limit {limit}: {found}; the bundle with "
        f"{OVER * limit / SHARE:.0f} messages/s is whole"
    )


@check(
    "rebalancing.split_by_bandwidth",
    proves="Pulsar splits bundles with more bytes a second than their limit, halves move to other brokers, nothing is "
    "lost",
    concepts="B.split",
    seconds=60,
)
def split_by_bandwidth(ctx: Context) -> str:
    """The same by bytes, with so few messages that their number is within its limit."""
    limit = _limit(ctx, "loadBalancerNamespaceBundleMaxBandwidthMbytes", MEGABYTES, "MB/s")
    payload = 50_000
    found = _split(ctx, (8, 8), rate=OVER * limit * 2**20 / payload / 2, payload=payload)
    return (
        f"{OVER * limit:.1f} MB/s each in and out, limit {limit}: {found}; the bundle with {OVER * limit / SHARE:.1f} "
        "MB/s is whole"
    )


def _limit(ctx: Context, name: str, most: int, unit: str) -> int:
    """The setting, where this load manager splits by it and moves the halves, and where the check can go over it."""
    several(ctx, 2)
    manager = ctx.setting("loadManagerClassName")
    ctx.require(
        manager.endswith("ModularLoadManagerImpl"),
        f"brokers have loadManagerClassName={manager}, this needs ModularLoadManagerImpl",
    )
    for switch in (
        "loadBalancerEnabled",
        "loadBalancerAutoBundleSplitEnabled",
        "loadBalancerAutoUnloadSplitBundlesEnabled",
        "loadBalancerDistributeBundlesEvenlyEnabled",
    ):
        ctx.require(ctx.setting(switch) == "true", f"brokers have {switch}=false: set it to true in broker.conf")
    found = int(ctx.number(name))
    ctx.require(0 < found <= most, f"brokers have {name}={found}: this check goes over {most} {unit} at most")
    return found


def _split(ctx: Context, topics: tuple[int, int], *, rate: float, payload: int) -> str:
    """Traffic on this number of topics of the only bundles of four namespaces until three are split and a half has
    moved.

    Of ten messages each of the three gets three, ``rate`` a second, and the last one gets one. Three, since a load
    report makes the leader forget what it has just assigned (see rebalancing.even_bundles): both halves of one may well
    come back to the broker where they were.
    """
    within = ctx.within_limit(3 * ctx.number("statsUpdateFrequencyInSecs") + 90, "a load report and a split")
    over, below = [_names(ctx, topics[0]) for _ in range(BUNDLES)], _names(ctx, topics[1])
    client = ctx.client()
    consumers = [ctx.consumer(names, client=client) for names in (*over, below)]
    producers = [
        itertools.cycle([ctx.producer(name, client=client, batching_enabled=False) for name in names])
        for names in (*over, below)
    ]
    before = [host_of(ctx, names[0]) for names in over]
    answers = Answers()
    got: set[bytes] = set()
    sent = 0
    due = begin = asked = time.monotonic()

    def asks() -> bool:
        """Send on; True once a second, when Pulsar is to be asked again."""
        nonlocal sent, due, asked
        for producer in (*(next(one) for one in producers[:-1] for _ in range(SHARE)), next(producers[-1])):
            answers.send(producer, sent.to_bytes(4, "big") + bytes(payload))
            sent += 1
        for consumer in consumers:
            got.update(heads(ctx.drain(consumer, quiet=0.001, within=5)))
        due += SHARE / rate
        time.sleep(max(0.0, due - time.monotonic()))
        if time.monotonic() < asked + 1:
            return False
        asked = time.monotonic()
        return True

    def split() -> bool:
        return asks() and all(len(boundaries(ctx, _namespace(names))) > 2 for names in over)

    def moved() -> int:
        return (
            sum(bool(_owners(ctx, names) - {host}) for names, host in zip(over, before, strict=True)) if asks() else 0
        )

    ctx.eventually(split, f"{BUNDLES} bundles over their limit are split", within=within, every=0)
    seconds = time.monotonic() - begin
    halves = ctx.eventually(moved, "a half is at another broker than its bundle was", within=30, every=0)
    limits = boundaries(ctx, _namespace(below))
    ctx.expect(limits == [0, TOP], f"the bundle within its limit was split: {limits}")
    answers.ids(sent, within=60)
    for consumer in consumers:
        got |= heads(ctx.drain(consumer, within=30))
    ctx.expect(len(got) == sent, f"{len(got)} of {sent} messages arrived")
    return (
        f"{BUNDLES} bundles split within {seconds:.0f} s, {halves} of them with a half at another broker, {sent} "
        "messages, all confirmed and received"
    )


def _names(ctx: Context, number: int) -> list[str]:
    """Topics spread evenly over the only bundle of a new namespace."""
    namespace = ctx.new_namespace(bundles={"numBundles": 1})
    return names_in(namespace, [(n * WHOLE // number, (n + 1) * WHOLE // number) for n in range(number)])


def _namespace(names: Sequence[str]) -> str:
    return names[0].split("://", 1)[1].rsplit("/", 1)[0]


def _owners(ctx: Context, names: Sequence[str]) -> set[str]:
    return {host_of(ctx, name) for name in names}
