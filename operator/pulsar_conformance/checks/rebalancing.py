"""Load over several brokers: bundles spread, split over a limit, shed from a hot broker, moved; brokers come and go."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pulsar

from pulsar_conformance.context import Context
from pulsar_conformance.kit.brokers import halve, host_of, move, names_in, several
from pulsar_conformance.kit.bundles import TOP, boundaries, bundle_of, even
from pulsar_conformance.kit.sending import Answers, all_of, heads
from pulsar_conformance.model import check

SESSIONS = 1200
"""The most producers and consumers a check opens."""
WHOLE = 1 << 32


@check(
    "rebalancing.even_bundles",
    proves="Bundles of a new namespace are spread evenly over the brokers",
    concepts="B.bundles.default",
    seconds=4,
)
def even_bundles(ctx: Context) -> str:
    """Three namespaces with four bundles a broker, each bundle given an owner by its first look-up.

    One of them must be even, and no broker is left out of any: a load report that comes in between makes the leader
    forget bundles it has just assigned and that have no topic loaded (class ModularLoadManagerImpl, updateBundleData),
    so that a namespace may well come out 6, 4, 2 (seen on 4.0.8).
    """
    hosts = several(ctx, 2)
    ctx.require(
        ctx.setting("loadBalancerDistributeBundlesEvenlyEnabled") == "true",
        "brokers have loadBalancerDistributeBundlesEvenlyEnabled=false: set it to true in broker.conf",
    )
    number = 4 * len(hosts)
    spread = []
    for _ in range(3):
        namespace = ctx.new_namespace(bundles={"numBundles": number})
        counts = Counter({host: 0 for host in hosts})
        counts.update(host_of(ctx, name) for name in names_in(namespace, list(itertools.pairwise(even(number)))))
        spread.append(sorted(counts.values(), reverse=True))
    found = f"{number} bundles over {len(hosts)} brokers, three times: {'; '.join(map(_listed, spread))}"
    apart = [counts[0] - counts[-1] for counts in spread]
    ctx.expect(min(apart) <= 1 and min(counts[-1] for counts in spread) > 0, f"not even: {found}")
    return found


@check(
    "rebalancing.split_by_threshold",
    proves="A bundle over the limit of sessions is split in two by Pulsar itself, and its topics lose no message",
    concepts="B.split",
    seconds=100,
)
def split_by_threshold(ctx: Context) -> str:
    """More consumers than loadBalancerNamespaceBundleMaxSessions on eight topics of one bundle; another has a few.

    Class BundleSplitterTask compares with each broker's load report, which follows the statistics, and which a broker
    writes when rates changed: so the topics have traffic.
    """
    several(ctx, 2)
    for name in ("loadBalancerEnabled", "loadBalancerAutoBundleSplitEnabled"):
        ctx.require(ctx.setting(name) == "true", f"brokers have {name}=false: set it to true in broker.conf")
    limit = int(ctx.number("loadBalancerNamespaceBundleMaxSessions"))
    ctx.require(
        limit <= SESSIONS,
        f"brokers have loadBalancerNamespaceBundleMaxSessions={limit}: this check opens at most {SESSIONS}",
    )
    within = ctx.within_limit(3 * ctx.number("statsUpdateFrequencyInSecs") + 90, "a load report and a split")
    namespace = ctx.new_namespace(bundles={"numBundles": 2})
    lower = names_in(namespace, [(n * WHOLE // 16, (n + 1) * WHOLE // 16) for n in range(8)])
    (upper,) = names_in(namespace, [(WHOLE // 2, WHOLE)])
    client = ctx.client()
    listening: dict[str, Any] = {topic: ctx.consumer(topic, client=client) for topic in (*lower, upper)}
    for topic, number in zip(itertools.cycle(lower), range(limit + 8), strict=False):
        ctx.consumer(topic, f"more-{number // 50}", client=client, receiver_queue_size=1, **SHARED)
    producers = {topic: ctx.producer(topic, client=client) for topic in (*lower, upper)}
    sent = Counter[str]()
    begin = time.monotonic()

    def publish() -> None:
        for topic, producer in producers.items():
            ctx.send(producer, [f"message {sent[topic]}"])
            sent[topic] += 1

    def wider() -> list[int]:
        publish()
        found = boundaries(ctx, namespace)
        return found if len(found) > 3 else []

    found = ctx.eventually(wider, f"{limit + 8} sessions split the bundle", within=within, every=1)
    seconds = time.monotonic() - begin
    ctx.expect(set(found) >= {0, WHOLE // 2, TOP}, f"other boundaries than the bundle's own changed: {found}")
    ctx.expect(
        found.count(WHOLE // 2) == 1 and found[-2] == WHOLE // 2, f"the bundle without sessions was split: {found}"
    )
    publish()
    for topic, consumer in listening.items():
        got = set(ctx.texts(ctx.drain(consumer, until=ctx.came(f"message {sent[topic] - 1}"))))
        lost = {f"message {number}" for number in range(sent[topic])} - got
        ctx.expect(not lost, f"{topic}: {len(lost)} of {sent[topic]} messages did not arrive")
    owners = {bundle_of(topic, found): host_of(ctx, topic) for topic in lower}
    return (
        f"{limit + 8} sessions, limit {limit}: split after {seconds:.0f} s into {len(found) - 2} parts with "
        f"{len(set(owners.values()))} owner(s); 9 topics went on, {sent.total()} messages, none lost"
    )


SHARED = {"consumer_type": pulsar.ConsumerType.Shared}


@check(
    "rebalancing.worked_example",
    proves="3 brokers with 20 bundles each, 20 hot bundles with 90 % of the traffic on one broker: moving bundles "
    "evens it out, splitting them and moving halves leaves it with half of the hot traffic",
    concepts="B.example",
    seconds=90,
)
def worked_example(ctx: Context) -> str:
    """Both remedies from the same start, by unloads with a destination; shares as the topics' own counters say."""
    first, second, third = hosts = several(ctx, 3)[:3]
    namespace = ctx.new_namespace(bundles={"numBundles": 60})
    limits = even(60)
    hot = names_in(namespace, [half for n in range(20) for half in _halves(limits[n], limits[n + 1])])
    cold = names_in(namespace, list(itertools.pairwise(limits))[20:])
    # A client of its own: its 80 producers find their brokers again after each move.
    client = ctx.client()
    producers = {name: ctx.producer(name, client=client, batching_enabled=False) for name in (*hot, *cold)}
    traffic = {**dict.fromkeys(hot, 9), **dict.fromkeys(cold, 1)}
    bundles = [(hot[2 * n], bundle_of(hot[2 * n], limits)) for n in range(20)]
    for topic, bundle in bundles:
        move(ctx, topic, bundle, first)
    for n, topic in enumerate(cold):
        move(ctx, topic, bundle_of(topic, limits), second if n < 20 else third)

    start = _shares(ctx, producers, traffic)
    ctx.expect(start[first] == max(start.values()) > 0.85, f"the start is not that of the example: {_percent(start)}")
    given = list(zip(bundles, [second] * 6 + [third] * 6, strict=False))
    for (topic, bundle), host in given:
        move(ctx, topic, bundle, host)
    moved = _shares(ctx, producers, traffic)
    ctx.expect(max(moved.values()) * 3 < 1.15, f"12 hot bundles moved, and it is not even: {_percent(moved)}")

    for (topic, bundle), _host in given:
        move(ctx, topic, bundle, first)
    for n, (_topic, bundle) in enumerate(bundles):
        halve(ctx, namespace, bundle, limits[n] + (limits[n + 1] - limits[n]) // 2)
    # Whichever broker answers may have read the boundaries before the last split.
    found = ctx.eventually(lambda: _of_number(boundaries(ctx, namespace), 81), "20 of 60 bundles split: 80 of them")
    for topic, host in zip(hot[1::2], itertools.cycle((second, third)), strict=False):
        move(ctx, topic, bundle_of(topic, found), host)
    split = _shares(ctx, producers, traffic)
    ctx.expect(0.4 < split[first] < 0.5, f"half of the hot traffic should have stayed: {_percent(split)}")
    return (
        f"start {_percent(start, hosts)}; 12 bundles moved {_percent(moved, hosts)}; instead 20 split and a half of "
        f"each moved {_percent(split, hosts)}"
    )


def _of_number(found: list[int], number: int) -> list[int]:
    """Returns the boundaries if there are this number of bundles, else none."""
    return found if len(found) == number else []


def _halves(lower: int, upper: int) -> Iterator[tuple[int, int]]:
    middle = lower + (upper - lower) // 2
    yield from ((lower, middle), (middle, upper))


def _shares(ctx: Context, producers: Mapping[str, Any], traffic: Mapping[str, int]) -> dict[str, float]:
    """Publishes this number of messages to each topic; returns each broker's share of the messages that the topics
    counted."""
    before = {topic: ctx.stats(topic)["msgInCounter"] for topic in producers}
    answers = Answers()
    for topic, producer in producers.items():
        for number in range(traffic[topic]):
            answers.send(producer, number.to_bytes(4, "big"))
    answers.ids(sum(traffic.values()), within=60)
    shares = Counter[str]()
    for topic in producers:
        shares[host_of(ctx, topic)] += ctx.stats(topic)["msgInCounter"] - before[topic]
    ctx.expect(
        shares.total() == sum(traffic.values()), f"{sum(traffic.values())} messages sent, {shares.total()} counted"
    )
    return {host: count / shares.total() for host, count in shares.items()}


def _percent(shares: Mapping[str, float], order: Sequence[str] = ()) -> str:
    return " / ".join(f"{100 * shares.get(host, 0):.0f}" for host in order or sorted(shares)) + " %"


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts))


