"""How many brokers and proxies there are to be: what the specification says, or what autoscaling decided. Pure.

A decision counts once the cluster's status has it: it is stored before it is acted on, so that a pass that is killed in
between, and an operator that starts anew, do the same. The specification is never written. Without autoscaling the last
decision stays until ``replicas`` is another number than it was then, by whomever (a user, an HPA on the scale
subresource).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import Broker, Proxy, PulsarClusterSpec
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.api.v1alpha1.scaling_status import AutoscalingStatus, ComponentScalingStatus
from pulsar_operator.domain.conditions import parse_time
from pulsar_operator.domain.dataplane.live import Live
from pulsar_operator.domain.stored import readable

SCALED: Final = (Component.BROKER, Component.PROXY)
"""Components that can have autoscaling, called in the specification and in status as their pods are."""
COUNTS_SECONDS: Final = 1800.0
"""So long a decision counts that no pass wrote again; at rest they write it every five minutes."""
Rows = Mapping[Component, ComponentScalingStatus]


def rows_of(status: Mapping[str, Any] | None) -> Rows:
    """Decisions in a stored status, as far as they can be read."""
    stored = readable(PulsarClusterStatus, status).get("autoscaling") or {}
    found = AutoscalingStatus.model_validate(stored)
    pairs = ((Component.BROKER, found.broker), (Component.PROXY, found.proxy))
    return {component: row for component, row in pairs if row is not None}


def part_of(spec: PulsarClusterSpec, component: Component) -> Broker | Proxy | None:
    """What the specification says of brokers or proxies."""
    return spec.broker if component is Component.BROKER else spec.proxy


def replicas(part: Broker | Proxy, row: ComponentScalingStatus | None, there: int | None, now: datetime) -> int:
    """Replicas of the workload; ``there`` are those that it has, None = there is no workload yet."""
    limits = part.autoscaling
    if limits is None:
        return row.desired if row is not None and row.replicas == part.replicas else part.replicas
    if row is not None and (there is None or _counts(row, now)):
        return row.desired
    if row is not None and there is not None:
        # Decided long ago and not done, or another status was put in its place: it is decided anew.
        return max(there, min(row.desired, limits.min_replicas))
    # Autoscaling is new here, or its record is lost: what runs is what was decided.
    return max(limits.min_replicas, min(part.replicas, limits.max_replicas)) if there is None else there


def _counts(row: ComponentScalingStatus, now: datetime) -> bool:
    """Whether a decision was looked at lately, which passes do while they can (``updatedTime``)."""
    written = parse_time(row.updated_time)
    return written is not None and abs((now - written).total_seconds()) <= COUNTS_SECONDS


def with_wanted(
    spec: PulsarClusterSpec, status: Mapping[str, Any] | None, live: Live, now: datetime
) -> PulsarClusterSpec:
    """The specification with the replicas that count; the same one where nothing was ever decided."""
    rows = rows_of(status)
    changed: dict[str, Broker | Proxy] = {}
    for component in SCALED:
        part = part_of(spec, component)
        if part is None or (part.autoscaling is None and component not in rows):
            continue
        number = replicas(part, rows.get(component), workload_replicas(live, component), now)
        if number != part.replicas:
            changed[component.value] = part.model_copy(update={"replicas": number})
    return spec.model_copy(update=changed) if changed else spec


def workload_replicas(live: Live, component: Component) -> int | None:
    """Replicas of a component's workload; None where there is none. The API server puts 1 where nothing is said."""
    there = live.stateful_set(component)
    return None if there is None else int((there.get("spec") or {}).get("replicas", 1))
