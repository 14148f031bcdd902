"""Between what a pass knows of pods and status, and what decisions on replicas take and give (balance/autoscaling)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.scaling_status import (
    ComponentScalingStatus,
    ScalingHistoryStatus,
    ScalingInputStatus,
    ScalingRefusalStatus,
    StoredStatus,
)
from pulsar_operator.balance.autoscaling import trend
from pulsar_operator.balance.autoscaling.bookies import Refused
from pulsar_operator.balance.autoscaling.history import OBSERVED_INTERVALS, State, from_status, to_status
from pulsar_operator.balance.autoscaling.values import Block, Input, Verdict, Workload
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.dataplane.objects.pods import PodFacts

INTERVAL: Final = 60.0
"""Seconds between two checks a cluster that is at rest."""
START_SECONDS: Final = 300.0
"""A pod that is on a node and not ready for so long carries nothing: the node is away, or the pod crashes."""
TAKEN_IN_SECONDS: Final = 10.0
"""Within which the kubelet says when it took a pod in and that it is not ready; no pod is ready, and not any more, by
then."""
WARM_UP_SECONDS: Final = 2 * INTERVAL
"""Brokers count their topics once a minute (statsUpdateFrequencyInSecs), after bundles and clients have come."""
REFRESHED: Final = timedelta(seconds=OBSERVED_INTERVALS * INTERVAL)
"""Figures of a decision that stays the same are written this seldom."""
BLOCKING_REASONS: Final = frozenset({Reason.PAUSED, Reason.CONFIGURATION_STORE_UNAVAILABLE})
"""In which no pod is added or removed."""
_MOST_WORDS = 2000


def workload_of(
    replicas: int, pods: Iterable[PodFacts], blocks: tuple[Block, ...], now: datetime, *, alike: bool = True
) -> Workload:
    """The pods of a component; ``replicas`` is the last decision.

    One that fits on no node is not lost but about to start: another would not fit either. Of those that never got ready
    one counts as lost, for its node may be bad; what keeps several from starting would keep more. Pods that are not
    ``alike``, those of bookies with volumes of their own, are all waited for, or all made up for. One that is stopping
    for long after it should have gone is on a node that is away, and no other comes in its place (a StatefulSet waits
    for it).
    """
    there = tuple(pods)
    ready = frozenset(pod.name for pod in there if pod.ready and not pod.terminating)
    expected = [pod for pod in there if pod.ordinal < replicas]
    gone = [pod for pod in expected if _lost(pod, now)]
    never = max(sum(map(_never_ready, gone)) - 1, 0) if alike else 0
    stuck = never + sum(_unplaced(pod, now) for pod in expected) if alike else 0
    return Workload(replicas, ready, len(gone) - never, blocks, sum(_unsure(pod, now) for pod in there), stuck)


def _lost(pod: PodFacts, now: datetime) -> bool:
    if pod.terminating:
        gone = parse_time(pod.raw["metadata"].get("deletionTimestamp"))  # its grace is over then
        return gone is not None and (now - gone).total_seconds() > START_SECONDS
    found, since = _conditions(pod), _since(pod)
    placed = found.get("PodScheduled", {}).get("status") != "False"
    return not pod.ready and placed and since is not None and (now - since).total_seconds() > START_SECONDS


def _never_ready(pod: PodFacts) -> bool:
    """Whether it never was ready: the kubelet says that a pod is not when it takes it in, and later only of one that
    was."""
    since, begun = _since(pod), parse_time((pod.raw.get("status") or {}).get("startTime"))
    if pod.terminating or since is None or begun is None:
        return False
    return abs((since - begun).total_seconds()) <= TAKEN_IN_SECONDS


def _unplaced(pod: PodFacts, now: datetime) -> bool:
    """Whether no node has had room for it for longer than a start takes."""
    found = _conditions(pod).get("PodScheduled", {})
    since = parse_time(found.get("lastTransitionTime"))
    if pod.terminating or found.get("status") != "False" or since is None:
        return False
    return (now - since).total_seconds() > START_SECONDS


def _unsure(pod: PodFacts, now: datetime) -> bool:
    """Whether it may carry what its figures do not tell. One that has just become ready says 0 until clients are back;
    one that runs and is not ready serves anyway, and is not asked."""
    if pod.terminating:
        return False
    since = _since(pod)
    warming_up = since is not None and (now - since).total_seconds() < WARM_UP_SECONDS
    return warming_up if pod.ready else pod.serving_before


def _since(pod: PodFacts) -> datetime | None:
    """Time since which it is ready, or is not."""
    return parse_time(_conditions(pod).get("Ready", {}).get("lastTransitionTime"))


def _conditions(pod: PodFacts) -> dict[str, Mapping[str, Any]]:
    return {str(each.get("type")): each for each in (pod.raw.get("status") or {}).get("conditions") or ()}


def state_of(row: ComponentScalingStatus | None, now: datetime) -> State:
    """What the last decisions remember."""
    stored = row.history if row is not None else None
    return from_status(
        stored.model_dump(by_alias=True, exclude_none=True) if stored is not None else None, seconds(now)
    )


def samples_of(row: ComponentScalingStatus | None, now: float) -> trend.Samples:
    """What bookies stored, hour by hour."""
    stored = row.history.stored if row is not None and row.history is not None else []
    return trend.from_status([each.model_dump(by_alias=True) for each in stored], now)


def refused_of(row: ComponentScalingStatus | None) -> Refused | None:
    """Why the last bookie that was to leave stayed; what cannot be read is forgotten, so that one is tried again."""
    stored = row.history.refusal if row is not None and row.history is not None else None
    try:
        reason = Reason(stored.reason) if stored is not None else None
    except ValueError:
        return None
    if stored is None or reason is None:
        return None
    return Refused(reason, stored.message, stored.generation, float(stored.since))


def seconds(time: datetime) -> float:
    """Whole seconds of the epoch, which fit in status."""
    return float(int(time.timestamp()))


@dataclass(frozen=True)
class Decision:
    """A verdict, and what the next one has to know."""

    verdict: Verdict
    state: State
    samples: trend.Samples = ()
    """What bookies stored."""
    refused: Refused | None = None
    """Why the last bookie that was to leave stayed."""


@dataclass(frozen=True)
class Decided:
    """One decision, with what it changed."""

    last: int
    """Replicas that were decided before."""
    current: int
    """Replicas of the workload."""
    replicas: int
    """The specification's."""
    decision: Decision
    desired: int
    """Replicas from now on: the verdict's, or the last ones where nothing may be acted on."""