@check(
    "rebalancing.scale_out",
    proves="A new broker gets bundles, a broker that leaves hands over its own; producers lose nothing",
    concepts="A.scale",
    seconds=90,
)
def scale_out(ctx: Context) -> str:
    """One broker more, a new namespace over all of them with producers at work, and one broker less."""
    before = several(ctx, 1)
    ctx.scale(len(before) + 1)
    ctx.defer(lambda: ctx.scale(len(before)))
    after = ctx.eventually(lambda: _more(ctx, len(before)), "one broker more", within=180, every=1)
    (new,) = set(after) - set(before)
    number = 4 * len(after)
    namespace = ctx.new_namespace(bundles={"numBundles": number})
    names = names_in(namespace, list(itertools.pairwise(even(number))))
    consumers = {name: ctx.consumer(name) for name in names}
    producers = {name: ctx.producer(name, send_timeout_millis=120_000) for name in names}
    got = [name for name in names if host_of(ctx, name) == new]
    ctx.expect(got, f"{new} is new and has none of {number} new bundles")
    stop = threading.Event()
    answers = Answers()
    sent = Counter[str]()

    def publish() -> None:
        while not stop.wait(0.1):
            for name, producer in producers.items():
                answers.send(producer, sent[name].to_bytes(4, "big"))
                sent[name] += 1

    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    try:
        ctx.scale(len(before))
        ctx.eventually(lambda: len(_hosts(ctx)) == len(before), f"{new} is gone", within=180, every=1)
        ctx.eventually(lambda: all(host_of(ctx, name) != new for name in names), "others serve its bundles", within=60)
    finally:
        stop.set()
        thread.join()
    answers.ids(sent.total(), within=120)
    for name, consumer in consumers.items():
        received = heads(ctx.drain(consumer, until=partial(all_of, sent[name], set()), within=60))
        ctx.expect(len(received) == sent[name], f"{name}: {len(received)} of {sent[name]} messages arrived")
    return (
        f"{len(before)} -> {len(after)} brokers: the new one got {len(got)} of {number} bundles; back to "
        f"{len(before)}: {sent.total()} messages from {number} producers during the change, all confirmed and received"
    )


def _hosts(ctx: Context) -> list[str]:
    cluster = ctx.setting("clusterName")
    return [broker.rsplit(":", 1)[0] for broker in ctx.admin.get(f"brokers/{cluster}")]


def _more(ctx: Context, than: int) -> list[str]:
    found = _hosts(ctx)
    return found if len(found) > than else []
