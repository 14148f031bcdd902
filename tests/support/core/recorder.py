"""What tests of the core use as reconcilers and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.reconciler import DONE, Outcome
from pulsar_operator.ports import Key


class Recorder:
    """A reconciler that notes its passes and does what it is told."""

    def __init__(self, act: Callable[[Key], Awaitable[Outcome | None]] | None = None) -> None:
        self.passes: list[Key] = []
        self.running: set[Key] = set()
        self.overlaps: list[Key] = []
        """Keys that ran twice at the same time; must stay empty."""
        self.most_running = 0
        self._act = act
        self._seen = asyncio.Event()

    async def reconcile(self, key: Key) -> Outcome:
        """Note the pass, act, say DONE unless told otherwise."""
        if key in self.running:
            self.overlaps.append(key)
        self.running.add(key)
        self.most_running = max(self.most_running, len(self.running))
        self.passes.append(key)
        try:
            return (await self._act(key) if self._act else None) or DONE
        finally:
            self.running.discard(key)

    def count(self, key: Key) -> int:
        """Passes of a key so far."""
        return self.passes.count(key)

    def names(self) -> list[str]:
        """Names in the order of the passes."""
        return [key.name for key in self.passes]


class CountingMetrics:
    """ports.MetricsPort that remembers every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def reconciled(self, kind: str, result: str, seconds: float) -> None:
        """Note it."""
        self.calls.append(("reconciled", kind, result))

    def queue_depth(self, depth: int) -> None:
        """Note it."""
        self.calls.append(("queue_depth", depth))

    def admin_call(self, cluster: str, method: str, status: str, seconds: float) -> None:
        """Note it."""
        self.calls.append(("admin_call", cluster, method, status))

    def kube_write(self, verb: str, kind: str) -> None:
        """Note it."""
        self.calls.append(("kube_write", verb, kind))

    def event_received(self, kind: str) -> None:
        """Note it."""
        self.calls.append(("event_received", kind))

    def scaling_decided(self, namespace: str, cluster: str, component: str, reason: str) -> None:
        """Note it."""
        self.calls.append(("scaling_decided", namespace, cluster, component, reason))

    def balancer_restored(self, namespace: str, cluster: str) -> None:
        """Note it."""
        self.calls.append(("balancer_restored", namespace, cluster))

    def results(self) -> list[str]:
        """Results of the passes, in order."""
        return [call[2] for call in self.calls if call[0] == "reconciled"]


def all_kinds(reconciler: Recorder) -> dict[Kind, Recorder]:
    """The same reconciler for every kind."""
    return dict.fromkeys(Kind, reconciler)
