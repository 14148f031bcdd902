"""The desired number of brokers, proxies and bookies: from the specification, or from autoscaling. Pure.

A decision counts once the cluster's status has it: it is stored before it is carried out, so that a killed pass and a
restarted operator do the same. The specification is never written. Without autoscaling the last decision stays until
another writer (a user, an HPA on the scale subresource) changes ``replicas``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import BookKeeper, Broker, Proxy, PulsarClusterSpec
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.api.v1alpha1.scaling_status import AutoscalingStatus, ComponentScalingStatus
from pulsar_operator.domain.apply import Json
from pulsar_operator.domain.conditions import parse_time
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.render import Quorum, QuorumError, resolve_quorum

FIELDS: Final[Mapping[Component, str]] = {
    Component.BROKER: "broker",
    Component.PROXY: "proxy",
    Component.BOOKIE: "bookkeeper",
}
"""Components that can have autoscaling, with their names in specification and status."""
SCALED: Final = tuple(FIELDS)
Part = Broker | Proxy | BookKeeper
COUNTS_SECONDS: Final = 1800.0
"""Seconds for which a decision counts without being written again; at rest, passes write it every five minutes."""
Rows = Mapping[Component, ComponentScalingStatus]
_MEMBER: Final = "autoscaling"
"""Of the status."""


def rows_of(status: PulsarClusterStatus) -> Rows:
    """Returns the decisions in a stored status."""
    found = status.autoscaling or AutoscalingStatus()
    return {component: row for component, name in FIELDS.items() if (row := getattr(found, name)) is not None}


def unknown_of(status: PulsarClusterStatus) -> frozenset[Component]:
    """Components with a decision that could not be read."""
    names = (status.autoscaling.unreadable or ()) if status.autoscaling is not None else ()
    return frozenset(component for component, name in FIELDS.items() if name in names) - rows_of(status).keys()


def with_unreadable(status: PulsarClusterStatus, lost: Collection[str]) -> PulsarClusterStatus:
    """A status that names the components whose decisions were among what could not be read (`stored.unreadable`). It is
    written with them until each has a decision again."""
    # A list of them that is odd says nothing of any.
    names = {name for name in FIELDS.values() if not {_MEMBER, f"{_MEMBER}.{name}"}.isdisjoint(lost)}
    found = status.autoscaling or AutoscalingStatus()
    names = {name for name in names if getattr(found, name) is None}
    if not names:
        return status
    before = {name for name in found.unreadable or () if name in FIELDS.values()}
    known = found.model_copy(update={"unreadable": sorted(names | before)})
    return status.model_copy(update={"autoscaling": known})


def part_of(spec: PulsarClusterSpec, component: Component) -> Part | None:
    """Returns the specification of brokers, proxies or bookies."""
    found: Part | None = getattr(spec, FIELDS[component])
    return found


def replicas(part: Part, row: ComponentScalingStatus | None, there: int | None, now: datetime) -> int:
    """Returns the replicas of the workload; ``there`` are its current ones, None if there is no workload yet."""
    limits = part.autoscaling
    if limits is None:
        return row.desired if row is not None and row.replicas == part.replicas else part.replicas
    if row is not None and (there is None or is_recent(row, now)):
        # No decision goes beyond the limits but towards them: those were moved since, or a stranger wrote it. More than
        # the maximum are kept, also of a workload that is gone: what is stored may need them.
        had = row.current if there is None else there
        least = limits.min_replicas if there is None else min(there, limits.min_replicas)
        return max(least, min(row.desired, max(had, limits.max_replicas)))
    if row is not None and there is not None:
        # Decided long ago and not done, or another status was put in its place: it is decided anew.
        return max(there, min(row.desired, limits.min_replicas))
    # Autoscaling is new here, or its record is lost: what runs is what was decided.
    return max(limits.min_replicas, min(part.replicas, limits.max_replicas)) if there is None else there


def is_recent(row: ComponentScalingStatus, now: datetime) -> bool:
    """Whether a decision was confirmed recently, as passes do while they can (``updatedTime``)."""
    written = parse_time(row.updated_time)
    return written is not None and abs((now - written).total_seconds()) <= COUNTS_SECONDS


def with_desired(spec: PulsarClusterSpec, status: PulsarClusterStatus, live: Live, now: datetime) -> PulsarClusterSpec:
    """The specification with the replicas that count; the same one where nothing was ever decided. What runs stays
    where a decision could not be read: an unknown number is not the specification's. Bookies that scale themselves may
    be too few in it for the quorums on record (`with_quorum`)."""
    rows, unknown = rows_of(status), unknown_of(status)
    changed: dict[str, Part] = {}
    for component in SCALED:
        part = part_of(spec, component)
        if part is None or (part.autoscaling is None and component not in rows and component not in unknown):
            continue
        there = workload_replicas(live, component)
        if component in unknown and there is not None:
            number = there
        else:
            number = replicas(part, rows.get(component), there, now)
        if isinstance(part, BookKeeper):
            number = max(number, _largest(part))
        if number != part.replicas:
            changed[FIELDS[component]] = part.model_copy(update={"replicas": number})
    return spec.model_copy(update=changed) if changed else spec


def with_quorum(spec: PulsarClusterSpec, quorum: Quorum | None) -> PulsarClusterSpec:
    """Returns a specification of `with_desired` with enough bookies for the recorded quorums, if they scale
    automatically: with fewer it would be refused, and no user could correct a number that autoscaling chose. Above the
    maximum it is refused: a wrong record must not add bookies."""
    keeper = spec.bookkeeper
    if keeper is None or keeper.autoscaling is None or quorum is None:
        return spec
    most = max(keeper.replicas, keeper.autoscaling.max_replicas)
    try:
        least = resolve_quorum(keeper.ensemble, most, quorum).ensemble_size
    except QuorumError:
        return spec
    if keeper.replicas >= least:
        return spec
    return spec.model_copy(update={"bookkeeper": keeper.model_copy(update={"replicas": least})})


def _largest(part: BookKeeper) -> int:
    """Returns the number of bookies that the specification's quorums need; with fewer it would be refused."""
    asked = part.ensemble
    return max(asked.ensemble_size or 1, asked.write_quorum or 1, asked.ack_quorum or 1)


def workload_replicas(live: Live, component: Component) -> int | None:
    """Returns the replicas of a component's workload; None if it does not exist. The API server defaults them to 1."""
    there = live.stateful_set(component)
    return None if there is None else int((there.get("spec") or {}).get("replicas", 1))


def replicas_of(stateful_set: Json) -> int:
    """Returns the desired replicas; the API server defaults them to 1."""
    return int(stateful_set["spec"].get("replicas", 1))


def with_replicas(stateful_set: Json, replicas: int) -> Json:
    """Returns a copy with another number of replicas."""
    return {**stateful_set, "spec": {**stateful_set["spec"], "replicas": replicas}}
