"""Converts spec.<component>.autoscaling to the inputs of the decisions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import fsum

from pulsar_operator.api.v1alpha1 import autoscaling as api
from pulsar_operator.balance.autoscaling.bookies import BookieTargets
from pulsar_operator.balance.autoscaling.values import Policy, Ramp, Signal, TrafficGrowth

DEFAULT_CPU_PERCENT = 70
DEFAULT_CONNECTIONS = 2000
LATENCY = "writeLatencyMilliseconds"
"""Name of the figure for the latency of writes to bookies."""
TRAFFIC, TRAFFIC_BEFORE = "traffic", "trafficBefore"
"""Names of the current traffic of a broker, and of that in the minutes before, in byte equivalents per second."""


def policy_of(
    spec: api.BrokerAutoscaling | api.ProxyAutoscaling | api.BookieAutoscaling, interval: float = 60.0
) -> Policy:
    """Returns limits and behavior. ``interval`` is the time between two observations in seconds."""
    behavior = spec.behavior
    return Policy(
        spec.min_replicas,
        spec.max_replicas,
        behavior.tolerance_percent / 100,
        _ramp(behavior.scale_up),
        _ramp(behavior.scale_down),
        interval,
    )


def _ramp(rules: api.ScalingRules) -> Ramp:
    return Ramp(rules.stabilization_window_seconds, rules.max_pods, rules.max_percent, rules.cooldown_seconds)


@dataclass(frozen=True)
class Measured:
    """Values of one metric by pod, and the age of the oldest value in seconds."""

    values: Mapping[str, float]
    age: float


def broker_signals(
    targets: api.BrokerTargets | None,
    measured: Mapping[str, Measured],
    cpus: Mapping[str, float],
    *,
    limited: bool,
) -> tuple[Signal, ...]:
    """Returns the signals of brokers by the names of their targets. A target that was not measured has no values, which
    prevents a decision.

    ``measured`` is by name: cpuPercent in cores, bandwidthPercent in bytes per second, the others in the unit of their
    name. ``cpus`` are cores by pod, the limit or otherwise the request (`model.capacity.cpus_of`). ``limited`` means
    that they are limits, so that no broker can use more, and the demand of one that uses all of it is unknown.
    """
    targets_or_default = targets or api.BrokerTargets(cpu_percent=DEFAULT_CPU_PERCENT)
    found: list[Signal] = []
    if targets_or_default.cpu_percent is not None:
        cpu = _share("cpuPercent", measured, cpus, targets_or_default.cpu_percent, "cores")
        found.append(replace(cpu, saturates=limited))
    if targets_or_default.bandwidth_percent is not None:
        limit = float(targets_or_default.bandwidth_limit or 0)
        found.append(_share("bandwidthPercent", measured, limit, targets_or_default.bandwidth_percent, "bytes/s"))
    for name, figure in (
        ("messagesPerSecond", targets_or_default.messages_per_second),
        ("topics", targets_or_default.topics),
        ("sessions", targets_or_default.sessions),
    ):
        if figure is not None:
            found.append(_figure(name, measured, figure))
    return tuple(found)


def traffic_growth(measured: Mapping[str, Measured]) -> TrafficGrowth | None:
    """Returns the traffic of the brokers compared with the minutes before; None if unknown. Brokers that have just
    started are left out: other brokers carried their traffic before."""
    now, before = (measured.get(name, Measured({}, 0.0)).values for name in (TRAFFIC, TRAFFIC_BEFORE))
    was = fsum(before.values())
    if not was > 0:
        return None
    return TrafficGrowth(was, fsum(value for pod, value in now.items() if pod in before))


def proxy_signals(targets: api.ProxyTargets | None, measured: Mapping[str, Measured]) -> tuple[Signal, ...]:
    """Returns the signals of proxies by the names of their targets. A target that was not measured has no values."""
    targets_or_default = targets or api.ProxyTargets(connections=DEFAULT_CONNECTIONS)
    found: list[Signal] = []
    if targets_or_default.connections is not None:
        found.append(_figure("connections", measured, targets_or_default.connections))
    if targets_or_default.bandwidth_percent is not None:
        limit = float(targets_or_default.bandwidth_limit or 0)
        found.append(_share("bandwidthPercent", measured, limit, targets_or_default.bandwidth_percent, "bytes/s"))
    return tuple(found)


def bookie_targets(targets: api.BookieTargets, ensemble: int) -> BookieTargets:
    """Returns the targets of bookies. ``ensemble`` is the largest ensemble of the ledgers."""
    latency = targets.write_latency_milliseconds
    return BookieTargets(
        targets.disk_percent / 100,
        targets.low_disk_percent / 100,
        targets.full_disk_percent / 100,
        float(targets.days_until_full),
        None if latency is None else latency / 1000,
        ensemble if targets.min_writable is None else targets.min_writable,
    )


def _share(
    name: str, measured: Mapping[str, Measured], carries: Mapping[str, float] | float, percent: int, unit: str
) -> Signal:
    figures = measured.get(name, Measured({}, 0.0))
    return Signal(name, figures.values, carries, percent / 100, figures.age, unit)


def _figure(name: str, measured: Mapping[str, Measured], figure: int) -> Signal:
    """Returns a signal that is measured against the target of a pod instead of its capacity."""
    figures = measured.get(name, Measured({}, 0.0))
    return Signal(name, figures.values, float(figure), 1.0, figures.age)
