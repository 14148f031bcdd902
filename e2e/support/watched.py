"""A cluster while it rolls, as a user sees it: ready pods, the status, and what was seen one look after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from e2e.support.kubectl import Kubectl
from e2e.support.objects import condition, is_ready


def is_up(pod: dict[str, Any]) -> bool:
    """Whether a pod serves: Ready, and not ending."""
    found = pod["status"].get("conditions", [])
    return "deletionTimestamp" not in pod["metadata"] and any(
        each["type"] == "Ready" and each["status"] == "True" for each in found
    )


def uids(kubectl: Kubectl, namespace: str, cluster: str) -> dict[str, dict[str, str]]:
    """UID by name of a cluster's pods, by component."""
    found: dict[str, dict[str, str]] = {}
    for pod in kubectl.items("pods", namespace, f"pulsaroperator.io/owner-name={cluster}"):
        meta = pod["metadata"]
        found.setdefault(meta["labels"]["app.kubernetes.io/component"], {})[meta["name"]] = meta["uid"]
    return found


@dataclass
class Watched:
    """What a roll of one cluster was seen to do, one look after another."""

    kubectl: Kubectl
    namespace: str
    cluster: str
    fewest: dict[str, int] = field(default_factory=dict)
    """Least ready pods by component."""
    replaced: list[str] = field(default_factory=list)
    """Pods that were, in the order in which another of the name was first seen."""
    components: list[str] = field(default_factory=list)
    """Theirs, each once."""
    waits: set[str] = field(default_factory=set)
    """What status.rollout was blocked by, in its sentences."""
    done: int = 0
    """Most pods done that status.rollout told."""
    raised: list[dict[str, Any]] = field(default_factory=list)
    """Each status.recoveryDelay that was seen."""
    replicated: set[str] = field(default_factory=set)
    """Reasons of condition Replicated where it was not True."""
    _uids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.look()

    def look(self) -> dict[str, Any]:
        """Take down one look; the PulsarCluster."""
        cluster = self.kubectl.get("pulsarcluster", self.namespace, self.cluster)
        assert cluster is not None
        up: dict[str, int] = {}
        for pod in self.kubectl.items("pods", self.namespace, f"pulsaroperator.io/owner-name={self.cluster}"):
            meta = pod["metadata"]
            component = meta["labels"]["app.kubernetes.io/component"]
            up[component] = up.get(component, 0) + is_up(pod)
            if self._uids.setdefault(meta["name"], meta["uid"]) != meta["uid"] and meta["name"] not in self.replaced:
                self.replaced.append(meta["name"])
                self.components += [component] if component not in self.components else []
        for component, number in up.items():
            self.fewest[component] = min(self.fewest.get(component, number), number)
        status = cluster.get("status") or {}
        if rollout := status.get("rollout"):
            self.waits.add(rollout.get("message") or "")
            self.done = max(self.done, rollout.get("podsDone", 0))
        if (delay := status.get("recoveryDelay")) and delay not in self.raised:
            self.raised.append(delay)
        replicated = condition(cluster, "Replicated")
        if replicated and replicated["status"] != "True":
            self.replicated.add(replicated["reason"])
        return cluster

    def rolled(self) -> bool:
        """One look; whether everything is of the newest specification, ready and settled."""
        cluster = self.look()
        return is_ready(cluster) and condition(cluster, "UpToDate").get("status") == "True"

    def rolled_with(self, after: int, what: Callable[[], None]) -> Callable[[], bool]:
        """As rolled; ``what`` is done once, when so many pods of the roll are done."""
        left = [what]

        def look() -> bool:
            done = self.rolled()
            if left and self.done >= after:
                left.pop()()
            return done and not left

        return look


def evicted(kubectl: Kubectl, namespace: str, cluster: str) -> list[str]:
    """Messages of events that a pod of the cluster left by eviction."""
    found = kubectl.items("events", namespace)
    return [e["message"] for e in found if e["message"].startswith(f"Evicted Pod {cluster}-")]
