"""A cluster in memory whose processes are killed and stand still: admin REST, clients and the fault command of one.

What a check of ``failures`` looks at is played, a step at each look: a bundle has another owner at the second look-up
after its broker is gone, a closed ledger another copy at the second look after its bookie is.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pulsar

from pulsar_conformance.admin import AdminError
from tests.fakes.pulsar_client import Received

Callback = Callable[[Any, object], None]
BROKERS = ("broker-0.x", "broker-1.x")
BOOKIES = ("bookie-0.x:3181", "bookie-1.x:3181", "bookie-2.x:3181")
PROXIES = ("10.0.0.7", "10.0.0.8")


@dataclass
class Ledger:
    """One ledger of a topic."""

    id: int
    ensembles: list[list[str]]
    entries: int = 0
    closed: bool = False

    def stats(self) -> dict[str, Any]:
        """As admin REST has it, with BookKeeper's metadata."""
        parts = ", ".join(f"{n}=[{', '.join(part)}]" for n, part in enumerate(self.ensembles))
        state = f"CLOSED, length=99, lastEntryId={self.entries - 1}" if self.closed else "OPEN"
        text = f"LedgerMetadata{{formatVersion=3, state={state}, ensembles={{{parts}}}, customMetadata={{a=b}}}}"
        return {"ledgerId": self.id, "entries": self.entries if self.closed else 0, "metadata": text}


@dataclass
class Stored:
    """One topic: what is stored, its ledgers, the sends that nobody answers yet, and who produces from where."""

    cluster: Cluster
    kept: list[bytes] = field(default_factory=list)
    ledgers: list[Ledger] = field(default_factory=list)
    held: list[tuple[bytes, Callback]] = field(default_factory=list)
    publishers: dict[str, str] = field(default_factory=dict)

    def open(self) -> None:
        """Go on in another ledger, on bookies that run."""
        if self.ledgers:
            self.ledgers[-1].closed = True
        there = [bookie for bookie in BOOKIES if bookie not in self.cluster.gone]
        self.ledgers.append(Ledger(next(self.cluster.ids), [there[:2]]))

    def add(self, data: bytes) -> None:
        """Store a message."""
        self.kept.append(data)
        self.ledgers[-1].entries += 1


