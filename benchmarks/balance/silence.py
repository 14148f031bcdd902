"""Brokers that do not answer the operator for hours: who balances, how often it changes, and what that costs.

A day of each trace, with one, four or all of the ten brokers silent for the operator for the first eight hours, or four
of them coming and going every few minutes. ``before`` is a balancer that one silent broker stops, while Pulsar's own
stays off; ``now`` is what ships. In each simulated minute it is checked that the operator moves nothing while Pulsar's
balancer is on; a miss ends the run. The last row of a trace is the day on which all answer.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass, fields
from functools import partial
from itertools import product
from pathlib import Path
from random import Random

from benchmarks.balance.days import start
from benchmarks.simulator.managers import ModularManager
from benchmarks.simulator.placement import LeastLongTermMessageRate
from benchmarks.simulator.shedders import ThresholdShedder
from benchmarks.simulator.silence import HandingOver, Silent
from benchmarks.simulator.traces import BROKERS, scenario
from benchmarks.simulator.world import World
from pulsar_operator.balance.execution.handover import RETURN_SECONDS

TRACES = "diurnal,drift"
FROM, TO = 0, 480
"""The minutes of silence, from the uneven start of a new cluster on."""
CASES = ("one silent", "four silent", "all silent", "four come and go", "all answer")


@dataclass(frozen=True)
class Row:
    """Raw figures of a day."""

    trace: str
    case: str
    seed: int
    balancer: str
    handovers: int
    with_pulsar: int
    minutes_without_balancer: int
    unloads: int
    reconnects: int
    mean: float
    """Busiest over mean, averaged over the day."""
    overloaded: int
    unavoidable: int


def silence(case: str, seed: int) -> Silent:
    """The brokers that do not answer in a minute of a case; drawn by the seed."""
    names = [f"broker-{number}:8080" for number in range(BROKERS)]
    Random(f"silent {seed}").shuffle(names)
    count = {"one silent": 1, "all silent": BROKERS, "all answer": 0}.get(case, 4)
    some = frozenset(names[:count])

    def silent(minute: int) -> frozenset[str]:
        away = FROM <= minute < TO and (case != "four come and go" or minute % 7 < 5)
        return some if away else frozenset()

    return silent


def run(trace: str, case: str, seed: int) -> list[Row]:
    """A day as it was and as it is. Raises BothBalanceError."""
    setting = scenario(trace, Random(seed))
    owners = start(setting, seed)
    found = []
    for balancer in ("before", "now"):
        fresh = partial(Random, seed)
        placement = LeastLongTermMessageRate(fresh().randrange)
        pulsar = ModularManager("Threshold", ThresholdShedder(), placement) if balancer == "now" else None
        policy = HandingOver(balancer, placement, silent=silence(case, seed), pulsar=pulsar)
        world = World(
            setting.recording, setting.hosts, list(owners), policy, None, setting.changes, owners, setting.allowed
        )
        account = world.run()
        reconnects = account.unloads + account.displaced + account.split_unloads
        mean = statistics.fmean(minute.ratio for minute in account.minutes)
        found.append(
            Row(
                trace,
                case,
                seed,
                balancer,
                policy.handover.count,
                policy.with_pulsar,
                policy.minutes_without_balancer,
                account.unloads,
                reconnects,
                mean,
                account.overloaded,
                account.unavoidable,
            )
        )
    return found


def spread(values: Iterable[float], digits: int = 0) -> str:
    """Median, least and most."""
    known = sorted(values)
    return f"{statistics.median(known):.{digits}f} ({known[0]:.{digits}f}-{known[-1]:.{digits}f})"


def table(rows: Sequence[Row]) -> str:
    """The rows by trace and case, as in docs/balancing.md."""
    lines = [
        "| trace | brokers |  | hand-overs | minutes with Pulsar | with no balancer | moves | max/mean "
        "| minutes above 85 %, of the bound |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for trace, case in dict.fromkeys((row.trace, row.case) for row in rows):
        for balancer in ("before", "now"):
            found = [row for row in rows if (row.trace, row.case, row.balancer) == (trace, case, balancer)]
            bound = statistics.median(row.unavoidable for row in found)
            cells = [
                spread(row.handovers for row in found),
                spread(row.with_pulsar for row in found),
                spread(row.minutes_without_balancer for row in found),
                spread(row.unloads for row in found),
                spread((row.mean for row in found), 2),
                f"{spread(row.overloaded for row in found)}, {bound:.0f}",
            ]
            lines.append(f"| {trace} | {case} | {balancer} | {' | '.join(cells)} |")
    return "\n".join(lines)


def bars(rows: Sequence[Row]) -> bool:
    """Whether one silent broker hands nothing over, and no day has more hand-overs than half hours."""
    most = (TO - FROM) * 60 / RETURN_SECONDS
    one = all(row.handovers == 0 for row in rows if row.case in ("one silent", "all answer"))
    few = all(row.handovers <= most for row in rows)
    print(f"never both on in {len(rows)} days; one silent broker of {BROKERS} hands nothing over: {one}; at most one")
    print(f"hand-over in {RETURN_SECONDS / 60:.0f} minutes: {few}")
    return one and few


def main(argv: Sequence[str]) -> int:
    """Run all cases, print the table; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.balance silence", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds: %(default)s")
    parser.add_argument("--traces", default=TRACES, help="comma separated: %(default)s")
    parser.add_argument("--cases", default=",".join(CASES), help="comma separated: %(default)s")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes: %(default)s")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"), help="folder of the raw figures")
    options = parser.parse_args(argv)
    order = list(product(options.traces.split(","), options.cases.split(","), range(1, 1 + options.seeds)))
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    raw = options.out / "silence.csv"
    with raw.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow([field.name for field in fields(Row)])
        for found in _days(order, options.jobs):
            rows += found
            writer.writerows(astuple(row) for row in found)
            out.flush()
    print(f"{table(rows)}\n")
    met = bars(rows)
    print(f"raw: {raw}")
    return 0 if met else 1


def _days(order: Sequence[tuple[str, str, int]], jobs: int) -> Iterable[list[Row]]:
    if jobs == 1:
        yield from (run(*each) for each in order)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run, *zip(*order, strict=True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
