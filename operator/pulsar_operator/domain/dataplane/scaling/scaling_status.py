"""How the status reports decisions on replicas: its rows, and condition ScalingActive. Pure.

The decisions are in balance/autoscaling; controllers/dataplane/scaling/autoscale.py is the phase that makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from pulsar_operator.api.constants import Component, ConditionType, Reason
from pulsar_operator.api.v1alpha1.base import ConditionStatus
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.scaling_status import AutoscalingStatus, ComponentScalingStatus
from pulsar_operator.domain.conditions import FALSE, TRUE, UNKNOWN, ConditionSet, reason_named, timestamp
from pulsar_operator.domain.dataplane.scaling.replicas import SCALED, Part, Rows, part_of

WELL: Final = frozenset({Reason.WITHIN_TARGET, Reason.SCALED_OUT, Reason.SCALED_IN})
NOUNS: Final[Mapping[Component, str]] = {
    Component.BROKER: "brokers",
    Component.PROXY: "proxies",
    Component.BOOKIE: "bookies",
}


def kept(row: ComponentScalingStatus, replicas: int, current: int | None) -> ComponentScalingStatus | None:
    """Returns the record after autoscaling is removed, so that the replicas stay; None if ``replicas`` was changed, and
    counts again."""
    if row.replicas != replicas:
        return None
    there = row.desired if current is None else current
    return ComponentScalingStatus(
        current=there,
        desired=row.desired,
        replicas=replicas,
        message="autoscaling was removed: this number stays until replicas is changed",
        last_scale_time=row.last_scale_time,
    )


def unknown(part: Part, replicas: int, current: int | None, now: datetime) -> ComponentScalingStatus:
    """What is remembered where the last decision could not be read: the number of pods stays as it is. With autoscaling
    the next pass decides again, without what the last decisions knew."""
    number, decides = replicas if current is None else current, part.autoscaling is not None
    remedy = "It decides again in the next pass" if decides else "To change it, change replicas in the specification"
    text = (
        f"The operator keeps {number} replicas: it could not read its last decision in the status, which another "
        f"version may have written. {remedy}"
    )
    return ComponentScalingStatus(
        current=number,
        desired=number,
        replicas=part.replicas,
        reason=Reason.STATUS_UNREADABLE.value if decides else None,
        message=text,
        updated_time=timestamp(now),
    )


def scaling_condition(rows: Rows) -> tuple[ConditionStatus, Reason, str] | None:
    """Returns status, reason and message of condition ScalingActive. A component with False comes first; None if
    nothing is decided for any."""
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


def set_condition(conditions: ConditionSet, spec: PulsarClusterSpec, rows: Rows | None, error: str | None) -> None:
    """Sets condition ScalingActive if any component has autoscaling. ``rows`` are the decisions of this pass, None if
    there are none; ``error`` is what ended the pass."""
    kind, parts = ConditionType.SCALING_ACTIVE, [part_of(spec, component) for component in SCALED]
    if all(part is None or part.autoscaling is None for part in parts):
        return
    found = scaling_condition(rows) if rows is not None else None
    if found is not None:
        conditions.set(kind, *found)
    elif not conditions.carry(kind):
        conditions.set(kind, UNKNOWN, Reason.UNKNOWN, error or "Nothing was decided yet")
