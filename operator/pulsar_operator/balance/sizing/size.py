"""Determines how many bundles every namespace needs, and exactly where to split.

Bundles have a cost and are never merged. So the smallest number is chosen whose placement keeps the busiest broker
within tolerance of the bound (see `granularity` for the search). If topics are hotter than a broker should be, the
other brokers must be even among themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum, inf

from pulsar_operator.balance.model.cluster import Broker, BundleId, Cell
from pulsar_operator.balance.model.cuts import Line
from pulsar_operator.balance.model.ranges import LAST_BOUNDARY, boundary_texts
from pulsar_operator.balance.planner.bound import Heaviest, least_busiest_allowed
from pulsar_operator.balance.planner.proposal import Balance
from pulsar_operator.balance.sizing.granularity import Goal, Part, Search, Subject, cut_all, even_goal
from pulsar_operator.balance.sizing.greedy import busiest

WHOLE = (0, LAST_BOUNDARY)
"""Boundaries of a namespace with one bundle."""


@dataclass(frozen=True, slots=True)
class NamespaceTraffic:
    """The traffic and bundles of one namespace."""

    namespace: str
    cells: Sequence[Cell]
    """Cells in ascending order of position."""
    boundaries: tuple[int, ...] | None = None
    """Existing boundaries, from 0 to 0xffffffff; None for a namespace that does not exist yet."""
    owners: tuple[str | None, ...] = ()
    """Broker id of each existing bundle, lowest range first; empty if unknown."""
    allowed: frozenset[str] | None = None
    """Broker ids that its isolation policy permits; None for all."""


@dataclass(frozen=True, slots=True)
class SizingOptions:
    """Options of the sizing."""

    tolerance: float = 0.05
    """Maximum excess of the busiest broker over the bound (relative)."""
    largest_share: float = 0.5
    """Maximum weight of a bundle of fresh boundaries, as a share of a broker's fair share, unless it is a single topic.
    With larger bundles the load of a lost broker goes to few others."""
    largest_part: float = 0.05
    """The same as a share of the total weight, so that the move of a bundle fits into a small budget if there are few
    brokers."""
    max_bundles: int = 4096
    """Maximum bundles of a namespace."""

    def __post_init__(self) -> None:
        for name, low, high in (("tolerance", 0.0, 10.0), ("largest_share", 0.01, 1.0), ("largest_part", 0.001, 1.0)):
            if not low < (value := getattr(self, name)) <= high:
                raise ValueError(f"{name} is {value}, but must be above {low} and at most {high}")
        if self.max_bundles < 1:
            raise ValueError(f"max_bundles is {self.max_bundles}, but must be at least 1")


@dataclass(frozen=True, slots=True)
class NamespacePlan:
    """One namespace: how many bundles, exactly which boundaries, and why."""

    namespace: str
    bundles_now: int
    """0 if it does not exist yet."""
    boundaries: tuple[str, ...]
    """Recommended boundaries in Pulsar's format. They include all existing ones, since bundles are never merged."""
    fresh_boundaries: tuple[str, ...]
    """Boundaries recommended for a namespace that is created again."""
    weight: float
    hottest: Cell | None
    """None without traffic."""
    reason: str


@dataclass(frozen=True, slots=True)
class SizingPlan:
    """Plans of all namespaces, and the expected balance."""

    namespaces: tuple[NamespacePlan, ...]
    before: Balance | None
    """Balance with the current owners; None if the owner of a bundle with traffic is unknown."""
    after: Balance
    """Balance with the recommended boundaries, placed by `greedy.place`."""
    fresh: Balance
    """Balance with the fresh boundaries, placed by `greedy.place`."""
    reason: str


def size(
    namespaces: Iterable[NamespaceTraffic], brokers: Sequence[Broker], options: SizingOptions | None = None
) -> SizingPlan:
    """Returns the boundaries of every namespace with which the busiest broker is within tolerance of the bound, with
    few bundles.

    Raises ValueError without a broker that takes bundles, for cells or boundaries that are not a namespace's, and for a
    namespace with traffic that no broker may serve.
    """
    options = options or SizingOptions()
    able = [broker for broker in brokers if not broker.draining]
    if not able:
        raise ValueError(f"none of {len(brokers)} brokers takes bundles, but at least one is needed")
    groups: dict[frozenset[str] | None, Heaviest] = {}
    subjects = [_subject(each, groups, len(able), options) for each in namespaces]
    bound = least_busiest_allowed(groups, able)
    if bound == inf:
        raise ValueError("a namespace with traffic may not be served by any broker. Widen its isolation policy")
    weight = fsum(subject.weight for subject in subjects)
    mean, fair = weight / fsum(broker.capacity for broker in able), weight / len(able)
    search = Search(subjects, able, (Goal(0, bound), even_goal(groups, able)), options.tolerance)

    def fresh_parts(limit: float) -> list[Part]:
        parts: list[Part] = []
        for index, subject in enumerate(subjects):
            idle = subject.today is not None and subject.weight <= 0
            parts += cut_all(index, subject, limit, fresh=not idle)
        return parts

    def refined_parts(limit: float) -> list[Part]:
        parts = [part for part in fresh.parts if subjects[part.subject].today is None]
        for index, subject in enumerate(subjects):
            if subject.today is not None:
                parts += cut_all(index, subject, limit)
        return parts

    fresh = search.run(fresh_parts, (min(options.largest_share, options.largest_part * len(able)),))
    refined = search.run(refined_parts, (inf, 1.0))
    after = Balance(refined.busiest, mean, bound, len(refined.parts))
    heaviest = [0.0] * len(subjects)
    for part in refined.parts:
        heaviest[part.subject] = max(heaviest[part.subject], part.weight)
    found = zip(subjects, refined.boundaries(len(subjects)), fresh.boundaries(len(subjects)), heaviest, strict=True)
    return SizingPlan(
        namespaces=tuple(_plan(*each, fair) for each in found),
        before=_before(subjects, brokers, mean, bound),
        after=after,
        fresh=Balance(fresh.busiest, mean, bound, len(fresh.parts)),
        reason=_summary(after, refined.score <= 1, sum(len(subject.today or WHOLE) - 1 for subject in subjects)),
    )


