"""Load shed from a hot broker by the load manager."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
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
    return _shed(ctx, hosts, 5, "the mean of all")


@check(
    "rebalancing.shedding_overloaded",
    proves="OverloadShedder moves bundles off a broker over loadBalancerBrokerOverloadedThresholdPercentage, none off "
    "one below it, and nothing is lost",
    concepts="B.shed",
    seconds=150,
)
def shedding_overloaded(ctx: Context) -> str:
    """The same traffic, more than the threshold of what a broker's network card is said to carry.

    Class OverloadShedder compares a broker's scarcest resource with the threshold, whatever the others use.
    """
    hosts = several(ctx, 2)
    _manages(ctx, "ModularLoadManagerImpl", "OverloadShedder")
    threshold = ctx.number("loadBalancerBrokerOverloadedThresholdPercentage")
    used = _of_card(ctx)
    ctx.require(
        used > 1.5 * threshold,
        f"this check's 1 MB/s are {used:.3g} % of a broker's network card, the threshold is {threshold:g} %: set "
        "loadBalancerOverrideBrokerNicSpeedGbps to 0.005 in broker.conf",
    )
    return _shed(ctx, hosts, 5, f"{threshold:g} % of its network card, with {used:.0f} %")


@check(
    "rebalancing.shedding_extensible",
    proves="The Extensible load manager transfers bundles of the broker with all the traffic to one without any, "
    "boundaries unchanged, and nothing is lost",
    concepts="B.shed",
    seconds=150,
)
def shedding_extensible(ctx: Context) -> str:
    """Class TransferShedder acts while loads deviate by more than loadBalancerBrokerLoadTargetStd, or once a broker has
    had no traffic for a number of consecutive observations.

    Bundles of the quiet broker may be exchanged for those that come (its swap), so they are not checked.
    """
    hosts = several(ctx, 2)
    _manages(ctx, "ExtensibleLoadManagerImpl", "TransferShedder")
    ctx.require(
        ctx.number("loadBalancerHistoryResourcePercentage") <= HISTORY,
        "brokers have loadBalancerHistoryResourcePercentage="
        f"{ctx.setting('loadBalancerHistoryResourcePercentage')}: set it to 0 in broker.conf or dynamically",
    )
    hits = int(ctx.number("loadBalancerSheddingConditionHitCountThreshold")) + 4
    return _shed(ctx, hosts, hits, "the others", stays=False)


def _shed(ctx: Context, hosts: Sequence[str], intervals: int, over: str, *, stays: bool = True) -> str:
    """All traffic goes to the first broker until one of its bundles is on another, within this number of shedding
    intervals."""
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
    within = ctx.within_limit(
        intervals * 60 * ctx.number("loadBalancerSheddingIntervalMinutes"), f"{intervals} shedding intervals"
    )
    owners = ctx.eventually(shed, f"the load manager takes a bundle off {hosts[0]}", within=within, every=0)
    seconds = time.monotonic() - begin
    found = boundaries(ctx, namespace)
    ctx.expect(found == limits, f"boundaries are {found}, they were {limits}")
    left = [name for name in calm if host_of(ctx, name) != hosts[1]]
    ctx.expect(not left or not stays, f"bundles of a broker without traffic moved too: {left}")
    answers.ids(rounds * len(names), within=30)
    for name, consumer in consumers.items():
        got[name] |= heads(ctx.drain(consumer, until=partial(all_of, rounds, got[name])))
        ctx.expect(len(got[name]) == rounds, f"{name}: {len(got[name])} of {rounds} messages arrived")
    gone = sum(host != hosts[0] for host in owners.values())
    return (
        f"{gone} of {number} bundles left the only busy one of {len(hosts)} brokers, over {over}, in {seconds:.0f} s, "
        f"boundaries unchanged, {2 - len(left)} of 2 stayed at a quiet one; {rounds * len(names)} messages, all "
        "confirmed and received"
    )


PAYLOAD = 10_000
BYTES_A_SECOND = 1_000_000
HISTORY = 0.5
"""Share of the past in a broker's load at which a check of minutes still sees what happens now."""


def _sheds(ctx: Context, brokers: int) -> None:
    """Skip where this check's traffic is not enough for the load manager, saying which setting makes it so."""
    _manages(ctx, "ModularLoadManagerImpl", "ThresholdShedder")
    least = ctx.number("loadBalancerBundleUnloadMinThroughputThreshold")
    ctx.require(
        least <= BYTES_A_SECOND / 20 / 2**20,
        f"brokers have loadBalancerBundleUnloadMinThroughputThreshold={least} MB/s, more than is to be shed of this "
        "check's 1 MB/s: set it to 0 in broker.conf or dynamically",
    )
    history = ctx.number("loadBalancerHistoryResourcePercentage")
    ctx.require(
        history <= HISTORY,
        f"brokers have loadBalancerHistoryResourcePercentage={history}: what happens now counts too little for "
        "a check of minutes; set it to 0 in broker.conf or dynamically",
    )
    weight = ctx.number("loadBalancerBandwidthInResourceWeight") or ctx.number("loadBalancerBandwithInResourceWeight")
    used = weight * _of_card(ctx)
    over = used * (1 - 1 / brokers)
    threshold = ctx.number("loadBalancerBrokerThresholdShedderPercentage")
    ctx.require(
        over > 1.5 * threshold,
        f"this check's 1 MB/s are {used:.3g} % of a broker's network card by loadBalancerBandwidthInResourceWeight="
        f"{weight:g}, the threshold is {threshold:g} over the mean: raise the weight dynamically",
    )


def _manages(ctx: Context, manager: str, shedder: str) -> None:
    """Skip where another class sheds, or none."""
    for name, word in (
        ("loadManagerClassName", manager),
        ("loadBalancerLoadSheddingStrategy", shedder),
        ("loadBalancerSheddingEnabled", "true"),
    ):
        ctx.require(ctx.setting(name).endswith(word), f"brokers have {name}={ctx.setting(name)}, this needs {word}")


def _of_card(ctx: Context) -> float:
    """This check's traffic, in percent of what a broker's network card carries, or is said to."""
    card = ctx.admin.get("broker-stats/load-report")["bandwidthIn"]["limit"]
    return 100 * BYTES_A_SECOND * 8 / 1000 / card if card else 0.0
