"""How many bundles every namespace needs, and exactly where to cut.

One limit for the weight of a bundle, the same for all namespaces, decides. A smaller limit gives more bundles and an
evener placement; bundles are a cost and never merged, so the largest limit whose placement is within tolerance of the
bound is taken. Where topics are hotter than a broker should be, the other brokers are to be even among themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import fsum, inf
from typing import NamedTuple

from pulsar_operator.balance.bound import Heaviest, least_busiest_allowed
from pulsar_operator.balance.cuts import Line
from pulsar_operator.balance.greedy import Piece, busiest, place
from pulsar_operator.balance.model import Broker, BundleId, Cell
from pulsar_operator.balance.proposal import Balance
from pulsar_operator.balance.ranges import LAST_BOUNDARY, boundary_texts

STEP, COARSE_STEP = 0.97, 0.85
"""Ratio of one limit tried to the one before. Few bundles balance only where their number suits that of the brokers, so
the steps are small until bundles are; then any limit does about as well as the next one."""
SMALL = 1 / 50
"""A small limit, in fair shares of a broker."""
FINEST = 1 / 500
"""The smallest limit tried."""
NEARLY = 1.01
"""When no limit is good enough: as good as the best one within this factor."""


@dataclass(frozen=True, slots=True)
class NamespaceTraffic:
    """What is known of one namespace."""

    namespace: str
    cells: Sequence[Cell]
    """Ascending by position."""
    boundaries: tuple[int, ...] | None = None
    """Today's, from 0 to 0xffffffff; None for a namespace that is still to be created."""
    owners: tuple[str | None, ...] = ()
    """Broker id by bundle of today, lowest range first; empty when not known."""
    allowed: frozenset[str] | None = None
    """Broker ids that its isolation policy permits; None = all."""


@dataclass(frozen=True, slots=True)
class SizingOptions:
    """What is wanted."""

    tolerance: float = 0.05
    """The busiest broker may be this much (relative) above the bound."""
    largest_share: float = 0.5
    """Of a broker's fair share: the most a bundle of fresh boundaries weighs, unless it is one topic.

    With larger ones the load of a lost broker falls on few others.
    """
    largest_part: float = 0.05
    """Of all weight: the same, so that the move of a bundle fits into a small budget where brokers are few."""
    max_bundles: int = 4096
    """Bundles a namespace may reach."""

    def __post_init__(self) -> None:
        for name, low, high in (("tolerance", 0.0, 10.0), ("largest_share", 0.01, 1.0), ("largest_part", 0.001, 1.0)):
            if not low < (value := getattr(self, name)) <= high:
                raise ValueError(f"{name} is {value}: must be above {low} and at most {high}")
        if self.max_bundles < 1:
            raise ValueError(f"max_bundles is {self.max_bundles}: must be at least 1")


@dataclass(frozen=True, slots=True)
class NamespacePlan:
    """One namespace: how many bundles, exactly where, and why."""

    namespace: str
    bundles_now: int
    """0 when it does not exist yet."""
    boundaries: tuple[str, ...]
    """Recommended, as Pulsar writes them; holds all of today's, since bundles are never merged."""
    fresh_boundaries: tuple[str, ...]
    """Recommended if the namespace were created anew."""
    weight: float
    hottest: Cell | None
    """None without traffic."""
    reason: str


@dataclass(frozen=True, slots=True)
class SizingPlan:
    """All namespaces, and what to expect."""

    namespaces: tuple[NamespacePlan, ...]
    before: Balance | None
    """As owned today; None when the owner of a bundle with traffic is not known."""
    after: Balance
    """With the recommended boundaries, placed from nothing (`greedy.place`)."""
    fresh: Balance
    """With the fresh boundaries, placed from nothing."""
    reason: str


@dataclass(slots=True)
class _Subject:
    """A namespace while limits are tried."""

    name: str
    line: Line
    today: tuple[int, ...] | None
    windows: list[tuple[int, int]]
    window_weights: list[float]
    owners: tuple[str | None, ...]
    allowed: frozenset[str] | None
    hottest: Cell | None
    most: int

    def fresh(self, limit: float) -> tuple[list[int], list[float]]:
        """Boundaries and weights of the bundles when nothing is given."""
        if self.line.weight <= 0 and self.today:
            return self.refined(inf)
        return self._cut((0, LAST_BOUNDARY), [(0, self.line.cells)], [self.line.weight], limit)

    def refined(self, limit: float) -> tuple[list[int], list[float]]:
        """Boundaries and weights of the bundles when today's boundaries stay."""
        return self._cut(self.today or (0, LAST_BOUNDARY), self.windows, self.window_weights, limit)

    def _cut(
        self, given: Sequence[int], windows: Sequence[tuple[int, int]], whole: Sequence[float], limit: float
    ) -> tuple[list[int], list[float]]:
        points: list[int] = []
        weights: list[float] = []
        for lower, window, weight in zip(given, windows, whole, strict=False):
            points.append(lower)
            if weight <= limit:
                weights.append(weight)
                continue
            cuts, inside = self.line.pieces(limit, window)
            points += cuts
            weights += inside
        if len(weights) > self.most and limit < inf:
            coarser = limit * 1.5 if 0 < limit < self.line.weight else inf
            return self._cut(given, windows, whole, coarser)
        return [*points, LAST_BOUNDARY], weights


