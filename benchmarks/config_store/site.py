"""What the benchmark runs against: a real ZooKeeper, an admin endpoint a cluster, a real API server with etcd."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from benchmarks.config_store.broker import cluster_node
from benchmarks.config_store.statuses import Statuses
from benchmarks.objects.names import objects
from benchmarks.objects.world import CREATORS, Pulsar, World, endpoint, wait, world
from e2e.support.admin import ask
from pulsar_operator.domain.logical.pulsar_names import policies_node
from tests.support.processes.launching import stopped
from tests.support.processes.zookeeper import RealZooKeeper

CLUSTERS = ("east", "north", "south", "west")
HANGS = CLUSTERS[0]
"""The one that hangs: the first by name, which the operator asks first of what all clusters share."""
OTHERS = CLUSTERS[1:]
EVERY_FIFTH = 5
"""One namespace of so many is not in the cluster that hangs."""
BY_HAND = "by-hand"
"""The tenant whose namespaces nobody declares."""
NAMESPACES = objects("pulsarnamespaces")
POLL_SECONDS = 0.005
LIMIT_SECONDS = 120.0
"""Until a change that is not seen ends the run."""


@dataclass(frozen=True)
class Place:
    """A namespace."""

    tenant: str
    name: str

    @property
    def full(self) -> str:
        """As Pulsar calls it."""
        return f"{self.tenant}/{self.name}"

    @property
    def node(self) -> str:
        """Where ZooKeeper has its policies."""
        node = policies_node(self.tenant, self.name)
        assert node is not None
        return node


@dataclass
class Site:
    """The running servers."""

    world: World
    zookeeper: RealZooKeeper
    client: KazooClient
    brokers: Mapping[str, tuple[Pulsar, subprocess.Popen[bytes]]]
    statuses: Statuses
    tenants: int

    def place(self, number: int) -> Place:
        """The declared namespace of a number; its object has its name."""
        return Place(f"t{number % self.tenants:02d}", f"n{number:04d}")

    def clusters_of(self, number: int) -> Sequence[str]:
        """The clusters it is replicated between."""
        return OTHERS if number % EVERY_FIFTH == 0 else CLUSTERS

    def declare(self, first: int, last: int) -> None:
        """Create namespaces, and their tenants with the first of them."""
        if first == 0:
            for number in range(self.tenants):
                self.world.put("pulsartenants", f"t{number:02d}", {"instanceRef": {"name": "prod"}})

        def create(numbers: range) -> None:
            for number in numbers:
                place = self.place(number)
                spec = {
                    "tenantRef": {"name": place.tenant},
                    "replicationClusters": list(self.clusters_of(number)),
                    "policies": {"messageTTLSeconds": 3600, "maxConsumersPerTopic": 50},
                }
                self.world.put("pulsarnamespaces", place.name, spec)

        with ThreadPoolExecutor(CREATORS) as pool:
            list(pool.map(create, [range(first + n, last, CREATORS) for n in range(CREATORS)]))

    def make_by_hand(self, count: int) -> list[Place]:
        """Namespaces in all clusters that nobody declares."""
        url = self.brokers[HANGS][0].admin_url
        ask(url, "PUT", f"tenants/{BY_HAND}", {"adminRoles": [], "allowedClusters": list(CLUSTERS)})
        places = [Place(BY_HAND, f"n{number:02d}") for number in range(count)]
        for place in places:
            ask(url, "PUT", f"namespaces/{place.full}", {"replication_clusters": list(CLUSTERS)})
        return places

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """One cluster hangs until the block ends: its process is stopped, so that connections are accepted, and no call
        is answered."""
        _, process = self.brokers[HANGS]
        os.kill(process.pid, signal.SIGSTOP)
        try:
            wait(lambda: stopped(process.pid), 10, f"{HANGS} to hang", every=0.001)
            yield
        finally:
            os.kill(process.pid, signal.SIGCONT)

    def reachable(self, cluster: str) -> bool | None:
        """What the status of the instance says of a cluster."""
        status = self.world.api.request("GET", f"{objects('pulsarinstances')}/prod").body.get("status") or {}
        return next((row.get("reachable") for row in status.get("clusters") or () if row["name"] == cluster), None)

    # --------------------------------------------------------------------------------------------- one change

    def stored(self, place: Place, ttl: int) -> float:
        """Wait until ZooKeeper has a value of the policy that changes; when it was seen."""
        end = time.monotonic() + LIMIT_SECONDS
        while True:
            changed = threading.Event()
            data, _ = self.client.get(place.node, watch=lambda _, tell=changed.set: tell())
            if json.loads(data).get("message_ttl_in_seconds") == ttl:
                return time.monotonic()
            if not changed.wait(end - time.monotonic()):
                raise RuntimeError(f"{place.full} was not changed in ZooKeeper")

    def answered(self, cluster: str, place: Place, ttl: int) -> float:
        """Wait until a cluster answers with a value of the policy that changes; when it did."""
        url, end = self.brokers[cluster][0].admin_url, time.monotonic() + LIMIT_SECONDS
        while ask(url, "GET", f"namespaces/{place.full}").get("message_ttl_in_seconds") != ttl:
            if time.monotonic() > end:
                raise RuntimeError(f"cluster {cluster} does not show the change of {place.full}")
            time.sleep(POLL_SECONDS)
        return time.monotonic()

    def follow(
        self, place: Place, ttl: int, clusters: Sequence[str], change: Callable[[], Any]
    ) -> tuple[float, float, dict[str, float], Any]:
        """Make a change and wait for it in ZooKeeper, then in clusters: when it began, when it was where, and what it
        answered."""
        begin = time.monotonic()
        answer = change()
        stored = self.stored(place, ttl)
        with ThreadPoolExecutor(len(clusters)) as pool:
            seen = pool.map(lambda cluster: self.answered(cluster, place, ttl), clusters)
            return begin, stored - begin, {c: at - begin for c, at in zip(clusters, seen, strict=True)}, answer


@contextlib.contextmanager
def site(folder: Path, tenants: int) -> Iterator[Site]:
    """ZooKeeper, the clusters, the API server with an instance of them. Needs ``make tools``."""
    with contextlib.ExitStack() as stack:
        zookeeper = stack.enter_context(RealZooKeeper(traced=True))
        client = KazooClient(hosts=zookeeper.servers, timeout=10)
        client.start(timeout=30)
        stack.callback(client.close)
        stack.callback(client.stop)
        for cluster in CLUSTERS:
            client.create(cluster_node(cluster), b"{}", makepath=True)
        brokers = {
            cluster: stack.enter_context(
                endpoint(
                    folder,
                    cluster,
                    zookeeper.servers,
                    cluster,
                    ",".join(CLUSTERS),
                    module="benchmarks.config_store.broker",
                )
            )
            for cluster in CLUSTERS
        }
        pulsars = [pulsar for pulsar, _ in brokers.values()]
        found = stack.enter_context(world(folder, pulsars, store=zookeeper.servers))
        statuses = stack.enter_context(Statuses(found.api, NAMESPACES))
        yield Site(found, zookeeper, client, brokers, statuses, tenants)
