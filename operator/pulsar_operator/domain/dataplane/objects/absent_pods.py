"""Desired pods that are absent: the API server refuses to create them, or their node is lost. Pure.

A pod that does not exist has no object that shows when it disappeared. So the status keeps the time
(status.missingPods), and that time decides. Events of the StatefulSet only explain: Kubernetes deletes them after an
hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pulsar_operator.api.v1alpha1.cluster_status import MAX_MISSING, MissingPodStatus
from pulsar_operator.domain.conditions import parse_time, timestamp
from pulsar_operator.domain.texts import quoted

Json = Mapping[str, Any]

FAILED_CREATE: Final = "FailedCreate"
"""Reason of the event with which the StatefulSet controller reports a pod or a claim that it could not create."""
EXPLAINS: Final = timedelta(minutes=20)
"""Age up to which such an event explains a missing pod. The controller tries again every 17 minutes at the latest."""
OVERDUE: Final = timedelta(minutes=1)
"""Time beyond its grace period after which an existing pod counts as left on a lost node."""
NEW: Final = timedelta(minutes=1)
"""Age up to which a StatefulSet without a pod is not reported: its controller is creating the pods."""
RECORDED: Final = timedelta(minutes=2)
"""Age at which the time of the last observation is written again."""
CONTINUOUS: Final = timedelta(minutes=10)
"""Age up to which the last observation and this one count as one absence. While a pod is missing, a pass begins within
seconds and takes 300 s at most; during a longer interval no operator observed the pod."""
_TAINTED: Final = "DeletionByTaintManager"
_MAX_WORDS: Final = 300


@dataclass(frozen=True)
class Absence:
    """A pod that does not exist."""

    since: datetime
    """Time at which the operator first observed the absence."""
    refusal: str = ""
    """Why Kubernetes does not create it, in the words of its event; empty if no event explains it."""


def missing_names(workload: str, total: int, ordinals: Iterable[int]) -> tuple[str, ...]:
    """Returns the names of the pods that a StatefulSet should have and that do not exist."""
    present = set(ordinals)
    return tuple(f"{workload}-{ordinal}" for ordinal in range(total) if ordinal not in present)


def refusals(events: Iterable[Json], names: Sequence[str], now: datetime) -> dict[str, str]:
    """Returns why pods are not created, by pod name: the newest event of their StatefulSet about each."""
    found: dict[str, tuple[datetime, str]] = {}
    for event in events:
        message, at = str(event.get("message") or ""), _time_of(event)
        if event.get("reason") != FAILED_CREATE or at is None or now - at > EXPLAINS:
            continue
        about, _, refusal = message.partition(" failed error: ")
        for name in names:
            if f"Pod {name} in" in about and refusal and (name not in found or found[name][0] <= at):
                found[name] = at, short(refusal)
    return {name: refusal for name, (_, refusal) in found.items()}


def _time_of(event: Json) -> datetime | None:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return next((parse_time(str(each)) for each in times if each), None)


def short(text: str) -> str:
    """Returns a message of Kubernetes for a condition: shortened, without refused values, secrets and control
    characters."""
    words = quoted(text)
    return words if len(words) <= _MAX_WORDS else f"{words[: _MAX_WORDS - 3]}..."


def is_new(stateful_set: Json, now: datetime | None) -> bool:
    """Whether a StatefulSet was created so recently that its pods need not exist yet; ``now`` is None if not known."""
    created = parse_time(stateful_set["metadata"].get("creationTimestamp"))
    return now is None or created is None or now - created <= NEW


def describe_missing(name: str, refusal: str) -> str:
    """Returns the message of a condition about a pod that does not exist."""
    return f"Pod {name} does not exist: {refusal}" if refusal else f"Pod {name} does not exist"


def missing_rows(stored: Sequence[Any], names: Iterable[str] | None, now: datetime) -> list[MissingPodStatus]:
    """Returns the rows of status.missingPods; a pod that has been missing all the time keeps its time. ``names`` is
    None if not known."""
    known = {row.name: row for row in map(MissingPodStatus.model_validate, stored)}
    if names is None:
        return list(known.values())
    return [_observed(known.get(name), name, now) for name in sorted(names)][:MAX_MISSING]


def _observed(row: MissingPodStatus | None, name: str, now: datetime) -> MissingPodStatus:
    if row is None or not _continuous(row, now):
        return MissingPodStatus(name=name, since=timestamp(now), last_observed=timestamp(now))
    last = parse_time(row.last_observed)
    fresh = last is not None and now - last < RECORDED
    return row if fresh else row.model_copy(update={"last_observed": timestamp(now)})


def _continuous(row: MissingPodStatus, now: datetime) -> bool:
    """Whether a pod was observed to be missing so recently that it cannot have existed since."""
    last = parse_time(row.last_observed)
    return last is not None and now - last <= CONTINUOUS


def absences(stored: Sequence[Any], refused: Mapping[str, str], now: datetime) -> dict[str, Absence]:
    """Returns the pods that the status reports as missing, by name. A time in the future counts as now, and so does the
    time of an absence that may have ended since."""
    found = {}
    for row in map(MissingPodStatus.model_validate, stored):
        since = parse_time(row.since)
        if since is not None:
            began = min(since, now) if _continuous(row, now) else now
            found[row.name] = Absence(began, refused.get(row.name, ""))
    return found


def describe_lost(pod: Json, now: datetime | None) -> str | None:
    """The sentence of a condition about a pod on a node that is lost; None if the pod does not say so.

    Read from the pod alone, since the operator has no right to read nodes. The kubelet of a lost node removes no pod:
    one that is being deleted stays beyond its grace period, or was deleted by the taint manager. Before Kubernetes
    deletes it, its condition Ready is False although its containers were last reported as ready.
    """
    meta, spec = pod["metadata"], pod.get("spec") or {}
    name, node = meta["name"], spec.get("nodeName")
    if not node:
        return None
    deleted = parse_time(meta.get("deletionTimestamp"))
    if deleted is not None:
        if not (_tainted(pod) or (now is not None and now - deleted > OVERDUE)):
            return None
        return (
            f"Pod {name} has been Terminating since {meta['deletionTimestamp']} on node {node}, and the kubelet "
            "of the node does not confirm that the pod has ended. If the node is lost, run: kubectl taint node "
            f"{node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or kubectl delete node {node}"
        )
    if not _unreported(pod):
        return None
    return (
        f"Pod {name} is not Ready, because the kubelet of node {node} no longer reports, although the containers "
        "were last reported as ready. Kubernetes deletes the pod after its toleration, which is five minutes by "
        "default"
    )


def _tainted(pod: Json) -> bool:
    return any(
        each.get("type") == "DisruptionTarget" and each.get("status") == "True" and each.get("reason") == _TAINTED
        for each in _conditions(pod)
    )


def _unreported(pod: Json) -> bool:
    """Whether the node controller marked the pod as not ready: the kubelet would have reported a container as not
    ready."""
    status = {each.get("type"): each.get("status") for each in _conditions(pod)}
    gates = (pod.get("spec") or {}).get("readinessGates")
    return not gates and status.get("Ready") == "False" and status.get("ContainersReady") == "True"


def _conditions(pod: Json) -> Sequence[Json]:
    return (pod.get("status") or {}).get("conditions") or ()
