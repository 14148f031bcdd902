"""Searches for the smallest number of bundles that can be balanced.

A trial splits every namespace into bundles of at most one weight, the limit, and places the bundles. As long as a
broker is above its goal, one of its bundles is split so that the excess becomes a bundle, and all bundles are placed
again. Of all limits, the one with the fewest bundles wins.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from math import fsum, inf
from typing import NamedTuple

from pulsar_operator.balance.model.cluster import Broker, Cell
from pulsar_operator.balance.model.cuts import Line
from pulsar_operator.balance.model.ranges import LAST_BOUNDARY
from pulsar_operator.balance.planner.bound import Heaviest
from pulsar_operator.balance.sizing.greedy import Piece, place

STEP, COARSE_STEP = 0.95, 0.85
"""Ratio of one limit to the previous one. A few bundles balance only if their number suits that of the brokers, so the
steps are small for few bundles; for many, adjacent limits have about the same result."""
SMALL, FINEST = 1 / 20, 1 / 500
"""A small limit, and the smallest one tried, in fair shares of a broker."""
ROUNDS = 4
"""Number of times that splits relieve overloaded brokers without any gain before the next limit is tried."""
CONSIDERED = 8
"""Maximum number of bundles of an overloaded broker that are considered for a split, the heaviest first."""
PATIENCE = 10
"""Number of limits without a better result before the search ends."""
ROUNDING = 1e-9
NEARLY = 1.01
"""If no trial meets the goals: factor within which a trial counts as good as the best one."""


@dataclass(slots=True)
class Subject:
    """A namespace during the search."""

    name: str
    line: Line
    today: tuple[int, ...] | None
    owners: tuple[str | None, ...]
    allowed: frozenset[str] | None
    hottest: Cell | None
    most: int
    """Maximum number of bundles after splits."""
    weight: float = field(init=False)
    windows: list[tuple[int, int]] = field(init=False)
    """The cells of each existing bundle."""

    def __post_init__(self) -> None:
        self.weight = self.line.weight(0, len(self.line))
        self.windows = self.line.windows(self.today or (0, LAST_BOUNDARY))


class Part(NamedTuple):
    """One bundle: the beginning of its range, and its cells as indexes into the line of its namespace."""

    subject: int
    lower: int
    first: int
    last: int
    weight: float


@dataclass(frozen=True, slots=True)
class Trial:
    """Bundles, and how evenly they can be placed."""

    parts: list[Part]
    busiest: float
    score: float
    """At most 1 if all goals are met."""

    def boundaries(self, subjects: int) -> list[list[int]]:
        """Returns the boundaries of each namespace."""
        found: list[list[int]] = [[] for _ in range(subjects)]
        for part in self.parts:
            found[part.subject].append(part.lower)
        return [[*sorted(lowers), LAST_BOUNDARY] for lowers in found]


class Goal(NamedTuple):
    """The goal that the broker with `rank` busier ones has a utilization of at most `level`."""

    rank: int
    level: float


def even_goal(groups: Mapping[frozenset[str] | None, Heaviest], brokers: Sequence[Broker]) -> Goal:
    """Returns how even the other brokers can be, without those that must be busier than the mean.

    `groups` are the weights by the brokers that may take them (None for all). Brokers must be busier if a namespace
    with more than their share is restricted to them; so must one broker for each cell hotter than the mean of the
    others.
    """
    left = {broker.id: broker.capacity for broker in brokers}
    everything = frozenset(left)
    limited = [(everything if allowed is None else allowed & everything, each) for allowed, each in groups.items()]
    while True:
        mean = fsum(each.total for _, each in limited) / fsum(left.values())
        crowded, level = frozenset[str](), mean * (1 + ROUNDING)
        for subset in {allowed for allowed, _ in limited if allowed and len(allowed) < len(left)}:
            inside = fsum(each.total for allowed, each in limited if allowed <= subset)
            if (full := inside / fsum(left[name] for name in subset)) > level:
                crowded, level = subset, full
        if not crowded:
            break
        limited = [(allowed - crowded, each) for allowed, each in limited if not allowed <= crowded]
        left = {name: capacity for name, capacity in left.items() if name not in crowded}
    cells = Heaviest(len(brokers))
    for _, each in limited:
        cells.merge(each)
    rest, room = cells.total, fsum(left.values())
    rank = len(brokers) - len(left)
    for weight, capacity in zip(cells.top, sorted(left.values(), reverse=True)[:-1], strict=False):
        if weight / capacity <= (rest - weight) / (room - capacity):
            return Goal(rank, max(rest / room, weight / capacity))
        rank, rest, room = rank + 1, rest - weight, room - capacity
    return Goal(rank, rest / room)


def cut_all(index: int, subject: Subject, limit: float, *, fresh: bool = False) -> list[Part]:
    """Returns the existing bundles of a namespace (or, with `fresh`, one bundle), split where they exceed the limit."""
    line = subject.line
    given = (0, LAST_BOUNDARY) if fresh or not subject.today else subject.today
    windows = [(0, len(line))] if fresh else subject.windows
    while True:
        parts: list[Part] = []
        for lower, (first, last) in zip(given, windows, strict=False):
            weight = line.weight(first, last)
            if weight <= limit:
                parts.append(Part(index, lower, first, last, weight))
                continue
            start, begin = first, lower
            for stop in line.stops(limit, first, last):
                parts.append(Part(index, begin, start, stop, line.weight(start, stop)))
                if stop < last:
                    start, begin = stop, line.cut(stop)
        if len(parts) <= subject.most or limit == inf:
            return parts
        limit = limit * 1.5 if 0 < limit < subject.weight else inf


class Search:
    """Finds the fewest bundles within the goals."""

    def __init__(
        self, subjects: Sequence[Subject], brokers: Sequence[Broker], goals: Sequence[Goal], tolerance: float
    ) -> None:
        self._subjects = subjects
        self._brokers = brokers
        self._goals = [Goal(goal.rank, goal.level * (1 + tolerance)) for goal in goals]
        self._even = goals[-1].level
        self._capacity = {broker.id: broker.capacity for broker in brokers}
        self._fair = fsum(subject.weight for subject in subjects) / len(brokers)

    def run(self, begin: Callable[[float], list[Part]], first: Sequence[float]) -> Trial:
        """Returns the trial with the fewest bundles within the goals; if there is none, the one with the fewest bundles
        that is nearly as good as the best.

        `begin` returns the bundles for a limit. `first` are limits in fair shares, which are tried before ever smaller
        ones.
        """
        best: Trial | None = None
        failed: list[Trial] = []
        lowest, since = inf, 0
        parts: list[Part] = []
        for share in _shares(first):
            limit = share * self._fair if share < inf else inf
            if parts and limit >= max(part.weight for part in parts):
                continue
            parts, before = begin(limit), parts
            if (best is not None and len(parts) >= len(best.parts)) or since == PATIENCE:
                break
            if len(parts) == len(before):
                continue
            trial = self._refine(parts, len(best.parts) if best is not None else None)
            if trial.score <= 1:
                best = trial if best is None or len(trial.parts) < len(best.parts) else best
            elif best is None:
                failed.append(trial)
                lowest, since = (trial.score, 0) if trial.score * NEARLY < lowest else (lowest, since + 1)
        if best is not None:
            return best
        level = min(trial.score for trial in failed) * NEARLY
        return min((trial for trial in failed if trial.score <= level), key=lambda trial: len(trial.parts))

    def _refine(self, parts: list[Part], fewer_than: int | None) -> Trial:
        """Places and relieves bundles until the goals are met, nothing helps, or there are too many bundles to win.
        Returns the trial."""
        owners, trial = self._place(parts)
        found, since = trial, 0
        while trial.score > 1 and since < ROUNDS:
            parts = self._relieve(trial.parts, owners)
            if len(parts) == len(trial.parts) or (fewer_than is not None and len(parts) >= fewer_than):
                break
            owners, trial = self._place(parts)
            found, since = (trial, 0) if trial.score * NEARLY < found.score else (found, since + 1)
        return trial if trial.score <= 1 else found

    def _place(self, parts: list[Part]) -> tuple[list[str], Trial]:
        owners, loads = place(
            [Piece(part.weight, self._subjects[part.subject].allowed) for part in parts], self._brokers
        )
        utilizations = sorted((loads[each.id] / each.capacity for each in self._brokers), reverse=True)
        score = max(utilizations[goal.rank] / goal.level if goal.level > 0 else 0.0 for goal in self._goals)
        return owners, Trial(parts, utilizations[0], score)

    def _relieve(self, parts: list[Part], owners: Sequence[str]) -> list[Part]:
        """Returns the parts with one bundle of each broker above its goal cut, so that about the excess becomes a
        separate bundle."""
        by_broker: dict[str, list[int]] = defaultdict(list)
        for index, owner in enumerate(owners):
            by_broker[owner].append(index)
        counts = Counter(part.subject for part in parts)
        cuts: dict[int, int] = {}
        for broker, indexes in by_broker.items():
            load = fsum(parts[index].weight for index in indexes)
            if load <= self._goals[-1].level * self._capacity[broker]:
                continue
            able = [i for i in indexes if counts[parts[i].subject] < self._subjects[parts[i].subject].most]
            excess = load - self._even * self._capacity[broker]
            choices = [
                (abs(abs(taken) - excess), index, stop)
                for index in nlargest(CONSIDERED, able, key=lambda i: parts[i].weight)
                for taken, stop in self._choices(parts[index], excess)
            ]
            if choices:
                _, index, stop = min(choices)
                cuts[index] = stop
                counts[parts[index].subject] += 1
        return [piece for index, part in enumerate(parts) for piece in self._cut(part, cuts.get(index))]

    def _choices(self, part: Part, excess: float) -> Iterable[tuple[float, int]]:
        """Yields the weight that is split off, and the index of the split: at the lower or at the upper end."""
        line = self._subjects[part.subject].line
        for below in (excess, part.weight - excess):
            stop = line.index_nearest(below, part.first, part.last)
            if stop is not None:
                lower = line.weight(part.first, stop)
                off = min(lower, part.weight - lower, key=lambda weight: abs(weight - excess))
                if 0 < off < part.weight:
                    yield off, stop

    def _cut(self, part: Part, stop: int | None) -> list[Part]:
        if stop is None:
            return [part]
        line = self._subjects[part.subject].line
        lower = part._replace(last=stop, weight=line.weight(part.first, stop))
        return [lower, Part(part.subject, line.cut(stop), stop, part.last, line.weight(stop, part.last))]


def _shares(first: Sequence[float]) -> Iterable[float]:
    yield from first
    share = first[-1]
    while (share := share * (STEP if share > SMALL else COARSE_STEP)) >= FINEST:
        yield share
