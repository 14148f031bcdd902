"""Memory and event loop of the operator while it reads the traffic of very many topics, idle, at a look, in a drain.

    python -m benchmarks.traffic [--topics 100000,1000000] [--brokers 50]

A kube-apiserver with etcd, brokers in a process of their own (benchmarks.traffic.brokers), and the operator in another
(benchmarks.traffic.watched_operator). Three times with each number of topics: a look for a proposal; a standing
rebalance, which looks again and again; and, while that goes on, a broker drained as a rollout drains it. Peaks are
VmHWM of the operator's process, set back before each part.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.objects.figures import Table
from benchmarks.objects.names import NAMESPACE, objects
from benchmarks.objects.world import Json, Pulsar, Running, World, _process, endpoint, wait, world
from benchmarks.traffic.brokers import CLUSTER
from pulsar_operator.api.constants import API_VERSION, PLURALS, Kind
from tests.support.processes.launching import free_ports
from tests.support.processes.operator import environment

LIMIT = 3600.0
MOST_MIB, MOST_STALL_MS = 256.0, 200.0
REBALANCES = objects(PLURALS[Kind.REBALANCE])
CLUSTERS = objects(PLURALS[Kind.CLUSTER])
STANDING_LOOKS = 1
LEASE_SECONDS = 300
"""Longer than usual: the API server of the benchmark shares the machine with all else."""


@dataclass
class Part:
    """One part of a run."""

    table: Table
    size: int
    running: Running
    gaps: Path

    @contextlib.contextmanager
    def measured(self, what: str) -> Iterator[None]:
        """Say what the operator's process took in the block."""
        Path(f"/proc/{self.running.process.pid}/clear_refs").write_text("5")
        began, spent = time.time(), self.running.cpu_seconds()
        yield
        say = self._say
        say(f"{what}: time", time.time() - began, "s")
        say(f"{what}: processor time", self.running.cpu_seconds() - spent, "s")
        say(f"{what}: peak resident", self.running.rss_mib("VmHWM"), "MiB", most=MOST_MIB)
        found = [line for line in self._noted() if line[0] >= began]
        own = max((gap for _, _, gap in found), default=0.0)
        say(f"{what}: longest stall of the event loop", 1000 * max((g for _, g, _ in found), default=0.0), "ms")
        say(f"{what}: the process's own time in the longest", 1000 * own, "ms", most=MOST_STALL_MS)

    def wait(self, probe: Callable[[], bool], what: str) -> None:
        """Wait for something while the operator runs. Raises RuntimeError where it ends."""

        def look() -> bool:
            if self.running.process.poll() is not None:
                raise RuntimeError(f"the operator ended while {what} was waited for")
            return probe()

        wait(look, LIMIT, what, every=1)

    def _say(self, figure: str, value: float, unit: str, *, most: float | None = None) -> None:
        self.table.say("operator", self.size, figure, value, unit, most=most)

    def _noted(self) -> list[tuple[float, float, float]]:
        lines = self.gaps.read_text().splitlines() if self.gaps.exists() else []
        fields = [line.split() for line in lines]
        return [(float(f[0]), float(f[1]), float(f[2])) for f in fields if len(f) == 3]


