"""``python -m benchmarks.objects [--sizes 1000,5000,10000]``: the bars P1 to P4, one table, raw figures as CSV.

P1 converge N topics from the operator's start with the objects there, and one PulsarTopicSet of N topics; P2 one
change to its status, idle and during a bulk create; P3 memory; P4 a restart, and rest. Beside it the same load on a
model of the peer's way (peer.py).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.objects.figures import Table
from benchmarks.objects.measure import BUSY, Load, measure, measure_peer
from benchmarks.objects.sets import measure_set
from benchmarks.objects.world import Pulsar, World, in_memory_pulsar, pulsar_at, standalone_pulsar, world

SPEC = {
    "namespaceRef": {"name": "orders"},
    "policies": {
        "messageTTLSeconds": 3600,
        "maxConsumers": 50,
        "retention": {"timeMinutes": 1440, "size": "20Gi"},
    },
    "properties": {"team": "orders", "cost-centre": "12"},
}
"""What P1 is about: three policies and two properties."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run all parts for every size and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.objects", description=__doc__)
    parser.add_argument("--sizes", default="1000,5000,10000", help="numbers of topics")
    parser.add_argument("--workers", type=int, help="reconcile passes at once (the operator's default)")
    parser.add_argument("--changes", type=int, default=100, help="single changes timed for P2")
    parser.add_argument("--foreign", type=int, default=10000, help="foreign objects for P3")
    parser.add_argument("--peer", default="1000", help="numbers of topics for the model of the peer; empty = none")
    parser.add_argument("--sets", default="1000,10000", help="numbers of topics of one PulsarTopicSet; empty = none")
    parser.add_argument("--spec", type=json.loads, default={}, help="more of the topics' spec, as JSON")
    parser.add_argument("--csv", type=Path, default=Path("build/benchmarks/objects.csv"))
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--admin-url", help="a Pulsar without authentication, instead of the endpoint in memory")
    where.add_argument("--standalone", action="store_true", help="a real Pulsar standalone, started for the run")
    options = parser.parse_args(argv)
    table = Table()
    sizes, peers, sets = _numbers(options.sizes), _numbers(options.peer), _numbers(options.sets)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors before the run", flush=True)
    for size in sizes:
        with _world(options) as found:
            load = Load(table, size, {**SPEC, **options.spec}, options.changes, options.foreign, options.workers)
            measure(found, load)
    for size in sets:
        with _world(options) as found:
            measure_set(found, Load(table, size, {**SPEC, **options.spec}, 0, 0, options.workers))
    for size in peers:
        with _world(options) as found:
            measure_peer(found, Load(table, size, {**SPEC, **options.spec}, max(1, options.changes // 5), 0, None))
    if len(sizes) > 1:
        table.slopes("operator", sizes, BUSY)
        table.slopes("operator", sizes, "P1 start until every topic is Ready")
    table.write(options.csv)
    table.print()
    print(f"load average {os.getloadavg()[0]:.1f} after the run; raw: {options.csv}")
    return 0


@contextlib.contextmanager
def _world(options: argparse.Namespace) -> Iterator[World]:
    with (
        tempfile.TemporaryDirectory(prefix="bench-objects-") as folder,
        _pulsar(options, Path(folder)) as pulsar,
        world(Path(folder), [pulsar]) as found,
    ):
        found.prepare_topics()
        yield found


@contextlib.contextmanager
def _pulsar(options: argparse.Namespace, folder: Path) -> Iterator[Pulsar]:
    if options.admin_url:
        yield pulsar_at(options.admin_url)
        return
    with (standalone_pulsar if options.standalone else in_memory_pulsar)(folder) as pulsar:
        yield pulsar


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


if __name__ == "__main__":
    sys.exit(main())
