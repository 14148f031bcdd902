"""Limits by their effect: a resource group throttles, types of subscriptions and kinds of topics are refused."""

from __future__ import annotations

import time
from functools import partial

import pulsar
from pulsar.exceptions import PulsarException

from pulsar_conformance.context import Context
from pulsar_conformance.kit.sending import Answers, accepted
from pulsar_conformance.model import check
from pulsar_conformance.waiting import eventually

RATE = 10
"""Messages a second that a resource group may publish."""
BURST = 40
"""Messages sent together to each of two topics of the group; twice as many to a topic in no group."""
AHEAD = 2
"""Seconds' worth of messages that a limit lets through before it holds, at most."""


@check(
    "limits.resource_group",
    proves="Topics of a resource group share its publish rate at their broker; other namespaces are not slowed down",
    concepts="D.resource_group",
    seconds=8,
)
def resource_group(ctx: Context) -> str:
    """Twice 40 messages to two topics of one bundle, and the same total to another namespace at the same time.

    The dispatch rate has no check: Pulsar 4.0 stores it and throttles no consumer by it.
    """
    inside, outside = (ctx.new_namespace(bundles={"numBundles": 1}) for _ in range(2))
    group = inside.rsplit("/", 1)[1]
    unlimited = {"publishRateInBytes": -1, "dispatchRateInMsgs": -1, "dispatchRateInBytes": -1}
    ctx.admin.put(f"resourcegroups/{group}", {"publishRateInMsgs": RATE, **unlimited})
    ctx.defer(lambda: eventually(partial(_removed, ctx, group), "the group is removed", within=10))
    ctx.admin.post(f"namespaces/{inside}/resourcegroup/{group}")
    ctx.defer(lambda: ctx.admin.delete(f"namespaces/{inside}/resourcegroup"))
    # A connection that is throttled is throttled for all its producers.
    limited, other = ctx.client(), ctx.client()
    producers = [
        ctx.producer(ctx.topic(name, namespace=inside), client=limited, batching_enabled=False) for name in ("a", "b")
    ]
    free = ctx.producer(ctx.topic(namespace=outside), client=other, batching_enabled=False)
    throttled, passed = Answers(), Answers()
    begin = time.monotonic()
    for number in range(BURST):
        for producer in producers:
            throttled.send(producer, number.to_bytes(4, "big"))
    for number in range(2 * BURST):
        passed.send(free, number.to_bytes(4, "big"))
    passed.ids(2 * BURST)
    waiting = 2 * BURST - len(throttled.got)
    ctx.expect(
        waiting > BURST // 2,
        f"{2 * BURST} messages outside the group were stored with {2 * BURST - waiting} of {2 * BURST} of the group",
    )
    throttled.ids(2 * BURST, within=60)
    seconds = time.monotonic() - begin
    ctx.expect(
        RATE * (seconds + AHEAD) >= 2 * BURST, f"{RATE} messages/s allowed, {2 * BURST} published in {seconds:.1f} s"
    )
    return (
        f"{RATE} messages/s: {2 * BURST} messages to two topics of the group took {seconds:.1f} s; {2 * BURST} to "
        f"another namespace were stored while {waiting} of those waited"
    )


def _removed(ctx: Context, group: str) -> bool:
    ctx.admin.delete(f"resourcegroups/{group}")
    return True


@check(
    "limits.subscription_types",
    proves="A namespace that allows some types of subscriptions refuses the others",
    concepts="D.namespace.subscription_types",
    seconds=2,
)
def subscription_types(ctx: Context) -> str:
    """All but Key_Shared; Key_Shared again once the limit is removed."""
    ctx.require(
        "Key_Shared" in ctx.setting("subscriptionTypesEnabled"),
        f"brokers have subscriptionTypesEnabled={ctx.setting('subscriptionTypesEnabled')}",
    )
    kinds = {
        "Exclusive": pulsar.ConsumerType.Exclusive,
        "Shared": pulsar.ConsumerType.Shared,
        "Failover": pulsar.ConsumerType.Failover,
    }
    topic = ctx.topic()
    ctx.policy("subscriptionTypesEnabled", list(kinds))
    consumers = {
        name: accepted(partial(ctx.consumer, topic, name, consumer_type=kind), f"{name} is allowed")
        for name, kind in kinds.items()
    }
    keyed = partial(ctx.consumer, topic, "keyed", consumer_type=pulsar.ConsumerType.KeyShared)
    refusal = ctx.refused(PulsarException, keyed)
    ctx.expect("NotAllowed" in refusal, f"Key_Shared is refused for another reason: {refusal}")
    ctx.send(ctx.producer(topic), ["one"])
    for name, consumer in consumers.items():
        got = ctx.texts(ctx.receive(consumer, 1))
        ctx.expect(got == ["one"], f"the {name} subscription got {got}")
    ctx.policy("subscriptionTypesEnabled", None, method="DELETE")
    consumer = ctx.eventually(lambda: _or_none(keyed), "Key_Shared is allowed again")
    ctx.expect(ctx.texts(ctx.receive(consumer, 1)) == ["one"], "the Key_Shared subscription got another message")
    return f"Exclusive, Shared and Failover delivered; Key_Shared: {refusal}; without the limit it delivered too"


def _or_none(subscribe: partial[object]) -> object:
    try:
        return subscribe()
    except PulsarException:
        return None


@check(
    "limits.nonpersistent_off",
    proves="Brokers that do without non-persistent topics refuse them to producers and consumers, and serve the others",
    concepts="E.nonpersistent",
    seconds=3,
)
def nonpersistent_off(ctx: Context) -> str:
    """One name in both kinds."""
    ctx.require(
        ctx.setting("enableNonPersistentTopics") == "false",
        "brokers have enableNonPersistentTopics=true: set it to false in broker.conf",
    )
    client = ctx.client(operation_timeout_seconds=5)
    kept = ctx.topic()
    passing = ctx.topic(persistent=False, create=False)
    refusals = [
        ctx.refused(PulsarException, lambda: ctx.producer(passing, client=client)),
        ctx.refused(PulsarException, lambda: ctx.consumer(passing, client=client)),
    ]
    consumer = ctx.consumer(kept)
    ctx.send(ctx.producer(kept), ["one"])
    got = ctx.texts(ctx.receive(consumer, 1))
    ctx.expect(got == ["one"], f"the persistent topic delivered {got}")
    return f"producer: {refusals[0]}; consumer: {refusals[1]}; the persistent topic of that name delivers"
