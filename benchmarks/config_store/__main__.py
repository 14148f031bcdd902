"""``python -m benchmarks.config_store [--quick]``: bar P10, one table, raw figures as CSV.

Four clusters of one instance, whose configuration store is a real ZooKeeper, 50 tenants, 500 namespaces: what one
change of a policy costs, counted with ever more namespaces there; how long it takes until ZooKeeper has it, until every
cluster answers with it and until its status says so; and the same while one cluster accepts calls and answers none. The
bound is the same change by hand: one call, and a look at each cluster.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.config_store.changes import write
from benchmarks.config_store.measure import Load, converge, count, measure
from benchmarks.config_store.site import CLUSTERS, site
from benchmarks.objects.figures import Table
from benchmarks.objects.measure import LIMIT
from benchmarks.objects.world import operator, wait
from pulsar_operator.api.constants import Kind

NEVER_SECONDS = 7 * 86400


def main(argv: Sequence[str] | None = None) -> int:
    """Run all parts and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.config_store", description=__doc__)
    parser.add_argument("--sizes", default="50,200,500", help="numbers of namespaces; times are taken with the last")
    parser.add_argument("--tenants", type=int, default=50)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--changes", type=int, default=30, help="changes of a run")
    parser.add_argument("--quick", action="store_true", help="10 tenants, 20 and 50 namespaces, 2 runs of 6 changes")
    parser.add_argument("--csv", type=Path, default=Path("build/benchmarks/config_store.csv"))
    options = parser.parse_args(argv)
    if options.quick:
        options.sizes, options.tenants, options.runs, options.changes = "20,50", 10, 2, 6
    sizes = sorted(int(each) for each in options.sizes.split(","))
    load = Load(Table(sized="namespaces"), sizes[-1], options.runs, options.changes)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors before the run", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="bench-config-store-") as folder,
        site(Path(folder), options.tenants) as found,
    ):
        # What a change costs is counted without looks whose time has come.
        with operator(found.world, also=[Kind.INSTANCE], resync=NEVER_SECONDS) as running:
            for before, size in zip((0, *sizes), sizes, strict=False):
                found.declare(before, size)
                print(f"         {size} namespaces are Ready after {converge(found, running, size):.1f} s", flush=True)
                count(found, load, running, size)
        with operator(found.world, also=[Kind.INSTANCE]) as running:
            wait(running.is_ready, LIMIT, "the operator to know all again")
            measure(found, load, running)
    write(options.csv, load.found, CLUSTERS)
    figures = options.csv.with_stem(f"{options.csv.stem}-figures")
    load.table.write(figures)
    load.table.print()
    print(f"load average {os.getloadavg()[0]:.1f} after the run; raw: {options.csv}, {figures}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
