"""P6, load shedding: 24 hours in 1-minute cycles, our driver against Pulsar's balancers, the same traffic and start.

Before anything is compared, the re-built strategies work Pulsar's published examples; one that misses ends the run.
Every strategy starts from the placement that Pulsar gives a new cluster. Figures are medians over the seeds, with the
least and the most. `felt` counts every bundle whose clients had to reconnect: unloads, bundles that had to leave with
their broker, and pieces that Pulsar unloads after a split. The bound is what whole topics allow at best; minutes above
85 % `of bound` no balancer can avoid.

Afterwards P9, the rolling restart (benchmarks.balance.rolling).
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from random import Random

from benchmarks.balance import rolling
from benchmarks.simulator.managers import ModularManager, pulsar_policies
from benchmarks.simulator.operator_policy import OperatorPolicy
from benchmarks.simulator.placement import LeastLongTermMessageRate
from benchmarks.simulator.published import MissedExampleError, verify
from benchmarks.simulator.shedders import AvgShedder
from benchmarks.simulator.state import Policy, Settings
from benchmarks.simulator.traces import DAY, NAMES, Scenario, scenario
from benchmarks.simulator.world import World, even_bundles
from pulsar_operator.balance.model.cluster import BundleId

OURS = "Operator"
PEERS = ("Avg", "Avg tuned")
"""The bar on unloads holds against both: Pulsar's defaults, and the 0.5 that PIP-364 advises without the even
distribution of bundles, which otherwise sends every other bundle to a random broker."""
TUNED = Settings(max_unload_share=0.5, distribute_evenly=False)


@dataclass(frozen=True)
class Run:
    """Raw figures of one strategy on one trace and seed."""

    trace: str
    seed: int
    strategy: str
    unloads: int
    displaced: int
    split_unloads: int
    splits: int
    moved: float
    mean: float
    p99: float
    bound: float
    overloaded: int
    unavoidable: int

    @property
    def caused(self) -> int:
        """Bundles that moved by decision or because their broker went."""
        return self.unloads + self.displaced

    @property
    def felt(self) -> int:
        """Bundles whose clients had to reconnect."""
        return self.caused + self.split_unloads


def start(case: Scenario, seed: int) -> dict[BundleId, str]:
    """The placement of a new cluster: Pulsar's default placement, bundle by bundle, before there is any traffic."""
    bundles = even_bundles(case.recording.namespaces, case.bundles_per_namespace)
    manager = ModularManager("start", None, LeastLongTermMessageRate(Random(seed).randrange), None)
    return World(case.recording, case.hosts, bundles, manager).state.owners


def strategies(seed: int) -> list[tuple[Policy, Settings]]:
    """All that are compared, fresh, each with its own chance."""
    fresh = partial(Random, seed)
    tuned = AvgShedder(fresh().randrange)
    return [
        *((policy, Settings()) for policy in pulsar_policies(fresh)),
        (ModularManager(PEERS[1], tuned, tuned), TUNED),
        (OperatorPolicy(OURS, LeastLongTermMessageRate(fresh().randrange)), Settings()),
    ]


def runs(trace: str, seed: int, minutes: int = DAY) -> list[Run]:
    """Every strategy on one trace and seed."""
    case = scenario(trace, Random(seed), minutes)
    owners = start(case, seed)
    found = []
    for policy, settings in strategies(seed):
        world = World(case.recording, case.hosts, list(owners), policy, settings, case.changes, owners)
        account = world.run()
        ratios = sorted(minute.ratio for minute in account.minutes)
        found.append(
            Run(
                trace,
                seed,
                policy.name,
                account.unloads,
                account.displaced,
                account.split_unloads,
                account.splits,
                account.moved,
                statistics.fmean(ratios),
                ratios[int(0.99 * len(ratios))],
                statistics.fmean(minute.bound_ratio for minute in account.minutes),
                account.overloaded,
                account.unavoidable,
            )
        )
    return found


def all_runs(traces: Sequence[str], seeds: Sequence[int], minutes: int, jobs: int) -> Iterator[Run]:
    """All runs, as they are done."""
    cases = [(trace, seed, minutes) for seed in seeds for trace in traces]
    if jobs == 1:
        for case in cases:
            yield from runs(*case)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for found in pool.map(runs, *zip(*cases, strict=True)):
            yield from found


def spread(values: Iterable[float], digits: int = 0) -> str:
    """Median (least-most)."""
    ordered = sorted(values)
    return f"{statistics.median(ordered):.{digits}f} ({ordered[0]:.{digits}f}-{ordered[-1]:.{digits}f})"


