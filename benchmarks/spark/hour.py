"""``python -m benchmarks.spark.hour``: one hour of very many topics, from the collector's files to the job's answer.

A file for every broker and sample is written as the collector does, compacted by the collector's own upkeep, and worked
out by the job in one warm Spark session, each time in full. Wall and CPU seconds of every run; peak memory of upkeep.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.spark.__main__ import Meter
from benchmarks.spark.traffic import Recording, write
from pulsar_sizing.compaction import Policy, maintain
from pulsar_sizing.job import session
from pulsar_sizing.job.request import Request
from pulsar_sizing.job.run import run
from pulsar_sizing.job.state import State, run_name
from pulsar_sizing.store import Store

BAR = 20.0
"""Seconds for an hour of a million topics on two cores."""


def main(argv: Sequence[str] | None = None) -> int:
    """Write, compact, work out, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.hour", description=__doc__)
    parser.add_argument("--topics", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("build/benchmarks"))
    options = parser.parse_args(argv)
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hour-", dir=options.folder) as folder:
        root = (Path(folder) / "data").absolute()
        recording = Recording(days=1, topics=options.topics, namespaces=40, brokers=10, bundles=256)
        rows = write(recording, root, per_round=True, hours=recording.hours[14:15])
        print(f"{rows} rows of {options.topics} topics in {_files(root)} files", flush=True)
        # A process of its own, for its memory alone.
        upkeep = multiprocessing.get_context("spawn").Process(target=_compact, args=(str(root), recording))
        upkeep.start()
        upkeep.join()
        spark = session.create(f"local[{options.cores}]", Path(folder) / "scratch", {}, memory="1g")
        meter = Meter()
        store = Store(str(root))
        state = State(store, recording.instance, recording.cluster)
        request = Request(recording.instance, recording.cluster, full=True)
        for number in range(options.runs + 1):
            began, spent = time.perf_counter(), meter.cpu()
            now = datetime.now(UTC)
            name = run_name(now, f"{number:06d}")
            found = run(spark, store, state, request, now=now, name=name, say=lambda text: None)
            wall, cpu = time.perf_counter() - began, meter.cpu() - spent
            assert found.result.samples == rows
            what = "job" if number else "job, the first run, while it warms"
            by_cpu = cpu / options.cores
            print(f"{what}: {wall:.1f} s, {cpu:.1f} CPU s, by CPU {by_cpu:.1f} s (bar: {BAR:g} s)", flush=True)
        spark.stop()
    return 0


def _files(root: Path) -> int:
    return sum(1 for _ in (root / "traffic").rglob("*.parquet"))


def _compact(root: str, recording: Recording) -> None:
    began, spent = time.perf_counter(), time.process_time()
    now = recording.hours[15] + timedelta(hours=1)
    report = maintain(Store(root), recording.instance, now, Policy())
    # Not getrusage: its maximum is that of the process before, whose memory a new one has for a moment.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak = int(status["VmHWM"].split()[0]) / 1024
    wall, cpu = time.perf_counter() - began, time.process_time() - spent
    print(f"upkeep: {report.rows} rows, {wall:.1f} s, {cpu:.1f} CPU s, at most {peak:.0f} MB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
