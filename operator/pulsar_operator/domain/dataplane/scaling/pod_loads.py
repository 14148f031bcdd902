"""The loads of pods, parsed from Prometheus' text format: the inputs of autoscaling. Pure.

Names as Pulsar 4.0.8 writes them (tests/unit/rollout/loads has its pages): ``pulsar_broker_*`` are sums over the topics
of a broker, in messages or bytes a second as of the last update of its statistics (class NamespaceStatsAggregator,
printBrokerStats); ``process_cpu_seconds_total`` and ``pulsar_proxy_binary_bytes_total`` only grow while a process runs,
and two readings make a rate. A broker also reports its share of the CPU, which is relative to the whole node if its
container has no limit, and so cannot be compared with a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pulsar_operator.api.constants import Component
from pulsar_operator.domain.dataplane.observed.pod_counters import Sample


@dataclass(frozen=True)
class Summary:
    """A summary of BookKeeper over about the last minute (prometheusStatsLatencyRolloverSeconds)."""

    name: str
    labels: Mapping[str, str]

    @property
    def count(self) -> str:
        """Name of the series that counts its observations; it exists from the start."""
        return f"{self.name}_count"

    def has(self, sample: Sample) -> bool:
        """Whether a sample is a quantile of the summary."""
        return sample.name == self.name and self.labels.items() <= sample.labels.items()


GAUGES: Final[Mapping[Component, Mapping[str, tuple[str, ...]]]] = {
    Component.BROKER: {
        "bandwidthPercent": ("pulsar_broker_throughput_in", "pulsar_broker_throughput_out"),
        "messagesPerSecond": ("pulsar_broker_rate_in", "pulsar_broker_rate_out"),
        "topics": ("pulsar_broker_topics_count",),
        "sessions": ("pulsar_broker_producers_count", "pulsar_broker_consumers_count"),
    },
    Component.PROXY: {"connections": ("pulsar_proxy_active_connections",)},
}
"""Series that are summed up, by name of the target."""
COUNTERS: Final[Mapping[Component, Mapping[str, str]]] = {
    Component.BROKER: {"cpuPercent": "process_cpu_seconds_total"},
    Component.PROXY: {"bandwidthPercent": "pulsar_proxy_binary_bytes_total"},
}
"""Counters whose growth is the load, by name of the target: seconds of one core, bytes."""
MESSAGE_BYTES: Final = 1024
"""Bytes that a message counts besides its size, as in the weight of a bundle."""
SLOWEST: Final[Mapping[Component, Mapping[str, Summary]]] = {
    Component.BOOKIE: {
        "writeLatencyMilliseconds": Summary("bookkeeper_server_ADD_ENTRY", {"success": "true", "quantile": "0.99"})
    }
}
"""Summary of which the slowest thread counts, in milliseconds, by name of the target.

An entry that went through the journal is in ADD_ENTRY, and not in ADD_ENTRY_REQUEST
(domain/dataplane/observed/pod_counters.py).
"""
CPU: Final = "cpuPercent"
TRAFFIC: Final = "traffic"
"""Traffic that a broker carries now, and the average of the minutes before
(`balance.autoscaling.policy.traffic_growth`)."""
TRAFFIC_BEFORE: Final = "trafficBefore"
STARTED: Final = "process_start_time_seconds"
"""Start time of the process: with another one all counters began again, even if they are above their earlier values."""
LEAST_SECONDS: Final = 45.0
"""Minimum seconds between two readings that make a rate: a garbage collection of a few seconds is no load."""
KEPT_SECONDS: Final = 300.0
OLD_SECONDS: Final = 120.0
"""Seconds without a reading after which a pod is not known. Like a pod that never had one, it does not make the others
unknown (as `balance.autoscaling.pressure.STALE_INTERVALS`)."""


def names_of(component: Component) -> frozenset[str]:
    """Returns the names of all series that are read from a component's pods."""
    gauges = (name for names in GAUGES.get(component, {}).values() for name in names)
    slowest = (name for each in SLOWEST.get(component, {}).values() for name in (each.name, each.count))
    return frozenset((*gauges, *COUNTERS.get(component, {}).values(), *slowest, STARTED))


@dataclass(frozen=True)
class Reading:
    """One reading of a pod; a target with a missing series is in neither mapping."""

    at: datetime
    gauges: Mapping[str, float]
    counters: Mapping[str, float]
    started: float | None = None
    """Start of the process in seconds of the epoch; None if not reported."""


