"""``python -m benchmarks.spark``: bar P8, and which tool wins below which size.

The same two plans by Spark (with the job's own transforms), DuckDB and Polars on the same files, their answers compared
to the last integer: plain = sums of rates by topic and hour of the day; histogram = counts of log buckets by topic and
hour of the day (they can be merged; error at most 2 %) and their p99. Then the whole job on a file for each broker and
round, as the collector writes them: a full run over seven days, the first one of the session apart, one with one new
day and one that finds nothing new. Wall seconds are the median of the runs with the spread. Beside them stand CPU
seconds (user and system, of Java and Spark's Python too) and the rate that they allow, rows / CPU seconds x cores: on a
machine that others use it is the figure that says something.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.spark import engines
from benchmarks.spark.hour import Step, started
from benchmarks.spark.meter import Meter
from benchmarks.spark.traffic import Recording, write
from pulsar_sizing.job.pipeline import run
from pulsar_sizing.job.request import Request
from pulsar_sizing.job.snapshot import Tables
from pulsar_sizing.store import Store

BARS = {"plain": 4e6, "histogram": 2e6}
DAYS = 7
INCREMENTAL_BAR = 5.0


@dataclass(frozen=True)
class Timing:
    """Repeated runs of one thing."""

    rows: int
    what: str
    tool: str
    walls: tuple[float, ...]
    cpus: tuple[float, ...]

    @property
    def wall(self) -> float:
        """Median of the wall seconds."""
        return statistics.median(self.walls)

    @property
    def cpu(self) -> float:
        """Median of the CPU seconds."""
        return statistics.median(self.cpus)


def runs(
    meter: Meter, rows: int, what: str, tool: str, times: int, call: Callable[[], Any], *, warm: bool = True
) -> Timing:
    """Call `times` times, after one that does not count."""
    if warm:
        call()
    walls: list[float] = []
    cpus: list[float] = []
    for _ in range(times):
        began, spent = time.perf_counter(), meter.cpu()
        call()
        walls.append(time.perf_counter() - began)
        cpus.append(meter.cpu() - spent)
    found = Timing(rows, what, tool, tuple(walls), tuple(cpus))
    print(f"  {rows:>11} {what:<22}{tool:<8}{found.wall:8.2f} s  {found.cpu:8.2f} CPU s", file=sys.stderr, flush=True)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Make the data, run everything, print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--sizes", default="200000,2000000,20000000", help="rows, about; the last one is P8's")
    parser.add_argument("--runs", type=int, default=5, help="of the two plans by each tool; 0 = the job alone")
    parser.add_argument("--job-runs", type=int, default=3, help="runs of the whole job, full and incremental")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default="4g", help="of Spark's driver")
    parser.add_argument("--recorded", type=Path, help="files of a run before, of the one size that is given")
    parser.add_argument("--csv", type=Path, default=Path("build/benchmarks/spark.csv"))
    options = parser.parse_args(argv)
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    timings: list[Timing] = []
    with tempfile.TemporaryDirectory(prefix="spark-", dir=options.csv.parent) as folder:
        meter = Meter()
        spark, cold = started(meter, options.cores, Path(folder) / "scratch", options.memory)
        for size in [int(text) for text in options.sizes.split(",")]:
            timings += measure(spark, meter, (options.recorded or Path(folder) / "data").absolute(), size, options)
            save(options.csv, timings, cold)
        spark.stop()
    report(timings, cold, options)
    print(f"raw: {options.csv}")
    return 0


def measure(spark: Any, meter: Meter, root: Path, size: int, options: argparse.Namespace) -> list[Timing]:
    """All figures of one size."""
    recording = Recording(days=DAYS, topics=max(1, size // (DAYS * 24 * 60)))
    if not (root / "traffic").is_dir():
        write(recording, root, per_round=True)
    rows = len(recording.hours) * 3600 // recording.interval_seconds * recording.topics
    print(f"{rows} rows of {recording.topics} topics recorded", file=sys.stderr, flush=True)
    timings = []
    try:
        tools = engines.tools(spark, root, recording, options.cores) if options.runs else {}
        for what in BARS if options.runs else ():
            answers = {name: tool[what]() for name, tool in tools.items()}
            engines.same(what, answers)
            timings += [
                runs(meter, rows, what, name, options.runs, tool[what], warm=False) for name, tool in tools.items()
            ]
        timings += job(spark, meter, root, recording, rows, options.job_runs)
    finally:
        if options.recorded is None:
            shutil.rmtree(root)
    return timings


def job(spark: Any, meter: Meter, root: Path, recording: Recording, rows: int, times: int) -> list[Timing]:
    """A full run over all days, one that finds the last day new, and one that finds nothing new."""
    store = Store(str(root))
    tables = Tables(store, recording.instance, recording.cluster)
    counter = iter(range(10**6))

    def once(**question: Any) -> Any:
        request = Request(recording.instance, recording.cluster, **question)
        unique = f"{next(counter):06d}"
        return run(spark, store, request, now=datetime.now(UTC), unique=unique, say=lambda text: None)

    answers: list[Any] = []
    first = runs(
        meter, rows, "job, first full run", "spark", 1, lambda: answers.append(once(full=True).result), warm=False
    )
    (wanted,) = answers
    before = tables.load(Request(recording.instance, recording.cluster).parameters)
    last = int(recording.hours[-24].timestamp()) // 3600
    hours = {unit: hour for unit, hour in before.hours.items() if unit < last}
    six_days = before.model_copy(
        update={"hours": hours, "days": {day: each for day, each in before.days.items() if day < last // 24}}
    )
    full = runs(meter, rows, "job, full", "spark", times, lambda: once(full=True), warm=False)
    walls: list[float] = []
    cpus: list[float] = []
    for _ in range(times):
        tables.publish(six_days)
        part = runs(meter, rows, "job, one new day", "spark", 1, lambda: _check(once(), wanted, 24), warm=False)
        walls += part.walls
        cpus += part.cpus
    nothing = runs(meter, rows, "job, nothing new", "spark", times, lambda: _check(once(), wanted, 0), warm=False)
    return [first, full, Timing(rows, "job, one new day", "spark", tuple(walls), tuple(cpus)), nothing]


def _check(outcome: Any, wanted: Any, hours: int) -> None:
    when = {"generated_time"}
    if outcome.hours_made != hours or outcome.result.model_dump(exclude=when) != wanted.model_dump(exclude=when):
        raise SystemExit("the incremental run differs from the full one")


def save(path: Path, timings: Sequence[Timing], cold: Step) -> None:
    """Raw figures."""
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["rows", "what", "tool", "run", "wall_seconds", "cpu_seconds"])
        writer.writerow([0, cold.name, "spark", 0, f"{cold.wall:.3f}", f"{cold.java + cold.python:.2f}"])
        for each in timings:
            for number, (wall, cpu) in enumerate(zip(each.walls, each.cpus, strict=True)):
                writer.writerow([each.rows, each.what, each.tool, number, f"{wall:.3f}", f"{cpu:.2f}"])


def report(timings: Sequence[Timing], cold: Step, options: argparse.Namespace) -> None:
    """The table, the bars, and what follows for the choice of the tool."""
    largest = max(each.rows for each in timings)
    print(f"\nmedian of {options.runs} runs ({options.job_runs} of the job) in one warm Spark session; {_start(cold)}")
    heads = f"{'rows':>10}  {'plan':<18}{'tool':<8}{'wall s':>9}{'least':>9}{'most':>9}"
    heads += f"{'CPU s':>9}{'Mrows/s':>9}{'by CPU':>9}"
    print(f"{heads}  bar")
    for each in timings:
        bar = ""
        if each.rows == largest and each.tool == "spark" and each.what in BARS:
            rates = (each.rows / each.wall, each.rows / each.cpu * options.cores)
            wall, cpu = ("met" if rate >= BARS[each.what] else "missed" for rate in rates)
            bar = f">= {BARS[each.what] / 1e6:g} Mrows/s: {wall}, by CPU {cpu}"
        by_wall = each.rows / each.wall / 1e6
        by_cpu = each.rows / each.cpu * options.cores / 1e6
        spread = f"{each.wall:9.2f}{min(each.walls):9.2f}{max(each.walls):9.2f}{each.cpu:9.2f}"
        print(f"{each.rows:>10}  {each.what:<18}{each.tool:<8}{spread}{by_wall:9.2f}{by_cpu:9.2f}  {bar}")
    times = {(each.rows, each.what, each.tool): each.wall for each in timings}
    spent = {(each.rows, each.what, each.tool): each.cpu for each in timings}
    for figures, unit in ((times, "wall"), (spent, "CPU")):
        ratio = figures[largest, "job, full", "spark"] / figures[largest, "job, one new day", "spark"]
        judged = "met" if ratio >= INCREMENTAL_BAR else "missed"
        print(f"incremental run: 1/{ratio:.1f} of a full one by {unit} (bar: 1/{INCREMENTAL_BAR:g} or less, {judged})")
    for what in BARS if options.runs else ():
        print(verdict(what, times, sorted({each.rows for each in timings}), cold.wall))


def _start(cold: Step) -> str:
    spent = cold.java + cold.python
    return f"its start took {cold.wall:.1f} s, {spent:.1f} CPU s, and is not in them"


def verdict(what: str, times: dict[tuple[int, str, str], float], sizes: Sequence[int], cold: float) -> str:
    """Which tool wins at which size, in one sentence, from the figures."""
    parts = []
    for rows in sizes:
        order = sorted(("spark", "duckdb", "polars"), key=lambda tool: times[rows, what, tool])
        best = times[rows, what, order[0]]
        spark = times[rows, what, "spark"]
        text = f"{order[0]} wins at {rows} rows"
        if order[0] != "spark":
            text += f" ({spark / best:.1f} x faster than warm Spark, {(spark + cold) / best:.0f} x with its start)"
        parts.append(text)
    return f"{what}: on one machine {'; '.join(parts)}."


if __name__ == "__main__":
    sys.exit(main())
