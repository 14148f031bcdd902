"""Shapes of the parts of a PodSpec that the CRD leaves open and that are passed on unchanged.

Known members must have the right type. Kubernetes checks which members are required and what they mean. Source:
Affinity, Toleration, TopologySpreadConstraint and VolumeProjection of core/v1 (Kubernetes 1.35).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from pulsar_operator.api.v1alpha1.pods import PodTemplate

Shape: TypeAlias = "type[Any] | list[Shape] | Mapping[str, Shape]"
"""A type, a list of one shape, or a map of shapes by member, with ``*`` for every member."""

_WORDS: tuple[tuple[type[Any], str], ...] = (
    (bool, "true or false"),
    (str, "text"),
    (int, "a number"),
    (list, "a list"),
    (dict, "a map"),
)
_REQUIRED, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)

_EXPRESSIONS: Shape = [{"key": str, "operator": str, "values": [str]}]
_SELECTOR: Shape = {"matchLabels": {"*": str}, "matchExpressions": _EXPRESSIONS}
_NODES: Shape = {"matchExpressions": _EXPRESSIONS, "matchFields": _EXPRESSIONS}
_PODS: Shape = {
    "labelSelector": _SELECTOR,
    "namespaceSelector": _SELECTOR,
    "namespaces": [str],
    "topologyKey": str,
    "matchLabelKeys": [str],
    "mismatchLabelKeys": [str],
}
_POD_AFFINITY: Shape = {_REQUIRED: [_PODS], _PREFERRED: [{"weight": int, "podAffinityTerm": _PODS}]}
AFFINITY: Shape = {
    "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [_NODES]}, _PREFERRED: [{"weight": int, "preference": _NODES}]},
    "podAffinity": _POD_AFFINITY,
    "podAntiAffinity": _POD_AFFINITY,
}
TOLERATIONS: Shape = [{"key": str, "operator": str, "value": str, "effect": str, "tolerationSeconds": int}]
SPREAD: Shape = [
    {
        "maxSkew": int,
        "topologyKey": str,
        "whenUnsatisfiable": str,
        "labelSelector": _SELECTOR,
        "minDomains": int,
        "nodeAffinityPolicy": str,
        "nodeTaintsPolicy": str,
        "matchLabelKeys": [str],
    }
]
_KEYS: Shape = {"name": str, "items": [{"key": str, "path": str, "mode": int}], "optional": bool}
_DOWNWARD: Shape = {
    "path": str,
    "mode": int,
    "fieldRef": {"apiVersion": str, "fieldPath": str},
    "resourceFieldRef": {"containerName": str, "resource": str},
}
SOURCES: Shape = [
    {
        "secret": _KEYS,
        "configMap": _KEYS,
        "downwardAPI": {"items": [_DOWNWARD]},
        "serviceAccountToken": {"audience": str, "expirationSeconds": int, "path": str},
        "clusterTrustBundle": {
            "name": str,
            "signerName": str,
            "labelSelector": _SELECTOR,
            "optional": bool,
            "path": str,
        },
    }
]


def shape_problems(field: str, pod: PodTemplate) -> list[str]:
    """Returns the values with another type than Kubernetes accepts. ``field`` is the path of the pod template. Problems
    do not contain the values."""
    given: list[tuple[str, Any, Shape]] = [
        (f"{field}.affinity", pod.affinity, AFFINITY),
        (f"{field}.tolerations", pod.tolerations, TOLERATIONS),
        (f"{field}.topologySpreadConstraints", pod.topology_spread_constraints, SPREAD),
        *(
            (f"{field}.volumes[{number}].projected.sources", volume.projected.sources, SOURCES)
            for number, volume in enumerate(pod.volumes or ())
            if volume.projected
        ),
    ]
    return [problem for place, value, shape in given if value is not None for problem in _problems(place, value, shape)]


def _problems(place: str, value: Any, shape: Shape) -> Iterator[str]:
    if isinstance(shape, type):
        if not _is_a(value, shape):
            yield f"{place} is {_word(value)}. Write {dict(_WORDS)[shape]}, as in a PodSpec"
    elif isinstance(shape, list):
        if not isinstance(value, list):
            yield f"{place} is {_word(value)}. Write a list, as in a PodSpec"
            return
        for number, entry in enumerate(value):
            yield from _problems(f"{place}[{number}]", entry, shape[0])
    elif not isinstance(value, dict):
        yield f"{place} is {_word(value)}. Write a map, as in a PodSpec"
    else:
        for name, member in value.items():
            known = shape.get(name, shape.get("*"))
            # Null is absent, as for Kubernetes.
            if known is not None and member is not None:
                yield from _problems(f"{place}.{name[:80]}", member, known)


def _is_a(value: Any, kind: type[Any]) -> bool:
    if kind is int:
        # A number that travelled as 5.0 is 5.
        return value.is_integer() if isinstance(value, float) else type(value) is int
    return isinstance(value, kind)


def _word(value: Any) -> str:
    if value is None:
        return "null"
    return next((word for kind, word in _WORDS if isinstance(value, kind)), "a fraction")
