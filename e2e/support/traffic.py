"""Steady traffic on many topics at once, each at its own rate: what balancing is about."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from zlib import crc32

import pulsar

TICK_SECONDS = 0.1


def topics_within(namespace: str, ranges: list[tuple[int, int]], count: int, *, prefix: str = "t") -> list[str]:
    """Names whose hash falls into one of the ranges, [lower, upper): the first ``count`` of t0, t1, ..."""
    found: list[str] = []
    for number in range(1_000_000):
        name = f"persistent://{namespace}/{prefix}{number}"
        position = crc32(name.encode())
        if any(lower <= position < upper for lower, upper in ranges):
            found.append(name)
            if len(found) == count:
                return found
    raise ValueError(f"fewer than {count} of a million names fall into {ranges}")


class Traffic:
    """Publishes ``size`` bytes at each topic's messages a second, and consumes them, from one thread and one client.

    What is not sent in time is left out, not made up for. Nothing is counted but what was sent and received in all: for
    losses use e2e.counting.
    """

    def __init__(self, service_url: str, rates: Mapping[str, float], *, size: int = 1000) -> None:
        self._url = service_url
        self._rates = dict(rates)
        self._payload = bytes(size)
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.sent = 0
        self.failed = 0
        self.received = 0

    def __enter__(self) -> Self:
        self._client = pulsar.Client(
            self._url, operation_timeout_seconds=30, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        self._producers = {
            topic: self._client.create_producer(topic, block_if_queue_full=False, max_pending_messages=5000)
            for topic in self._rates
        }
        self._consumer = self._client.subscribe(
            list(self._rates), "load", consumer_type=pulsar.ConsumerType.Shared, receiver_queue_size=1000
        )
        for work in (self._publish, self._consume):
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10)
        self._client.shutdown()

    def _publish(self) -> None:
        owed = dict.fromkeys(self._rates, 0.0)
        before = time.monotonic()
        while not self._stop.wait(TICK_SECONDS):
            now = time.monotonic()
            passed, before = min(now - before, 1.0), now
            for topic, rate in self._rates.items():
                owed[topic] += rate * passed
                for _ in range(int(owed[topic])):
                    self._producers[topic].send_async(self._payload, self._answered)
                owed[topic] %= 1

    def _answered(self, result: Any, _: object) -> None:
        if result == pulsar.Result.Ok:
            self.sent += 1
        else:
            self.failed += 1

    def _consume(self) -> None:
        while not self._stop.is_set():
            try:
                self._consumer.acknowledge(self._consumer.receive(timeout_millis=200))
                self.received += 1
            except pulsar.PulsarException:
                continue
