"""Boundaries of a namespace that is about to be created (`bundles.sizing: Auto`), so that no split is needed later.

Pulsar accepts any boundaries at creation. They follow from the observed traffic, otherwise from the declared topics,
otherwise only from the number of brokers. Even ranges are the last resort: partitions of a topic do not hash
independently (see `hashing.topic_hash`), so that 8 or 10 partitions always share 4 of 16 or 32 even bundles.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from pulsar_operator.balance.model.cluster import Broker, Cell
from pulsar_operator.balance.model.cuts import cut_between
from pulsar_operator.balance.model.hashing import split_partition, topic_hash
from pulsar_operator.balance.model.ranges import LAST_BOUNDARY, boundary_texts, even_boundaries
from pulsar_operator.balance.sizing.size import NamespaceTraffic, size

LEAST_EVEN = 64
"""Minimum number of even bundles; with fewer, the partitions of a topic share bundles more often than independent
hashes would."""
PER_BROKER = 4
"""Minimum number of bundles for each broker: they can be moved, or go to several others when their broker is lost."""


@dataclass(frozen=True, slots=True)
class NewBundles:
    """Boundaries in Pulsar's format, and the reason for them."""

    boundaries: tuple[str, ...]
    reason: str


def boundaries_of_new(
    namespace: str, brokers: Sequence[Broker], *, cells: Sequence[Cell] = (), topics: Iterable[str] = ()
) -> NewBundles:
    """Returns the boundaries of a namespace that does not exist yet.

    `cells` is its traffic by position, ascending, as in a sizing result. `topics` are the full names of declared
    topics, with a name for each partition. Draining brokers do not count. Raises ValueError for cells that are not in
    order.
    """
    able = [broker for broker in brokers if not broker.draining]
    if able and any(cell.weight > 0 for cell in cells):
        plan = size([NamespaceTraffic(namespace, cells)], able)
        found = plan.namespaces[0].fresh_boundaries
        reason = f"The {len(found) - 1} bundles follow from observed traffic. The busiest of {len(able)} brokers gets "
        return NewBundles(found, reason + f"{plan.fresh.ratio:.2f} times the mean.")
    declared = sorted({(topic_hash(name), split_partition(name)[0]) for name in topics})
    if able and len(declared) >= len(able):
        points = _cut_by_names(declared, len(able))
        reason = (
            f"The {len(points) - 1} bundles follow from {len(declared)} declared topics and partitions, so that those "
        )
        return NewBundles(boundary_texts(points), reason + f"of a topic are spread over {len(able)} brokers.")
    count = _even_count(len(able))
    known = f"only {len(declared)} topics are declared" if declared else "no traffic and no topics are known"
    reason = f"The {count} bundles for {len(able)} brokers are of equal size, because {known}."
    return NewBundles(tuple(even_boundaries(count)), reason)


def _even_count(brokers: int) -> int:
    """Returns the smallest sufficient multiple of the number of brokers."""
    each = max(brokers, 1)
    return each * max(ceil(LEAST_EVEN / each), PER_BROKER if brokers else 0)


def _cut_by_names(declared: Sequence[tuple[int, str]], brokers: int) -> list[int]:
    """Returns boundaries of as many bundles as without names, none of which contains more than its share of all names,
    nor of those of one topic.

    `declared` has the position and the partitioned topic of each name, ascending. Pulsar assigns every broker about the
    same number of bundles of a new namespace (setting loadBalancerDistributeBundlesEvenlyEnabled), so bundles should
    contain about the same number of names. If a separation of all partitions would need many more bundles, some
    partitions of a topic stay together.
    """
    parts = _even_count(brokers)
    partitions = Counter(topic for _, topic in declared)
    most = ceil(len(declared) / parts)
    relax = 1
    while True:
        limits = {topic: relax * ceil(count / parts) for topic, count in partitions.items()}
        points = _greedy(declared, limits, most)
        if len(points) - 1 <= 2 * parts:
            break
        relax *= 2
    return _multiple([position for position, _ in declared], points, brokers)


def _greedy(declared: Sequence[tuple[int, str]], limits: dict[str, int], most: int) -> list[int]:
    points = [0]
    inside: Counter[str] = Counter()
    count, before = 0, -1
    for position, topic in declared:
        full = count >= most or inside[topic] >= limits[topic]
        if full and (cut := cut_between(before, position)) is not None:
            points.append(cut)
            inside.clear()
            count = 0
        inside[topic] += 1
        count += 1
        before = position
    return [*points, LAST_BOUNDARY]


def _multiple(positions: Sequence[int], points: list[int], brokers: int) -> list[int]:
    """Returns the boundaries with the fullest bundles halved until the number of bundles is a multiple of the brokers,
    as far as names allow."""
    while (len(points) - 1) % brokers:
        starts = [bisect_left(positions, point) for point in points[:-1]]
        halves = [(end - start, (start + end) // 2) for start, end in pairwise([*starts, len(positions)])]
        names, half = max(halves)
        cut = cut_between(positions[half - 1], positions[half]) if names > 1 else None
        if cut is None:
            break
        points = sorted([*points, cut])
    return points