def print_table(found: Sequence[Run]) -> None:
    """Medians of each strategy on each trace."""
    print(
        f"{'trace':<15}{'strategy':<17}{'unloads':>15}{'felt':>17}{'splits':>8}{'moved x':>9}"
        f"{'max/mean':>20}{'p99':>7}{'bound':>7}{'min > 85 %':>15}{'of bound':>9}"
    )
    for trace in dict.fromkeys(run.trace for run in found):
        for strategy in dict.fromkeys(run.strategy for run in found):
            group = [run for run in found if run.trace == trace and run.strategy == strategy]
            print(
                f"{trace:<15}{strategy:<17}{spread(run.unloads for run in group):>15}"
                f"{spread(run.felt for run in group):>17}{median(group, lambda run: run.splits):>8.0f}"
                f"{median(group, lambda run: run.moved):>9.2f}{spread((run.mean for run in group), 2):>20}"
                f"{median(group, lambda run: run.p99):>7.2f}{median(group, lambda run: run.bound):>7.2f}"
                f"{spread(run.overloaded for run in group):>15}{median(group, lambda run: run.unavoidable):>9.0f}"
            )
        print()


def median(group: Iterable[Run], figure: Callable[[Run], float]) -> float:
    """Median of a figure."""
    return statistics.median(figure(run) for run in group)


def bars(found: Sequence[Run]) -> bool:
    """Print whether each trace meets P6, by medians, and on how many seeds each half holds alone."""
    every = True
    for trace in dict.fromkeys(run.trace for run in found):
        by_name = {
            name: sorted((run for run in found if run.trace == trace and run.strategy == name), key=lambda r: r.seed)
            for name in (OURS, "Transfer", *PEERS)
        }
        ours = by_name[OURS]
        moves = median(ours, lambda run: run.caused)
        fewest = min(median(by_name[name], lambda run: run.caused) for name in PEERS)
        ratio = median(ours, lambda run: run.mean)
        other = median(by_name["Transfer"], lambda run: run.mean)
        met = moves < fewest and ratio < other
        every &= met
        seeds = len(ours)
        fewer = [sum(a.caused < b.caused for a, b in zip(ours, by_name[name], strict=True)) for name in PEERS]
        lower = sum(a.mean < b.mean for a, b in zip(ours, by_name["Transfer"], strict=True))
        print(
            f"P6 {trace:<15}{'met' if met else 'MISSED':<8}moves {moves:.0f} < {fewest:.0f} (fewer than Avg on "
            f"{fewer[0]}/{seeds} seeds, than Avg tuned on {fewer[1]}/{seeds}); max/mean {ratio:.3f} < Transfer "
            f"{other:.3f} ({lower}/{seeds} seeds)"
        )
    return every


def write_csv(found: Iterable[Run], path: Path) -> list[Run]:
    """Write each run as soon as it is there; returns them all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = []
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        names = [field.name for field in fields(Run)]
        writer.writerow(names)
        for run in found:
            kept.append(run)
            writer.writerow([getattr(run, name) for name in names])
            out.flush()
    return kept


def plot(found: Sequence[Run], path: Path) -> None:
    """One panel a trace: how many clients felt it against how even it was."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    traces = list(dict.fromkeys(run.trace for run in found))
    columns = min(4, len(traces))
    rows = -(-len(traces) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(4.2 * columns, 3.6 * rows), squeeze=False)
    for panel, trace in zip(axes.flat, traces, strict=False):
        for strategy in dict.fromkeys(run.strategy for run in found):
            group = [run for run in found if run.trace == trace and run.strategy == strategy]
            x, y = max(1.0, median(group, lambda run: run.felt)), median(group, lambda run: run.mean)
            panel.plot([x], [y], "*" if strategy == OURS else "o", label=strategy)
            panel.annotate(strategy, (x, y), fontsize=7, xytext=(3, 3), textcoords="offset points")
        panel.axhline(median([run for run in found if run.trace == trace], lambda run: run.bound), ls=":", c="grey")
        panel.set(title=trace, xscale="log", xlabel="bundles moved in a day", ylabel="max/mean load")
    for panel in axes.flat[len(traces) :]:
        panel.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(argv: Sequence[str]) -> int:
    """Work the published examples, run all traces, print table and bars; 1 if a bar is missed, 2 for an example."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.balance shedding", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 seeds instead of 20")
    parser.add_argument("--seeds", type=int, help="number of seeds")
    parser.add_argument("--traces", default=",".join(NAMES), help="comma separated: %(default)s")
    parser.add_argument("--minutes", type=int, default=DAY, help="length of a trace")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"), help="folder of the raw figures")
    options = parser.parse_args(argv)
    try:
        examples = verify()
    except MissedExampleError as missed:
        print(f"a re-built strategy misses its published example, nothing is compared: {missed}", file=sys.stderr)
        return 2
    seeds = range(1, 1 + (options.seeds or (3 if options.quick else 20)))
    print(f"{len(examples)} published examples hold; {len(seeds)} seeds, {options.minutes} minutes\n")
    raw = options.out / "shedding.csv"
    found = write_csv(all_runs(options.traces.split(","), seeds, options.minutes, options.jobs), raw)
    print_table(found)
    met = bars(found)
    picture = options.out / "shedding.png"
    plot(found, picture)
    print(f"raw: {raw}, plot: {picture}\n")
    rolled = rolling.main(["--out", str(options.out)])
    return max(0 if met else 1, rolled)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
