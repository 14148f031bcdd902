"""Large messages that no compression makes smaller, on many topics, up to a number of bytes: what fills disks."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from types import TracebackType
from typing import Any, Self

import pulsar

from e2e.support.admin import ask
from pulsar_conformance.counting import simple

TOPICS = 32
"""Each has a ledger on two bookies that the broker draws: so many fill all of them about evenly."""
SIZE = 256 * 1024
MILLIS = 60_000
QUEUE = 16
"""Messages that a reader fetches ahead: brokers and proxies of preset Small have memory for no more large ones."""


class Filling:
    """One producer a topic, each message acknowledged before the next is sent. A send that fails is raised.

    ``prefix`` begins the names of the topics, in a namespace that keeps everything. ``most`` is in bytes, each counted
    once and not by its copies. ``connect`` makes a client of a URL; tests replace it.
    """

    def __init__(
        self, service_url: str, prefix: str, *, most: int, connect: Callable[[str], Any] = simple.client
    ) -> None:
        self._url, self._prefix, self._connect = service_url, prefix, connect
        self.most = most
        self.bytes = 0
        """All that was acknowledged."""
        self.sent: dict[str, list[str]] = {}
        """Digests of it, by topic and in order."""

    def __enter__(self) -> Self:
        self._client = self._connect(self._url)
        topics = [f"{self._prefix}/filling-{number}" for number in range(TOPICS)]
        self._producers = {topic: self._client.create_producer(topic, send_timeout_millis=MILLIS) for topic in topics}
        self.sent = {topic: [] for topic in topics}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def more(self) -> bool:
        """One more message to each topic; False, and none, once that would be too many bytes."""
        if self.bytes + len(self._producers) * SIZE > self.most:
            return False
        for topic, producer in self._producers.items():
            data = os.urandom(SIZE)
            producer.send(data)
            self.sent[topic].append(_digest(data))
            self.bytes += len(data)
        return True

    def different(self, admin_url: str) -> list[str]:
        """Topics of which bookies do not have exactly what was acknowledged, with the numbers of messages. Each is
        unloaded first, so that no broker has it in memory."""
        found = []
        for topic, sent in self.sent.items():
            ask(admin_url, "PUT", f"{topic.replace('://', '/', 1)}/unload", seconds=90)
            read = self._read(topic)
            if read != sent:
                found.append(f"{topic}: {len(sent)} were acknowledged, {len(read)} are read")
        return found

    def _read(self, topic: str) -> list[str]:
        reader = self._client.create_reader(topic, pulsar.MessageId.earliest, receiver_queue_size=QUEUE)
        found = []
        while reader.has_message_available():
            found.append(_digest(reader.read_next(timeout_millis=MILLIS).data()))
        reader.close()
        return found


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
