"""Topics whose producer and subscription stay open and do nothing, so that their broker has a ledger open all the time.

What such a broker writes after the bookies of that ledger came back empty must not be lost (apache/bookkeeper#4812).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pulsar

from e2e.support.admin import ask
from e2e.support.bookies import ensembles
from e2e.support.eventually import eventually
from pulsar_conformance.counting import simple

MILLIS = 60_000
QUIET_MILLIS = 200
"""Nothing received for so long: nothing comes again."""
MOST = 80
"""Topics that are made until enough are on the wanted bookies."""


@dataclass
class IdleTopic:
    """One topic, with a producer and an exclusive subscription."""

    name: str
    producer: Any
    consumer: Any
    sent: list[str] = field(default_factory=list)
    """All that was acknowledged to the producer."""
    received: list[str] = field(default_factory=list)
    """All that the subscription had, each once, in order."""

    @classmethod
    def open(cls, client: pulsar.Client, name: str) -> IdleTopic:
        """With its first messages sent, and half of them acknowledged: data and cursor have a ledger."""
        made = cls(name, client.create_producer(name, send_timeout_millis=MILLIS), client.subscribe(name, "idle"))
        made.send(10)
        made.receive(5)
        return made

    def send(self, count: int) -> None:
        """So many messages, each acknowledged."""
        for _ in range(count):
            text = f"{self.name.rpartition('/')[2]}-{len(self.sent)}"
            self.producer.send(text.encode())
            self.sent.append(text)

    def receive(self, count: int) -> None:
        """So many new messages of the subscription, acknowledged; what a reconnect brings again is so again."""
        wanted = len(self.received) + count
        while len(self.received) < wanted:
            message = self.consumer.receive(timeout_millis=MILLIS)
            self.consumer.acknowledge(message)
            text = message.data().decode()
            if text not in self.received:
                self.received.append(text)

    def use(self) -> None:
        """Ten more, and everything that is left is received."""
        self.send(10)
        self.receive(len(self.sent) - len(self.received))

    def stored(self, service_url: str, admin_url: str) -> list[str]:
        """What the bookies have: the topic is unloaded, so that no broker has it in memory, and read from the start."""
        path = self.name.replace("://", "/", 1)
        ask(admin_url, "PUT", f"{path}/unload", seconds=90)
        client, found = simple.client(service_url), list[str]()
        try:
            reader = client.create_reader(self.name, pulsar.MessageId.earliest)
            while reader.has_message_available():
                found.append(reader.read_next(timeout_millis=MILLIS).data().decode())
        finally:
            client.close()
        return found

    def backlog(self, admin_url: str) -> int:
        """Messages that the subscription did not acknowledge."""
        stats = ask(admin_url, "GET", f"{self.name.replace('://', '/', 1)}/stats")
        return int(stats["subscriptions"]["idle"]["msgBacklog"])

    def acknowledged(self, admin_url: str) -> bool:
        """Whether the broker has every acknowledgement; what a reconnect brought again is acknowledged once more."""
        try:
            while True:
                self.consumer.acknowledge(self.consumer.receive(timeout_millis=QUIET_MILLIS))
        except pulsar.Timeout:
            return self.backlog(admin_url) == 0

    def check(self, service_url: str, admin_url: str) -> None:
        """All that was sent is stored, and all that was acknowledged stays so.

        The client sends acknowledgements in groups and without an answer: one on its way while the topic is unloaded is
        not the broker's to keep, so the broker has them all before.
        """
        assert self.received == self.sent, self.name
        eventually(
            lambda: self.acknowledged(admin_url), within=60, what=f"the broker has what {self.name} acknowledged"
        )
        assert self.stored(service_url, admin_url) == self.sent, self.name
        eventually(
            lambda: self.backlog(admin_url) == 0, within=60, what=f"the acknowledgements of {self.name} are kept"
        )

    def close(self) -> None:
        """Producer and subscription go."""
        self.producer.close()
        self.consumer.close()


def on_bookies(
    client: pulsar.Client, admin_url: str, prefix: str, wanted: Callable[[set[int]], bool], number: int
) -> list[IdleTopic]:
    """So many topics whose open ledger is where it is wanted; the others are closed and stay with what they have."""
    found: list[IdleTopic] = []
    for each in range(MOST):
        topic = IdleTopic.open(client, f"{prefix}-{each}")
        if wanted(ensembles(admin_url, topic.name)[-1]):
            found.append(topic)
        else:
            topic.close()
        if len(found) == number:
            return found
    raise AssertionError(f"of {MOST} topics {len(found)} are where {number} were wanted")


@contextmanager
def kept_for_ever(admin_url: str, namespace: str, **persistence: int) -> Iterator[str]:
    """A namespace whose retention keeps what is acknowledged, as ``persistent://...``; removed after what ends well."""
    ask(admin_url, "PUT", f"namespaces/{namespace}")
    ask(admin_url, "POST", f"namespaces/{namespace}/retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
    if persistence:
        policy = {**persistence, "managedLedgerMaxMarkDeleteRate": 0}
        ask(admin_url, "POST", f"namespaces/{namespace}/persistence", policy)
    yield f"persistent://{namespace}"
    for topic in ask(admin_url, "GET", f"persistent/{namespace}"):
        ask(admin_url, "DELETE", f"{topic.replace('://', '/', 1)}?force=true")
    ask(admin_url, "DELETE", f"namespaces/{namespace}")


def names_any(ordinals: Collection[int]) -> Callable[[set[int]], bool]:
    """Whether an ensemble has one of these bookies."""
    return lambda ensemble: bool(ensemble & set(ordinals))
