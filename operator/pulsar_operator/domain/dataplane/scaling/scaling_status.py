"""How the status reports decisions on replicas: its rows, and condition ScalingActive. Pure.

The decisions are in balance/autoscaling; controllers/dataplane/scaling/autoscale.py is the phase that makes them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from pulsar_operator.api.constants import Component, ConditionType, Reason
from pulsar_operator.api.v1alpha1.base import ConditionStatus
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.scaling_status import AutoscalingStatus, ComponentScalingStatus
from pulsar_operator.domain.conditions import FALSE, TRUE, UNKNOWN, ConditionSet, reason_named, timestamp
from pulsar_operator.domain.dataplane.objects.live_objects import Live
from pulsar_operator.domain.dataplane.scaling.replicas import (
    FIELDS,
    SCALED,
    Part,
    Rows,
    is_recent,
    part_of,
    workload_replicas,
)

WELL: Final = frozenset({Reason.WITHIN_TARGET, Reason.SCALED_OUT, Reason.SCALED_IN})
NOUNS: Final[Mapping[Component, str]] = {
    Component.BROKER: "brokers",
    Component.PROXY: "proxies",
    Component.BOOKIE: "bookies",
}


def kept(
    row: ComponentScalingStatus, replicas: int, current: int | None, now: datetime
) -> ComponentScalingStatus | None:
    """Returns the record after autoscaling is removed, or after a decision that could not be read, so that the replicas
    stay; None if ``replicas`` was changed, and counts again."""
    unread = row.reason == Reason.STATUS_UNREADABLE.value
    if row.replicas != replicas or (unread and row.desired == replicas and not is_recent(row, now)):
        return None
    if unread:
        return row.model_copy(update={"current": row.desired if current is None else current})
    there = row.desired if current is None else current
    return ComponentScalingStatus(
        current=there,
        desired=row.desired,
        replicas=replicas,
        message="Autoscaling was removed. The number of replicas stays until replicas is changed",
        last_scale_time=row.last_scale_time,
    )


def unknown(
    component: Component, part: Part, number: int, now: datetime, *, gone: bool = False
) -> ComponentScalingStatus | None:
    """Returns the record of a component whose last decision could not be read: the ``number`` of pods that run stays,
    or if the workload is ``gone`` the number of the specification counts. With autoscaling the next pass decides again,
    without what the last decisions knew. None if nothing is to be reported: the specification counts anyway."""
    path, decides = f"spec.{FIELDS[component]}.replicas", part.autoscaling is not None
    if gone:
        text = f"The operator creates the missing workload with {number} replicas according to {path}"
        remedy = "If the workload had another number of replicas, set that number in the specification"
    elif decides:
        text, remedy = f"The operator keeps {number} replicas", ""
    elif number != part.replicas:
        text = f"The operator keeps {number} replicas although {path} is {part.replicas}"
        remedy = f"Set {path} to {number}. Then the operator follows the specification again, also with another number"
    else:
        return None
    text += ", because it could not read its last decision in the status, which another version may have written"
    return ComponentScalingStatus(
        current=number,
        desired=number,
        replicas=part.replicas,
        reason=Reason.STATUS_UNREADABLE.value,
        message=f"{text}. {'Autoscaling decides again in the next pass' if decides else remedy}",
        updated_time=timestamp(now),
    )


def unread_rows(
    declared: PulsarClusterSpec, spec: PulsarClusterSpec, lost: Collection[Component], live: Live, now: datetime
) -> dict[Component, ComponentScalingStatus]:
    """Returns the records of the components whose last decision could not be read (``lost``). ``spec`` has the replicas
    that count (`with_desired`), ``live`` is what the pass found first."""
    found = {}
    for component in lost:
        part, counts = part_of(declared, component), part_of(spec, component)
        if part is None or counts is None:
            continue
        gone = workload_replicas(live, component) is None
        row = unknown(component, part, counts.replicas, now, gone=gone)
        if row is not None:
            found[component] = row
    return found


def scaling_condition(rows: Rows) -> tuple[ConditionStatus, Reason, str] | None:
    """Returns status, reason and message of condition ScalingActive. A component with status False takes precedence.
    None if there is no decision for any component."""
    found = [(component, reason_named(row.reason), row.message or "") for component, row in rows.items() if row.reason]
    if not found:
        return None
    worst = next((each for each in found if each[1] not in WELL), None)
    first = worst or next((each for each in found if each[1] is not Reason.WITHIN_TARGET), found[0])
    text = " ".join(f"{NOUNS[component].capitalize()}: {message}" for component, _, message in found)
    return FALSE if worst is not None else TRUE, first[1], text


def status_of(rows: Rows) -> AutoscalingStatus | None:
    """Returns the rows of the status."""
    if not rows:
        return None
    return AutoscalingStatus(
        broker=rows.get(Component.BROKER),
        proxy=rows.get(Component.PROXY),
        bookkeeper=rows.get(Component.BOOKIE),
    )


def set_condition(
    conditions: ConditionSet, spec: PulsarClusterSpec, rows: Rows | None, lost: Rows, error: str | None
) -> None:
    """Sets condition ScalingActive if any component has autoscaling, or a record with a reason. ``rows`` are the
    decisions of this pass, None if there are none: then ``lost`` are the records of the components whose last decision
    could not be read. ``error`` is what ended the pass."""
    kind, parts = ConditionType.SCALING_ACTIVE, [part_of(spec, component) for component in SCALED]
    found = scaling_condition(lost if rows is None else rows)
    scaled = any(part is not None and part.autoscaling is not None for part in parts)
    if found is not None:
        conditions.set(kind, *found)
    elif (scaled or (rows is None and _reported(conditions))) and conditions.carry(kind):
        return
    elif scaled:
        conditions.set(kind, UNKNOWN, Reason.UNKNOWN, error or "No decision has been made yet")


def _reported(conditions: ConditionSet) -> bool:
    """Whether the stored condition says that a decision could not be read."""
    kind, reason = ConditionType.SCALING_ACTIVE.value, Reason.STATUS_UNREADABLE.value
    return any((each.get("type"), each.get("reason")) == (kind, reason) for each in conditions.previous)
