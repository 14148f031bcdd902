"""P5: where bundles are cut. Zipf traffic, hot partitions, 1k-100k topics with real names, against Pulsar's own splits.

Every method's bundles are placed alike, the heaviest first on the least loaded broker, so that only the cuts differ.
The bar: the busiest broker within 5 % of the bound max(1, hottest topic x brokers / total), with at most half the
bundles of range splitting; with the placement kept and weights drifted by 10 %, within 15 % of their new bound.
"""

from __future__ import annotations

import argparse
import csv
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import product
from math import fsum, inf
from pathlib import Path
from statistics import median

from benchmarks.balance import baselines
from benchmarks.balance.baselines import split_automatically, split_hottest
from benchmarks.balance.topics import World, make
from benchmarks.simulator import splits
from benchmarks.simulator.state import Limits
from pulsar_operator.balance.model.cluster import Broker, BundleId, Cell
from pulsar_operator.balance.model.cuts import Line
from pulsar_operator.balance.model.ranges import LAST_BOUNDARY, boundary_points, even_boundaries
from pulsar_operator.balance.sizing.greedy import Piece, place
from pulsar_operator.balance.sizing.size import NamespaceTraffic, SizingOptions, size

BROKERS = 10
MESSAGES_PER_BROKER = 100_000.0
"""In and out together."""
TOPICS = (1_000, 10_000, 100_000)
NAMESPACES = (1, 10)
EXPONENTS = (0.6, 0.8, 1.0, 1.3)
MOST_BUNDLES = 20_000
UNLIMITED = 1 << 62
WITHIN, DRIFTED, HALF = 1.05, 1.15, 0.5
OURS, OURS_LATER, OURS_FEWEST = "sized, created so", "sized, from 4 even", "sized, any granularity"
RANGE, COUNT, FLOW = "range, automatic", "topic count, automatic", "flow, automatic"
RANGE_TUNED, FLOW_TUNED = "range, limits tuned", "flow, limits tuned"
RANGE_HOTTEST = "range, hottest until 5 %"
METHODS = (OURS, OURS_LATER, OURS_FEWEST, RANGE, COUNT, FLOW, RANGE_TUNED, FLOW_TUNED, RANGE_HOTTEST)

Points = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Row:
    """One method on one seed of one case; ratios are busiest broker to bound."""

    topics: int
    namespaces: int
    exponent: float
    hot: bool
    seed: int
    method: str
    bound: float
    """Over the mean."""
    ratio: float
    bundles: int
    splits: int
    drifted: float
    seconds: float

    @property
    def case(self) -> tuple[int, int, float, bool]:
        """All but the seed and the method."""
        return self.topics, self.namespaces, self.exponent, self.hot


class Case:
    """One world, and what any boundaries are worth in it."""

    def __init__(self, topics: int, namespaces: int, exponent: float, hot: bool, seed: int) -> None:
        rng = random.Random(f"{topics} {namespaces} {exponent} {hot} {seed}")
        self.key = (topics, namespaces, exponent, hot, seed)
        self.world: World = make(topics, namespaces, exponent, hot, BROKERS * MESSAGES_PER_BROKER, rng)
        self.brokers = [Broker(f"broker-{index}:8080") for index in range(BROKERS)]
        self.cells = self.world.cells()
        self.drifted = self.world.cells(self.world.drift(rng, 0.1))
        self._lines, self._drifted_lines = _lines(self.cells), _lines(self.drifted)
        self.mean, self.bound = _bound(self.cells.values())
        self._drifted_bound = _bound(self.drifted.values())[1]

    def ratios(self, points: Points) -> tuple[float, float]:
        """Busiest broker to bound: as placed, and after the drift with the same placement."""
        owners, loads = place([Piece(weight) for weight in _weights(self._lines, points)], self.brokers)
        later = dict.fromkeys(loads, 0.0)
        for owner, weight in zip(owners, _weights(self._drifted_lines, points), strict=True):
            later[owner] += weight
        return max(loads.values()) / self.bound, max(later.values()) / self._drifted_bound

    def good(self, points: Points) -> bool:
        """Within the bar."""
        return self.ratios(points)[0] <= WITHIN

    def row(self, method: str, find: Callable[[], Points], given: int) -> Row:
        """Measure a method; `given`: bundles each namespace is created with, 0 = with the boundaries themselves."""
        start = time.perf_counter()
        points = find()
        seconds = time.perf_counter() - start
        bundles = sum(len(own) - 1 for own in points.values())
        splits = bundles - given * len(points) if given else 0
        ratio, drifted = self.ratios(points)
        return Row(*self.key, method, self.bound / self.mean, ratio, bundles, splits, drifted, seconds)


