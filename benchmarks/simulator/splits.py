"""Pulsar's split algorithms and automatic split rules, re-built from their published rules (not their code).

Sources: classes *BundleSplitAlgorithm in org.apache.pulsar.common.naming and BundleSplitterTask (modular manager) as
compiled in 4.0.8, DefaultNamespaceBundleSplitStrategyImpl (extensible manager).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from benchmarks.simulator.state import Cut, Limits, State, Traffic
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.ranges import LAST_BOUNDARY


class Namespace:
    """Topics in order of their position, with running sums, so that any bundle's load is one subtraction."""

    def __init__(self, topics: Iterable[tuple[int, float, float]]) -> None:
        """Of each topic: position, messages and bytes per second, in and out together."""
        ordered = sorted(topics)
        self.positions = array("Q", (position for position, _, _ in ordered))
        self.messages = array("d", accumulate((messages for _, messages, _ in ordered), initial=0.0))
        self.bytes = array("d", accumulate((volume for _, _, volume in ordered), initial=0.0))

    def window(self, lower: int, upper: int) -> tuple[int, int]:
        """Topics in [lower, upper), as indexes; the last bundle includes its upper boundary."""
        end = len(self.positions) if upper == LAST_BOUNDARY else bisect_left(self.positions, upper)
        return bisect_left(self.positions, lower), end


Algorithm = Callable[[Namespace, int, int, Limits], list[int]]
"""Boundaries inside [lower, upper), as Pulsar's class says them; those that are not strictly inside split nothing."""


def middle(lower: int, upper: int) -> int:
    """The middle of a range."""
    return lower + (upper - lower) // 2


def range_equally_divide(namespace: Namespace, lower: int, upper: int, limits: Limits) -> list[int]:
    """The middle of the range, whatever lies in it (class RangeEquallyDivideBundleSplitAlgorithm)."""
    return [middle(lower, upper)]


def topic_count_equally_divide(namespace: Namespace, lower: int, upper: int, limits: Limits) -> list[int]:
    """Between the two median topics; none below two topics (class TopicCountEquallyDivideBundleSplitAlgorithm)."""
    start, end = namespace.window(lower, upper)
    if end - start < 2:
        return []
    half = start + (end - start) // 2
    return [middle(namespace.positions[half - 1], namespace.positions[half])]


def flow_or_qps_equally_divide(namespace: Namespace, lower: int, upper: int, limits: Limits) -> list[int]:
    """Before each topic that would bring a piece over a limit (class FlowOrQpsEquallyDivideBundleSplitAlgorithm).

    None unless the bundle exceeds the limit by a tenth. Topics without traffic are passed over, and so is a bundle with
    fewer than two others.
    """
    start, end = namespace.window(lower, upper)
    messages, volume = namespace.messages, namespace.bytes
    busy = [at for at in range(start, end) if messages[at + 1] > messages[at] or volume[at + 1] > volume[at]]
    most = 1 + limits.flow_threshold
    below = (
        messages[end] - messages[start] < limits.messages * most and volume[end] - volume[start] < limits.bytes * most
    )
    if len(busy) < 2 or below:
        return []
    cuts: list[int] = []
    first = previous = busy[0]
    for index in busy[1:]:
        rate = messages[index + 1] - messages[first]
        if rate > limits.messages or volume[index + 1] - volume[first] > limits.bytes:
            cuts.append(middle(namespace.positions[previous], namespace.positions[index]) + 1)
            first = index
        previous = index
    return cuts


def exceeds(limits: Limits, topics: int, sessions: int, messages: float, volume: float) -> bool:
    """Whether a bundle is to be split: two topics at least, and more than one of the limits; rates per second."""
    return topics >= 2 and (
        topics > limits.topics or sessions > limits.sessions or messages > limits.messages or volume > limits.bytes
    )


@dataclass(frozen=True)
class ModularSplits:
    """The leader cuts in the middle every bundle whose long-term average exceeds a limit; the pieces are unloaded."""

    def cuts(self, state: State, traffic: Traffic) -> list[Cut]:
        """Splits of this minute; never with one broker."""
        limits = state.settings.limits
        if len(state.hosts) <= 1:
            return []
        counts = Counter(bundle.namespace for bundle in traffic.bundles())
        found: list[Cut] = []
        for bundle, (start, end) in list(traffic.bundles().items()):
            average = state.averages.get(bundle)
            if average is None or counts[bundle.namespace] >= limits.bundles:
                continue
            sessions = traffic.sessions(bundle)
            if exceeds(limits, end - start, sessions, average.messages_long, average.throughput_long):
                found.append(Cut(bundle, (middle(bundle.lower, bundle.upper),), state.settings.split_unloads))
                counts[bundle.namespace] += 1
        return found


@dataclass
class ExtensibleSplits:
    """Each owner cuts a bundle that exceeded a limit for more than three minutes; the pieces stay."""

    hits: dict[BundleId, int] = field(default_factory=dict)

    def cuts(self, state: State, traffic: Traffic) -> list[Cut]:
        """Splits of this minute."""
        settings = state.settings
        counts = Counter(bundle.namespace for bundle in traffic.bundles())
        hits: dict[BundleId, int] = {}
        found: list[Cut] = []
        for bundle in list(traffic.bundles()):
            rates = traffic.rates(bundle)
            topics, sessions = traffic.topics(bundle), traffic.sessions(bundle)
            if not exceeds(settings.limits, topics, sessions, rates.messages, rates.throughput):
                continue
            hits[bundle] = self.hits.get(bundle, 0) + 1
            if hits[bundle] > settings.split_hits and counts[bundle.namespace] < settings.limits.bundles:
                del hits[bundle]
                found.append(Cut(bundle, (middle(bundle.lower, bundle.upper),), False))
                counts[bundle.namespace] += 1
        self.hits = hits
        return found
