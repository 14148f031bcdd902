"""What the benchmark runs against: a real API server with etcd, a Pulsar or an admin endpoint that plays one, and the
operator, or the model of the peer, as a process."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.objects.names import KINDS, NAMESPACE, TOPICS, objects
from benchmarks.objects.pulsar_server import CLUSTER
from e2e.kind.paths import paths
from e2e.support.admin import ask
from pulsar_operator.api.constants import API_VERSION, Kind
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.control_plane import running_apiserver
from tests.support.processes.launching import free_ports
from tests.support.processes.operator import environment
from tests.support.standalone.server import SERIAL, open_standalone

ROOT = Path(__file__).resolve().parents[2]
CREATORS = 8
"""Connections that create objects; enough to keep the API server busy."""
START_SECONDS = 180.0
"""Within which the admin endpoint starts: a second on an idle machine, a minute on a busy one."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Pulsar:
    """Where the topics are made."""

    admin_url: str
    cluster: str
    """Name of the cluster inside Pulsar."""
    counts: bool
    """Whether it counts the calls it answers."""

    def counted(self, how: str) -> Counter[str]:
        """The calls it answered so far; ``how``: see pulsar_server.serve."""
        with urllib.request.urlopen(f"{self.admin_url}/{how}") as answer:
            return Counter(json.load(answer))


@dataclass
class World:
    """The running servers."""

    api: ApiServer
    pulsars: Sequence[Pulsar]
    """The clusters of the instance."""
    folder: Path

    @property
    def pulsar(self) -> Pulsar:
        """The first cluster."""
        return self.pulsars[0]

    def admin_counts(self, running: Running | None) -> Counter[str]:
        """Calls the admin endpoint answered so far, by method and path without names; of a real Pulsar, the calls the
        operator made, which begin with its process."""
        if not self.pulsar.counts:
            return Counter({"all": int(running.metric("pulsar_operator_admin_calls_total")) if running else 0})
        return self.pulsar.counted("counts")

    def must(self, method: str, path: str, body: Json, **options: Any) -> Json:
        """A request that must succeed."""
        answer = self.api.request(method, path, body, **options)
        if answer.code >= 300:
            raise RuntimeError(f"{method} {path}: {answer.code} {answer.message}")
        return answer.body

    def put(self, plural: str, name: str, spec: Json, status: Json | None = None) -> None:
        """Create a custom resource, with a status where the benchmark plays its controller."""
        base = objects(plural)
        body = {"apiVersion": API_VERSION, "kind": KINDS[plural], "metadata": {"name": name}, "spec": spec}
        self.must("POST", base, body)
        if status is not None:
            patch = {"status": status}
            self.must("PATCH", f"{base}/{name}/status", patch, content_type="application/merge-patch+json")

    def prepare(self, store: str) -> None:
        """An instance with its configuration store, and its clusters, which are said to be ready."""
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        ready = {"status": "True", "reason": "Ready", "message": "", "lastTransitionTime": now}
        self.put("pulsarinstances", "prod", {"configurationStore": {"external": {"servers": store}}})
        for pulsar in self.pulsars:
            cluster = {
                "instanceRef": {"name": "prod"},
                "clusterName": pulsar.cluster,
                "metadataStore": {"external": {"servers": "zk:2181"}},
                "bookkeeper": {"replicas": 1, "journal": {"size": "1Gi"}, "ledgers": {"size": "1Gi"}},
                "broker": {"replicas": 1},
            }
            status = {
                "endpoints": {"brokerWebServiceUrl": pulsar.admin_url},
                "broker": {"desired": 1, "ready": 1, "updated": 1},
                "version": "4.0.8",
                "conditions": [{"type": kind, **ready} for kind in ("BrokersReady", "Ready")],
            }
            self.put("pulsarclusters", pulsar.cluster, cluster, status)

    def prepare_topics(self) -> None:
        """What all topics need: a tenant and a namespace."""
        self.put("pulsartenants", "team", {"instanceRef": {"name": "prod"}})
        self.put("pulsarnamespaces", "orders", {"tenantRef": {"name": "team"}})

    def create_topics(self, first: int, last: int, spec: Json) -> float:
        """Create topics ``t00000`` ...; returns objects per second."""
        begin = time.monotonic()

        def create(numbers: range) -> None:
            for number in numbers:
                self.put("pulsartopics", f"t{number:05d}", spec)

        with concurrent.futures.ThreadPoolExecutor(CREATORS) as pool:
            list(pool.map(create, [range(first + n, last, CREATORS) for n in range(CREATORS)]))
        return (last - first) / (time.monotonic() - begin)

    def listed(self, path: str = TOPICS) -> list[Json]:
        """All objects of a kind, in pages."""
        out: list[Json] = []
        token = ""
        while True:
            query = {"limit": "1000"} | ({"continue": token} if token else {})
            page = self.api.request("GET", path, query=query, timeout=120).body
            out += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return out