def _subject(
    traffic: NamespaceTraffic, groups: dict[frozenset[str] | None, Heaviest], brokers: int, options: SizingOptions
) -> Subject:
    today = traffic.boundaries
    if today is not None and (len(today) < 2 or (today[0], today[-1]) != (0, LAST_BOUNDARY) or _descends(today)):
        raise ValueError(
            f"the boundaries of {traffic.namespace} are {', '.join(map(str, today)) or 'empty'}, but must ascend from "
            f"0 to {LAST_BOUNDARY} without duplicates"
        )
    line = Line(BundleId(traffic.namespace, 0, LAST_BOUNDARY), traffic.cells)
    if traffic.allowed not in groups:
        groups[traffic.allowed] = Heaviest(brokers)
    groups[traffic.allowed].add(cell.weight for cell in traffic.cells)
    return Subject(
        name=traffic.namespace,
        line=line,
        today=today,
        owners=traffic.owners,
        allowed=traffic.allowed,
        hottest=max(traffic.cells, key=lambda cell: cell.weight, default=None),
        most=options.max_bundles,
    )


def _descends(points: Sequence[int]) -> bool:
    return any(left >= right for left, right in pairwise(points))


def _plan(subject: Subject, points: list[int], fresh: list[int], heaviest: float, fair: float) -> NamespacePlan:
    return NamespacePlan(
        namespace=subject.name,
        bundles_now=len(subject.today) - 1 if subject.today else 0,
        boundaries=boundary_texts(points),
        fresh_boundaries=boundary_texts(fresh),
        weight=subject.weight,
        hottest=subject.hottest,
        reason=_why(subject, len(points) - 1, heaviest, fair),
    )


def _before(subjects: Sequence[Subject], brokers: Sequence[Broker], mean: float, bound: float) -> Balance | None:
    loads = {broker.id: 0.0 for broker in brokers}
    bundles = 0
    for index, subject in enumerate(subjects):
        parts = cut_all(index, subject, inf) if subject.today else []
        bundles += len(parts)
        for part, owner in zip(parts, subject.owners or (None,) * len(parts), strict=True):
            if owner in loads:
                loads[owner] += part.weight
            elif part.weight > 0:
                return None
    return Balance(busiest(loads, brokers), mean, bound, bundles) if bundles else None


def _why(subject: Subject, count: int, heaviest: float, fair: float) -> str:
    """Returns why a namespace gets these bundles."""
    now = len(subject.today) - 1 if subject.today else 0
    if subject.hottest is None or subject.weight <= 0:
        return (
            (f"No traffic was observed, so the namespace keeps {_bundles(count)}.")
            if now
            else "No traffic was observed."
        )
    text = f"the heaviest bundle carries {_percent(heaviest / fair)} of a broker's fair share"
    if count == now:
        text = f"{_bundles(now)} {'is' if now == 1 else 'are'} sufficient, and {text}."
    elif subject.today:
        whole = (subject.line.weight(*window) for window in subject.windows)
        text = (
            f"The namespace gets {count} bundles instead of {now}, because one carried {_percent(max(whole) / fair)}. "
            f"Now {text}."
        )
    else:
        text = f"The namespace begins with {_bundles(count)}, and {text}."
    if subject.hottest.weight >= fair / 2:
        share = _percent(subject.hottest.weight / fair)
        text += f" The topic at {subject.hottest.position:#010x} alone carries {share}, which no split can reduce."
    return text


def _summary(after: Balance, good: bool, now: int) -> str:
    """Returns a summary for all namespaces."""
    if after.mean <= 0:
        return "No traffic was observed, so the bundles do not change."
    verbs = ("is", "becomes") if now == 1 else ("are", "become")
    text = (
        f"{_bundles(now)} {verbs[0]} sufficient"
        if after.bundles == now
        else f"{_bundles(now)} {verbs[1]} {after.bundles}"
    )
    text += f". Placed well, the busiest broker carries {after.ratio:.3f} times the mean"
    text += f", and no number of bundles achieves less than {after.bound_ratio:.3f}."
    return text if good else text + " This is not within the tolerance, and more bundles would not help."


def _bundles(count: int) -> str:
    return f"{count} bundle" if count == 1 else f"{count} bundles"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"