def reading(component: Component, at: datetime, samples: Iterable[Sample]) -> Reading:
    """Parses a page into figures by name of their target.

    A value that is no amount, or below 0, is missing (counters.parse). If a summary has a count and no quantile,
    nothing was written recently, so its figure is 0.
    """
    sums: dict[str, float] = {}
    there = list(samples)
    for each in there:
        sums[each.name] = sums.get(each.name, 0.0) + each.value
    gauges = {
        target: sum(sums[name] for name in names)
        for target, names in GAUGES.get(component, {}).items()
        if all(name in sums for name in names)
    }
    for target, summary in SLOWEST.get(component, {}).items():
        if summary.count in sums:
            gauges[target] = max((each.value for each in there if summary.has(each)), default=0.0)
    counters = {target: sums[name] for target, name in COUNTERS.get(component, {}).items() if name in sums}
    return Reading(at, gauges, counters, sums.get(STARTED))


Readings = tuple[Reading, ...]
"""Readings of one process of one pod, by time."""


def added(readings: Readings, new: Reading) -> Readings:
    """Returns a copy with one more reading, without those that are too old. If the process restarted, as its start time
    or a decreased counter shows, earlier readings are dropped."""
    if readings and _anew(readings[-1], new):
        return (new,)
    return (*(each for each in readings if 0 < (new.at - each.at).total_seconds() <= KEPT_SECONDS), new)


def _anew(last: Reading, new: Reading) -> bool:
    if None not in (last.started, new.started) and last.started != new.started:
        return True
    return any(new.counters.get(name, value) < value for name, value in last.counters.items())


def figures(readings: Readings) -> dict[str, float]:
    """Returns the load of the pod at its last reading, by name of the target; a rate that needs another reading is left
    out."""
    if not readings:
        return {}
    last = readings[-1]
    found = dict(last.gauges)
    for name, value in last.counters.items():
        for earlier in reversed(readings[:-1]):
            seconds = (last.at - earlier.at).total_seconds()
            if seconds >= LEAST_SECONDS and name in earlier.counters:
                found[name] = (value - earlier.counters[name]) / seconds
                break
    # A process that answers uses CPU: a counter that stands still is a page of long ago.
    if found.get(CPU) == 0:
        del found[CPU]
    return found | _traffic(readings)


def _traffic(readings: Readings) -> dict[str, float]:
    """Returns the traffic of a broker now, and its average in the minutes before, in byte-equivalents a second."""
    now = _weight(readings[-1])
    earlier = [
        weight
        for each in readings[:-1]
        if (readings[-1].at - each.at).total_seconds() >= LEAST_SECONDS and (weight := _weight(each)) is not None
    ]
    if now is None or not earlier:
        return {}
    return {TRAFFIC: now, TRAFFIC_BEFORE: sum(earlier) / len(earlier)}


def _weight(reading: Reading) -> float | None:
    """Returns the bytes plus a share for each message; None if the pod is no broker, or did not report them."""
    bytes_, messages = reading.gauges.get("bandwidthPercent"), reading.gauges.get("messagesPerSecond")
    return None if bytes_ is None or messages is None else bytes_ + MESSAGE_BYTES * messages


def measured(
    pods: Mapping[str, Readings], now: datetime, gone: Iterable[Readings] = ()
) -> dict[str, tuple[dict[str, float], float]]:
    """Returns figures by pod, and the seconds since the oldest was read, by name of the target.

    ``pods`` are by name; those without recent readings are left out if others have some. ``gone`` were ready in the
    minutes before, and other pods now carry their load.
    """
    values: dict[str, dict[str, float]] = {}
    ages: dict[str, float] = {}
    lately = {pod: of for pod, of in pods.items() if of and (now - of[-1].at).total_seconds() <= OLD_SECONDS}
    for pod, readings in (lately or pods).items():
        for name, value in figures(readings).items():
            values.setdefault(name, {})[pod] = value
            ages[name] = max(ages.get(name, 0.0), (now - readings[-1].at).total_seconds())
    if TRAFFIC_BEFORE in values:
        for number, readings in enumerate(gone):
            weights = [weight for each in readings if (weight := _weight(each)) is not None]
            if weights and (now - readings[-1].at).total_seconds() <= KEPT_SECONDS:
                values[TRAFFIC_BEFORE][f"gone {number}"] = sum(weights) / len(weights)
    return {name: (found, ages[name]) for name, found in values.items()}
