"""Steady traffic on many topics at once, each at its own rate: what balancing is about."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self
from zlib import crc32

import pulsar

from pulsar_conformance.counting import simple

TICK_SECONDS = 0.1
POLL_MILLIS = 200


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

    What is not sent in time is left out, not made up for. What was sent and received is counted in all, and what failed
    by topic and reason: for losses use pulsar_conformance.counting. ``connect`` makes a client of a URL; tests replace
    it.
    """

    def __init__(
        self,
        service_url: str,
        rates: Mapping[str, float],
        *,
        size: int = 1000,
        send_timeout: float = 30,
        connect: Callable[[str], Any] = simple.client,
    ) -> None:
        self._url = service_url
        self._rates = dict(rates)
        self._payload = bytes(size)
        self._send_timeout = send_timeout
        self._connect = connect
        self._stop = threading.Event()
        self._closed = False
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._asked = 0
        self._answers = 0
        self._failed: Counter[str] = Counter()
        self._ended: list[str] = []
        self.sent = 0
        self.received = 0

    def __enter__(self) -> Self:
        self._client = self._connect(self._url)
        self._producers = {
            topic: self._client.create_producer(
                topic,
                block_if_queue_full=False,
                max_pending_messages=5000,
                send_timeout_millis=int(self._send_timeout * 1000),
            )
            for topic in self._rates
        }
        self._consumer = self._client.subscribe(
            list(self._rates), "load", consumer_type=pulsar.ConsumerType.Shared, receiver_queue_size=1000
        )
        for work in (self._publish, self._consume):
            name = work.__name__.strip("_")
            thread = threading.Thread(target=self._until_stopped, args=(work,), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10)
            if thread.is_alive():
                self._ended.append(f"thread {thread.name} did not end")
        # Each send is answered within its timeout; shutting down fails what is under way, which is no failure, so that
        # nothing is raised here as eventually would.
        end = time.monotonic() + self._send_timeout
        while self._answers < self._asked and time.monotonic() < end:
            time.sleep(TICK_SECONDS)
        self._closed = True
        self._client.shutdown()

    def change(self, rates: Mapping[str, float]) -> None:
        """Other messages a second from now on; topics that are not named keep theirs. Raises KeyError for a new one."""
        unknown = rates.keys() - self._rates.keys()
        if unknown:
            raise KeyError(f"no producer of {sorted(unknown)[0]}")
        self._rates = self._rates | dict(rates)

    def failures(self) -> list[str]:
        """What went wrong, as sentences: sends that failed by topic and reason, receives that failed by reason, a
        thread that ended, no message.

        After the end also sends that were never answered. Empty where the traffic went on as it should.
        """
        found = list(self._ended)
        if not self.sent:
            found.append("nothing was sent")
        if not self.received:
            found.append("nothing was received")
        if self._closed and self._answers < self._asked:
            found.append(f"{self._asked - self._answers} sends had no answer")
        found += [f"{reason}: {count} times" for reason, count in sorted(self._failed.items())]
        return found

    def _until_stopped(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._ended.append(f"thread {threading.current_thread().name} ended: {type(error).__name__}: {error}")

    def _publish(self) -> None:
        owed = dict.fromkeys(self._rates, 0.0)
        before = time.monotonic()
        while not self._stop.wait(TICK_SECONDS):
            now = time.monotonic()
            passed, before = min(now - before, 1.0), now
            for topic, rate in self._rates.items():
                owed[topic] += rate * passed
                for _ in range(int(owed[topic])):
                    self._send(topic)
                owed[topic] %= 1

    def _send(self, topic: str) -> None:
        with self._lock:
            self._asked += 1
        try:
            self._producers[topic].send_async(self._payload, partial(self._answered, topic))
        except pulsar.PulsarException as error:
            self._account(topic, type(error).__name__)

    def _answered(self, topic: str, result: Any, _: object) -> None:
        self._account(topic, None if result == pulsar.Result.Ok else result.name)

    def _account(self, topic: str, reason: str | None) -> None:
        """One send has its outcome; what comes while the client is closed counts no more."""
        with self._lock:
            if self._closed:
                return
            self._answers += 1
            if reason is None:
                self.sent += 1
            else:
                self._failed[f"send to {topic} failed: {reason}"] += 1

    def _consume(self) -> None:
        while not self._stop.is_set():
            try:
                found = self._consumer.receive(timeout_millis=POLL_MILLIS)
            except pulsar.Timeout:
                continue
            except pulsar.PulsarException as error:
                self._note_error("receive", error)
                self._stop.wait(POLL_MILLIS / 1000)
                continue
            self.received += 1
            try:
                self._consumer.acknowledge(found)
            except pulsar.PulsarException as error:
                self._note_error("acknowledge", error)

    def _note_error(self, what: str, error: Exception) -> None:
        with self._lock:
            self._failed[f"{what} failed: {type(error).__name__}"] += 1
