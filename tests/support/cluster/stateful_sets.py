"""Raw StatefulSets and pods as the API server shows them, and a small world that behaves like their controller."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from pulsar_operator.api.constants import ANNOTATION_CONFIG_HASH

Json = dict[str, Any]
START, LATER = "2026-01-01T00:00:10Z", "2026-01-01T00:05:00Z"


def template(image: str = "pulsar:1", config_hash: str = "aaaa", **container: Any) -> Json:
    """A pod template with one container."""
    return {
        "metadata": {"labels": {"app": "x"}, "annotations": {ANNOTATION_CONFIG_HASH: config_hash}},
        "spec": {"containers": [{"name": "broker", "image": image, **container}]},
    }


def stateful_set(
    name: str = "my-broker",
    *,
    replicas: int = 3,
    revision: str = "r1",
    generation: int = 1,
    observed: int | None = 1,
    pod_template: Json | None = None,
) -> Json:
    """A StatefulSet with status."""
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": generation},
        "spec": {"replicas": replicas, "template": pod_template or template()},
        "status": {"observedGeneration": observed, "updateRevision": revision},
    }


def pod(
    name: str,
    *,
    revision: str = "r1",
    ready: bool = True,
    terminating: bool = False,
    was_ready: bool = True,
    once_ready: bool = False,
    waiting: Json | None = None,
    ended: Json | None = None,
    restarts: int = 0,
    unschedulable: str | None = None,
    pod_template: Json | None = None,
    uid: str | None = None,
) -> Json:
    """A pod of the StatefulSet its name says. ``was_ready``: unready now, but ready before in the same container.
    ``once_ready``: in an earlier one, which ended."""
    owner = name.rpartition("-")[0]
    made = copy.deepcopy(pod_template or template())
    state: Json = {"waiting": waiting} if waiting else {"running": {"startedAt": START}}
    container: Json = {"name": "broker", "state": state, "restartCount": restarts}
    if ended:
        container["lastState"] = {"terminated": ended}
    conditions = [
        {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": LATER if ready or was_ready else "2026-01-01T00:00:01Z",
        },
        {"type": "PodScheduled", "status": "False" if unschedulable else "True"},
    ]
    if unschedulable:
        conditions[1] |= {"reason": "Unschedulable", "message": unschedulable}
    times: Json = {}
    if once_ready:
        times["startTime"] = START
        conditions[0]["lastTransitionTime"] = LATER
        if "running" in state:
            state["running"] = {"startedAt": LATER}
    meta: Json = {
        "name": name,
        "uid": uid or f"uid-{name}-{revision}",
        "labels": {**made["metadata"]["labels"], "controller-revision-hash": revision},
        "annotations": made["metadata"]["annotations"],
        "ownerReferences": [{"kind": "StatefulSet", "name": owner, "uid": f"uid-{owner}", "controller": True}],
    }
    if terminating:
        meta["deletionTimestamp"] = LATER
    return {
        "metadata": meta,
        "spec": made["spec"],
        "status": {
            **times,
            "phase": "Pending" if unschedulable else "Running",
            "conditions": conditions,
            "containerStatuses": [] if unschedulable else [container],
        },
    }


@dataclass
class Member:
    """A pod of the simulated world."""

    ordinal: int
    revision: int
    uid: str
    ready: bool = False
    terminating: bool = False
    served: bool = False


@dataclass
class SteppedStatefulSet:
    """One StatefulSet with OnDelete and Parallel; steps are chosen by the test, so any interleaving can happen.

    ``broken`` revisions never become ready.
    """

    name: str
    replicas: int
    revision: int = 0
    seen: int = 0
    """Newest revision the StatefulSet controller has observed."""
    broken: set[int] = field(default_factory=set)
    members: dict[int, Member] = field(default_factory=dict)
    made: int = 0

    def pods(self) -> list[Json]:
        """Pods as the API server lists them."""
        return [
            pod(
                f"{self.name}-{m.ordinal}",
                revision=f"r{m.revision}",
                ready=m.ready,
                was_ready=m.served,
                terminating=m.terminating,
                uid=m.uid,
                pod_template=template(config_hash=f"h{m.revision}"),
            )
            for m in self.members.values()
        ]

    def object(self) -> Json:
        """The StatefulSet."""
        return stateful_set(
            self.name,
            replicas=self.replicas,
            revision=f"r{self.seen}",
            generation=self.revision + 1,
            observed=self.seen + 1,
            pod_template=template(config_hash=f"h{self.revision}"),
        )

    def create_missing(self) -> None:
        """The StatefulSet controller observes the spec and creates what is missing, of the newest revision."""
        self.seen = self.revision
        for ordinal in range(self.replicas):
            if ordinal not in self.members:
                self.made += 1
                self.members[ordinal] = Member(ordinal, self.revision, f"u{self.made}")

    def kubelet(self, ordinal: int) -> None:
        """One pod ends, becomes ready, or stays as it is."""
        member = self.members.get(ordinal)
        if member is None:
            return
        if member.terminating:
            del self.members[ordinal]
        elif member.revision not in self.broken:
            member.ready = member.served = True

    def flap(self, ordinal: int) -> None:
        """A serving pod loses its readiness for a while."""
        member = self.members.get(ordinal)
        if member is not None and member.ready:
            member.ready = False

    def delete(self, uid: str) -> Member:
        """The deletion of exactly this pod begins."""
        (member,) = [m for m in self.members.values() if m.uid == uid]
        member.terminating = True
        member.ready = False
        return member

    def settle(self) -> None:
        """Everything Kubernetes does by itself."""
        for ordinal in list(self.members):
            self.kubelet(ordinal)
        self.create_missing()

    @property
    def converged(self) -> bool:
        """Every pod is of the newest revision and ready."""
        return len(self.members) == self.replicas and all(
            m.ready and m.revision == self.revision for m in self.members.values()
        )
