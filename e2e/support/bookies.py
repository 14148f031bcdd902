"""The bookies of a cluster as a user sees them, and, for what the operator does not do, by their own HTTP servers and
the metadata store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from e2e.support.admin import ask
from e2e.support.kubectl import Kubectl
from e2e.support.objects import condition
from e2e.support.writes import port_forward

COPIES = {"ensembleSize": 2, "writeQuorum": 2, "ackQuorum": 2}
_NO_LEDGERS = {"available", "cookies", "underreplication", "INSTANCEID", "LAYOUT", "idgen"}


@dataclass
class Bookies:
    """Those of one cluster."""

    kubectl: Kubectl
    namespace: str
    cluster: str = "east"
    steps: set[str] = field(default_factory=set)
    """Steps of bookies on their way out that were seen so far."""

    def status(self) -> dict[str, Any]:
        """The PulsarCluster."""
        found = self.kubectl.get("pulsarcluster", self.namespace, self.cluster)
        assert found is not None
        return found

    def told(self, kind: str) -> dict[str, Any]:
        """A condition of the cluster."""
        return condition(self.status(), kind)

    def rows(self) -> list[dict[str, Any]]:
        """What the status has of each bookie; takes down the steps."""
        found: list[dict[str, Any]] = self.status()["status"].get("bookies", [])
        self.steps |= {row["step"] for row in found if row.get("step")}
        return found

    def pods(self) -> dict[str, str]:
        """UID by name of the pods."""
        found = self.kubectl.items("pods", self.namespace, "app.kubernetes.io/component=bookie")
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}

    def claims(self) -> dict[str, str]:
        """UID by name of the claims of their volumes."""
        found = self.kubectl.items("pvc", self.namespace, "app.kubernetes.io/component=bookie")
        return {claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in found}

    def are(self, number: int) -> bool:
        """Whether so many are there, up and writable, and none is on its way out."""
        seen = [(row.get("ordinal"), row["state"], row.get("step")) for row in self.rows()]
        return seen == [(n, "Writable", None) for n in range(number)] and len(self.pods()) == number

    def scaling(self) -> dict[str, Any]:
        """What the status says of their number."""
        return dict((self.status()["status"].get("autoscaling") or {}).get("bookkeeper") or {})

    def decided(self, number: int, *reasons: str) -> bool:
        """So many, decided for one of these reasons, there and writable. Raises AssertionError with what is not so."""
        found = self.scaling()
        assert (found.get("desired"), found.get("current")) == (number, number), json.dumps(found)
        assert found["reason"] in reasons, json.dumps(found)
        assert self.are(number), self.rows()
        return True

    def patch(self, **bookkeeper: object) -> None:
        """Change ``spec.bookkeeper``, and wait for nothing."""
        body = json.dumps({"spec": {"bookkeeper": bookkeeper}})
        self.kubectl.run("patch", "pulsarcluster", self.cluster, "-n", self.namespace, "--type=merge", "-p", body)

    def events(self, word: str) -> list[str]:
        """Messages of events that have a word in message or reason, each once."""
        found = self.kubectl.items("events", self.namespace)
        return list(dict.fromkeys(e["message"] for e in found if word in e["message"] or word == e["reason"]))

    def name(self, ordinal: int) -> str:
        """Pod of a bookie."""
        return f"{self.cluster}-bookie-{ordinal}"

    def id(self, ordinal: int) -> str:
        """What a bookie registers as, by now: each time that it comes back empty it has another id."""
        return str([row["id"] for row in self.rows() if row.get("ordinal") == ordinal][-1])

    def put(self, pod: str, path: str, body: object) -> str:
        """PUT at BookKeeper's HTTP server of a pod, through the API server."""
        url = f"/api/v1/namespaces/{self.namespace}/pods/{pod}:8000/proxy/api/v1/{path}"
        return self.kubectl.run("replace", "--raw", url, "-f", "-", stdin=json.dumps(body))

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The metadata store of the cluster."""
        with port_forward(self.kubectl, self.namespace, f"pod/{self.cluster}-zookeeper-0", 2181) as port:
            client = KazooClient(hosts=f"127.0.0.1:{port}")
            client.start(timeout=20)
            try:
                yield Store(client)
            finally:
                client.stop()
                client.close()


@dataclass(frozen=True)
class Store:
    """What BookKeeper keeps in ZooKeeper, by a client of this process."""

    client: KazooClient

    def naming(self, bookie: str, owner: str) -> list[str]:
        """Znodes of the ledgers that name a bookie and belong to a topic whose name, ``<tenant>/<namespace>/persistent/
        <topic>``, begins so. One without entries may name it for ever."""
        found, todo = [], [f"/ledgers/{each}" for each in self._below("/ledgers") if each not in _NO_LEDGERS]
        while todo:
            path = todo.pop()
            todo += [f"{path}/{each}" for each in self._below(path)]
            try:
                data, _ = self.client.get(path)
            except NoNodeError:
                continue
            if bookie.encode() in data and owner.encode() in data:
                found.append(path)
        return sorted(found)

    def forget(self, bookie: str) -> None:
        """Delete the cookie of a bookie."""
        self.client.delete(f"/ledgers/cookies/{bookie}")

    def count(self, ordinal: int, number: int) -> None:
        """What the bookie of that ordinal becomes when it starts empty: an incarnation of this number, as if nobody
        had it before."""
        path = "/pulsar-operator/bookie-incarnations"
        data, stat = self.client.get(path)
        counts = {**json.loads(data), str(ordinal): {"number": number, "seen": number - 1}}
        self.client.set(path, json.dumps(counts).encode(), version=stat.version)

    def writable(self, bookie: str) -> bool:
        """Whether a bookie is registered as writable."""
        return (
            self.client.exists(f"/ledgers/available/{bookie}") is not None
            and self.client.exists(f"/ledgers/available/readonly/{bookie}") is None
        )

    def _below(self, path: str) -> list[str]:
        try:
            found: list[str] = self.client.get_children(path)
        except NoNodeError:
            return []
        return found


def ensembles(admin_url: str, topic: str, cluster: str = "east") -> list[set[int]]:
    """Ordinals of the bookies of each segment of each ledger of a topic that a broker has."""
    stats = ask(admin_url, "GET", f"{topic.replace('://', '/', 1)}/internalStats?metadata=true")
    texts = [ledger["metadata"] for ledger in stats["ledgers"] if ledger.get("metadata")]
    assert texts, json.dumps(stats)
    # LedgerMetadata{..., allEnsembles={0=[<id>, <id>]}, ...}
    segments = [found for text in texts for found in re.findall(rf"\[([^\]]*{cluster}-bookie-[^\]]*)\]", text)]
    return [{int(number) for number in re.findall(rf"{cluster}-bookie-(\d+)\.", each)} for each in segments]
