"""Clusters of one instance in memory, which replicate: admin REST, clients and the fault command of a check.

Messages travel the moment they are stored, or once the brokers of the other cluster are there. A replicated
subscription's position travels with every third acknowledgement.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pulsar

from pulsar_conformance.admin import AdminError
from tests.fakes.pulsar_client import Received

Callback = Callable[[Any, object], None]
HERE, THERE, FOREIGN = "east", "west", "north"
ADMIN = {f"http://{name}:8080": name for name in (HERE, THERE, FOREIGN)}
SERVICE = {f"pulsar://{name}:6650": name for name in (HERE, THERE, FOREIGN)}
_TOPIC = re.compile(r"(?P<topic>persistent/[^/]+/[^/]+/[^/]+)(/(?P<what>partitions|internalStats|stats|replication))?")
_NAMESPACE = re.compile(r"namespaces/(?P<name>[^/]+/[^/]+)(/(?P<policy>\w+))?")


@dataclass
class Topic:
    """What one cluster has of a topic: messages in order, and how many of them each subscription has behind it."""

    kept: list[bytes] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=dict)


class Instance:
    """All clusters of it, two unless others are named.

    ``stores_twice`` are messages that the other cluster stores twice, ``forgets`` whether what waited for a cluster is
    lost, ``needs_store`` whether topics in use stop being replicated with the configuration store.
    """

    def __init__(self, *clusters: str) -> None:
        self.clusters = clusters or (HERE, THERE)
        self.lock = threading.RLock()
        self.tenants: dict[str, Any] = {}
        self.policies: dict[str, dict[str, Any]] = {}
        self.partitions: dict[str, int] = {}
        self.topics: dict[tuple[str, str], Topic] = {}
        self.waiting: list[tuple[str, str, bytes]] = []
        self.gone: set[str] = set()
        self.done: list[str] = []
        self.stores_twice: set[bytes] = set()
        self.forgets = False
        self.needs_store = False

    # --- the fault command

    def fault(self, action: str, target: str) -> str:
        """What a command would do."""
        with self.lock:
            self.done.append(f"{action} {target}")
            if action == "resume":
                self.gone.discard(target)
                waiting, self.waiting = self.waiting, []
                for cluster, topic, data in waiting:
                    if not self.forgets:
                        self._store(cluster, topic, data)
            else:
                self.gone.add(target)
        return target

    def _away(self, cluster: str) -> bool:
        return (cluster == THERE and "remote-brokers" in self.gone) or (
            self.needs_store and "configuration-store" in self.gone
        )

    # --- messages

    def topic(self, cluster: str, name: str) -> Topic:
        """What a cluster has of a topic. Raises pulsar.PulsarException where its namespace is not of that cluster."""
        namespace = name.split("://")[1].rpartition("/")[0]
        if cluster not in self.policies[namespace]["replication_clusters"]:
            raise pulsar.TopicNotFound(f"Namespace missing local cluster name: {cluster}")
        return self.topics.setdefault((cluster, name), Topic())

    def publish(self, cluster: str, name: str, data: bytes, clusters: list[str] | None) -> None:
        """Store a message, and let it go to the other clusters that it is for."""
        with self.lock:
            self._store(cluster, name, data)
            namespace = name.split("://")[1].rpartition("/")[0]
            for other in self.policies[namespace]["replication_clusters"]:
                if other != cluster and (clusters is None or other in clusters):
                    if self._away(other) or self._away(cluster):
                        self.waiting.append((other, name, data))
                    else:
                        self._store(other, name, data)

    def _store(self, cluster: str, name: str, data: bytes) -> None:
        self.topic(cluster, name).kept.append(data)
        if data in self.stores_twice and cluster == THERE:
            self.topic(cluster, name).kept.append(data)

    # --- admin REST

    def call(self, url: str, method: str, path: str, body: Any = None, **_query: Any) -> Any:
        """One call of what a check of several clusters asks."""
        cluster = ADMIN[url]
        if path == "clusters":
            return sorted(self.clusters)
        if found := _NAMESPACE.fullmatch(path):
            return self._namespace(method, found["name"], found["policy"], body)
        if path.startswith("tenants/"):
            return self._tenant(method, path.partition("/")[2], body)
        if (found := _TOPIC.fullmatch(path)) and (method, found["what"]) not in (("GET", None), ("DELETE", None)):
            return self._of_topic(cluster, method, found["topic"].replace("/", "://", 1), found["what"], body)
        return None

    def _namespace(self, method: str, name: str, policy: str | None, body: Any) -> Any:
        if method == "PUT":
            found = {"replication_clusters": [self.clusters[0]], **(body or {})}
            self._known(found["replication_clusters"], 403, name)
            self.policies[name] = found
        elif method == "POST":
            if policy == "replication":
                self._known(body, 403, name)
            self.policies[name][str(policy)] = body
        elif method == "GET":
            if name not in self.policies:
                raise AdminError(404, name, "no namespace")
            found = self.policies[name]
            return {
                "replication": found["replication_clusters"],
                "messageTTL": found.get("messageTTL", found.get("message_ttl_in_seconds")),
            }.get(str(policy))
        return None

    def _tenant(self, method: str, name: str, body: Any) -> Any:
        if method == "GET":
            if name not in self.tenants:
                raise AdminError(404, name, "no tenant")
            return self.tenants[name]
        if method == "PUT":
            self._known(body["allowedClusters"], 412, name)
            self.tenants[name] = body
        else:
            self.tenants.pop(name, None)
        return None

    def _known(self, names: list[str], status: int, what: str) -> None:
        if not set(names) <= set(self.clusters):
            raise AdminError(status, what, "no such cluster")

    def _of_topic(self, cluster: str, method: str, name: str, what: str | None, body: Any) -> Any:
        if what == "partitions":
            if method == "GET":
                return {"partitions": self.partitions[name]}
            if "configuration-store" in self.gone:
                self._traffic()
                raise AdminError(500, name, "ConnectionLoss")
            self.partitions[name] = body
            return None
        if what == "replication":
            self._known(body, 403, name)
            return None
        with self.lock:
            if method == "PUT":
                if (cluster, name) in self.topics:
                    raise AdminError(409, name, "exists")
                self.topic(cluster, name)
                return None
            found = self.topic(cluster, name)
            if what == "internalStats":
                places = {name: {"markDeletePosition": f"5:{at}"} for name, at in found.positions.items()}
                return {"numberOfEntries": len(found.kept), "cursors": places}
            waits = sum(topic == name for _cluster, topic, _data in self.waiting)
            shared = self.policies[name.split("://")[1].rpartition("/")[0]]["replication_clusters"]
            others = {other: {"connected": not self._away(other), "replicationBacklog": waits} for other in shared}
            return {"replication": {other: told for other, told in others.items() if other != cluster}}

    def _traffic(self) -> None:
        """Wait until as much was sent as a check expects in that time, however slow this machine is."""
        begin, before = time.monotonic(), self._counted()
        while time.monotonic() - begin < (0.3 if self.needs_store else 20):
            seen = self._counted()
            if min((now - then for now, then in zip(seen, before, strict=True)), default=0) > 20:
                return
            time.sleep(0.005)

    def _counted(self) -> list[int]:
        with self.lock:
            return [len(topic.kept) for topic in self.topics.values()]


class Client:
    """Stands for pulsar.Client of one cluster."""

    def __init__(self, instance: Instance, service_url: str) -> None:
        self._instance, self._cluster = instance, SERVICE[service_url]

    def create_producer(self, topic: str, **_options: Any) -> Producer:
        """See pulsar.Client."""
        self._instance.topic(self._cluster, topic)
        return Producer(self._instance, self._cluster, topic)

    def subscribe(
        self,
        topic: str,
        subscription: str,
        *,
        initial_position: Any = None,
        replicate_subscription_state_enabled: bool = False,
        **_options: Any,
    ) -> Consumer:
        """See pulsar.Client."""
        found = self._instance.topic(self._cluster, topic)
        start = 0 if initial_position == pulsar.InitialPosition.Earliest else len(found.kept)
        found.positions.setdefault(subscription, start)
        return Consumer(self._instance, self._cluster, topic, subscription, replicate_subscription_state_enabled)

    def close(self) -> None:
        """Nothing to close."""


class Producer:
    """Stands for pulsar.Producer."""

    def __init__(self, instance: Instance, cluster: str, topic: str) -> None:
        self._instance, self._cluster, self._topic = instance, cluster, topic

    def send(
        self,
        data: bytes,
        *,
        replication_clusters: list[str] | None = None,
        disable_replication: bool = False,
        **_options: Any,
    ) -> None:
        """Stored when it returns."""
        self._instance.publish(self._cluster, self._topic, data, [] if disable_replication else replication_clusters)

    def send_async(self, data: bytes, callback: Callback, **options: Any) -> None:
        """Answered at once."""
        self.send(data, **options)
        callback(pulsar.Result.Ok, None)


class Consumer:
    """Stands for pulsar.Consumer."""

    def __init__(self, instance: Instance, cluster: str, topic: str, subscription: str, replicated: bool) -> None:
        self._instance, self._cluster, self._name, self._subscription = instance, cluster, topic, subscription
        self._topic, self._replicated = instance.topic(cluster, topic), replicated
        self._next = self._topic.positions[subscription]

    def receive(self, timeout_millis: int) -> Received:
        """The next message; waits a moment only."""
        if self._next >= len(self._topic.kept):
            time.sleep(0.002)
            raise pulsar.Timeout("no message")
        self._next += 1
        return Received(self._topic.kept[self._next - 1], self._next)

    def acknowledge(self, message: Received) -> None:
        """The position goes on, and at times in the other cluster too."""
        at = message.message_id().entry_id()
        with self._instance.lock:
            self._topic.positions[self._subscription] = at
            if self._replicated and at % 3 == 0:
                self._instance.topic(THERE, self._name).positions[self._subscription] = at - 2

    def unsubscribe(self) -> None:
        """Nobody asks."""

    def close(self) -> None:
        """Nobody asks."""
