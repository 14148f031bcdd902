"""``python -m benchmarks.spark.hour``: one hour of very many topics, from the collector's files to the job's answer.

A file for every broker and sample is written as the collector does, and the job makes its tables from them in one Spark
session, each time in full. Processor seconds of Java and of Python, wall seconds and peak memory of each step: the
first run, which starts cold as the CronJob does, and warm ones.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.spark.meter import Meter
from benchmarks.spark.traffic import Recording, write
from pulsar_sizing.job import session
from pulsar_sizing.job.pipeline import run
from pulsar_sizing.job.request import Request
from pulsar_sizing.store import Store

BAR, GOAL = 202.0, 100.0
"""Processor seconds for an hour of a million topics: what sorting and reading it took before the job wrote tables, and
half of that."""
STEPS = {
    "hours recorded": "list the landing files",
    "hours done": "hourly table, with facts of the hour, heavy topics and placement",
    "days added up (daily)": "daily table and namespaces",
    "days added up (quiet)": "quiet table",
    "traffic by the hour": "weights, totals, cells",
    "result": "boundaries and result",
}
"""What ends with a progress line that has these words."""


@dataclass(frozen=True)
class Step:
    """One step of a run."""

    name: str
    wall: float
    java: float
    python: float
    peak_mb: float


class Steps:
    """What each step of a run takes, by the job's progress lines."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._wall, self._spent = time.perf_counter(), meter.spent()
        self.done: list[Step] = []

    def __call__(self, text: str) -> None:
        """Take a progress line, and print what the step before it took."""
        wall, spent = time.perf_counter(), self._meter.spent()
        name = next((name for words, name in STEPS.items() if words in text), "")
        if name:
            java, python = spent.java - self._spent.java, spent.python - self._spent.python
            self.done.append(Step(name, wall - self._wall, java, python, spent.peak_mb))
            print(f"  {wall - self._wall:7.1f} s  {java:6.1f} + {python:6.1f} CPU s  {name}", flush=True)
            self._wall, self._spent = wall, spent


def main(argv: Sequence[str] | None = None) -> int:
    """Write, make tables, answer, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.hour", description=__doc__)
    parser.add_argument("--topics", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default="1g", help="of Spark's driver")
    parser.add_argument("--folder", type=Path, default=Path("build/benchmarks"))
    parser.add_argument("--recorded", type=Path, help="files of a run before, of the same number of topics")
    parser.add_argument("--csv", type=Path, default=Path("build/benchmarks/hour.csv"))
    options = parser.parse_args(argv)
    options.folder.mkdir(parents=True, exist_ok=True)
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hour-", dir=options.folder) as folder:
        recording = Recording(days=1, topics=options.topics, namespaces=40, brokers=10, bundles=256)
        root = (options.recorded or Path(folder) / "data").absolute()
        if not (root / "traffic").is_dir():
            write(recording, root, per_round=True, hours=recording.hours[14:15])
        files = list((root / "traffic").rglob("*.parquet"))
        size = sum(path.stat().st_size for path in files) / 1e9
        print(f"{options.topics} topics in {len(files)} files of {size:.2f} GB", flush=True)
        meter = Meter()
        spark, start = started(meter, options.cores, Path(folder) / "scratch", options.memory)
        store = Store(str(root))
        request = Request(recording.instance, recording.cluster, full=True, min_coverage_hours=0)
        runs: list[list[Step]] = []
        for number in range(options.runs):
            steps = Steps(meter)
            found = run(spark, store, request, now=datetime.now(UTC), unique=f"{number:06d}", say=steps)
            steps("result")
            runs.append(steps.done)
            assert found.result.samples == 60 * options.topics
            save(options.csv, options.topics, start, runs)
            report(steps.done, 60 * options.topics, first=not number)
        spark.stop()
    print(f"raw: {options.csv}")
    return 0


def started(meter: Meter, cores: int, scratch: Path, memory: str) -> tuple[SparkSession, Step]:
    """Returns a new local session, and what it took until it had answered once."""
    began, before = time.perf_counter(), meter.spent()
    spark = session.create(f"local[{cores}]", scratch, {}, memory=memory)
    spark.range(10).count()
    now = meter.spent()
    took = (now.java - before.java, now.python - before.python, now.peak_mb)
    start = Step("session start", time.perf_counter() - began, *took)
    print(f"  {start.wall:7.1f} s  {start.java:6.1f} + {start.python:6.1f} CPU s  {start.name}", flush=True)
    return spark, start


def report(steps: Sequence[Step], rows: int, *, first: bool) -> None:
    """Print the share of each step, and whether the run meets the bar."""
    total = sum(step.java + step.python for step in steps)
    for step in steps:
        print(f"  {(step.java + step.python) / total:6.1%}  {step.name}")
    bar, goal = (limit * rows / 6e7 for limit in (BAR, GOAL))
    limits = (("bar", bar), ("goal", goal))
    judged = ", ".join(f"{name} {limit:.0f}: {'met' if total <= limit else 'missed'}" for name, limit in limits)
    peak = max(step.peak_mb for step in steps)
    print(f"{'first run' if first else 'warm run'}: {total:.1f} CPU s ({judged}), peak {peak:.0f} MB", flush=True)


def save(path: Path, topics: int, start: Step, runs: Sequence[Sequence[Step]]) -> None:
    """Write raw figures."""
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["topics", "run", "step", "wall_seconds", "java_cpu_seconds", "python_cpu_seconds", "peak_mb"])
        for number, steps in enumerate(([start], *runs)):
            for each in steps:
                figures = (f"{value:.2f}" for value in (each.wall, each.java, each.python, each.peak_mb))
                writer.writerow([topics, number, each.name, *figures])


if __name__ == "__main__":
    sys.exit(main())
