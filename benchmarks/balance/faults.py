"""Metric faults: a day on which brokers report wrong figures, the same for every strategy.

10 brokers at 45 % of their CPU, three time zones, no events: what a strategy does beyond the day without a fault, the
fault makes it do. A fault changes what brokers report; max/mean and minutes above 85 % are of what they truly
carry. `Operator, no CPU` is the operator that reads traffic alone; on days on which only CPU figures are wrong it does
what it does without a fault. The bars: no strategy, that one included, has both fewer reconnects and a lower max/mean
than the operator, and the operator reconnects no more than that one does.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from random import Random

from benchmarks.balance.days import Case, Run, all_runs, day, start, strategies
from benchmarks.balance.shedding import case_of, progress, read_csv, write_csv
from benchmarks.balance.verdicts import HEADER, fault_bars, print_rows
from benchmarks.simulator.faults import KINDS
from benchmarks.simulator.operator_policy import OperatorPolicy
from benchmarks.simulator.placement import LeastLongTermMessageRate
from benchmarks.simulator.published import MissedExampleError, verify
from benchmarks.simulator.state import Policy, Settings
from benchmarks.simulator.traces import DAY, PLAIN, scenario

IGNORING = "Operator, no CPU"
ONCE = ("none", "silent, one")
"""Faults on whose days the operator that reads traffic alone is simulated; on the others its day is that of the
first."""


def contenders(kind: str, seed: int) -> list[tuple[Policy, Settings]]:
    """All that are compared on the day of a fault, fresh."""
    found = strategies(seed)
    if kind in ONCE:
        placement = LeastLongTermMessageRate(Random(seed).randrange)
        found.append((OperatorPolicy(IGNORING, placement, told=False), Settings()))
    return found


def runs(case: Case) -> list[Run]:
    """Every strategy on the day of one fault; the case's trace is the name of the fault."""
    setting = scenario(PLAIN, Random(case.seed), case.minutes, case.sigma, Random(f"hidden {case.seed}"))
    owners = start(setting, case.seed)
    fresh: Callable[[], Random] = partial(Random, f"{case.trace} {case.seed}")
    return [
        day(case, setting, owners, policy, settings, KINDS[case.trace](fresh()))
        for policy, settings in contenders(case.trace, case.seed)
    ]


def print_tables(found: Sequence[Run]) -> None:
    """A row for each strategy, fault by fault, for each sigma of the hidden costs."""
    for sigma in dict.fromkeys(run.sigma for run in found):
        print(f"metric faults, hidden cost of sigma {sigma}\n{HEADER.replace('trace', 'fault', 1)}")
        for kind in dict.fromkeys(run.trace for run in found):
            print_rows(kind, [run for run in found if (run.trace, run.sigma) == (kind, sigma)])


def main(argv: Sequence[str]) -> int:
    """Work the published examples, run all faults, print tables and bars; 1 if a bar is missed, 2 for an example."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.balance faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 seeds, whatever --seeds says")
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds: %(default)s")
    parser.add_argument("--faults", default=";".join(KINDS), help="separated by semicolons: %(default)s")
    parser.add_argument("--sigmas", default="0", help="of the hidden costs, comma separated: %(default)s")
    parser.add_argument("--minutes", type=int, default=DAY, help="length of a trace")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes: %(default)s")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"), help="folder of the raw figures")
    parser.add_argument("--resume", action="store_true", help="keep what --out has already; of the same code, mind")
    options = parser.parse_args(argv)
    try:
        verify()
    except MissedExampleError as missed:
        print(f"a re-built strategy misses its published example, nothing is compared: {missed}", file=sys.stderr)
        return 2
    seeds = range(1, 1 + (3 if options.quick else options.seeds))
    sigmas = [float(text) for text in options.sigmas.split(",")]
    order = product(seeds, sigmas, options.faults.split(";"))
    cases = [Case(kind, sigma, seed, options.minutes) for seed, sigma, kind in order]
    raw = options.out / "metric_faults.csv"
    kept: list[Run] = []
    if options.resume and raw.exists():
        kept = read_csv(raw, options.minutes, lambda case: len(contenders(case[0], 1)))
    done = {case_of(run) for run in kept}
    left = [case for case in cases if case[:3] not in done]
    found = write_csv(kept, all_runs(left, options.jobs, progress(), runs), options.minutes, raw)
    print_tables(found)
    met = fault_bars(found, IGNORING, ONCE[0])
    print(f"raw: {raw}\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
