"""``python -m benchmarks.balance PART|all [--seeds N] [--quick] ...``: tables.

P5 is `boundaries`, P6 `shedding`, P7 `planner`, P9 `rolling`; `faults` has brokers that report wrong figures, `silence`
those that do not answer, `joining` the minutes until new brokers have their share. Each prints its figures with their
spread over the seeds and whether its bar is met, and leaves raw figures in build/benchmarks/. Options after a part's
name are the part's own. `all` runs all of them with 20 seeds, or as many as --seeds says; --quick: with 3, and small
cases.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence

PARTS = ("boundaries", "shedding", "faults", "silence", "planner", "rolling", "joining")
WITH_QUICK = ("boundaries", "shedding", "faults")
"""Parts that take long and have a short form; the others are short with few seeds."""
SEEDS, FEW = 20, 3


def run(part: str, argv: Sequence[str]) -> int:
    """Run one part: the module of its name with its function main(argv)."""
    main: Callable[[Sequence[str]], int] = importlib.import_module(f"benchmarks.balance.{part}").main
    return main(argv)


def everything(argv: Sequence[str]) -> int:
    """Run all parts one after another; the worst of their results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.balance all")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of seeds: %(default)s")
    parser.add_argument("--quick", action="store_true", help=f"{FEW} seeds and small cases")
    options = parser.parse_args(argv)
    seeds = ["--seeds", str(FEW if options.quick else options.seeds)]
    results = []
    for part in PARTS:
        print(f"== {part}, {seeds[1]} seeds\n", flush=True)
        results.append(run(part, [*seeds, *(["--quick"] if options.quick and part in WITH_QUICK else [])]))
    return max(results)


def main(argv: Sequence[str]) -> int:
    """Run the part named first, or all of them."""
    if argv and argv[0] in PARTS:
        return run(argv[0], argv[1:])
    if argv and argv[0] == "all":
        return everything(argv[1:])
    print(f"usage: python -m benchmarks.balance {{{','.join(PARTS)},all}} [--seeds N]\n\n{__doc__}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