@dataclass
class Running:
    """The operator's process."""

    process: subprocess.Popen[bytes]
    started: float
    health: int
    metrics: int

    def rss_mib(self, field: str = "VmRSS") -> float:
        """Resident memory (VmRSS) or its peak (VmHWM), in MiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
        assert found is not None
        return int(found.group(1)) / 1024

    def cpu_seconds(self) -> float:
        """Processor time used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def metric(self, name: str, **labels: str) -> float:
        """Sum of a metric's samples with these labels; 0 while nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return 0.0
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if line.startswith((f"{name}{{", f"{name} ")) and all(text in line for text in wanted)
        )

    def is_ready(self) -> bool:
        """Whether every object found at the start has had its first pass."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/readyz", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextlib.contextmanager
def endpoint(
    folder: Path, cluster: str, *arguments: str, module: str = "benchmarks.objects.pulsar_server"
) -> Iterator[tuple[Pulsar, subprocess.Popen[bytes]]]:
    """A process that serves the admin REST of a cluster, and tells its port in the file that is its first argument."""
    port_file = folder / f"admin-port-{cluster}"
    server = subprocess.Popen([sys.executable, "-m", module, str(port_file), *arguments], cwd=ROOT)
    try:
        wait(
            lambda: port_file.exists() and port_file.read_text() != "",
            START_SECONDS,
            f"the admin endpoint of {cluster}",
        )
        yield Pulsar(f"http://127.0.0.1:{port_file.read_text()}", cluster, counts=True), server
    finally:
        server.terminate()
        server.wait(10)


@contextlib.contextmanager
def in_memory_pulsar(folder: Path) -> Iterator[Pulsar]:
    """The admin endpoint that answers in 5 ms."""
    with endpoint(folder, CLUSTER) as (pulsar, _):
        yield pulsar


@contextlib.contextmanager
def standalone_pulsar(folder: Path) -> Iterator[Pulsar]:
    """A real Pulsar standalone for this run, without authentication. Needs ``python -m e2e.kind tools``."""
    with open_standalone(paths().pulsar_home, folder / "pulsar", jvm=SERIAL) as running:
        yield pulsar_at(running.admin_url)


def pulsar_at(admin_url: str) -> Pulsar:
    """A Pulsar that runs already, without authentication."""
    names = [name for name in ask(admin_url, "GET", "clusters") if name != "global"]
    return Pulsar(admin_url, names[0], counts=False)


@contextlib.contextmanager
def world(folder: Path, pulsars: Sequence[Pulsar], *, store: str = "zk:2181") -> Iterator[World]:
    """API server, definitions, an instance and its clusters; ``store``: servers of its configuration store."""
    with running_apiserver() as api:
        api.install_crds(ROOT / "crds")
        found = World(api, pulsars, folder)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        found.must("POST", "/api/v1/namespaces", body)
        found.prepare(store)
        yield found


@contextlib.contextmanager
def operator(
    found: World, *, workers: int | None = None, resync: float = 600, also: Sequence[Kind] = ()
) -> Iterator[Running]:
    """The operator until the block ends, with kinds besides the logical ones; its log goes to a file in the world's
    folder."""
    health, metrics = free_ports(2)
    environ = environment(
        found.api.kubeconfig,
        NAMESPACE,
        pod_name="bench",
        health_port=health,
        metrics_port=metrics,
        log_level="warning",
        resync_seconds=resync,
        **({} if workers is None else {"workers": workers}),
    )
    command = ("benchmarks.objects.logical_operator", *also)
    with _process(found, command, environ) as (process, started):
        yield Running(process, started, health, metrics)


@contextlib.contextmanager
def peer(found: World) -> Iterator[Running]:
    """The model of the peer until the block ends."""
    environ = {
        **os.environ,
        "PEER_KUBECONFIG": str(found.api.kubeconfig),
        "PEER_ADMIN_URL": found.pulsar.admin_url,
        "PEER_CLUSTER": found.pulsar.cluster,
        "PYTHONPATH": f"{ROOT}/operator:{ROOT}",
    }
    with _process(found, ("benchmarks.objects.peer",), environ) as (process, started):
        yield Running(process, started, 0, 0)


@contextlib.contextmanager
def _process(
    found: World, module: Sequence[str], environ: Mapping[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    with (found.folder / "operator.log").open("ab") as log:
        started = time.time()
        process = subprocess.Popen([sys.executable, "-m", *module], cwd=ROOT, env=environ, stdout=log, stderr=log)
        try:
            yield process, started
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait(probe: Any, within: float, what: str, *, every: float = 0.1) -> None:
    """Wait for something true. Raises RuntimeError naming it at the deadline."""
    deadline = time.monotonic() + within
    while not probe():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {within:.0f} s in vain for {what}")
        time.sleep(every)
