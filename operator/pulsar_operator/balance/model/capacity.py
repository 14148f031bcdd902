"""What a broker can carry, relative to the others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import fsum
from typing import Any

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.quantities import quantity


def cpu_of(pod: Mapping[str, Any]) -> float | None:
    """Returns the CPU of a broker's pod: the limit, else the request; None if there is neither. The limit is its
    maximum, the request what it gets on a full node, as in the busiest hour.
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


def cpus_of(pods: Iterable[Mapping[str, Any]], declared: Mapping[str, Any] | None = None) -> dict[str, float]:
    """Returns the CPU of each broker, by the name of its pod; unknown ones are left out. ``declared`` are amounts of
    CPU by the name of a pod, which take precedence over the pod.
    """
    known = {str(pod["metadata"]["name"]): cpu_of(pod) for pod in pods}
    found = {name: cpu for name, cpu in known.items() if cpu is not None}
    for name, text in (declared or {}).items():
        cpu = quantity(text)
        if cpu is not None and cpu > 0:
            found[name] = float(cpu)
    return found


def capacities_of(
    brokers: Iterable[str], pods: Iterable[Mapping[str, Any]], declared: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Returns the relative capacity of each broker, 1 on average; empty if they are equal, or one is not known.
    ``declared`` are amounts of CPU by the name of a pod, by a host or a broker's id, which take precedence over the
    pod.
    """
    known = cpus_of(pods, declared)
    cpus = {broker: _first(known, broker) for broker in brokers}
    values = [each for each in cpus.values() if each is not None]
    if len(values) < len(cpus) or not values or min(values) == max(values):
        return {}
    mean = fsum(values) / len(values)
    return {broker: each / mean for broker, each in cpus.items() if each is not None}


def _first(known: Mapping[str, float], broker: str) -> float | None:
    host = broker.rpartition(":")[0] or broker
    # In Kubernetes the host of a broker's id begins with the pod's name.
    names = (broker, host, host.partition(".")[0])
    return next((known[name] for name in names if name in known), None)
