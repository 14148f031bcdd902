"""Non-persistent topics on Shared, Failover and Key_Shared subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pulsar

from pulsar_conformance.context import Context
from pulsar_conformance.kit import sharing
from pulsar_conformance.model import Check, check

NAMES = ("ant", "bee")
KEYS = 17
"""Odd, so that messages that go round two consumers do not keep to their keys."""
BEFORE, AFTER = 34, 8
"""Messages while both consumers are there, and after one of them has left."""
Got = Mapping[str, list[Any]]


def _shared(ctx: Context, got: Got) -> str:
    ctx.expect(min(map(len, got.values())) >= 3, f"not shared out: {sharing.sizes(got)}")
    return "shared out"


def _failover(ctx: Context, got: Got) -> str:
    ctx.expect(sorted(map(len, got.values())) == [0, BEFORE], f"more than one was active: {sharing.sizes(got)}")
    sharing.expect_ordered(ctx, got)
    return "one of them active"


def _key_shared(ctx: Context, got: Got) -> str:
    ctx.expect(all(got.values()), f"not shared out: {sharing.sizes(got)}")
    sharing.expect_ordered(ctx, got)
    return f"each of {KEYS} keys at one of them"


def _on(name: str, kind: pulsar.ConsumerType, proves: str, judge: Callable[[Context, Got], str]) -> Check:
    @check(f"topic.nonpersistent_{name}", proves=proves, concepts="E.nonpersistent.types", seconds=4)
    def run(ctx: Context) -> str:
        ctx.require(ctx.setting("enableNonPersistentTopics") == "true", "needs enableNonPersistentTopics=true")
        topic = ctx.topic(persistent=False)
        consumers = {one: ctx.consumer(topic, consumer_type=kind, consumer_name=one) for one in NAMES}
        producer = ctx.producer(topic)
        sent = _send(producer, range(BEFORE))
        got = sharing.gather(ctx, consumers, BEFORE, ack=False, extra=0.2)
        sharing.expect_once(ctx, got, sent)
        how = judge(ctx, got)
        leaver = max(got, key=lambda one: len(got[one]))
        consumers.pop(leaver).close()
        ((stays, left),) = consumers.items()
        _alone(ctx, topic)
        later = _send(producer, range(BEFORE, BEFORE + AFTER))
        texts = ctx.texts(ctx.drain(left, until=ctx.came(later[-1])))
        ctx.expect(texts == later, f"{stays} was to get the {AFTER} later messages alone, it got {texts}")
        return (
            f"{BEFORE} messages {how}: {sharing.sizes(got)}; {leaver} closed without acknowledging any: {stays} got "
            f"none of those again and all {AFTER} later ones"
        )

    return run


def _send(producer: Any, numbers: range) -> list[str]:
    """Messages with keys in turn, texts ``key/number``."""
    sent = []
    for number in numbers:
        key = f"k{number % KEYS}"
        sent.append(f"{key}/{number}")
        producer.send(sent[-1].encode(), partition_key=key)
    return sent


def _alone(ctx: Context, topic: str) -> None:
    """Until the broker knows that one consumer is left: what it sends to the other one is lost."""
    ctx.eventually(
        lambda: len(ctx.stats(topic)["subscriptions"]["sub"]["consumers"]) == 1, "one consumer of the topic is left"
    )


TYPES = (
    _on(
        "shared",
        pulsar.ConsumerType.Shared,
        "Shared on a non-persistent topic: each message to one consumer; an unacknowledged one is not delivered again",
        _shared,
    ),
    _on(
        "failover",
        pulsar.ConsumerType.Failover,
        "Failover on a non-persistent topic: one consumer gets all in order, then the other gets what comes later",
        _failover,
    ),
    _on(
        "key_shared",
        pulsar.ConsumerType.KeyShared,
        "Key_Shared on a non-persistent topic: each key has one consumer; when that leaves its keys move on",
        _key_shared,
    ),
)
