"""On which nodes and in which zones the pods of a component may be together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulsar_operator.api.v1alpha1.pods import PodTemplate, Spreading

Manifest = dict[str, Any]


def affinity(pod: PodTemplate, selector: Mapping[str, str]) -> Manifest:
    """Affinity of the pods: the user's, ours, or with podAntiAffinity both; ``selector`` are labels of the pods."""
    if pod.affinity is not None and pod.pod_anti_affinity is None:
        return pod.affinity
    term: Manifest = {
        "labelSelector": {"matchLabels": dict(selector)},
        "topologyKey": "kubernetes.io/hostname",
    }
    if pod.pod_anti_affinity is Spreading.REQUIRED:
        kind, entry = "requiredDuringSchedulingIgnoredDuringExecution", term
    else:
        kind, entry = "preferredDuringSchedulingIgnoredDuringExecution", {"weight": 100, "podAffinityTerm": term}
    given = pod.affinity or {}
    apart = given.get("podAntiAffinity") or {}
    return {**given, "podAntiAffinity": {**apart, kind: [*(apart.get(kind) or ()), entry]}}


def zone_spread(pod: PodTemplate, selector: Mapping[str, str]) -> list[Manifest]:
    """Spread constraints of the pods: the user's, ours over zones, or with zoneSpread both."""
    given = pod.topology_spread_constraints
    if given is not None and pod.zone_spread is None:
        return given
    required = pod.zone_spread is Spreading.REQUIRED
    over_zones: Manifest = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule" if required else "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(selector)},
    }
    return [*(given or ()), over_zones]
