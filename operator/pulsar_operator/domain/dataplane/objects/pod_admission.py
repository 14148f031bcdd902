"""Whether the API server would create the pod that is to replace another one. Pure.

Before a pod is evicted, the operator sends its successor to the API server in a dry run: the pod that the StatefulSet
controller would create from the template, under another name, since the name is taken. Everything else is the same:
labels, annotations, volumes of claims, host name, and the controller reference (without blockOwnerDeletion, which needs
another permission where OwnerReferencesPermissionEnforcement is on). So PodSecurity, LimitRanges, priority classes,
policies and webhooks receive what they will receive. Two things differ: the name, and the account, which is the
operator's. A policy that lets the StatefulSet controller alone create pods refuses the dry run, and must allow the
operator's account too.

A ResourceQuota counts the old pod as long as it is there, so a quota that is exactly full refuses every dry run. Such a
refusal counts only where the successor would not fit either once the old pod's share is free: requested minus freed is
more than limited minus used, for one resource at least. The old pod is taken to be counted by that quota. (A quota with
a scope may not count it: then the pod may be missing afterwards, and the progress deadline ends the roll.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from decimal import Decimal
from typing import Any, Final

from pulsar_operator.domain.dataplane.objects.pods import REVISION_LABEL, update_revision

Json = Mapping[str, Any]

_SUFFIX: Final = "-dry-run"
_QUOTA = re.compile(
    r"exceeded quota: (?P<name>[^,]+), requested: (?P<requested>\S+), used: (?P<used>\S+), limited: (?P<limited>\S+)"
)
"""The message with which the admission plugin ResourceQuota refuses (plugin/pkg/admission/resourcequota,
checkRequest)."""
_NO_DRY_RUN: Final = "does not support dry run"
_UNITS: Final = {
    "": Decimal(1), "m": Decimal("0.001"), "u": Decimal("1e-6"), "n": Decimal("1e-9"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}  # fmt: skip
_QUANTITY = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)")


def successor(stateful_set: Json, name: str) -> dict[str, Any]:
    """Returns the pod that the StatefulSet controller would create under a name, with another name (newStatefulSetPod
    of Kubernetes)."""
    meta, spec = stateful_set["metadata"], stateful_set["spec"]
    template = deepcopy(dict(spec["template"]))
    made, pod = template.get("metadata") or {}, dict(template["spec"])
    claims = {each["metadata"]["name"]: each for each in spec.get("volumeClaimTemplates") or ()}
    volumes = [each for each in pod.get("volumes") or () if each["name"] not in claims]
    volumes += [{"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}} for claim in claims]
    labels = {
        **(made.get("labels") or {}),
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": name.rpartition("-")[2],
    }
    if (revision := update_revision(stateful_set)) is not None:
        labels[REVISION_LABEL] = revision
    pod |= {"hostname": name, "subdomain": spec.get("serviceName", ""), "volumes": volumes}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}{_SUFFIX}",
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": dict(made.get("annotations") or {}),
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": False}],
        },
        "spec": pod,
    }


def refuses(refusal: str, old: Json) -> bool:
    """Whether a refusal of the dry run means that the successor of a pod could not be created."""
    if _NO_DRY_RUN in refusal:
        return False
    found = _QUOTA.search(refusal)
    if found is None:
        return True
    try:
        requested, used, limited = (_amounts(found[part]) for part in ("requested", "used", "limited"))
        return any(
            amount - freed(old, name) > limited[name] - used[name]
            for name, amount in requested.items()
            if name in used and name in limited
        )
    except (ArithmeticError, ValueError):
        return True  # words that nobody can reckon with are a refusal like any other


def freed(pod: Json, resource: str) -> Decimal:
    """Returns the amount of one resource that a ResourceQuota counts for a pod, and that is free once the pod is
    gone."""
    if resource in ("pods", "count/pods"):
        return Decimal(1)
    kind, _, name = resource.partition(".")
    if kind not in ("requests", "limits") or not name:
        kind, name = "requests", resource
    spec = pod.get("spec") or {}
    whole = ((spec.get("resources") or {}).get(kind) or {}).get(name)
    if whole is not None:
        return _amount(whole)
    inits = spec.get("initContainers") or ()
    beside = [each for each in inits if each.get("restartPolicy") == "Always"]
    before = [each for each in inits if each.get("restartPolicy") != "Always"]
    running = sum(_of(each, kind, name) for each in (*(spec.get("containers") or ()), *beside))
    first = max((_of(each, kind, name) for each in before), default=Decimal(0))
    return max(Decimal(running), first) + _amount((spec.get("overhead") or {}).get(name, 0))


def _of(container: Json, kind: str, name: str) -> Decimal:
    return _amount(((container.get("resources") or {}).get(kind) or {}).get(name, 0))


def _amounts(text: str) -> dict[str, Decimal]:
    """Parses amounts by resource from a list such as pods=1,requests.cpu=500m."""
    pairs: Iterable[tuple[str, str, str]] = (each.partition("=") for each in text.split(","))
    return {name: _number(amount) for name, _, amount in pairs}


def _amount(quantity: object) -> Decimal:
    """Returns a quantity of Kubernetes as a number; 0 if it is none."""
    try:
        return _number(str(quantity))
    except (ArithmeticError, ValueError):
        return Decimal(0)


def _number(quantity: str) -> Decimal:
    """Returns a quantity of Kubernetes as a number. Raises ValueError or ArithmeticError if it is none."""
    match = _QUANTITY.fullmatch(quantity)
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{quantity!r} is no quantity")
    return Decimal(match[1]) * _UNITS[match[2]]
