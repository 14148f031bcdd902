"""The official Python client against one topic in memory that loses, repeats and refuses on demand."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import pulsar

from e2e.support.eventually import eventually
from pulsar_conformance.counting.client import CountingRun
from pulsar_conformance.counting.message import Stamp, decode

Callback = Callable[[Any, object], None]


class Place:
    """A message id: the entry alone differs."""

    def __init__(self, entry: int) -> None:
        self.entry = entry

    def partition(self) -> int:
        return 0

    def ledger_id(self) -> int:
        return 5

    def entry_id(self) -> int:
        return self.entry

    def batch_index(self) -> int:
        return -1


class Received:
    """A message as the client hands it out."""

    def __init__(self, data: bytes, entry: int, count: int = 0) -> None:
        self._data, self._entry, self._count = data, entry, count

    def data(self) -> bytes:
        return self._data

    def message_id(self) -> Place:
        return Place(self._entry)

    def redelivery_count(self) -> int:
        return self._count


class Topic:
    """One topic with one subscription; stands for client, producer and consumer at once."""

    def __init__(self) -> None:
        self.queue: queue.Queue[Received] = queue.Queue()
        self.entries = 0
        self.calls: list[str] = []
        self.acknowledged = 0
        self.store: Callable[[Stamp, bytes], bool] = lambda stamp, data: True
        self.answer: Callable[[Stamp], Any] = lambda stamp: pulsar.Result.Ok
        self.subscribed: dict[str, Any] = {}
        self.produced: dict[str, Any] = {}
        self.receiving: Callable[[], None] = lambda: None
        self.silent = False

    def subscribe(self, topic: str, name: str, **options: Any) -> Topic:
        self.subscribed = options
        self.calls.append(f"subscribe {topic} {name}")
        return self

    def create_producer(self, topic: str, **options: Any) -> Topic:
        self.produced = options
        self.calls.append(f"producer {topic}")
        return self

    def add(self, data: bytes) -> None:
        """Store one more entry."""
        self.entries += 1
        self.queue.put(Received(data, self.entries))

    def send_async(self, data: bytes, callback: Callback, *, partition_key: str) -> None:
        stamp = decode(data)
        assert stamp is not None and partition_key == f"key-{stamp.key}"
        if self.store(stamp, data):
            self.add(data)
        if not self.silent:
            callback(self.answer(stamp), None)

    def receive(self, timeout_millis: int) -> Received:
        self.receiving()
        try:
            return self.queue.get(timeout=0.01)
        except queue.Empty:
            raise pulsar.Timeout("no message") from None

    def acknowledge(self, message: Received) -> None:
        self.acknowledged += 1

    def unsubscribe(self) -> None:
        self.calls.append("unsubscribe")

    def close(self) -> None:
        self.calls.append("close")


def counting(topic: Topic, **options: Any) -> CountingRun:
    """A quick counting run on the topic."""
    given: dict[str, Any] = {"rate": 2000, "keys": 4, "start_within": 20, "connect": lambda url: topic, **options}
    return CountingRun("pulsar://nowhere", "t", **given)


def sent(run: CountingRun, count: int) -> None:
    """Wait until that many were sent."""
    eventually(lambda: run.progress().sent >= count, within=20, what=f"{count} messages sent", every=0.01)
