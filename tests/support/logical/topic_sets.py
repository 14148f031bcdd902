"""Helpers for tests of sets of topics: time that stands still until it is moved, passes until nothing is left to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.reconciler import Outcome
from pulsar_operator.controllers.topicset.controller import TopicSetController
from pulsar_operator.ports import CUSTOM
from tests.support.logical.world import NS, LogicalWorld

SET = Kind.TOPIC_SET
TTL = {"policies": {"messageTTLSeconds": 60}}


class Still:
    """ports.Clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Current time."""
        return self.time


class SetWorld(LogicalWorld):
    """A world with tenant t and namespace n, ready, whose sets are worked on in time of their own."""

    def __init__(self, *clusters: str, admin: Any = None, urls: dict[str, str] | None = None) -> None:
        self.clock = Still()
        super().__init__(*clusters, admin=admin, urls=urls)

    def restart(self) -> None:
        """A new operator process."""
        super().restart()
        deps = self.controllers[SET].deps
        self.controllers[SET] = TopicSetController(replace(deps, clock=self.clock))

    @classmethod
    async def made(cls, *clusters: str) -> SetWorld:
        """With its tenant and namespace."""
        w = cls(*clusters)
        w.tenant()
        w.namespace()
        await w.run()
        return w

    async def work(self, name: str = "s", *, passes: int = 500, until: Callable[[], bool] | None = None) -> Outcome:
        """Passes over a set as long as it has more to do at once."""
        for _ in range(passes):
            outcome = await self.reconcile(SET, name)
            if outcome.requeue_after != 0.0 or (until is not None and until()):
                return outcome
        raise AssertionError(f"no end after {passes} passes")

    async def wait(self, seconds: float, name: str = "s") -> int:
        """Let time pass, with the passes that the set asks for; returns their number."""
        end, passes = self.clock.time + timedelta(seconds=seconds), 0
        while True:
            outcome = await self.work(name)
            passes += 1
            if outcome.requeue_after is None or self.clock.time + timedelta(seconds=outcome.requeue_after) > end:
                self.clock.time = end
                return passes
            self.clock.time += timedelta(seconds=outcome.requeue_after)

    def counts(self, name: str = "s") -> dict[str, int]:
        """The counts of topics that are not 0."""
        status = self.status(SET, name)
        words = ("desired", "ready", "pending", "refused", "drifted", "conflicting", "pendingDeletion")
        return {word: status[word] for word in words if status.get(word)}

    def policies(self, topic: str, cluster: str = "a") -> dict[str, Any]:
        """Local policies of a topic."""
        held = self.pulsar.topic_policies.get((cluster, f"persistent://t/n/{topic}"), {})
        return {name: value for name, value in held.items() if value != {}}

    def local(self, cluster: str = "a") -> set[str]:
        """Local names of the topics in a cluster."""
        return {name.rsplit("/", 1)[1] for name in self.pulsar.topics.get(cluster, {})}

    def calls_since(self, mark: int) -> Counter[str]:
        """The calls since then, by method and last part of the path."""
        return Counter(f"{c.method} {c.path[-1]}" for c in self.admin.calls[mark:])

    def told(self, name: str = "s") -> list[tuple[str, str]]:
        """Reasons and messages of a set's events."""
        return [(e.reason, e.message) for e in self.kube.events if e.object_kind == SET.value and e.object_name == name]


def count(number: int, **more: Any) -> dict[str, Any]:
    """A specification of so many topics, x-0, x-1, ..."""
    return {"count": {"prefix": "x-", "number": number}, **more}


async def drift(w: SetWorld) -> None:
    """Another writer changes three topics; the set is looked at again."""
    for n in (3, 4, 17):
        w.pulsar.topic_policies["a", f"persistent://t/n/x-{n}"]["messageTTL"] = 9
    w.kube.edit(CUSTOM[SET], NS, "s", lambda obj: obj["metadata"].update(annotations={"pulsaroperator.io/look": "now"}))
    await w.work()
