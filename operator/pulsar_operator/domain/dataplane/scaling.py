"""What decisions on replicas are made from and what is said of them: pods as a workload, rows of status, condition
ScalingActive. Pure; the decisions are in balance/autoscaling, the phase that has them made in
controllers/dataplane/phases/autoscale.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pulsar_operator.api.constants import Component, Reason
from pulsar_operator.api.v1alpha1.base import ConditionStatus
from pulsar_operator.api.v1alpha1.scaling_status import (
    AutoscalingStatus,
    ComponentScalingStatus,
    ScalingHistoryStatus,
    ScalingInputStatus,
)
from pulsar_operator.balance.autoscaling.history import SEEN_INTERVALS, State, from_status, to_status
from pulsar_operator.balance.autoscaling.values import Block, Input, Verdict, Workload
from pulsar_operator.domain.conditions import FALSE, TRUE, parse_time, timestamp
from pulsar_operator.domain.dataplane.pods import PodFacts
from pulsar_operator.domain.dataplane.wanted import Rows

INTERVAL: Final = 60.0
"""Seconds between two looks at a cluster that is at rest."""
START_SECONDS: Final = 300.0
"""A pod that is on a node and not ready for so long carries nothing: the node is away, or the pod crashes."""
REFRESHED: Final = timedelta(seconds=SEEN_INTERVALS * INTERVAL)
"""Figures of a decision that stays the same are written this seldom."""
WELL: Final = frozenset({Reason.WITHIN_TARGET, Reason.SCALED_OUT, Reason.SCALED_IN})
NOUNS: Final[Mapping[Component, str]] = {Component.BROKER: "brokers", Component.PROXY: "proxies"}
_MOST_WORDS = 2000


def workload_of(replicas: int, pods: Iterable[PodFacts], blocks: tuple[Block, ...], now: datetime) -> Workload:
    """The pods of a component; ``replicas`` is the last decision.

    One that fits on no node is not lost but about to start: another would not fit either.
    """
    there = [pod for pod in pods if not pod.terminating]
    ready = frozenset(pod.name for pod in there if pod.ready)
    lost = sum(_lost(pod, now) for pod in there if not pod.ready and pod.ordinal < replicas)
    return Workload(replicas, ready, lost, blocks)


def _lost(pod: PodFacts, now: datetime) -> bool:
    found = {str(each.get("type")): each for each in (pod.raw.get("status") or {}).get("conditions") or ()}
    since = parse_time(found.get("Ready", {}).get("lastTransitionTime"))
    placed = found.get("PodScheduled", {}).get("status") != "False"
    return placed and since is not None and (now - since).total_seconds() > START_SECONDS


def state_of(row: ComponentScalingStatus | None, now: datetime) -> State:
    """What the last decisions remember."""
    stored = row.history if row is not None else None
    return from_status(stored.model_dump(exclude_none=True) if stored is not None else None, seconds(now))


def seconds(time: datetime) -> float:
    """Whole seconds of the epoch, which fit in status."""
    return float(int(time.timestamp()))


@dataclass(frozen=True)
class Decided:
    """One decision, with what it changed."""

    last: int
    """Replicas that were decided before."""
    current: int
    """Replicas of the workload."""
    replicas: int
    """The specification's."""
    verdict: Verdict
    state: State
    desired: int
    """Replicas from now on: the verdict's, or the last ones where nothing may be acted on."""


def row_of(decided: Decided, before: ComponentScalingStatus | None, now: datetime) -> ComponentScalingStatus:
    """The row of status; the stored one while the decision is the same and its figures are not old, so that a cluster
    at rest is not written at each look."""
    verdict = decided.verdict
    history = ScalingHistoryStatus.model_validate(to_status(decided.state))
    scaled = before.last_scale_time if before is not None else None
    if decided.desired != decided.last:
        scaled = timestamp(now)
    row = ComponentScalingStatus(
        current=decided.current,
        desired=decided.desired,
        replicas=decided.replicas,
        reason=verdict.reason.value,
        message=verdict.message[:_MOST_WORDS],
        limited_by=verdict.limited_by,
        inputs=[_input(each, now) for each in verdict.inputs],
        last_scale_time=scaled,
        updated_time=timestamp(now),
        history=history,
    )
    return before if before is not None and _same(before, row) and not _old(before, now) else row


def _same(before: ComponentScalingStatus, row: ComponentScalingStatus) -> bool:
    """Whether two rows differ in figures alone."""
    figures: dict[str, object] = {"message": None, "inputs": [], "updated_time": None}
    return before.model_copy(update=figures) == row.model_copy(update=figures)


def _old(row: ComponentScalingStatus, now: datetime) -> bool:
    written = parse_time(row.updated_time)
    return written is None or not timedelta() <= now - written < REFRESHED


def _input(found: Input, now: datetime) -> ScalingInputStatus:
    return ScalingInputStatus(
        name=found.name,
        value=None if found.value is None else f"{found.value:.6g}",
        target=f"{found.target:.6g}",
        unit=found.unit or None,
        measured_time=timestamp(now - timedelta(seconds=found.age)),
    )


def kept(row: ComponentScalingStatus, replicas: int, current: int | None) -> ComponentScalingStatus | None:
    """What is remembered once autoscaling is removed, so that the number stays; None = ``replicas`` was changed, and
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


def said(rows: Rows) -> tuple[ConditionStatus, Reason, str] | None:
    """Condition ScalingActive: status, reason, message. False speaks first; None = nothing is decided of any."""
    found = [(component, Reason(row.reason), row.message or "") for component, row in rows.items() if row.reason]
    if not found:
        return None
    worst = next((each for each in found if each[1] not in WELL), None)
    first = worst or next((each for each in found if each[1] is not Reason.WITHIN_TARGET), found[0])
    text = " ".join(f"{NOUNS[component].capitalize()}: {message}" for component, _, message in found)
    return FALSE if worst is not None else TRUE, first[1], text


def status_of(rows: Rows) -> AutoscalingStatus | None:
    """The rows as status has them."""
    if not rows:
        return None
    return AutoscalingStatus(broker=rows.get(Component.BROKER), proxy=rows.get(Component.PROXY))
