"""How Pulsar splits bundles, re-built from its published rules (4.0: BundleSplitterTask and the split algorithms).

A bundle is split when it has at least two topics and exceeds one of the four limits, until none does or its namespace
has the most bundles that automatic splitting may make. Rates are steady, as the long-term averages that the rule reads.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate, pairwise

from benchmarks.balance.topics import Topic
from pulsar_operator.balance.model.ranges import LAST_BOUNDARY, boundary_points, even_boundaries


@dataclass(frozen=True, slots=True)
class Limits:
    """Defaults of broker.conf: loadBalancerNamespaceBundleMax... and loadBalancerNamespaceMaximumBundles."""

    topics: int = 1000
    sessions: int = 1000
    messages: float = 30000.0
    bytes: float = 100.0 * 1024 * 1024
    bundles: int = 128
    flow_threshold: float = 0.1
    """flowOrQpsDifferenceThresholdPercentage."""


class Namespace:
    """Topics in order of their position, with running sums, so that any bundle's load is one subtraction."""

    def __init__(self, topics: Iterable[Topic]) -> None:
        ordered = sorted(topics, key=lambda topic: topic.position)
        self.positions = array("Q", (topic.position for topic in ordered))
        self.messages = array("d", accumulate((topic.messages for topic in ordered), initial=0.0))
        self.bytes = array("d", accumulate((topic.bytes for topic in ordered), initial=0.0))

    def window(self, lower: int, upper: int) -> tuple[int, int]:
        """Topics in [lower, upper), as indexes; the last bundle includes its upper boundary."""
        end = len(self.positions) if upper == LAST_BOUNDARY else bisect_left(self.positions, upper)
        return bisect_left(self.positions, lower), end


Algorithm = Callable[[Namespace, int, int, Limits], list[int]]
"""Boundaries inside [lower, upper); empty: no split."""


def range_equally_divide(namespace: Namespace, lower: int, upper: int, limits: Limits) -> list[int]:
    """The middle of the range (class RangeEquallyDivideBundleSplitAlgorithm)."""
    return [lower + (upper - lower) // 2]


def topic_count_equally_divide(namespace: Namespace, lower: int, upper: int, limits: Limits) -> list[int]:
    """Between the two median topics (class TopicCountEquallyDivideBundleSplitAlgorithm)."""
    start, end = namespace.window(lower, upper)
    if end - start < 2:
        return []
    half = start + (end - start) // 2
    left, right = namespace.positions[half - 1], namespace.positions[half]
    return [left + (right - left) // 2]


def flow_or_qps_equally_divide(namespace: Namespace, lower: int, upper: int, limits: Limits) -> list[int]:
    """Before each topic that would bring a piece over a limit (class FlowOrQpsEquallyDivideBundleSplitAlgorithm)."""
    start, end = namespace.window(lower, upper)
    messages, volume = namespace.messages, namespace.bytes
    most = 1 + limits.flow_threshold
    below = (
        messages[end] - messages[start] < limits.messages * most and volume[end] - volume[start] < limits.bytes * most
    )
    if end - start < 2 or below:
        return []
    cuts: list[int] = []
    first = start
    for index in range(start + 1, end):
        rate = messages[index + 1] - messages[first]
        if rate > limits.messages or volume[index + 1] - volume[first] > limits.bytes:
            left, right = namespace.positions[index - 1], namespace.positions[index]
            cuts.append(left + (right - left) // 2 + 1)
            first = index
    return cuts


def exceeds(namespace: Namespace, lower: int, upper: int, limits: Limits) -> bool:
    """Whether the rule wants the bundle split; every topic has a producer and a consumer."""
    start, end = namespace.window(lower, upper)
    topics = end - start
    return topics >= 2 and (
        topics > limits.topics
        or 2 * topics > limits.sessions
        or namespace.messages[end] - namespace.messages[start] > limits.messages
        or namespace.bytes[end] - namespace.bytes[start] > limits.bytes
    )


def split_automatically(namespace: Namespace, algorithm: Algorithm, limits: Limits, first: int = 4) -> list[int]:
    """Boundaries of a namespace that begins with `first` even bundles, when nothing is split any more."""
    points = boundary_points(even_boundaries(first))
    stuck: set[tuple[int, int]] = set()
    while True:
        before = len(points)
        for lower, upper in list(pairwise(points)):
            if len(points) - 1 >= limits.bundles:
                break
            if (lower, upper) in stuck or not exceeds(namespace, lower, upper, limits):
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
    found: dict[str, list[Topic]] = defaultdict(list)
    for topic in topics:
        found[topic.namespace].append(topic)
    return {name: Namespace(own) for name, own in found.items()}
