"""``python -m benchmarks.spark.hour``: one hour of very many topics, from the collector's files to the job's answer.

A file for every broker and sample is written as the collector does, and the job makes its tables from them in one warm
Spark session, each time in full. Wall and CPU seconds of every run and of each of its steps.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.spark.__main__ import Meter
from benchmarks.spark.traffic import Recording, write
from pulsar_sizing.job import session
from pulsar_sizing.job.pipeline import run
from pulsar_sizing.job.request import Request
from pulsar_sizing.store import Store

BAR = 202.0
"""CPU seconds for an hour of a million topics: what sorting and reading it took before the job wrote tables."""


class Steps:
    """Wall and CPU seconds of each step of a run, by the job's progress lines."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._wall, self._cpu = time.perf_counter(), meter.cpu()
        self.wall = self.cpu = 0.0

    def __call__(self, text: str) -> None:
        """Print a progress line with what the step before it took."""
        wall, cpu = time.perf_counter(), self._meter.cpu()
        self.wall, self.cpu = self.wall + wall - self._wall, self.cpu + cpu - self._cpu
        print(f"  {wall - self._wall:7.1f} s  {cpu - self._cpu:7.1f} CPU s  {text}", flush=True)
        self._wall, self._cpu = wall, cpu


def main(argv: Sequence[str] | None = None) -> int:
    """Write, make tables, answer, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.hour", description=__doc__)
    parser.add_argument("--topics", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default="1g", help="of Spark's driver")
    parser.add_argument("--folder", type=Path, default=Path("build/benchmarks"))
    options = parser.parse_args(argv)
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hour-", dir=options.folder) as folder:
        root = (Path(folder) / "data").absolute()
        recording = Recording(days=1, topics=options.topics, namespaces=40, brokers=10, bundles=256)
        rows = write(recording, root, per_round=True, hours=recording.hours[14:15])
        print(f"{rows} rows of {options.topics} topics in {_files(root)} files", flush=True)
        spark = session.create(f"local[{options.cores}]", Path(folder) / "scratch", {}, memory=options.memory)
        meter = Meter()
        store = Store(str(root))
        request = Request(recording.instance, recording.cluster, full=True, min_coverage_hours=0)
        for number in range(options.runs):
            steps = Steps(meter)
            found = run(spark, store, request, now=datetime.now(UTC), unique=f"{number:06d}", say=steps)
            steps("result")
            assert found.result.samples == rows
            what = "job" if number else "job, the first run, while it warms"
            judged = "met" if steps.cpu <= BAR * rows / 6e7 else "missed"
            print(
                f"{what}: {steps.wall:.1f} s, {steps.cpu:.1f} CPU s (bar: {BAR * rows / 6e7:.0f}, {judged})", flush=True
            )
        spark.stop()
    return 0


def _files(root: Path) -> int:
    return sum(1 for _ in (root / "traffic").rglob("*.parquet"))


if __name__ == "__main__":
    sys.exit(main())
