"""PodDisruptionBudgets that select a pod. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def selecting(budgets: Iterable[Json], pod: Json) -> list[Json]:
    """Returns the budgets that select a pod, by name. An empty selector selects every pod, an absent one none
    (policy/v1)."""
    labels = pod["metadata"].get("labels") or {}
    found = [each for each in budgets if _selects((each.get("spec") or {}).get("selector"), labels)]
    return sorted(found, key=lambda each: str(each["metadata"]["name"]))


def describe_several(pod: str, budgets: Sequence[Json], owner_uid: str) -> str:
    """Returns the message about a pod that several budgets select; ``owner_uid`` is that of the object whose budgets
    are to stay."""
    names = [str(each["metadata"]["name"]) for each in budgets]
    foreign = [str(each["metadata"]["name"]) for each in budgets if not _controlled(each, owner_uid)]
    remedy = foreign or names[1:]
    return (
        f"Kubernetes cannot evict pod {pod}, because more than one PodDisruptionBudget selects it: "
        f"{', '.join(names)}. Delete PodDisruptionBudget {', '.join(remedy)}, or change its selector so that it "
        "does not select pods of this cluster"
    )


def _controlled(obj: Json, uid: str) -> bool:
    references = obj["metadata"].get("ownerReferences") or ()
    return any(each.get("controller") and each.get("uid") == uid for each in references)


def _selects(selector: Json | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(_meets(each, labels) for each in selector.get("matchExpressions") or ())


def _meets(expression: Json, labels: Mapping[str, str]) -> bool:
    """https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#resources-that-support-set-based-requirements"""
    key, values = str(expression.get("key")), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
