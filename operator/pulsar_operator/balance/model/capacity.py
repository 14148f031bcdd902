"""What a broker can carry, relative to the others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum
from typing import Any

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.quantities import quantity


def cpu_of(pod: Mapping[str, Any]) -> float | None:
    """CPU of a broker's pod: the limit, else the request; None where neither is said.

    A limit is what it can have at most, a request what it has when the node is full, as in the hour that counts.
    """
    for container in (pod.get("spec") or {}).get("containers") or ():
        if container.get("name") != Component.BROKER.value:
            continue
        resources = container.get("resources") or {}
        for kind in ("limits", "requests"):
            found = quantity((resources.get(kind) or {}).get("cpu"))
            if found is not None and found > 0:
                return float(found)
    return None


def capacities_of(
    brokers: Iterable[str], pods: Iterable[Mapping[str, Any]], declared: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Capacity of each broker, 1 on average; empty where they are equal, or one of them is not known.

    ``declared`` are amounts of CPU by the name of a pod: they win over what the pod says.
    """
    known: dict[str, float | None] = {str(pod["metadata"]["name"]): cpu_of(pod) for pod in pods}
    for name, text in (declared or {}).items():
        found = quantity(text)
        if found is not None and found > 0:
            known[name] = float(found)
    # The host of a broker's id begins with the pod's name.
    cpus = {broker: known.get(broker.partition(".")[0]) for broker in brokers}
    values = [each for each in cpus.values() if each is not None]
    if len(values) < len(cpus) or not values or min(values) == max(values):
        return {}
    mean = fsum(values) / len(values)
    return {broker: each / mean for broker, each in cpus.items() if each is not None}
