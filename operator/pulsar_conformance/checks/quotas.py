"""Backlog quotas: what the broker does with producers and messages when a subscription falls behind too far."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pulsar

from pulsar_conformance.checks.policies import backlog
from pulsar_conformance.checks.storage import unload
from pulsar_conformance.context import Context
from pulsar_conformance.model import CheckFailed, check
from pulsar_conformance.waiting import Interval

LIMIT = 20_000
"""Bytes."""
_BLOCKED = (pulsar.ProducerBlockedQuotaExceededError, pulsar.ProducerBlockedQuotaExceededException)


def _interval(ctx: Context) -> Interval:
    """How often the broker checks the quotas; the check is skipped where it does not."""
    ctx.require(ctx.setting("backlogQuotaCheckEnabled") == "true", "backlogQuotaCheckEnabled is false")
    return ctx.interval("backlogQuotaCheckIntervalInSeconds")


def _over_quota(ctx: Context, policy: str, **producer: Any) -> tuple[str, Any, Any, Interval]:
    """A topic with 30 unacknowledged messages of 1 kB and a quota of 20 kB: it, its consumer and producer."""
    interval = _interval(ctx)
    topic = ctx.topic()
    consumer = ctx.consumer(topic, receiver_queue_size=1)
    sender = ctx.producer(topic, **producer)
    for i in range(30):
        sender.send(f"{i:04}".encode() + b"x" * 1000)
    # Only now: the broker's check may come at any moment.
    body = {"limitSize": LIMIT, "limitTime": -1, "policy": policy}
    ctx.policy("backlogQuota", body, backlogQuotaType="destination_storage")
    return topic, consumer, sender, interval


def _numbers(messages: list[Any]) -> list[int]:
    return [int(bytes(message.data())[:4]) for message in messages]


def _disconnected(ctx: Context, topic: str, interval: Interval) -> float:
    """Until the broker has cut off the producer, which it does when it checks the quotas; the seconds it took."""
    begin = time.monotonic()
    ctx.eventually(
        lambda: not ctx.stats(topic)["publishers"],
        "the broker cuts off the producer",
        within=interval.within,
        every=interval.every,
    )
    return time.monotonic() - begin


def _refusal(ctx: Context, call: Callable[[], object]) -> str:
    try:
        return ctx.refused(_BLOCKED, call)
    except pulsar.Timeout as error:
        raise CheckFailed(f"neither refused nor accepted: {error}") from None


def _works_again(ctx: Context, topic: str) -> bool:
    client = ctx.client(operation_timeout_seconds=5)
    try:
        ctx.producer(topic, client=client).send(b"9999again")
    except pulsar.PulsarException:
        return False
    finally:
        client.close()
    return True


@check(
    "backlog_quota.hold",
    proves="producer_request_hold: over the quota a send waits and does not fail; it goes out once the backlog is read",
    concepts=("D.namespace.backlog.hold", "E.backlog"),
    seconds=65,
)
def hold(ctx: Context) -> str:
    """A message sent over the quota is neither stored nor refused; the consumer reads, then it arrives, once."""
    topic, consumer, sender, interval = _over_quota(ctx, "producer_request_hold", send_timeout_millis=0)
    took = _disconnected(ctx, topic, interval)
    results: list[Any] = []
    done = threading.Event()

    def answered(result: Any, _id: Any) -> None:
        results.append(result)
        done.set()

    sender.send_async(b"0030held", answered)
    ctx.expect(not done.wait(3), f"over the quota a send was answered immediately: {results}")
    ctx.expect(backlog(ctx, topic) == 30, "over the quota a message was stored")
    got = _numbers(ctx.receive(consumer, 30))
    # The client asks for its producer again with a growing pause, up to a minute.
    ctx.expect(done.wait(90), "the held message was not sent within 90 s after the backlog was consumed")
    ctx.expect(results == [pulsar.Result.Ok], f"the held message ended with {results}")
    got += _numbers(ctx.receive(consumer, 1))
    ctx.expect(got == list(range(31)), f"the consumer got {got}")
    return f"30 kB of {LIMIT // 1000} kB: held at the check after {took:.0f} s, sent once all was read; 31 in order"


@check(
    "backlog_quota.exception",
    proves="producer_exception: over the quota producers and their sends are refused with a specific error",
    concepts=("D.namespace.backlog.exception", "E.backlog"),
    seconds=65,
)
def exception(ctx: Context) -> str:
    """The running producer and a new one both get ProducerBlockedQuotaExceeded; after the consumer read all is well."""
    topic, consumer, sender, interval = _over_quota(ctx, "producer_exception")
    took = _disconnected(ctx, topic, interval)
    running = _refusal(ctx, lambda: sender.send(b"0030refused"))
    new = _refusal(ctx, lambda: ctx.producer(topic, client=ctx.client(operation_timeout_seconds=10)))
    got = _numbers(ctx.receive(consumer, 30))
    ctx.expect(got == list(range(30)), f"the consumer got {got}")
    ctx.eventually(lambda: _works_again(ctx, topic), "a producer works after the backlog is consumed")
    after = ctx.texts(ctx.receive(consumer, 1))
    ctx.expect(after == ["9999again"], f"then the consumer got {after}")
    return f"refused at the check after {took:.0f} s, send {running.split()[-1]}, new producer {new.split()[-1]}"


@check(
    "backlog_quota.eviction",
    proves="consumer_backlog_eviction: over the quota the oldest messages are dropped and producers keep publishing",
    concepts=("D.namespace.backlog.eviction", "E.backlog"),
    seconds=65,
)
def eviction(ctx: Context) -> str:
    """The backlog shrinks from its old end below the quota; the producer never notices."""
    topic, consumer, sender, interval = _over_quota(ctx, "consumer_backlog_eviction")
    begin = time.monotonic()
    ctx.eventually(
        lambda: backlog(ctx, topic) < 30, "the broker drops messages", within=interval.within, every=interval.every
    )
    took = time.monotonic() - begin
    # Figures of the topic are renewed from time to time; the first one after the drop may be from before it.
    ctx.eventually(
        lambda: int(ctx.stats(topic)["backlogSize"]) <= LIMIT + 1100,
        f"the backlog is at most {LIMIT} B and one message",
        within=interval.within,
        every=interval.every,
    )
    left = backlog(ctx, topic)
    # A small one: it must not bring the backlog over the quota again.
    sender.send(b"0030")
    consumer.redeliver_unacknowledged_messages()
    # The last one always stays. The first one may come from the consumer's own queue, where it was before the drop.
    got = sorted(set(_numbers(ctx.drain(consumer, until=ctx.came("0030")))) - {0})
    ctx.expect(got == list(range(got[0], 31)) and got[0] > 1, f"not the newest ones were kept: {got}")
    return f"30 messages, quota {LIMIT // 1000} kB: after {took:.0f} s the {30 - left} oldest dropped; producer went on"


@check(
    "backlog_quota.age",
    proves="A quota of type message_age acts when the oldest message not acknowledged is older than its limit",
    concepts=("D.namespace.backlog.exception", "E.backlog"),
    seconds=65,
)
def age(ctx: Context) -> str:
    """One small message, old enough: producers are refused, though the size is far below any limit."""
    interval = _interval(ctx)
    topic = ctx.topic()
    consumer, sender = ctx.consumer(topic), ctx.producer(topic)
    ctx.send(sender, ["old"])
    # Unless preciseTimeBasedBacklogQuotaCheck is on, the age is that of a closed ledger.
    unload(ctx, topic)
    ctx.send(sender, ["young"])
    # Only now: the broker's check may come at any moment.
    body = {"limitSize": -1, "limitTime": 5, "policy": "producer_exception"}
    ctx.policy("backlogQuota", body, backlogQuotaType="message_age")
    took = _disconnected(ctx, topic, interval)
    refusal = _refusal(ctx, lambda: ctx.producer(topic, client=ctx.client(operation_timeout_seconds=10)))
    ctx.receive(consumer, 2)
    ctx.eventually(lambda: _works_again(ctx, topic), "a producer works after the old message is acknowledged")
    return f"one message older than 5 s: producers refused after {took:.0f} s ({refusal}), accepted once it was read"
