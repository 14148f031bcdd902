"""The demo's client: produces and consumes through the proxy and prints what it did."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pulsar

from pulsar_conformance.counting import simple


@dataclass(frozen=True)
class Exchange:
    """What one topic showed."""

    topic: str
    sent: int
    received: int
    partitions: dict[str, int]
    first: str
    last: str


def crossing(write_url: str, read_url: str, topic: str, text: str) -> float:
    """Publish one message in a cluster and receive it in another, in subscription ``crossing``; the seconds between.

    Raises pulsar.Timeout when it does not arrive within 120 s, as it may where replicators are only connecting.
    """
    clients = [simple.client(url) for url in (write_url, read_url)]
    try:
        consumer = clients[1].subscribe(topic, "crossing", consumer_type=pulsar.ConsumerType.Shared)
        producer = clients[0].create_producer(topic)
        start = time.monotonic()
        producer.send(text.encode())
        while True:
            message = consumer.receive(timeout_millis=120_000)
            consumer.acknowledge(message)
            if message.data().decode() == text:
                return time.monotonic() - start
    finally:
        for client in clients:
            client.close()


def received(service_url: str, topic: str, subscription: str, wanted: Sequence[str]) -> list[str]:
    """Receive and acknowledge until all that is wanted has come; that, in the order in which it came.

    Raises pulsar.Timeout when nothing comes for 60 s.
    """
    client = simple.client(service_url)
    try:
        consumer = client.subscribe(topic, subscription)
        missing, got = set(wanted), list[str]()
        while missing:
            message = consumer.receive(timeout_millis=60_000)
            consumer.acknowledge(message)
            text = message.data().decode()
            if text in missing:
                missing.remove(text)
                got.append(text)
        return got
    finally:
        client.close()


def exchange(service_url: str, topic: str, *, messages: int, subscription: str, run: str) -> Exchange:
    """Send ``messages`` numbered messages with keys, receive and acknowledge exactly those, in one subscription.

    Raises pulsar.Timeout when a message does not arrive within 20 s, AssertionError when another one arrives.
    """
    client = simple.client(service_url)
    try:
        consumer = client.subscribe(topic, subscription, consumer_type=pulsar.ConsumerType.Shared)
        producer = client.create_producer(topic, block_if_queue_full=True)
        wanted = {f"{run}-{i:05d}" for i in range(messages)}
        for text in sorted(wanted):
            producer.send_async(text.encode(), callback=lambda *_: None, partition_key=text)
        producer.flush()
        seen: Counter[str] = Counter()
        got: list[str] = []
        while wanted:
            message = consumer.receive(timeout_millis=20_000)
            consumer.acknowledge(message)
            text = message.data().decode()
            if text in wanted:
                wanted.remove(text)
                got.append(text)
                seen[message.topic_name().rsplit("/", 1)[-1]] += 1
        assert not wanted, f"{len(wanted)} messages did not come back"
        return Exchange(topic, messages, len(got), dict(sorted(seen.items())), min(got), max(got))
    finally:
        client.close()