@dataclass(frozen=True, slots=True)
class _Trial:
    limit: float
    busiest: float
    score: float
    """At most 1 when all goals are met."""
    bundles: int


class _Goal(NamedTuple):
    """The broker that has `rank` busier ones is to be utilized at most `level`."""

    rank: int
    level: float


def size(
    namespaces: Iterable[NamespaceTraffic], brokers: Sequence[Broker], options: SizingOptions | None = None
) -> SizingPlan:
    """Boundaries of every namespace, such that the busiest broker is within tolerance of the bound with few bundles.

    Raises ValueError without a broker that takes bundles, for cells or boundaries that are not a namespace's, and for a
    namespace with traffic that no broker may serve.
    """
    options = options or SizingOptions()
    able = [broker for broker in brokers if not broker.draining]
    if not able:
        raise ValueError(f"{len(brokers)} brokers, none of which takes bundles: at least one is needed")
    groups: dict[frozenset[str] | None, Heaviest] = {}
    subjects = [_subject(each, groups, len(able), options) for each in namespaces]
    bound = least_busiest_allowed(groups, able)
    if bound == inf:
        raise ValueError("a namespace with traffic may be served by no broker there is: widen its isolation policy")
    mean = fsum(subject.line.weight for subject in subjects) / fsum(broker.capacity for broker in able)
    fair = fsum(subject.line.weight for subject in subjects) / len(able)
    rest = _without_hot_cells(groups.values(), able)
    goals = tuple(_Goal(rank, level * (1 + options.tolerance)) for rank, level in ((0, bound), rest))
    search = _Search(able, goals, rest.level * fair / mean if mean > 0 else 0.0)
    largest = min(options.largest_share, options.largest_part * len(able))
    fresh = search.run([_Cuttable(each.fresh, each.allowed) for each in subjects], (largest,))

    def boundaries(subject: _Subject, limit: float) -> tuple[list[int], list[float]]:
        return subject.refined(limit) if subject.today else subject.fresh(fresh.limit)

    now = search.run([_Cuttable(partial(boundaries, each), each.allowed) for each in subjects], (inf, 1.0))
    after = Balance(now.busiest, mean, bound, now.bundles)
    plans = []
    for subject in subjects:
        points, weights = boundaries(subject, now.limit)
        plans.append(
            NamespacePlan(
                namespace=subject.name,
                bundles_now=len(subject.today) - 1 if subject.today else 0,
                boundaries=boundary_texts(points),
                fresh_boundaries=boundary_texts(subject.fresh(fresh.limit)[0]),
                weight=subject.line.weight,
                hottest=subject.hottest,
                reason=_why(subject, weights, fair),
            )
        )
    return SizingPlan(
        namespaces=tuple(plans),
        before=_before(subjects, brokers, mean, bound),
        after=after,
        fresh=Balance(fresh.busiest, mean, bound, fresh.bundles),
        reason=_summary(after, now, fair),
    )


def _subject(
    traffic: NamespaceTraffic, groups: dict[frozenset[str] | None, Heaviest], brokers: int, options: SizingOptions
) -> _Subject:
    today = traffic.boundaries
    if today is not None and (len(today) < 2 or (today[0], today[-1]) != (0, LAST_BOUNDARY) or _descends(today)):
        raise ValueError(
            f"boundaries of {traffic.namespace} are {today}: they must ascend from 0 to {LAST_BOUNDARY}, each once"
        )
    line = Line(BundleId(traffic.namespace, 0, LAST_BOUNDARY), traffic.cells)
    if traffic.allowed not in groups:
        groups[traffic.allowed] = Heaviest(brokers)
    groups[traffic.allowed].add(cell.weight for cell in traffic.cells)
    windows = line.windows(today or (0, LAST_BOUNDARY))
    return _Subject(
        name=traffic.namespace,
        line=line,
        today=today,
        windows=windows,
        window_weights=[line.pieces(inf, window)[1][0] for window in windows],
        owners=traffic.owners,
        allowed=traffic.allowed,
        hottest=max(traffic.cells, key=lambda cell: cell.weight, default=None),
        most=options.max_bundles,
    )


def _descends(points: Sequence[int]) -> bool:
    return any(left >= right for left, right in pairwise(points))


def _without_hot_cells(groups: Iterable[Heaviest], brokers: Sequence[Broker]) -> _Goal:
    """How even the others can be when every cell hotter than the mean of the others has a broker for itself."""
    everything = Heaviest(len(brokers))
    for group in groups:
        everything.merge(group)
    capacities = sorted((broker.capacity for broker in brokers), reverse=True)
    rest, room = everything.total, fsum(capacities)
    for rank, (weight, capacity) in enumerate(zip(everything.top, capacities, strict=False)):
        if rank == len(capacities) - 1 or weight / capacity <= (rest - weight) / (room - capacity):
            return _Goal(rank, max(rest / room, weight / capacity))
        rest, room = rest - weight, room - capacity
    return _Goal(0, rest / room)