def main(argv: Sequence[str] | None = None) -> int:
    """Run every size and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.traffic", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--topics", default="100000,1000000", help="numbers of topics")
    parser.add_argument("--brokers", type=int, default=50)
    parser.add_argument("--bundles", type=int, default=16, help="of each of a hundred namespaces")
    parser.add_argument("--rate", type=float, default=10.0, help="million bytes a second of each broker")
    parser.add_argument("--patience", type=float, default=1.0, help="times the operator's limits, on a busy machine")
    parser.add_argument("--csv", type=Path, default=Path("build/benchmarks/traffic.csv"))
    options = parser.parse_args(argv)
    table = Table()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors before the run", flush=True)
    for size in map(int, options.topics.split(",")):
        _run(table, size, options)
    table.write(options.csv)
    table.print()
    print(f"load average {os.getloadavg()[0]:.1f} after the run; raw: {options.csv}")
    return 0


def _run(table: Table, size: int, options: argparse.Namespace) -> None:
    arguments = ("--topics", size, "--brokers", options.brokers, "--bundles", options.bundles, "--rate", options.rate)
    with (
        tempfile.TemporaryDirectory(prefix="bench-traffic-") as name,
        endpoint(Path(name), CLUSTER, *map(str, arguments), module="benchmarks.traffic.brokers") as (pulsar, _),
        world(Path(name), [pulsar]) as found,
        _operator(found, options.patience) as (running, gaps),
    ):
        part = Part(table, size, running, gaps)
        wait(running.is_ready, 300, "the operator to be ready")
        table.say("operator", size, "idle: resident", running.rss_mib(), "MiB")
        with part.measured("look"):
            _rebalance(found, "once", {"mode": "Full"})
            part.wait(lambda: _proposed(found, "once"), "a proposal")
        print(f"         {_condition(found, 'once', 'ProposalReady').get('message')}")
        _rebalance(found, "standing", {"mode": "Full", "repeatSeconds": 60})
        with part.measured("standing"):
            part.wait(lambda: _looks(pulsar) >= (1 + STANDING_LOOKS) * options.brokers, "looks")
        with part.measured("drain beside it"):
            _drain(part, found, pulsar)
        figures = _figures(pulsar)
        table.say("brokers", size, "longest answer", max(figures["sent"].values()) / (1 << 20), "MiB")
        table.say("brokers", size, "statistics of all", sum(figures["sent"].values()) / (1 << 20), "MiB")
        print(f"         requests: {figures['asked']}")


@contextlib.contextmanager
def _operator(found: World, patience: float) -> Iterator[tuple[Running, Path]]:
    health, metrics = free_ports(2)
    gaps = found.folder / "gaps"
    environ = environment(
        found.api.kubeconfig,
        NAMESPACE,
        pod_name="bench",
        health_port=health,
        metrics_port=metrics,
        log_level="warning",
        lease_seconds=LEASE_SECONDS,
        resync_seconds=600,
    )
    command = ("benchmarks.traffic.watched_operator", str(gaps), str(patience))
    with _process(found, command, environ) as (process, started):
        yield Running(process, started, health, metrics), gaps


def _rebalance(found: World, name: str, spec: Json) -> None:
    body = {"apiVersion": API_VERSION, "kind": Kind.REBALANCE.value, "metadata": {"name": name}}
    found.must("POST", REBALANCES, {**body, "spec": {"clusterRef": {"name": CLUSTER}, **spec}})


def _drain(part: Part, found: World, pulsar: Pulsar) -> None:
    """Empty one broker as a rollout does; the benchmark plays the cluster's part and keeps Pulsar's balancer off."""
    brokers = json.loads(_get(f"{pulsar.admin_url}/admin/v2/brokers"))
    budget = {"maxMoves": 1000, "maxTrafficMovedPercent": 100, "movesPerMinute": 600}
    errand = {"mode": "RemoveBrokers", "brokers": brokers[-1:], "autoApprove": True, "budget": budget}
    _rebalance(found, "drain", errand)
    status = {"balancer": {"disabledFor": f"{NAMESPACE}/drain", "before": {}}}
    found.must("PATCH", f"{CLUSTERS}/{CLUSTER}/status", {"status": status}, content_type="application/merge-patch+json")
    part.wait(lambda: _condition(found, "drain", "Completed").get("status") == "True", "the drain")
    left = json.loads(_get(f"http://{brokers[-1]}/admin/v2/brokers/{CLUSTER}/{brokers[-1]}/ownedNamespaces"))
    assert left == {}, "the drained broker has no bundle"


def _condition(found: World, name: str, kind: str) -> Json:
    live = found.api.request("GET", f"{REBALANCES}/{name}", None).body
    conditions: list[Json] = (live.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def _proposed(found: World, name: str) -> bool:
    ready = _condition(found, name, "ProposalReady")
    if ready.get("status") == "False":
        raise RuntimeError(f"no proposal: {ready.get('message')}")
    return ready.get("status") == "True"


def _looks(pulsar: Pulsar) -> int:
    return int(_figures(pulsar)["asked"].get("broker-stats/topics", 0))


def _figures(pulsar: Pulsar) -> Any:
    return json.loads(_get(f"{pulsar.admin_url}/figures"))


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        body: bytes = answer.read()
        return body


if __name__ == "__main__":
    sys.exit(main())
