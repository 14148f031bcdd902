"""``python -m benchmarks.spark.windows``: what an answer over windows of some lengths takes, when nothing is new.

The tables are those of history.py. Each run is a process of its own, as the CronJob has it: a new session with the
heap of the chart, which lists the landing files, finds nothing new and answers from the tables. Processor seconds of
Java and of Python, wall seconds and peak memory of each step. With ``--memory-group`` each run is in a control group
with the limit of the chart's pod, so that the kernel ends it where the pod would not be enough.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

from benchmarks.spark.history import recording_of
from benchmarks.spark.hour import Step, Steps, started
from benchmarks.spark.meter import Meter
from pulsar_sizing.job.pipeline import run
from pulsar_sizing.job.request import Request
from pulsar_sizing.job.snapshot import Snapshot, Tables
from pulsar_sizing.job.weights import busiest_hours
from pulsar_sizing.store import Store

POD = 2 << 30
"""Bytes of memory that the chart gives the job's pod."""
SPREAD = 1.1
"""Peak of the longest window over that of the shortest one, up to which memory does not depend on the window."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run each window, print, and write raw figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.windows", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="what benchmarks.spark.history wrote")
    parser.add_argument("--windows", default="7,30,90", help="days")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default="1g", help="of Spark's driver; the chart's default")
    parser.add_argument("--memory-group", type=Path, help="a memory group of control groups v1, to be made")
    parser.add_argument("--csv", type=Path, default=Path("build/benchmarks/windows.csv"))
    options = parser.parse_args(argv)
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    recording = recording_of(1, 1)
    store = Store(str(options.root.absolute()))
    tables = Tables(store, recording.instance, recording.cluster)
    snapshot = tables.load(Request(recording.instance, recording.cluster).parameters)
    topics = max(hour.samples // hour.rounds for hour in snapshot.hours.values())
    windows = [int(text) for text in options.windows.split(",")]
    check(snapshot, windows)
    rows: list[tuple[int, int, Step]] = []
    for days in windows:
        for number in range(1, options.runs + 1):
            # A run forgets what is older than its window.
            tables.publish(snapshot)
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                steps = process.submit(answer, options, days).result()
            rows += [(days, number, step) for step in steps]
            report(days, steps)
            save(options.csv, topics, rows)
    peaks = {days: max(step.peak_mb for each, _, step in rows if each == days) for days in windows}
    ratio = peaks[max(windows)] / peaks[min(windows)]
    print(f"peak by window: {', '.join(f'{days} days {peak:.0f} MB' for days, peak in peaks.items())}")
    print(f"pod of {POD / 1e6:.0f} MB: {'met' if max(peaks.values()) <= POD / 1e6 else 'missed'}")
    print(f"longest over shortest window: {ratio:.2f} (at most {SPREAD}: {'met' if ratio <= SPREAD else 'missed'})")
    print(f"raw: {options.csv}")
    return 0


def check(snapshot: Snapshot, windows: Sequence[int]) -> None:
    """Stop where windows have different busiest hours: the tables were made of those of all days."""
    last = max(snapshot.hours) + 1
    busy = {
        days: busiest_hours({unit: hour for unit, hour in snapshot.hours.items() if unit >= last - 24 * days})
        for days in (*windows, len(snapshot.hours))
    }
    if len(set(busy.values())) > 1:
        raise SystemExit(f"the busiest hours of windows differ: {busy}; make the tables with another seed")


def answer(options: argparse.Namespace, days: int) -> list[Step]:
    """One run, in this process: its steps, the start of its session first."""
    if options.memory_group:
        enter(options.memory_group)
    meter = Meter()
    recording = recording_of(1, 1)
    with tempfile.TemporaryDirectory(prefix="windows-", dir=options.csv.parent.absolute()) as folder:
        spark, start = started(meter, options.cores, Path(folder), options.memory)
        steps = Steps(meter)
        request = Request(recording.instance, recording.cluster, window_days=days)
        store = Store(str(options.root.absolute()))
        found = run(spark, store, request, now=datetime.now(UTC), unique=f"{time.time_ns():x}", say=steps)
        steps("result")
        spark.stop()
    if found.hours_made or found.hours_kept < 24 * days - 24:
        raise SystemExit(f"{found.hours_made} hours were made and {found.hours_kept} kept: the tables do not fit")
    if options.memory_group:
        left(options.memory_group)
    return [start, *steps.done]


def enter(group: Path) -> None:
    """Put this process, and all that it starts, into a group with the memory of the pod."""
    group.mkdir(exist_ok=True)
    (group / "memory.limit_in_bytes").write_text(str(POD))
    (group / "memory.max_usage_in_bytes").write_text("0")
    (group / "cgroup.procs").write_text(str(os.getpid()))


def left(group: Path) -> None:
    """Print what the kernel counted of a group. Pages of files that were read count too, until it needs room."""
    figures = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    most, ended = (group / name for name in ("memory.max_usage_in_bytes", "memory.oom_control"))
    print(f"  group: at most {int(most.read_text()) / 1e6:.0f} MB with pages of files that were read")
    own = int(figures["total_rss"]) / 1e6
    print(f"  own pages at the end {own:.0f} MB; {' '.join(ended.read_text().split())}", flush=True)


def report(days: int, steps: Sequence[Step]) -> None:
    """Print the sums of one run."""
    total = sum(step.java + step.python for step in steps[1:])
    wall = sum(step.wall for step in steps[1:])
    peak = max(step.peak_mb for step in steps)
    print(f"{days} days: {total:.1f} CPU s and {wall:.1f} s without session start, peak {peak:.0f} MB", flush=True)


def save(path: Path, topics: int, rows: Sequence[tuple[int, int, Step]]) -> None:
    """Write raw figures."""
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        heads = ["topics", "days", "run", "step", "wall_seconds", "java_cpu_seconds", "python_cpu_seconds", "peak_mb"]
        writer.writerow(heads)
        for days, number, each in rows:
            figures = (f"{value:.2f}" for value in (each.wall, each.java, each.python, each.peak_mb))
            writer.writerow([topics, days, number, each.name, *figures])


if __name__ == "__main__":
    sys.exit(main())
