"""Reading the state of custom resources the way a user does."""

from __future__ import annotations

from typing import Any

from e2e.support.kubectl import Kubectl


def condition(obj: dict[str, Any] | None, kind: str) -> dict[str, Any]:
    """A condition of an object; an empty dict when it is not there yet."""
    for item in ((obj or {}).get("status") or {}).get("conditions") or []:
        if item["type"] == kind:
            return dict(item)
    return {}


def is_current(obj: dict[str, Any]) -> bool:
    """Whether the status was computed from the newest specification."""
    return bool((obj.get("status") or {}).get("observedGeneration") == obj["metadata"]["generation"])


def is_ready(obj: dict[str, Any] | None) -> bool:
    """Whether Ready is True for the newest specification."""
    return obj is not None and is_current(obj) and condition(obj, "Ready").get("status") == "True"


def pulsar_objects(kubectl: Kubectl, namespace: str) -> list[dict[str, Any]]:
    """Every custom resource of the operator in a namespace."""
    return kubectl.items("pulsar", namespace)


def all_not_ready(kubectl: Kubectl, *namespaces: str) -> list[str]:
    """A line for each object of some namespaces that is not Ready; one line where there is none at all."""
    objects = [each for namespace in namespaces for each in pulsar_objects(kubectl, namespace)]
    return not_ready(objects) if objects else ["no objects yet"]


def not_ready(objects: list[dict[str, Any]]) -> list[str]:
    """One line for each object that is not Ready: what it waits for."""
    lines = []
    for obj in objects:
        if not is_ready(obj):
            ready = condition(obj, "Ready")
            text = f"{ready.get('reason', 'Pending')}: {ready.get('message', 'not seen by the operator yet')}"
            lines.append(f"{obj['kind']} {obj['metadata']['name']}: {text}")
    return lines
