"""What the days of P6 say: tables of medians with their spread, what is missed, and a picture."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.balance.days import OURS, PEERS, Run

BETTER = "MISSED: better on both"
EVENNESS = "Transfer"
"""The strategy than which ours must be more even."""
HEADER = (
    f"{'trace':<15}{'strategy':<17}{'moves':>18}{'felt':>18}{'splits':>13}{'max/mean':>18}{'p99':>6}"
    f"{'min > 85 %':>18}{'of bound':>9}{'bound':>7}"
)


def median(group: Iterable[Run], figure: Callable[[Run], float]) -> float:
    """Median of a figure."""
    return statistics.median(figure(run) for run in group)


def spread(values: Iterable[float], digits: int = 0) -> str:
    """Median (least-most)."""
    ordered = sorted(values)
    return f"{statistics.median(ordered):.{digits}f} ({ordered[0]:.{digits}f}-{ordered[-1]:.{digits}f})"


def better_on_both(other: Sequence[Run], ours: Sequence[Run]) -> bool:
    """Whether another strategy's medians are below ours in reconnects as well as in max/mean."""
    return all(median(other, figure) < median(ours, figure) for figure in (_felt, _mean))


def _felt(run: Run) -> float:
    return run.felt


def _mean(run: Run) -> float:
    return run.mean


def _by_strategy(found: Iterable[Run]) -> dict[str, list[Run]]:
    groups: dict[str, list[Run]] = {}
    for run in found:
        groups.setdefault(run.strategy, []).append(run)
    return groups


def _row(trace: str, strategy: str, group: Sequence[Run], mark: str) -> str:
    return (
        f"{trace:<15}{strategy:<17}{spread(run.unloads for run in group):>18}{spread(map(_felt, group)):>18}"
        f"{spread(run.splits for run in group):>13}{spread(map(_mean, group), 2):>18}"
        f"{median(group, lambda run: run.p99):>6.2f}{spread(run.overloaded for run in group):>18}"
        f"{median(group, lambda run: run.unavoidable):>9.0f}{median(group, lambda run: run.bound):>7.2f}"
        f"{'  ' + mark if mark else ''}"
    )


def print_rows(trace: str, found: Sequence[Run]) -> None:
    """A row for each strategy, marked where it is better than ours on both."""
    groups = _by_strategy(found)
    for strategy, group in groups.items():
        mark = BETTER if strategy != OURS and better_on_both(group, groups[OURS]) else ""
        print(_row(trace, strategy, group, mark))
    print()


def print_tables(found: Sequence[Run]) -> None:
    """P6 trace by trace for each sigma of the hidden costs, and then all traces of each sigma together."""
    sigmas = list(dict.fromkeys(run.sigma for run in found))
    traces = list(dict.fromkeys(run.trace for run in found))
    for sigma in sigmas:
        print(f"{'P6' if not sigma else f'P6, hidden cost of sigma {sigma}'}\n{HEADER}")
        for trace in traces:
            print_rows(trace, [run for run in found if (run.trace, run.sigma) == (trace, sigma)])
    print(f"hidden cost, {len(traces)} traces together\n{HEADER.replace('trace', 'sigma', 1)}")
    for sigma in sigmas:
        print_rows(f"{sigma}", [run for run in found if run.sigma == sigma])


def bars(found: Sequence[Run]) -> bool:
    """Print whether each trace meets P6 at each sigma, by medians, and on how many seeds each part holds alone.

    The bars: no strategy has both fewer reconnects and a lower max/mean; fewer reconnects than AvgShedder, as Pulsar
    ships it and tuned; a lower max/mean than TransferShedder.
    """
    every = True
    for sigma, trace in dict.fromkeys((run.sigma, run.trace) for run in found):
        groups = _by_strategy(run for run in found if (run.sigma, run.trace) == (sigma, trace))
        for group in groups.values():
            group.sort(key=lambda run: run.seed)
        ours = groups[OURS]
        better = [name for name, group in groups.items() if name != OURS and better_on_both(group, ours)]
        felt, ratio = median(ours, _felt), median(ours, _mean)
        peers = {name: median(groups[name], _felt) for name in PEERS}
        other = median(groups[EVENNESS], _mean)
        met = not better and felt < min(peers.values()) and ratio < other
        every &= met
        won = {name: sum(a.felt < b.felt for a, b in zip(ours, groups[name], strict=True)) for name in PEERS}
        lower = sum(a.mean < b.mean for a, b in zip(ours, groups[EVENNESS], strict=True))
        fewer = ", ".join(f"{name} {value:.0f} ({won[name]}/{len(ours)} seeds)" for name, value in peers.items())
        print(
            f"P6 {trace:<15}sigma {sigma:<4}{'met' if met else 'MISSED':<7}better on both: "
            f"{', '.join(better) or 'none'}; felt {felt:.0f} < {fewer}; "
            f"max/mean {ratio:.3f} < {EVENNESS} {other:.3f} ({lower}/{len(ours)} seeds)"
        )
    return every


def fault_bars(found: Sequence[Run], ignoring: str, faultless: str) -> bool:
    """Print whether each metric fault meets its bars, by medians, and return whether all do.

    The bars: no strategy has both fewer reconnects and a lower max/mean, ``ignoring`` included, which reads no CPU; and
    the operator has no more reconnects than that one. Where that one was not run on the day of a fault, its day is that
    of ``faultless``.
    """
    every = True
    for sigma, kind in dict.fromkeys((run.sigma, run.trace) for run in found):
        groups = _by_strategy(run for run in found if (run.sigma, run.trace) == (sigma, kind))
        if ignoring not in groups:
            groups |= _by_strategy(
                run for run in found if (run.sigma, run.trace, run.strategy) == (sigma, faultless, ignoring)
            )
        ours, calm = groups[OURS], groups[ignoring]
        better = [name for name, group in groups.items() if name != OURS and better_on_both(group, ours)]
        met = not better and median(ours, _felt) <= median(calm, _felt)
        every &= met
        print(
            f"metric fault {kind:<17}sigma {sigma:<4}{'met' if met else 'MISSED':<7}better on both: "
            f"{', '.join(better) or 'none'}; felt {median(ours, _felt):.0f}, without CPU {median(calm, _felt):.0f}; "
            f"max/mean {median(ours, _mean):.3f}, without CPU {median(calm, _mean):.3f}"
        )
    return every


def plot(found: Sequence[Run], path: Path) -> None:
    """One panel a trace, without hidden costs: how many clients felt it against how even it was."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    shown = [run for run in found if run.sigma == found[0].sigma]
    traces = list(dict.fromkeys(run.trace for run in shown))
    columns = min(4, len(traces))
    rows = -(-len(traces) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(4.2 * columns, 3.6 * rows), squeeze=False)
    for panel, trace in zip(axes.flat, traces, strict=False):
        own = [run for run in shown if run.trace == trace]
        for strategy, group in _by_strategy(own).items():
            x, y = max(1.0, median(group, _felt)), median(group, _mean)
            panel.plot([x], [y], "*" if strategy == OURS else "o", label=strategy)
            panel.annotate(strategy, (x, y), fontsize=7, xytext=(3, 3), textcoords="offset points")
        panel.axhline(median(own, lambda run: run.bound), ls=":", c="grey")
        panel.set(title=trace, xscale="log", xlabel="bundles moved in a day", ylabel="max/mean load")
    for panel in axes.flat[len(traces) :]:
        panel.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
