"""Between what a pass knows of pods and status, and what decisions on replicas take and give (balance/autoscaling)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pulsar_operator.api.v1alpha1.scaling_status import (
    ComponentScalingStatus,
    ScalingHistoryStatus,
    ScalingInputStatus,
)
from pulsar_operator.balance.autoscaling.history import SEEN_INTERVALS, State, from_status, to_status
from pulsar_operator.balance.autoscaling.values import Block, Input, Verdict, Workload
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.dataplane.pods import PodFacts

INTERVAL: Final = 60.0
"""Seconds between two looks at a cluster that is at rest."""
START_SECONDS: Final = 300.0
"""A pod that is on a node and not ready for so long carries nothing: the node is away, or the pod crashes."""
REFRESHED: Final = timedelta(seconds=SEEN_INTERVALS * INTERVAL)
"""Figures of a decision that stays the same are written this seldom."""
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
