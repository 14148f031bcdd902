"""Pods of one component taken away and kept away: a region without brokers, an instance without configuration store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.support.kubectl import Kubectl


@contextmanager
def without(
    kubectl: Kubectl, kind: str, namespace: str, name: str, component: str, replicas: int = 1
) -> Iterator[None]:
    """A component of an object has no pods, and the operator leaves it so; in the end it has ``replicas`` again."""
    owner, pods = (kind, name, "-n", namespace), ("statefulset", f"{name}-{component}", "-n", namespace)
    kubectl.run("annotate", *owner, "--overwrite", "pulsaroperator.io/pause=true")
    kubectl.run("scale", *pods, "--replicas=0")
    try:
        yield
    finally:
        kubectl.run("scale", *pods, f"--replicas={replicas}")
        kubectl.run("annotate", *owner, "pulsaroperator.io/pause-")