class Cluster:
    """Two brokers, three bookies, three ZooKeeper servers, two proxies; one bundle for all topics.

    ``stalls`` are targets during whose absence nothing is stored; ``proxies`` are those that connections come through.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.ids = itertools.count(7)
        self.topics: dict[str, Stored] = {}
        self.owner = BROKERS[0]
        self.gone: set[str] = set()
        self.done: list[str] = []
        self.looks = 0
        self.ports = itertools.count(40000)
        self.proxies: tuple[str, ...] = PROXIES
        self.bookies: tuple[str, ...] = BOOKIES
        self.stalls: set[str] = set()
        self.phantom = 0
        """Entries more than were sent."""
        self.takes_back = False
        """Whether a broker that goes on has its bundle again."""
        self.forgets_topics = False

    # --- the fault command

    def fault(self, action: str, target: str) -> str:
        """What a command would do; which process it was."""
        with self.lock:
            kind, _, name = target.partition(" ")
            self.done.append(f"{action} {target}")
            if kind == "proxy":
                self._through_another(name)
            elif kind == "bookie" and action == "kill":
                for topic in self.topics.values():
                    self._without(topic.ledgers[-1], name)
            before = set(self.gone)
            if action == "resume":
                self.gone.discard(name or kind)
            elif action == "pause" or kind == "zookeeper-leader":
                # Any other that is killed is started again before anybody looks.
                self.gone.add(name or kind)
            if self.gone != before:
                self.looks = 0
            if action == "resume" and self.takes_back and name in BROKERS:
                self.owner = name
            self._flush()
            return f"pod of {target}"

    def _without(self, ledger: Ledger, bookie: str) -> None:
        if bookie in ledger.ensembles[-1]:
            ledger.ensembles.append([one for one in BOOKIES if one != bookie])

    def _through_another(self, proxy: str) -> None:
        (other,) = set(PROXIES) - {proxy}
        for topic in self.topics.values():
            for name, address in topic.publishers.items():
                if address.startswith(f"/{proxy}:"):
                    topic.publishers[name] = f"/{other}:{next(self.ports)}"

    def stalled(self) -> bool:
        """Whether nobody answers sends now."""
        return self.owner in self.gone or bool(self.stalls & self.gone)

    def _flush(self) -> None:
        if self.stalled():
            return
        for topic in self.topics.values():
            held, topic.held = topic.held, []
            for data, callback in held:
                topic.add(data)
                callback(pulsar.Result.Ok, None)

    # --- admin REST

    def call(self, method: str, path: str, body: Any = None, **_query: Any) -> Any:
        """One call; GET of what a check asks, and writes of topics."""
        with self.lock:
            if path == "bookies/all":
                return {"bookies": [{"bookieId": bookie} for bookie in self.bookies]}
            if path.startswith("brokers/"):
                return [f"{broker}:8080" for broker in BROKERS if broker not in self.gone]
            if path.startswith("lookup/"):
                return {"brokerUrl": f"pulsar://{self._owner()}:6650"}
            if not path.startswith("persistent/") or method == "DELETE":
                return None
            if path.count("/") == 2:
                return [self._name(path)] if self.forgets_topics else list(self.topics)
            if path.endswith(("/internalStats", "/stats", "/unload")):
                path, _, what = path.rpartition("/")
                return getattr(self, f"_{what}")(self.topics[self._name(path)])
        return self._make(path)

    @staticmethod
    def _name(path: str) -> str:
        return path.replace("/", "://", 1)

    def _make(self, path: str) -> None:
        with self.lock:
            if "zookeeper" not in self.gone:
                if "zookeeper-leader" in self.gone and self.looks < 2:
                    self.looks += 1
                    raise AdminError(500, f"PUT {path}", "ConnectionLoss")
                self.topic(self._name(path))
                return
            begin, before = time.monotonic(), sum(len(topic.kept) for topic in self.topics.values())
        # However slow this machine is: a share of what was to be sent is, unless sends are to stall.
        while time.monotonic() - begin < (1 if self.stalls else 20):
            with self.lock:
                sent = sum(len(topic.kept) for topic in self.topics.values()) - before
            if sent > 20 + 400 * (time.monotonic() - begin):
                break
            time.sleep(0.005)
        raise AdminError(500, f"PUT {path}", "ConnectionLoss")

    def topic(self, name: str) -> Stored:
        """The topic, made when it is not there."""
        if name not in self.topics:
            self.topics[name] = Stored(self)
            self.topics[name].open()
        return self.topics[name]

    def _owner(self) -> str:
        if self.owner in self.gone:
            self.looks += 1
            if self.looks > 1:
                (self.owner,) = set(BROKERS) - {self.owner}
                for topic in self.topics.values():
                    topic.open()
                self._flush()
        return self.owner

    def _internalStats(self, topic: Stored) -> dict[str, Any]:
        for ledger in topic.ledgers:
            self.looks += 1
            if ledger.closed and self.looks > 2 and len(ledger.ensembles) == 1 and self.gone & set(ledger.ensembles[0]):
                ledger.ensembles = [[bookie for bookie in BOOKIES if bookie not in self.gone]]
        entries = len(topic.kept) + self.phantom
        return {"numberOfEntries": entries, "ledgers": [ledger.stats() for ledger in topic.ledgers]}

    def _stats(self, topic: Stored) -> dict[str, Any]:
        return {"publishers": [{"producerName": n, "address": a} for n, a in topic.publishers.items()]}

    def _unload(self, topic: Stored) -> None:
        topic.open()


class Client:
    """Stands for pulsar.Client."""

    numbers = itertools.count()

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._proxy = cluster.proxies[next(self.numbers) % len(cluster.proxies)]

    def create_producer(self, topic: str, **options: Any) -> Producer:
        """See pulsar.Client."""
        with self._cluster.lock:
            stored = self._cluster.topic(topic)
            name = options.get("producer_name") or f"p{len(stored.publishers)}"
            stored.publishers[name] = f"/{self._proxy}:{next(self._cluster.ports)}"
        return Producer(stored)

    def subscribe(self, topic: str, _subscription: str, **_options: Any) -> Consumer:
        """See pulsar.Client; from now on."""
        stored = self._cluster.topic(topic)
        return Consumer(stored, len(stored.kept))

    def create_reader(self, topic: str, _start: object, **_options: Any) -> Consumer:
        """See pulsar.Client; from the earliest message on."""
        return Consumer(self._cluster.topic(topic), 0)

    def close(self) -> None:
        """Nothing to close."""


class Producer:
    """Stands for pulsar.Producer."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored

    def send(self, data: bytes, **_options: Any) -> None:
        """Stored when it returns."""
        with self._stored.cluster.lock:
            self._stored.add(data)

    def send_async(self, data: bytes, callback: Callback, **_options: Any) -> None:
        """Answered at once, or when there is somebody to answer."""
        with self._stored.cluster.lock:
            if self._stored.cluster.stalled():
                self._stored.held.append((data, callback))
                return
            self._stored.add(data)
        callback(pulsar.Result.Ok, None)


class Consumer:
    """Stands for pulsar.Consumer and pulsar.Reader."""

    def __init__(self, stored: Stored, next_one: int) -> None:
        self._stored, self._next = stored, next_one

    def receive(self, timeout_millis: int) -> Received:
        """The next message; waits a moment only."""
        if self._next >= len(self._stored.kept):
            time.sleep(0.002)
            raise pulsar.Timeout("no message")
        self._next += 1
        return Received(self._stored.kept[self._next - 1], self._next)

    def acknowledge(self, _message: Received) -> None:
        """Nobody asks."""

    def unsubscribe(self) -> None:
        """Nobody asks."""

    def close(self) -> None:
        """Nobody asks."""
