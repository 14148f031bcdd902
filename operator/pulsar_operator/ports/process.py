"""Time, randomness and metrics of the operator's process."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time, injected."""

    def now(self) -> datetime:
        """Returns the current time in UTC, timezone-aware."""


class Entropy(Protocol):
    """Randomness, injected."""

    def uuid(self) -> str:
        """Returns a random UUID (version 4) as text."""

    def token(self, nbytes: int = 24) -> str:
        """Returns a URL-safe random secret."""


class MetricsPort(Protocol):
    """The operator's own metrics."""

    def reconciled(self, kind: str, result: str, seconds: float) -> None:
        """Counts a reconcile that ended. The result is ok, requeue or error."""

    def queue_depth(self, depth: int) -> None:
        """Sets the number of keys in the work queue."""

    def admin_call(self, cluster: str, method: str, status: str, seconds: float) -> None:
        """Counts an attempt of an admin REST call."""

    def kube_write(self, verb: str, kind: str) -> None:
        """Counts a write to the API server."""

    def event_received(self, kind: str) -> None:
        """Records a watch event or bookmark of a kind."""

    def scaling_decided(self, namespace: str, cluster: str, component: str, reason: str) -> None:
        """Counts an evaluation of a component of a PulsarCluster by autoscaling."""

    def balancer_restored(self, namespace: str, cluster: str) -> None:
        """Counts that the operator restored Pulsar's load balancer because it could not decide what to move."""