def _lines(cells: Mapping[str, Sequence[Cell]]) -> dict[str, Line]:
    return {name: Line(BundleId(name, 0, LAST_BOUNDARY), own) for name, own in cells.items()}


def _weights(lines: Mapping[str, Line], points: Points) -> list[float]:
    return [line.weight(*window) for name, line in lines.items() for window in line.windows(list(points[name]))]


def _bound(cells: Iterable[Sequence[Cell]]) -> tuple[float, float]:
    """Mean and bound as the bar has it."""
    weights = [cell.weight for own in cells for cell in own]
    mean = fsum(weights) / BROKERS
    return mean, max(mean, *weights)


def measure(case: Case) -> list[Row]:
    """All methods on one case."""
    spaces = baselines.by_namespace(case.world.topics)
    even = boundary_points(even_boundaries(4))

    def sized(today: bool, sizing: SizingOptions) -> Points:
        boundaries = tuple(even) if today else None
        traffic = [NamespaceTraffic(name, own, boundaries) for name, own in case.cells.items()]
        plans = size(traffic, case.brokers, sizing).namespaces
        return {plan.namespace: boundary_points(plan.boundaries) for plan in plans}

    def automatic(algorithm: splits.Algorithm, limits: Limits) -> Points:
        return {name: split_automatically(own, algorithm, limits) for name, own in spaces.items()}

    def tuned(algorithm: splits.Algorithm) -> Points:
        """The coarsest limits of rate that bring the rule within the bar; the best ones if none does."""
        best: tuple[float, Points] | None = None
        share = 1.0
        while share > 0.01:
            rate = share * MESSAGES_PER_BROKER
            points = automatic(algorithm, Limits(topics=UNLIMITED, sessions=UNLIMITED, messages=rate, bytes=inf))
            ratio = case.ratios(points)[0]
            if best is None or ratio < best[0]:
                best = ratio, points
            if ratio <= WITHIN:
                break
            share *= 0.9
        assert best is not None
        return best[1]

    usual = SizingOptions()
    coarse = SizingOptions(largest_share=1.0, largest_part=1.0)
    return [
        case.row(OURS, partial(sized, False, usual), 0),
        case.row(OURS_LATER, partial(sized, True, usual), 4),
        case.row(OURS_FEWEST, partial(sized, False, coarse), 0),
        case.row(RANGE, partial(automatic, splits.range_equally_divide, Limits()), 4),
        case.row(COUNT, partial(automatic, splits.topic_count_equally_divide, Limits()), 4),
        case.row(FLOW, partial(automatic, splits.flow_or_qps_equally_divide, Limits()), 4),
        case.row(RANGE_TUNED, partial(tuned, splits.range_equally_divide), 4),
        case.row(FLOW_TUNED, partial(tuned, splits.flow_or_qps_equally_divide), 4),
        case.row(
            RANGE_HOTTEST,
            partial(split_hottest, spaces, splits.range_equally_divide, case.good, MOST_BUNDLES),
            4,
        ),
    ]


def _spread(values: Sequence[float], digits: int = 3) -> str:
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def print_table(rows: Sequence[Row]) -> None:
    """Median and spread over the seeds of each case."""
    print(
        f"\n{'topics':>7} {'ns':>3} {'zipf':>4} {'hot':>3} {'bound':>6}  {'method':<28}{'busiest / bound':<22}"
        f"{'bundles':<18}{'splits':<16}{'after 10 % drift':<22}{'seconds':>8}"
    )
    for case, method in product(sorted({row.case for row in rows}), METHODS):
        own = [row for row in rows if row.case == case and row.method == method]
        topics, namespaces, exponent, hot = case
        print(
            f"{topics:>7} {namespaces:>3} {exponent:>4} {'yes' if hot else 'no':>3} "
            f"{median(r.bound for r in own):>6.2f}  {method:<28}"
            f"{_spread([r.ratio for r in own]):<22}{_spread([r.bundles for r in own], 0):<18}"
            f"{_spread([r.splits for r in own], 0):<16}{_spread([r.drifted for r in own]):<22}"
            f"{median(r.seconds for r in own):>8.2f}"
        )