def row_of(decided: Decided, before: ComponentScalingStatus | None, now: datetime) -> ComponentScalingStatus:
    """The row of status; the stored one while the decision is the same and its figures are not old, so that a cluster
    at rest is not written at each look.

    A decision that waits while nothing may be done ages (domain/dataplane/scaling/replicas.py), however often it is
    checked: when it can be done the load may be another.
    """
    verdict, history = decided.decision.verdict, _history(decided.decision)
    scaled = before.last_scale_time if before is not None else None
    if decided.desired != decided.last:
        scaled = timestamp(now)
    waits = before is not None and verdict.reason in BLOCKING_REASONS and decided.desired != decided.current
    row = ComponentScalingStatus(
        current=decided.current,
        desired=decided.desired,
        replicas=decided.replicas,
        reason=verdict.reason.value,
        message=verdict.message[:_MOST_WORDS],
        limited_by=verdict.limited_by,
        inputs=[_input(each, now) for each in verdict.inputs],
        last_scale_time=scaled,
        updated_time=before.updated_time if before is not None and waits else timestamp(now),
        history=history,
    )
    return before if before is not None and _same(before, row) and (waits or not _old(before, now)) else row


def _history(decision: Decision) -> ScalingHistoryStatus:
    found, refused = ScalingHistoryStatus.model_validate(to_status(decision.state)), decision.refused
    stored = [StoredStatus(time=int(time), used_bytes=int(used)) for time, used in decision.samples]
    refusal = None
    if refused is not None:
        refusal = ScalingRefusalStatus(
            since=int(refused.at),
            reason=refused.reason.value,
            message=refused.message,
            generation=refused.generation,
        )
    return found.model_copy(update={"stored": stored, "refusal": refusal})


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
