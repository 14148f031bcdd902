"""Pulsar's split algorithms and automatic split rules, re-built from their published rules (not their code).

Sources: classes *BundleSplitAlgorithm in org.apache.pulsar.common.naming, BundleSplitterTask (modular manager),
DefaultNamespaceBundleSplitStrategyImpl (extensible manager), 4.0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.simulator.state import MIB, Cut, Rates, Settings, State, Traffic
from pulsar_operator.balance.model.cluster import BundleId


def range_equally_divide(bundle: BundleId) -> int | None:
    """The middle of the range, whatever lies in it; None when the range cannot be cut."""
    return bundle.lower + (bundle.upper - bundle.lower) // 2 if bundle.upper - bundle.lower > 1 else None


def topic_count_equally_divide(positions: Sequence[int]) -> int | None:
    """The middle between the two median topics; None below two topics or when both have one position."""
    if len(positions) < 2:
        return None
    ordered = sorted(positions)
    left, right = ordered[len(ordered) // 2 - 1], ordered[len(ordered) // 2]
    return left + (right - left) // 2 if right - left > 1 else None


def flow_or_qps_equally_divide(
    positions: Sequence[int],
    rates: Sequence[Rates],
    *,
    max_messages: float = 30000.0,
    max_throughput: float = 100.0 * MIB,
    difference: float = 0.1,
) -> list[int]:
    """Boundaries wherever the running sum would exceed a limit; none unless the bundle exceeds it by a tenth.

    Topics without traffic are passed over, and so is a bundle with fewer than two busy ones.
    """
    busy = sorted((position, rate) for position, rate in zip(positions, rates, strict=True) if rate.messages > 0)
    messages = sum(rate.messages for _, rate in busy)
    throughput = sum(rate.throughput for _, rate in busy)
    if len(busy) < 2 or (messages < max_messages * (1 + difference) and throughput < max_throughput * (1 + difference)):
        return []
    cuts: list[int] = []
    previous, first = busy[0]
    running_messages, running_throughput = first.messages, first.throughput
    for position, rate in busy[1:]:
        running_messages += rate.messages
        running_throughput += rate.throughput
        if running_messages > max_messages or running_throughput > max_throughput:
            cuts.append(previous + (position - previous) // 2 + 1)
            running_messages, running_throughput = rate.messages, rate.throughput
        previous = position
    return cuts


def exceeds(settings: Settings, topics: int, sessions: int, messages: float, throughput: float) -> bool:
    """Whether a bundle is to be split (loadBalancerNamespaceBundleMax*)."""
    return (
        topics > settings.split_topics
        or sessions > settings.split_sessions
        or messages > settings.split_messages
        or throughput > settings.split_throughput
    )


@dataclass(frozen=True)
class ModularSplits:
    """The leader cuts in the middle every bundle whose long-term average exceeds a limit; the pieces are unloaded."""

    def cuts(self, state: State, traffic: Traffic) -> list[Cut]:
        """Splits of this minute; never with one broker."""
        settings = state.settings
        if len(state.hosts) <= 1:
            return []
        counts = Counter(bundle.namespace for bundle in traffic.bundles())
        found: list[Cut] = []
        for bundle, (start, end) in list(traffic.bundles().items()):
            average = state.averages.get(bundle)
            if end - start < 2 or average is None or counts[bundle.namespace] >= settings.split_maximum:
                continue
            sessions = traffic.sessions(bundle)
            middle = range_equally_divide(bundle)
            if middle is not None and exceeds(
                settings, end - start, sessions, average.messages_long, average.throughput_long
            ):
                found.append(Cut(bundle, (middle,), settings.split_unloads))
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
            if traffic.topics(bundle) < 2 or not exceeds(
                settings, traffic.topics(bundle), traffic.sessions(bundle), rates.messages, rates.throughput
            ):
                continue
            hits[bundle] = self.hits.get(bundle, 0) + 1
            middle = range_equally_divide(bundle)
            if (
                hits[bundle] > settings.split_hits
                and middle is not None
                and counts[bundle.namespace] < settings.split_maximum
            ):
                del hits[bundle]
                found.append(Cut(bundle, (middle,), False))
                counts[bundle.namespace] += 1
        self.hits = hits
        return found
