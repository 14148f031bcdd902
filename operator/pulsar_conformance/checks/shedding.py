"""Load shed from a hot broker by the load manager."""

from __future__ import annotations

import itertools
import time
from functools import partial

from pulsar_conformance.context import Context
from pulsar_conformance.kit.brokers import host_of, move, names_in, several
from pulsar_conformance.kit.bundles import boundaries, bundle_of, even
from pulsar_conformance.kit.sending import Answers, all_of, heads
from pulsar_conformance.model import check


@check(
    "rebalancing.shedding",
    proves="Bundles of a broker over its threshold move to others, boundaries unchanged, and nothing is lost",
    concepts="B.shed",
    seconds=240,
)
def shedding(ctx: Context) -> str:
    """All traffic on one broker, two idle bundles on another.

    Whether the traffic counts as more than the threshold is worked out first. Class ThresholdShedder sheds where
    a broker's use of its scarcest resource is over the mean of all by more than
    loadBalancerBrokerThresholdShedderPercentage, and only loadBalancerBundleUnloadMinThroughputThreshold or more.
    """
    hosts = several(ctx, 2)
    _sheds(ctx, len(hosts))
    number = 3 * len(hosts)
    namespace = ctx.new_namespace(bundles={"numBundles": number})
    limits = even(number)
    names = names_in(namespace, list(itertools.pairwise(limits)))
    for name in names:
        move(ctx, name, bundle_of(name, limits), hosts[0])
    quiet = ctx.new_namespace(bundles={"numBundles": 2})
    calm = names_in(quiet, list(itertools.pairwise(even(2))))
    for name in calm:
        move(ctx, name, bundle_of(name, even(2)), hosts[1])
    consumers = {name: ctx.consumer(name) for name in names}
    producers = {name: ctx.producer(name, batching_enabled=True) for name in names}
    answers = Answers()
    got: dict[str, set[bytes]] = {name: set() for name in names}
    due = time.monotonic()
    rounds = 0
    asked = due

    def shed() -> dict[str, str]:
        nonlocal due, rounds, asked
        for producer in producers.values():
            answers.send(producer, rounds.to_bytes(4, "big") + bytes(PAYLOAD))
        rounds += 1
        for name, consumer in consumers.items():
            got[name] |= heads(ctx.drain(consumer, quiet=0.001, within=1))
        due += len(names) * PAYLOAD / BYTES_A_SECOND
        time.sleep(max(0.0, due - time.monotonic()))
        if time.monotonic() < asked + 3:
            return {}
        asked = time.monotonic()
        owners = {name: host_of(ctx, name) for name in names}
        return owners if any(host != hosts[0] for host in owners.values()) else {}

    begin = time.monotonic()
    within = ctx.within_limit(5 * 60 * ctx.number("loadBalancerSheddingIntervalMinutes"), "five shedding intervals")
    owners = ctx.eventually(shed, f"the load manager takes a bundle off {hosts[0]}", within=within, every=0)
    seconds = time.monotonic() - begin
    found = boundaries(ctx, namespace)
    ctx.expect(found == limits, f"boundaries are {found}, they were {limits}")
    left = [name for name in calm if host_of(ctx, name) != hosts[1]]
    ctx.expect(not left, f"bundles of a broker without traffic moved too: {left}")
    answers.ids(rounds * len(names), within=30)
    for name, consumer in consumers.items():
        got[name] |= heads(ctx.drain(consumer, until=partial(all_of, rounds, got[name])))
        ctx.expect(len(got[name]) == rounds, f"{name}: {len(got[name])} of {rounds} messages arrived")
    gone = sum(host != hosts[0] for host in owners.values())
    return (
        f"{gone} of {number} bundles left the only busy one of {len(hosts)} brokers after {seconds:.0f} s, boundaries "
        f"unchanged, 2 of 2 stayed at a quiet one; {rounds * len(names)} messages, all confirmed and received"
    )


PAYLOAD = 10_000
BYTES_A_SECOND = 1_000_000


def _sheds(ctx: Context, brokers: int) -> None:
    """Skip where this check's traffic is not enough for the load manager, saying which setting makes it so."""
    for name, word in (
        ("loadManagerClassName", "ModularLoadManagerImpl"),
        ("loadBalancerLoadSheddingStrategy", "ThresholdShedder"),
        ("loadBalancerSheddingEnabled", "true"),
    ):
        ctx.require(ctx.setting(name).endswith(word), f"brokers have {name}={ctx.setting(name)}, this needs {word}")
    least = ctx.number("loadBalancerBundleUnloadMinThroughputThreshold")
    ctx.require(
        least <= BYTES_A_SECOND / 20 / 2**20,
        f"brokers have loadBalancerBundleUnloadMinThroughputThreshold={least} MB/s, more than is to be shed of this "
        "check's 1 MB/s: set it to 0 in broker.conf or dynamically",
    )
    history = ctx.number("loadBalancerHistoryResourcePercentage")
    ctx.require(
        history <= 0.5,
        f"brokers have loadBalancerHistoryResourcePercentage={history}: what happens now counts too little for "
        "a check of minutes; set it to 0 in broker.conf or dynamically",
    )
    card = ctx.admin.get("broker-stats/load-report")["bandwidthIn"]["limit"]
    weight = ctx.number("loadBalancerBandwidthInResourceWeight") or ctx.number("loadBalancerBandwithInResourceWeight")
    used = 100 * weight * BYTES_A_SECOND * 8 / 1000 / card if card else 0.0
    over = used * (1 - 1 / brokers)
    threshold = ctx.number("loadBalancerBrokerThresholdShedderPercentage")
    ctx.require(
        over > 1.5 * threshold,
        f"this check's 1 MB/s are {used:.3g} % of a broker's network card by loadBalancerBandwidthInResourceWeight="
        f"{weight:g}, the threshold is {threshold:g} over the mean: raise the weight dynamically",
    )
