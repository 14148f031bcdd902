"""P6, load shedding: 24 hours in 1-minute cycles, our driver against Pulsar's balancers, the same traffic and start.

Before anything is compared, the re-built strategies work Pulsar's published examples; one that misses ends the run.
Every strategy starts from the placement that Pulsar gives a new cluster. Figures are medians over the seeds, with the
least and the most. `moves` are bundles moved by decision, `felt` counts every bundle whose clients had to reconnect:
moves, bundles that had to leave with their broker, and pieces that Pulsar unloads after a split. The bound is what
whole topics allow at best; minutes above 85 % `of bound` no balancer can avoid.

With hidden costs a topic costs its broker what its bytes and messages say times a log-normal factor of its own (sigma:
standard deviation of the logarithm). Load is what brokers pay. Our driver sees bytes and messages; Pulsar's strategies
see what a real broker measures of itself, which includes it.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from itertools import product
from pathlib import Path

from benchmarks.balance.days import Case, Run, all_runs, strategies
from benchmarks.balance.verdicts import bars, plot, print_tables
from benchmarks.simulator.published import MissedExampleError, verify
from benchmarks.simulator.traces import DAY, NAMES

SIGMAS = "0,0.3,0.6"


def read_csv(path: Path, minutes: int, strategies: Callable[[tuple[str, float, int]], int]) -> list[Run]:
    """The runs of a file that an interrupted benchmark left; cases with fewer strategies than they have are left out.

    Raises ValueError if the file is of traces of another length or of other columns.
    """
    with path.open(newline="") as source:
        rows = list(csv.DictReader(source))
    if rows and set(rows[0]) != {"minutes", *(field.name for field in fields(Run))}:
        raise ValueError(f"{path} has other columns: remove it, or leave out --resume")
    if any(row["minutes"] != str(minutes) for row in rows):
        raise ValueError(f"{path} is not of {minutes} minutes: remove it, or leave out --resume")
    kinds = {"str": str, "int": int, "float": float}
    found = [Run(**{field.name: kinds[str(field.type)](row[field.name]) for field in fields(Run)}) for row in rows]
    counts = Counter(case_of(run) for run in found)
    return [run for run in found if counts[case_of(run)] == strategies(case_of(run))]


def case_of(run: Run) -> tuple[str, float, int]:
    """What a run is one strategy's day of."""
    return run.trace, run.sigma, run.seed


def write_csv(kept: list[Run], found: Iterable[Run], minutes: int, path: Path) -> list[Run]:
    """Write each run as soon as it is there, after those kept; returns them all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = [field.name for field in fields(Run)]
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["minutes", *names])
        writer.writerows([minutes, *(getattr(run, name) for name in names)] for run in kept)
        for run in found:
            kept.append(run)
            writer.writerow([minutes, *(getattr(run, name) for name in names)])
            out.flush()
    return kept


def progress() -> Callable[[int, int], None]:
    """Says on stderr, every twentieth of the way, how many cases are done and since when."""
    begin = time.monotonic()

    def tell(done: int, total: int) -> None:
        if done * 20 // total > (done - 1) * 20 // total:
            print(f"{done} of {total} cases after {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)

    return tell


def main(argv: Sequence[str]) -> int:
    """Work the published examples, run all traces, print tables and bars; 1 if a bar is missed, 2 for an example."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.balance shedding", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 seeds, whatever --seeds says")
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds: %(default)s")
    parser.add_argument("--traces", default=",".join(NAMES), help="comma separated: %(default)s")
    parser.add_argument("--sigmas", default=SIGMAS, help="of the hidden costs, comma separated: %(default)s")
    parser.add_argument("--minutes", type=int, default=DAY, help="length of a trace")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes: %(default)s")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"), help="folder of the raw figures")
    parser.add_argument("--resume", action="store_true", help="keep what --out has already; of the same code, mind")
    options = parser.parse_args(argv)
    try:
        examples = verify()
    except MissedExampleError as missed:
        print(f"a re-built strategy misses its published example, nothing is compared: {missed}", file=sys.stderr)
        return 2
    seeds = range(1, 1 + (3 if options.quick else options.seeds))
    sigmas = [float(text) for text in options.sigmas.split(",")]
    print(f"{len(examples)} published examples hold; {len(seeds)} seeds, {options.minutes} minutes\n", flush=True)
    order = product(seeds, sigmas, options.traces.split(","))
    cases = [Case(trace, sigma, seed, options.minutes) for seed, sigma, trace in order]
    raw = options.out / "shedding.csv"
    kept = read_csv(raw, options.minutes, lambda _: len(strategies(1))) if options.resume and raw.exists() else []
    done = {case_of(run) for run in kept}
    left = [case for case in cases if case[:3] not in done]
    found = write_csv(kept, all_runs(left, options.jobs, progress()), options.minutes, raw)
    print_tables(found)
    met = bars(found)
    picture = options.out / "shedding.png"
    plot(found, picture)
    print(f"raw: {raw}, plot: {picture}\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
