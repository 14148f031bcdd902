"""How a pod starts, stops and is probed, and how much it may write."""

from __future__ import annotations

from typing import Any

from pulsar_operator.api.v1alpha1.pods import PodTemplate, ProbeTimings
from pulsar_operator.domain.render.pod_extras import as_kept

Manifest = dict[str, Any]

LEAST_SECONDS = 10
"""Minimum seconds for the process itself to stop."""


def grace_seconds(pod: PodTemplate, default: int) -> int:
    """Returns terminationGracePeriodSeconds. The preStop hook counts towards it (Kubernetes, "Container Lifecycle
    Hooks")."""
    if pod.termination_grace_period_seconds is not None:
        return pod.termination_grace_period_seconds
    return default + (pod.pre_stop_sleep_seconds or 0)


def shutdown_seconds(pod: PodTemplate | None, default: int) -> int:
    """Returns the seconds that a broker has to hand over its bundles (brokerShutdownTimeoutMs): two thirds of the
    remaining time, so that the kubelet does not kill it before."""
    template = pod or PodTemplate()
    return (grace_seconds(template, default) - (template.pre_stop_sleep_seconds or 0)) * 2 // 3


def grace_problems(field: str, pod: PodTemplate) -> list[str]:
    """Returns a problem if the process has too little time to stop. ``field`` is the path of the pod template."""
    grace, sleep = pod.termination_grace_period_seconds, pod.pre_stop_sleep_seconds
    if grace is None or sleep is None or grace - sleep >= LEAST_SECONDS:
        return []
    return [
        f"{field}.terminationGracePeriodSeconds = {grace} leaves less than {LEAST_SECONDS} s after "
        f"preStopSleepSeconds = {sleep}. Raise terminationGracePeriodSeconds to {sleep + LEAST_SECONDS} or more, or "
        "remove the field"
    ]


def pre_stop(pod: PodTemplate) -> Manifest:
    """Returns the lifecycle of the main container. A deleted pod is immediately removed from the endpoints of Services,
    but nodes and load balancers learn of it later, and new connections arrive until then.

    The hook uses python3, which every image has: the sleep action of Kubernetes is not in all supported versions.
    """
    if pod.pre_stop_sleep_seconds is None:
        return {}
    command = ["python3", "-I", "-c", f"import time; time.sleep({pod.pre_stop_sleep_seconds})"]
    return {"lifecycle": {"preStop": {"exec": {"command": command}}}}


def timings(probe: ProbeTimings | None) -> Manifest:
    """Returns the fields of a probe that a user changed."""
    return as_kept(probe) if probe else {}


def limited(pod: PodTemplate, volume: str) -> Manifest:
    """Returns the emptyDir of one of the operator's volumes."""
    limit = {"tmp": pod.tmp_dir_size_limit, "logs": pod.logs_dir_size_limit}.get(volume)
    return {} if limit is None else {"sizeLimit": str(limit)}