def print_bars(rows: Sequence[Row]) -> bool:
    """Each method over all runs, then each bar with its answer, by the medians of the cases; True when all are met."""

    def of(method: str) -> list[Row]:
        return [row for row in rows if row.method == method]

    print(f"\n{'all runs':<30}{'busiest / bound':<22}{'within 5 %':<12}{'after drift':<22}{'within 15 %':<13}bundles")
    for method in METHODS:
        own = of(method)
        near, later = sum(row.ratio <= WITHIN for row in own), sum(row.drifted <= DRIFTED for row in own)
        print(
            f"{method:<30}{_spread([r.ratio for r in own]):<22}{f'{near} of {len(own)}':<12}"
            f"{_spread([r.drifted for r in own]):<22}{f'{later} of {len(own)}':<13}"
            f"{_spread([r.bundles for r in own], 0)}"
        )
    others = {(row.case, row.seed, row.method): row.bundles for row in rows}

    def share(other: str) -> Callable[[Row], float]:
        return lambda row: row.bundles / others[row.case, row.seed, other]

    print(f"\n{OURS}: medians of the cases' seeds")
    answers = [
        _bar("busiest / bound", of(OURS), lambda row: row.ratio, WITHIN),
        _bar("after 10 % drift", of(OURS), lambda row: row.drifted, DRIFTED),
        _bar(f"bundles / those of '{RANGE}'", of(OURS), share(RANGE), HALF),
    ]
    print("to compare, no bars:")
    for method, other in product((OURS, OURS_FEWEST), (RANGE_TUNED, FLOW_TUNED, RANGE_HOTTEST)):
        _bar(f"bundles / those of '{other}' ({method})", of(method), share(other), HALF)
    _bar(f"busiest / bound ({OURS_LATER})", of(OURS_LATER), lambda row: row.ratio, WITHIN)
    _bar(f"after 10 % drift ({OURS_LATER})", of(OURS_LATER), lambda row: row.drifted, DRIFTED)
    return all(answers)


def _bar(text: str, rows: Sequence[Row], figure: Callable[[Row], float], most: float) -> bool:
    """Print one figure; True when the median over the seeds is at most `most` in every case."""
    by_case: dict[tuple[int, int, float, bool], list[float]] = defaultdict(list)
    for row in rows:
        by_case[row.case].append(figure(row))
    medians = [median(found) for found in by_case.values()]
    good = sum(each <= most for each in medians)
    runs = [figure(row) for row in rows]
    print(
        f"  {text:<68}{_spread(medians):<22} <= {most}: {good} of {len(medians)} cases, "
        f"{sum(each <= most for each in runs)} of {len(runs)} runs"
    )
    return good == len(medians)


def main(argv: Sequence[str]) -> int:
    """Run all cases, print the table and the bars; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.balance boundaries", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1k and 10k topics, two exponents, three seeds")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--csv", type=Path, default=Path("build/benchmarks/boundaries.csv"))
    options = parser.parse_args(argv)
    sizes: Sequence[int] = TOPICS
    exponents: Sequence[float] = EXPONENTS
    seeds = options.seeds
    if options.quick:
        sizes, exponents, seeds = TOPICS[:2], EXPONENTS[1::2], 3
    rows: list[Row] = []
    for key in product(sizes, NAMESPACES, exponents, (False, True), range(seeds)):
        rows += measure(Case(*key))
    print_table(rows)
    met = print_bars(rows)
    options.csv.parent.mkdir(parents=True, exist_ok=True)
    with options.csv.open("w", newline="") as out:
        writer = csv.DictWriter(out, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    print(f"\n{BROKERS} brokers, {MESSAGES_PER_BROKER:.0f} messages/s each; raw: {options.csv}")
    return 0 if met else 1
