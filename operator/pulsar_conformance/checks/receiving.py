"""Receiving without waiting: asynchronous receive, and listeners."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pulsar
from pulsar.asyncio import Client

from pulsar_conformance.checks.policies import backlog
from pulsar_conformance.context import Context
from pulsar_conformance.model import CheckFailed, check

COUNT = 10
LIMIT = 20.0
"""Seconds in which all messages come."""


@check(
    "receive.asynchronous",
    proves="A receive is begun without waiting, and is answered when a message comes; those begun first are answered "
    "first",
    concepts="E.receive.async",
    seconds=3,
)
def asynchronous(ctx: Context) -> str:
    """Ten receives on an empty topic, nine messages, one more; each is acknowledged asynchronously."""
    topic = ctx.topic()
    producer = ctx.producer(topic)
    texts = [f"m{number}" for number in range(COUNT)]

    async def run() -> list[int]:
        client = _client(ctx)
        try:
            consumer = await client.subscribe(topic, "sub", initial_position=pulsar.InitialPosition.Earliest)
            pending = [asyncio.ensure_future(consumer.receive()) for _ in texts]
            await asyncio.sleep(0.3)
            done = [_answered(pending)]
            await asyncio.to_thread(ctx.send, producer, texts[:-1])
            got = await _within(ctx, pending[:-1])
            done.append(_answered(pending))
            await asyncio.to_thread(ctx.send, producer, texts[-1:])
            got += await _within(ctx, pending[-1:])
            ctx.expect(ctx.texts(got) == texts, f"the receives were answered with {ctx.texts(got)}")
            for message in got:
                await consumer.acknowledge(message)
            return done
        finally:
            await client.close()

    done = asyncio.run(run())
    ctx.expect(done == [0, COUNT - 1], f"answered before and after {COUNT - 1} messages: {done}")
    ctx.eventually(lambda: backlog(ctx, topic) == 0, "all are acknowledged")
    return f"{COUNT} receives begun: {done[0]} answered on an empty topic, {done[1]} by {COUNT - 1} messages, in order"


@dataclass
class Heard:
    """What a listener was called with."""

    texts: list[str] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)

    def listen(self, consumer: Any, message: Any) -> None:
        """The listener; it acknowledges each message."""
        self.threads.add(threading.get_ident())
        consumer.acknowledge(message)
        self.texts.append(bytes(message.data()).decode())


@check(
    "receive.listener",
    proves="A listener is called with each message, in order, by a thread of the client; paused it is not called, and "
    "misses nothing",
    concepts="E.receive.listener",
    seconds=4,
)
def listener(ctx: Context) -> str:
    """Ten messages, a pause in which ten more are sent, and the rest; receive is refused beside a listener."""
    topic, heard = ctx.topic(), Heard()
    consumer = ctx.consumer(topic, message_listener=heard.listen)
    producer = ctx.producer(topic)
    texts = [f"m{number}" for number in range(2 * COUNT)]
    ctx.send(producer, texts[:COUNT])
    ctx.eventually(lambda: len(heard.texts) >= COUNT, f"the listener is called {COUNT} times", every=0.05)
    refusal = ctx.refused(pulsar.InvalidConfiguration, lambda: consumer.receive(timeout_millis=200))
    consumer.pause_message_listener()
    ctx.send(producer, texts[COUNT:])
    ctx.eventually(lambda: ctx.stats(topic)["msgOutCounter"] == 2 * COUNT, "the broker has sent all to the client")
    time.sleep(0.5)
    ctx.expect(len(heard.texts) == COUNT, f"called with {heard.texts[COUNT:]} while paused")
    consumer.resume_message_listener()
    ctx.eventually(lambda: len(heard.texts) >= 2 * COUNT, "the listener is called with the rest", every=0.05)
    ctx.expect(heard.texts == texts, f"the listener was called with {heard.texts}")
    ctx.expect(threading.get_ident() not in heard.threads, "the listener was called by the check's own thread")
    ctx.eventually(lambda: backlog(ctx, topic) == 0, "all are acknowledged by the listener")
    return f"called with {COUNT} messages, 0 of {COUNT} while paused, then with those, in order; receive: {refusal}"


def _client(ctx: Context) -> Any:
    found = ctx.instance
    log = pulsar.FileLogger(pulsar.LoggerLevel.Warn, found.client_log)
    return Client(found.service_url, logger=log, operation_timeout_seconds=20, **found.access.client_options())


async def _within(ctx: Context, pending: list[asyncio.Future[Any]]) -> list[Any]:
    """What the receives are answered with. Raises CheckFailed when one is not."""
    await asyncio.wait(pending, timeout=LIMIT)
    open_ = len(pending) - _answered(pending)
    if open_:
        raise CheckFailed(f"{open_} of {len(pending)} receives were not answered within {LIMIT:.0f} s")
    return [one.result() for one in pending]


def _answered(pending: list[asyncio.Future[Any]]) -> int:
    return sum(one.done() for one in pending)
