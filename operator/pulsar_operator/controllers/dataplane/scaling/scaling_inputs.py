"""Converts facts about pods and status to the inputs of decisions on replicas, and back (balance/autoscaling)."""

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
"""Seconds between two passes over a cluster at rest."""
START_SECONDS: Final = 300.0
"""Seconds after which a pod that is on a node and not ready carries nothing: the node is lost, or the pod crashes."""
TAKEN_IN_SECONDS: Final = 10.0
"""Seconds within which the kubelet reports that it admitted a pod and that the pod is not ready; no pod becomes ready
and unready again in that time."""
WARM_UP_SECONDS: Final = 2 * INTERVAL
"""Seconds after which a broker's figures count: it counts its topics once a minute (statsUpdateFrequencyInSecs), after
bundles and clients arrive."""
REFRESHED: Final = timedelta(seconds=OBSERVED_INTERVALS * INTERVAL)
"""Interval at which figures of an unchanged decision are written again."""
BLOCKING_REASONS: Final = frozenset({Reason.PAUSED, Reason.CONFIGURATION_STORE_UNAVAILABLE})
"""Reasons with which no pod is added or removed."""
_MOST_WORDS = 2000


def workload_of(
    replicas: int, pods: Iterable[PodFacts], blocks: tuple[Block, ...], now: datetime, *, alike: bool = True
) -> Workload:
    """Returns the pods of a component as input; ``replicas`` is the last decision.

    A pod that fits on no node counts as starting, since another would not fit either. Of pods that never became ready
    one counts as lost, for its node may be bad; a cause that affects several would affect more. If pods are not
    ``alike``, as bookies with their own volumes, all are waited for, or all are compensated. A pod that is still
    terminating long after its grace period is on a lost node, and no other replaces it (a StatefulSet waits for it).
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
    """Whether a pod was never ready: the kubelet sets it to not ready when it admits the pod, and later only if it was
    ready."""
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
    """Whether it may carry load that its figures do not show. A pod that has just become ready reports 0 until clients
    return; one that runs and is not ready may serve, and is not asked."""
    if pod.terminating:
        return False
    since = _since(pod)
    warming_up = since is not None and (now - since).total_seconds() < WARM_UP_SECONDS
    return warming_up if pod.ready else pod.serving_before


def _since(pod: PodFacts) -> datetime | None:
    """Returns the time at which it became ready, or ceased to be ready."""
    return parse_time(_conditions(pod).get("Ready", {}).get("lastTransitionTime"))


def _conditions(pod: PodFacts) -> dict[str, Mapping[str, Any]]:
    return {str(each.get("type")): each for each in (pod.raw.get("status") or {}).get("conditions") or ()}


def state_of(row: ComponentScalingStatus | None, now: datetime) -> State:
    """Returns the record of the last decisions."""
    stored = row.history if row is not None else None
    return from_status(
        stored.model_dump(by_alias=True, exclude_none=True) if stored is not None else None, seconds(now)
    )


def samples_of(row: ComponentScalingStatus | None, now: float) -> trend.Samples:
    """Returns what bookies stored, hour by hour."""
    stored = row.history.stored if row is not None and row.history is not None else []
    return trend.from_status([each.model_dump(by_alias=True) for each in stored], now)


def refused_of(row: ComponentScalingStatus | None) -> Refused | None:
    """Returns why the last decommission was refused; an unreadable record is dropped, so that the next one is tried."""
    stored = row.history.refusal if row is not None and row.history is not None else None
    try:
        reason = Reason(stored.reason) if stored is not None else None
    except ValueError:
        return None
    if stored is None or reason is None:
        return None
    return Refused(reason, stored.message, stored.generation, float(stored.since))


def seconds(time: datetime) -> float:
    """Returns whole seconds of the epoch, as the status stores them."""
    return float(int(time.timestamp()))


@dataclass(frozen=True)
class Decision:
    """A verdict, with the record for the next decision."""

    verdict: Verdict
    state: State
    samples: trend.Samples = ()
    """What bookies stored."""
    refused: Refused | None = None
    """Why the last decommission was refused."""


@dataclass(frozen=True)
class Decided:
    """One decision, with what it changed."""

    last: int
    """Replicas that were decided before."""
    current: int
    """Replicas of the workload."""
    replicas: int
    """Replicas of the specification."""
    decision: Decision
    desired: int
    """Replicas from now on: those of the verdict, or the last ones if the operator may not act."""


def row_of(decided: Decided, before: ComponentScalingStatus | None, now: datetime) -> ComponentScalingStatus:
    """Returns the row of the status; the stored one while the decision is the same and its figures are recent, so that
    a cluster at rest is not written in each pass.

    A decision that waits while nothing may be done ages (domain/dataplane/scaling/replicas.py), even if it is checked:
    once it can be carried out the load may be different.
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
    """Whether two rows differ only in figures."""
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
