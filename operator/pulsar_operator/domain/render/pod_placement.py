"""Placement of the pods of a component on nodes and in zones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulsar_operator.api.v1alpha1.pods import PodTemplate, Spreading

Manifest = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"


def affinity(pod: PodTemplate, selector: Mapping[str, str]) -> Manifest:
    """Returns the affinity of the pods: the user's, the operator's, or with podAntiAffinity both. ``selector`` are
    labels of the pods."""
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


def zone_spread(pod: PodTemplate, selector: Mapping[str, str], over: str = ZONE) -> list[Manifest]:
    """Returns the spread constraints of the pods: the user's, the operator's over zones, or with zoneSpread both.
    ``over`` is the label of the operator's constraint if the user sets none."""
    given = pod.topology_spread_constraints
    if given is not None and pod.zone_spread is None:
        return given
    over_zones: Manifest = {
        "maxSkew": 1,
        "topologyKey": over if pod.zone_spread is None else ZONE,
        "whenUnsatisfiable": _when_unsatisfiable(pod),
        "labelSelector": {"matchLabels": dict(selector)},
    }
    return [*(given or ()), over_zones]


def spread_problems(field: str, pod: PodTemplate) -> list[str]:
    """Returns the constraints that Kubernetes considers the same: it identifies them by topologyKey and
    whenUnsatisfiable (listMapKeys of topologySpreadConstraints in core/v1). ``field`` is the path of the pod
    template."""
    given = [(each.get("topologyKey"), each.get("whenUnsatisfiable")) for each in pod.topology_spread_constraints or ()]
    where = f"{field}.topologySpreadConstraints"
    found = [
        f"{where}[{number}] has the topologyKey and whenUnsatisfiable of another entry. Remove one of them"
        for number, pair in enumerate(given)
        if pair in given[:number]
    ]
    if pod.zone_spread and (ZONE, _when_unsatisfiable(pod)) in given:
        found.append(
            f"{field}.zoneSpread = {pod.zone_spread.value} is a constraint for {ZONE} with "
            f"{_when_unsatisfiable(pod)}, and {where} has one too. Remove zoneSpread or the entry"
        )
    return found


def _when_unsatisfiable(pod: PodTemplate) -> str:
    return "DoNotSchedule" if pod.zone_spread is Spreading.REQUIRED else "ScheduleAnyway"