class _Cuttable(NamedTuple):
    """How a namespace answers to a limit."""

    cut: Callable[[float], tuple[list[int], list[float]]]
    allowed: frozenset[str] | None


class _Search:
    """Tries limits from coarse to fine."""

    def __init__(self, brokers: Sequence[Broker], goals: Sequence[_Goal], fair: float) -> None:
        self._brokers = brokers
        self._goals = goals
        self._fair = fair

    def run(self, namespaces: Sequence[_Cuttable], first: Sequence[float]) -> _Trial:
        """The coarsest limit within the goal; if there is none, the coarsest nearly as good as the best.

        `first`: limits in fair shares, tried before ever finer ones.
        """
        shares = [*first]
        while shares[-1] * COARSE_STEP >= FINEST:
            shares.append(shares[-1] * (STEP if shares[-1] > SMALL else COARSE_STEP))
        trials: list[_Trial] = []
        for share in shares:
            trials.append(self._try(namespaces, share * self._fair if share < inf else inf))
            if trials[-1].score <= 1:
                return self._between(namespaces, trials)
        best = min(trial.score for trial in trials)
        return next(trial for trial in trials if trial.score <= best * NEARLY)

    def _between(self, namespaces: Sequence[_Cuttable], trials: list[_Trial]) -> _Trial:
        """The last trial is good, the one before it is not: perhaps one between them has fewer bundles."""
        good = trials[-1]
        if len(trials) < 2 or trials[-2].limit == inf:
            return good
        low, high = good.limit, trials[-2].limit
        for _ in range(3):
            middle = self._try(namespaces, (low * high) ** 0.5)
            if middle.score <= 1:
                low, good = middle.limit, min(good, middle, key=lambda trial: trial.bundles)
            else:
                high = middle.limit
        return good

    def _try(self, namespaces: Sequence[_Cuttable], limit: float) -> _Trial:
        pieces: list[Piece] = []
        bundles = 0
        for each in namespaces:
            weights = each.cut(limit)[1]
            bundles += len(weights)
            pieces += [Piece(weight, each.allowed) for weight in weights if weight > 0]
        _, loads = place(pieces, self._brokers)
        utilizations = sorted((loads[each.id] / each.capacity for each in self._brokers), reverse=True)
        score = max(utilizations[goal.rank] / goal.level if goal.level > 0 else 0.0 for goal in self._goals)
        return _Trial(limit, utilizations[0], score, bundles)


def _before(subjects: Sequence[_Subject], brokers: Sequence[Broker], mean: float, bound: float) -> Balance | None:
    loads = {broker.id: 0.0 for broker in brokers}
    bundles = 0
    for subject in subjects:
        weights = subject.refined(inf)[1] if subject.today else []
        bundles += len(weights)
        for weight, owner in zip(weights, subject.owners or (None,) * len(weights), strict=True):
            if weight > 0 and owner not in loads:
                return None
            if owner in loads:
                loads[owner] += weight
    return Balance(busiest(loads, brokers), mean, bound, bundles) if bundles else None


def _why(subject: _Subject, weights: Sequence[float], fair: float) -> str:
    """Why a namespace gets these bundles, in words."""
    count, now = len(weights), len(subject.windows) if subject.today else 0
    if subject.hottest is None or subject.line.weight <= 0:
        return f"No traffic was observed: {_bundles(count)} as today." if now else "No traffic was observed."
    heaviest = f"the heaviest of them carries {_percent(max(weights) / fair)} of a broker's fair share"
    if count == now:
        text = f"{_bundles(now)} {'is' if now == 1 else 'are'} enough, {heaviest}."
    elif now:
        was = max(subject.refined(inf)[1])
        text = f"{_bundles(now)} cut into {count}: before, one carried {_percent(was / fair)}, now {heaviest}."
    else:
        text = f"{_bundles(count)} to begin with, {heaviest}."
    if subject.hottest.weight >= fair / 2:
        share = _percent(subject.hottest.weight / fair)
        text += f" The topic at {subject.hottest.position:#010x} alone is {share}: no cut makes it lighter."
    return text


def _summary(after: Balance, trial: _Trial, fair: float) -> str:
    """What was found for all namespaces, in words."""
    if after.mean <= 0:
        return "No traffic was observed: the bundles stay as they are."
    most = _percent(trial.limit / fair)
    limits = "Today's bundles" if trial.limit == inf else f"Bundles of at most {most} of a fair share"
    text = f"{limits}, {after.bundles} in all, bring the busiest broker to {after.ratio:.3f} times the mean"
    text += f"; no bundles can do better than {after.bound_ratio:.3f}."
    if trial.score > 1:
        text += " That is not within the tolerance: more bundles would not help."
    return text


def _bundles(count: int) -> str:
    return f"{count} bundle" if count == 1 else f"{count} bundles"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"
