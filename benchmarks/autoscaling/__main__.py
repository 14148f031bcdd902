"""``python -m benchmarks.autoscaling [--quick] [--seeds N]``: a week of brokers and of bookies under each scaler.

The traces are seeded and the same for every scaler. Ours is the function that ships with the defaults of its fields.
Raw figures go to build/benchmarks/autoscaling.csv, tables and bars to the screen; the result is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, fields
from functools import partial
from pathlib import Path

from benchmarks.autoscaling import bookies, brokers
from benchmarks.autoscaling.figures import Run
from benchmarks.autoscaling.tables import bars, print_tables
from benchmarks.autoscaling.traces import BOOKIES, BOTH, MINUTES, NAMES, trace

SEEDS, FEW = 20, 3


def week(case: tuple[str, int, int], *, forecast: bool = True) -> list[Run]:
    """All scalers on one trace of one seed."""
    found = trace(*case)
    of_brokers = [] if found.name in BOOKIES else brokers.scalers(found, forecast=forecast)
    of_bookies = bookies.scalers() if found.name in (*BOOKIES, *BOTH) else []
    return [
        *(brokers.run(found, scaler) for scaler in of_brokers),
        *(bookies.run(found, scaler) for scaler in of_bookies),
    ]


def weeks(cases: Sequence[tuple[str, int, int]], jobs: int, *, forecast: bool = True) -> Iterator[Run]:
    """All cases, in order, and how far it is on stderr."""
    begin = time.monotonic()
    with ProcessPoolExecutor(jobs) as pool:
        for done, found in enumerate(pool.map(partial(week, forecast=forecast), cases), 1):
            yield from found
            print(f"{done} of {len(cases)} weeks after {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)


def write_csv(found: Iterable[Run], path: Path) -> list[Run]:
    """Write each run as soon as it is there; returns them all, sorted by what they are of."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept: list[Run] = []
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow([field.name for field in fields(Run)])
        for run in found:
            kept.append(run)
            writer.writerow(astuple(run))
            out.flush()
    return sorted(kept, key=lambda run: (run.world != "brokers", NAMES.index(run.trace)))


def main(argv: Sequence[str]) -> int:
    """Run, write, print; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.autoscaling", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{FEW} seeds, whatever --seeds says")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of seeds: %(default)s")
    parser.add_argument("--traces", default=",".join(NAMES), help="comma separated: %(default)s")
    parser.add_argument("--days", type=int, default=MINUTES // 1440, help="length of a trace: %(default)s")
    parser.add_argument("--no-forecast", dest="forecast", action="store_false", help="ours has no recorded week")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes: %(default)s")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"), help="folder of the raw figures")
    options = parser.parse_args(argv)
    seeds = range(1, 1 + (FEW if options.quick else options.seeds))
    cases = [(name, seed, options.days * 1440) for seed in seeds for name in options.traces.split(",")]
    raw = options.out / "autoscaling.csv"
    found = write_csv(weeks(cases, options.jobs, forecast=options.forecast), raw)
    print_tables(found)
    met = bars(found)
    print(f"\nraw: {raw}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
