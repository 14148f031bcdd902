"""Time, randomness and metrics of the operator's process."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time, injected."""

    def now(self) -> datetime:
        """Current time, UTC, aware."""


class Entropy(Protocol):
    """Randomness, injected."""

    def uuid(self) -> str:
        """A random UUID (version 4) as text."""

    def token(self, nbytes: int = 24) -> str:
        """A URL-safe random secret."""


class MetricsPort(Protocol):
    """The operator's own metrics."""

    def reconciled(self, kind: str, result: str, seconds: float) -> None:
        """Count one reconcile that ended; result is ok, requeue or error."""

    def queue_depth(self, depth: int) -> None:
        """Set the number of keys in the work queue."""

    def admin_call(self, cluster: str, method: str, status: str, seconds: float) -> None:
        """Count one attempt of an admin REST call."""

    def kube_write(self, verb: str, kind: str) -> None:
        """Count one write to the API server."""

    def event_received(self, kind: str) -> None:
        """Count a watch event or bookmark of a kind."""

    def scaling_decided(self, namespace: str, cluster: str, component: str, reason: str) -> None:
        """Count an evaluation of a component of a PulsarCluster by autoscaling."""

    def balancer_restored(self, namespace: str, cluster: str) -> None:
        """Count that the operator restored Pulsar's load balancer because it could not decide what to move."""
