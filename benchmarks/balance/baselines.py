"""How far Pulsar's split rules and algorithms (`benchmarks.simulator.splits`) come where the rates are steady.

A bundle is split when it has at least two topics and exceeds one of the four limits, until none does or its namespace
has the most bundles that automatic splitting may make. Rates are steady, as the long-term averages that the rule reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import pairwise

from benchmarks.balance.topics import Topic
from benchmarks.simulator.splits import Algorithm, Namespace, exceeds
from benchmarks.simulator.state import Limits
from pulsar_operator.balance.model.ranges import boundary_points, even_boundaries


def too_much(namespace: Namespace, lower: int, upper: int, limits: Limits) -> bool:
    """Whether the rule wants the bundle split; every topic has a producer and a consumer."""
    start, end = namespace.window(lower, upper)
    topics = end - start
    messages, volume = namespace.messages, namespace.bytes
    return exceeds(limits, topics, 2 * topics, messages[end] - messages[start], volume[end] - volume[start])


def split_automatically(namespace: Namespace, algorithm: Algorithm, limits: Limits, first: int = 4) -> list[int]:
    """Boundaries of a namespace that begins with `first` even bundles, when nothing is split any more."""
    points = boundary_points(even_boundaries(first))
    stuck: set[tuple[int, int]] = set()
    while True:
        before = len(points)
        for lower, upper in list(pairwise(points)):
            if len(points) - 1 >= limits.bundles:
                break
            if (lower, upper) in stuck or not too_much(namespace, lower, upper, limits):
                continue
            cuts = {cut for cut in algorithm(namespace, lower, upper, limits) if lower < cut < upper}
            if cuts:
                points = sorted([*points, *cuts])
            else:
                stuck.add((lower, upper))
        if len(points) == before:
            return points


def split_hottest(
    namespaces: dict[str, Namespace], algorithm: Algorithm, good: Callable[[dict[str, list[int]]], bool], most: int
) -> dict[str, list[int]]:
    """Boundaries when the bundle of the highest rate is split again and again (the admin API's HOT) until `good`.

    Stops as well when no bundle with traffic can be split or there are `most` bundles in all. `good` is asked each time
    the number of bundles has grown by a fiftieth.
    """
    points = {name: boundary_points(even_boundaries(4)) for name in namespaces}
    limits = Limits()
    heap: list[tuple[float, str, int, int]] = []

    def push(name: str, lower: int, upper: int) -> None:
        space = namespaces[name]
        start, end = space.window(lower, upper)
        rate = space.messages[end] - space.messages[start]
        if end - start >= 2 and rate > 0 and upper - lower > 1:
            heappush(heap, (-rate, name, lower, upper))

    for name, own in points.items():
        for lower, upper in pairwise(own):
            push(name, lower, upper)
    bundles = sum(len(own) - 1 for own in points.values())
    asked = 0
    while bundles < most:
        if bundles >= asked * 1.02:
            asked = bundles
            if good(points):
                return points
        if not heap:
            return points
        _, name, lower, upper = heappop(heap)
        cuts = [cut for cut in algorithm(namespaces[name], lower, upper, limits) if lower < cut < upper]
        for left, right in pairwise([lower, *cuts, upper]) if cuts else ():
            push(name, left, right)
        points[name] = sorted([*points[name], *cuts])
        bundles += len(cuts)
    return points


def by_namespace(topics: Iterable[Topic]) -> dict[str, Namespace]:
    """Namespaces of all topics."""
    found: dict[str, list[tuple[int, float, float]]] = defaultdict(list)
    for topic in topics:
        found[topic.namespace].append((topic.position, topic.messages, topic.bytes))
    return {name: Namespace(own) for name, own in found.items()}
