"""How a pod starts, stops and is asked whether it lives; how much it may write."""

from __future__ import annotations

from typing import Any

from pulsar_operator.api.v1alpha1.pods import PodTemplate, ProbeTimings
from pulsar_operator.domain.render.pod_extras import as_kept

Manifest = dict[str, Any]

LEAST_SECONDS = 10
"""What is left for the process itself to stop."""


def grace_seconds(pod: PodTemplate, default: int) -> int:
    """terminationGracePeriodSeconds: the hook before the stop counts (Kubernetes, "Container Lifecycle Hooks")."""
    if pod.termination_grace_period_seconds is not None:
        return pod.termination_grace_period_seconds
    return default + (pod.pre_stop_sleep_seconds or 0)


def shutdown_seconds(pod: PodTemplate | None, default: int) -> int:
    """How long a broker may hand over its bundles (brokerShutdownTimeoutMs): two thirds of what is left to it, or the
    kubelet kills it in the middle."""
    template = pod or PodTemplate()
    return (grace_seconds(template, default) - (template.pre_stop_sleep_seconds or 0)) * 2 // 3


def grace_problems(field: str, pod: PodTemplate) -> list[str]:
    """Whether the process has time to stop; ``field`` is where the pod template stands."""
    grace, sleep = pod.termination_grace_period_seconds, pod.pre_stop_sleep_seconds
    if grace is None or sleep is None or grace - sleep >= LEAST_SECONDS:
        return []
    return [
        f"{field}.terminationGracePeriodSeconds = {grace} leaves less than {LEAST_SECONDS} s after "
        f"preStopSleepSeconds = {sleep}: raise it to {sleep + LEAST_SECONDS} or more, or leave it out"
    ]


def pre_stop(pod: PodTemplate) -> Manifest:
    """lifecycle of the main container. A pod that is deleted is removed from the endpoints of Services immediately, but
    nodes and load balancers learn it later; until then it gets new connections.

    By python3, which every image has: the sleep of Kubernetes itself is not in all versions.
    """
    if pod.pre_stop_sleep_seconds is None:
        return {}
    command = ["python3", "-I", "-c", f"import time; time.sleep({pod.pre_stop_sleep_seconds})"]
    return {"lifecycle": {"preStop": {"exec": {"command": command}}}}


def timings(probe: ProbeTimings | None) -> Manifest:
    """What a user changed of a probe."""
    return as_kept(probe) if probe else {}


def limited(pod: PodTemplate, volume: str) -> Manifest:
    """emptyDir of one of the operator's own volumes."""
    limit = {"tmp": pod.tmp_dir_size_limit, "logs": pod.logs_dir_size_limit}.get(volume)
    return {} if limit is None else {"sizeLimit": str(limit)}
