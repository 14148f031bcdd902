"""Evictions as the API server answers them, with the numbers that the controller of budgets would have written.

In a Kubernetes the disruption controller writes disruptionsAllowed into the status of a PodDisruptionBudget, and the
API server counts it down. Here it has always just looked (sources: eviction.go of the API server, disruption.go of the
controller manager; answers seen on Kubernetes 1.35). Not played: that an eviction of another UID is counted too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pulsar_operator.ports import PDBS, PODS, STATEFUL_SETS, Json, ServerError

ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Disruptions:
    """How many pods of a budget may go."""

    allowed: int
    healthy: int
    desired: int
    expected: int

    def status(self, generation: int) -> Json:
        """As the status of the PodDisruptionBudget of that generation: what a world without the controller needs."""
        return {
            "observedGeneration": generation,
            "disruptionsAllowed": self.allowed,
            "currentHealthy": self.healthy,
            "desiredHealthy": self.desired,
            "expectedPods": self.expected,
        }


def disruptions(budget: Json, objects: Iterable[Json]) -> Disruptions:
    """What a budget allows, of the pods and StatefulSets that are there.

    Missing pods of a StatefulSet count as unhealthy ones; maxUnavailable and percentages are of what StatefulSets want,
    not of pods that nobody will replace (disruption.go, getExpectedPodCount).
    """
    objects = [obj for obj in objects if obj["metadata"].get("namespace") == budget["metadata"]["namespace"]]
    pods = [obj for obj in objects if obj["kind"] == PODS.kind and covers(budget, obj)]
    owners = {ref["uid"] for pod in pods for ref in pod["metadata"].get("ownerReferences") or ()}
    owned = [obj for obj in objects if obj["kind"] == STATEFUL_SETS.kind and obj["metadata"].get("uid") in owners]
    scale = sum(obj["spec"].get("replicas", 1) for obj in owned)
    spec = budget["spec"]
    most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
    if most is not None:
        expected, desired = scale, max(0, scale - _number(most, scale))
    elif isinstance(least, int):
        expected, desired = len(pods), least
    else:
        expected, desired = scale, _number(least or 0, scale)
    healthy = sum(is_ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in pods)
    return Disruptions(max(0, healthy - desired) if expected > 0 else 0, healthy, desired, expected)


def refusal(pod: Json, uid: str, objects: Iterable[Json]) -> str | None:
    """What a budget says against the eviction of a pod by this UID; None where it may go. Raises ServerError."""
    objects, status = list(objects), pod.get("status") or {}
    ready = is_ready(pod)
    phase = status.get("phase") or ("Running" if ready else "Pending")
    if phase in ENDED or phase == "Pending" or "deletionTimestamp" in pod["metadata"]:
        return None
    namespace = pod["metadata"]["namespace"]
    budgets = [b for b in objects if b["kind"] == PDBS.kind and b["metadata"]["namespace"] == namespace]
    budgets = [budget for budget in budgets if covers(budget, pod)]
    if not budgets:
        return None
    if len(budgets) > 1:
        raise ServerError(
            "HTTP 500: This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    (budget,) = budgets
    name, now = budget["metadata"]["name"], disruptions(budget, objects)
    always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    if not ready and (always or now.healthy >= now.desired > 0):
        if pod["metadata"]["uid"] != uid:
            # Any conflict is taken for the pod having become ready meanwhile.
            return f"The disruption budget {name} is still being processed by the server"
        return None
    if now.allowed > 0:
        return None
    return f"The disruption budget {name} needs {now.desired} healthy pods and has {now.healthy} currently"


def covers(budget: Json, pod: Json) -> bool:
    """Whether a budget is about a pod of its namespace. An empty selector is about all, an absent one about none."""
    selector = budget["spec"].get("selector")
    if selector is None:
        return False
    assert not selector.get("matchExpressions"), "not played here"
    labels = pod["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())


def is_ready(pod: Json) -> bool:
    """Whether a pod's Ready condition is True."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _number(value: int | str, whole: int) -> int:
    """A number or a percentage, rounded up as Kubernetes does in budgets."""
    return value if isinstance(value, int) else math.ceil(whole * int(value.rstrip("%")) / 100)
