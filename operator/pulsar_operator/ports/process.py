"""What the operator's own process has: time, randomness, metrics of its own."""

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
        """One reconcile ended; result is ok, requeue or error."""

    def queue_depth(self, depth: int) -> None:
        """Keys waiting."""

    def admin_call(self, cluster: str, method: str, status: str, seconds: float) -> None:
        """One admin REST attempt ended."""

    def kube_write(self, verb: str, kind: str) -> None:
        """One write to the API server was made."""

    def event_received(self, kind: str) -> None:
        """A watch event or bookmark of a kind arrived."""

    def scaling_decided(self, namespace: str, cluster: str, component: str, reason: str) -> None:
        """Autoscaling evaluated a component of a PulsarCluster."""

    def balancer_restored(self, namespace: str, cluster: str) -> None:
        """The operator restored Pulsar's load balancer because it could not decide what to move."""
