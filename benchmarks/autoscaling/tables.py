"""What the weeks say: tables of medians with their spread, and whether the bars are met."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from benchmarks.autoscaling.figures import Run

OURS = "operator"
BETTER = "MISSED: better on both"
LEVEL = "level on one, better on the other"
HEADER = (
    f"{'trace':<9}{'scaler':<11}{'SLO minutes':>20}{'server-hours':>20}{'of bound':>10}{'flaps':>13}{'changes':>9}"
    f"{'bundles':>9}{'copied':>8}"
)


def median(group: Iterable[Run], figure: Callable[[Run], float]) -> float:
    """Median of a figure."""
    return statistics.median(figure(run) for run in group)


def spread(values: Iterable[float]) -> str:
    """Median (least-most)."""
    ordered = sorted(values)
    return f"{statistics.median(ordered):.0f} ({ordered[0]:.0f}-{ordered[-1]:.0f})"


def violated(run: Run) -> float:
    """Minutes in which a server had more than it can carry well."""
    return run.violated


def hours(run: Run) -> float:
    """Of servers."""
    return run.hours


def better_on_both(other: Sequence[Run], ours: Sequence[Run]) -> bool:
    """Whether another scaler's medians are below ours in minutes as well as in hours."""
    return all(median(other, figure) < median(ours, figure) for figure in (violated, hours))


def level_and_better(other: Sequence[Run], ours: Sequence[Run]) -> bool:
    """Whether another scaler's medians are level with ours in one of the two, and below in the other."""
    pairs = [(median(other, figure), median(ours, figure)) for figure in (violated, hours)]
    return all(a <= b for a, b in pairs) and sum(a < b for a, b in pairs) == 1


def grouped(found: Iterable[Run]) -> dict[str, list[Run]]:
    """By scaler, in the order of the first."""
    groups: dict[str, list[Run]] = {}
    for run in found:
        groups.setdefault(run.scaler, []).append(run)
    return groups


def _row(scaler: str, group: Sequence[Run], mark: str) -> str:
    return (
        f"{group[0].trace:<9}{scaler:<11}{spread(map(violated, group)):>20}{spread(map(hours, group)):>20}"
        f"{median(group, lambda run: run.hours / run.bound):>10.2f}{spread(run.flaps for run in group):>13}"
        f"{median(group, lambda run: run.changes):>9.0f}{median(group, lambda run: run.bundles):>9.0f}"
        f"{median(group, lambda run: run.copied):>8.1f}{'  ' + mark if mark else ''}"
    )


def print_tables(found: Sequence[Run]) -> None:
    """Brokers, then bookies, trace by trace; the bound last."""
    for world in dict.fromkeys(run.world for run in found):
        own = [run for run in found if run.world == world]
        print(f"{world}, medians (least-most) of {len({run.seed for run in own})} seeds\n{HEADER}")
        for trace in dict.fromkeys(run.trace for run in own):
            groups = grouped(run for run in own if run.trace == trace)
            for scaler, group in groups.items():
                mark = ""
                if scaler != OURS:
                    mark = BETTER if better_on_both(group, groups[OURS]) else ""
                    mark = LEVEL if level_and_better(group, groups[OURS]) else mark
                print(_row(scaler, group, mark))
            bound = spread(run.bound for run in groups[OURS])
            print(f"{trace:<9}{'bound':<11}{'0':>20}{bound:>20}{1.0:>10.2f}\n")


def bars(found: Sequence[Run]) -> bool:
    """Print for each trace whether no scaler is better on both figures, and whether ours never flaps on any seed."""
    every = True
    for world, trace in dict.fromkeys((run.world, run.trace) for run in found):
        groups = grouped(run for run in found if (run.world, run.trace) == (world, trace))
        better = [name for name, group in groups.items() if name != OURS and better_on_both(group, groups[OURS])]
        level = [name for name, group in groups.items() if name != OURS and level_and_better(group, groups[OURS])]
        flaps = sum(run.flaps for run in groups[OURS])
        every &= not better and not flaps
        print(
            f"{world:<9}{trace:<9}{'MISSED' if better or flaps else 'met':<8}better on both: "
            f"{', '.join(better) or 'none'}; level on one, better on the other: {', '.join(level) or 'none'}; "
            f"flaps: {flaps}"
        )
    return every
