"""Plays the controllers of StatefulSets and budgets, the kubelet and the garbage collector, one step at a time.

As in Kubernetes: pods and claims are made from the StatefulSet's templates, claims outlive everything, a changed
template of an OnDelete StatefulSet only changes ``updateRevision`` and a deleted pod comes back with it, terminating
pods stay until the kubelet lets them go, children go when their owners are gone. A pod becomes ready one step after it
was made at the earliest, and only when what it needs is there (``needs``), unless a trouble is laid on it. Budgets say
after each step how many pods may be evicted.
"""

from __future__ import annotations

import copy
import fnmatch
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import uuid4

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.dataplane.objects.children import OWNED
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.ports import (
    CUSTOM,
    PDBS,
    PODS,
    PVCS,
    STATEFUL_SETS,
    ConflictError,
    Json,
    RefusedError,
    ResourceType,
    ServerError,
)
from tests.fakes.kube_evictions import disruptions
from tests.support.cluster.backstage import Backstage
from tests.support.core.clocks import SteppingClock

KUBELET = "tests.example.com/kubelet"
"""Finalizer that keeps a deleted pod Terminating until the kubelet's next step."""
PROTECTION = "kubernetes.io/pvc-protection"
REVISION = "controller-revision-hash"
ZONE = "topology.kubernetes.io/zone"
OWNERS = (CUSTOM[Kind.INSTANCE], CUSTOM[Kind.CLUSTER], STATEFUL_SETS)


@dataclass(frozen=True)
class Trouble:
    """Why pods do not become ready; ``image`` and ``pod`` are patterns that choose them."""

    pod: str = "*"
    image: str = "*"
    waiting: str | None = None
    """Reason of the waiting container: ImagePullBackOff, CrashLoopBackOff. None = it runs and is not ready."""
    message: str = ""
    unschedulable: bool = False

    def hits(self, pod: Json) -> bool:
        """Whether a pod has this trouble."""
        image = pod["spec"]["containers"][0]["image"]
        return fnmatch.fnmatch(pod["metadata"]["name"], self.pod) and fnmatch.fnmatch(image, self.image)


Needs = Callable[[Json], Awaitable[bool]]
"""Whether what a pod needs to become ready is there."""


async def nothing(_: Json) -> bool:
    """Pods that need nothing."""
    return True


@dataclass
class Workloads:
    """See the module."""

    backstage: Backstage
    needs: Needs = nothing
    clock: Callable[[], datetime] = field(default_factory=lambda: SteppingClock().now)
    """The operator's: of clocks that differ by hours nothing is promised."""
    troubles: list[Trouble] = field(default_factory=list)
    ready: dict[tuple[str, str], int] = field(default_factory=dict)
    """Ready pods by Kubernetes namespace and StatefulSet, after the last step."""
    most_down: dict[str, int] = field(default_factory=dict)
    """By StatefulSet: most pods missing, ending or unready at once, since it was first complete."""
    order_gone: list[str] = field(default_factory=list)
    """StatefulSets in the order in which they were seen to be gone, pods included."""
    zones: dict[str, str] = field(default_factory=dict)
    """By name of a pod, the zone of the node that it is bound to."""
    lost: set[str] = field(default_factory=set)
    """Names of pods on nodes that are lost: no kubelet starts or ends them."""
    copies_zones: bool = True
    """Whether the zone is put at the pod when it is bound, as by Kubernetes 1.35 and newer."""
    _owners: set[str] = field(default_factory=set)
    _complete: set[str] = field(default_factory=set)
    _known: set[str] = field(default_factory=set)
    _revisions: dict[tuple[str, int], str] = field(default_factory=dict)
    """By UID and generation of a StatefulSet; another template is another generation."""

    async def step(self) -> int:
        """What Kubernetes does in a moment; the number of changes."""
        changes = await self._kubelet()
        changes += await self._collect()
        changes += await self._stateful_sets()
        changes += await self._budgets()
        await self._look()
        return changes

    def _now(self) -> str:
        return timestamp(self.clock())

    # ----------------------------------------------------------------------------------------------- the kubelet

    async def _kubelet(self) -> int:
        changes = 0
        pods = await self.backstage.all(PODS)
        for pod in pods:
            if pod["metadata"]["name"] in self.lost:
                continue
            if "deletionTimestamp" in pod["metadata"]:
                await self._release(PODS, pod, KUBELET)
                changes += 1
            elif not is_ready(pod):
                changes += await self._start(pod)
        used = {
            (pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"])
            for pod in pods
            for volume in pod["spec"].get("volumes") or ()
            if "persistentVolumeClaim" in volume
        }
        for claim in await self.backstage.all(PVCS):
            meta = claim["metadata"]
            if "deletionTimestamp" in meta and (meta["namespace"], meta["name"]) not in used:
                await self._release(PVCS, claim, PROTECTION)
                changes += 1
        return changes

    async def _release(self, kind: ResourceType, obj: Json, finalizer: str) -> None:
        def change(found: Json) -> None:
            rest = [item for item in found["metadata"].get("finalizers") or () if item != finalizer]
            found["metadata"]["finalizers"] = rest

        await self.backstage.edit(kind, obj["metadata"]["namespace"], obj["metadata"]["name"], change)

    async def _start(self, pod: Json) -> int:
        degraded = next((t for t in self.troubles if t.hits(pod)), None)
        if degraded is None and not await self.needs(pod):
            return 0
        status = pod_status(pod, degraded, self._now())
        before, after = (_ready_condition(each) for each in (pod.get("status") or {}, status))
        if before and after and before["status"] == after["status"]:
            after["lastTransitionTime"] = before["lastTransitionTime"]
        if degraded is not None and _signature(status) == _signature(pod.get("status") or {}):
            return 0
        await self.backstage.set_status(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], status)
        return 1

    async def flap(self, namespace: str, name: str) -> None:
        """A pod that was ready stops being so, until the next step."""
        pod = await self.backstage.live(PODS, namespace, name)
        assert pod is not None
        status = copy.deepcopy(pod["status"])
        for condition in status["conditions"]:
            if condition["type"] == "Ready":
                condition |= {"status": "False", "lastTransitionTime": self._now()}
        await self.backstage.set_status(PODS, namespace, name, status)

    # --------------------------------------------------------------------------------------- the garbage collector

    async def _collect(self) -> int:
        """Delete what belonged to owners that are gone."""
        uids = {o["metadata"]["uid"] for kind in OWNERS for o in await self.backstage.all(kind)}
        if self._owners <= uids:
            self._owners = uids
            return 0
        self._owners = uids
        changes = 0
        for kind in (*OWNED, PODS):
            for obj in await self.backstage.all(kind):
                owners = obj["metadata"].get("ownerReferences") or ()
                if not owners or any(o["uid"] in uids for o in owners) or "deletionTimestamp" in obj["metadata"]:
                    continue
                await self.backstage.remove(kind, obj["metadata"]["namespace"], obj["metadata"]["name"])
                changes += 1
        return changes

    # ---------------------------------------------------------------------------------- the StatefulSet controller

    async def _stateful_sets(self) -> int:
        changes = 0
        everything = await self.backstage.all(PODS)
        for sts in await self.backstage.all(STATEFUL_SETS):
            if "deletionTimestamp" in sts["metadata"]:
                continue
            before = changes
            pods = {pod["metadata"]["name"]: pod for pod in _pods_of(sts, everything)}
            revision = self._revision(sts)
            wanted = [f"{sts['metadata']['name']}-{n}" for n in range(sts["spec"].get("replicas", 1))]
            for name in wanted:
                if name not in pods:
                    changes += await self._make(sts, name, revision)
            for name in sorted(set(pods) - set(wanted)):
                if "deletionTimestamp" not in pods[name]["metadata"]:
                    await self.backstage.remove(PODS, sts["metadata"]["namespace"], name)
                    changes += 1
            seen = everything if changes == before else await self.backstage.all(PODS)
            changes += await self._report(sts, revision, _pods_of(sts, seen))
        return changes

    def _revision(self, sts: Json) -> str:
        known = sts["metadata"]["uid"], sts["metadata"]["generation"]
        if known not in self._revisions:
            self._revisions[known] = revision_of(sts)
        return self._revisions[known]

    async def _make(self, sts: Json, name: str, revision: str) -> int:
        """A pod and its claims; 0 while a pod of a former owner has the name."""
        namespace = sts["metadata"]["namespace"]
        if await self.backstage.live(PODS, namespace, name) is not None:
            return 0
        volumes = []
        for template in sts["spec"].get("volumeClaimTemplates") or ():
            claim = f"{template['metadata']['name']}-{name}"
            volumes.append({"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim}})
            found = await self.backstage.live(PVCS, namespace, claim)
            if found is None:
                await self.backstage.put(_claim(template, namespace, claim))
            elif "deletionTimestamp" in found["metadata"]:
                return 0
        try:
            await self.backstage.put(self._bound(_pod(sts, name, revision, volumes)))
        except ConflictError:
            return 0
        except (RefusedError, ServerError) as error:
            owner = sts["metadata"]["name"]
            text = f"create Pod {name} in StatefulSet {owner} failed error: {error}"
            await self.backstage.report(sts, "FailedCreate", text)
            return 0
        return 1

    def _bound(self, pod: Json) -> Json:
        """A pod on its node."""
        zone = self.zones.get(pod["metadata"]["name"])
        if zone is None:
            return pod
        pod["spec"]["nodeName"] = f"node-of-{zone}"
        if self.copies_zones:
            pod["metadata"]["labels"][ZONE] = zone
        return pod

    async def _report(self, sts: Json, revision: str, pods: list[Json]) -> int:
        meta, old = sts["metadata"], sts.get("status") or {}
        status = {
            "observedGeneration": meta["generation"],
            "replicas": len(pods),
            "readyReplicas": sum(map(is_ready, pods)),
            "availableReplicas": sum(map(is_ready, pods)),
            "updatedReplicas": sum(pod["metadata"]["labels"].get(REVISION) == revision for pod in pods),
            # With OnDelete the controller never moves currentRevision.
            "currentRevision": old.get("currentRevision") or revision,
            "updateRevision": revision,
        }
        if all(old.get(key, 0) == value for key, value in status.items()):
            return 0
        await self.backstage.set_status(STATEFUL_SETS, meta["namespace"], meta["name"], status)
        return 1

    # --------------------------------------------------------------------------------- the controller of budgets

    async def _budgets(self) -> int:
        changes = 0
        budgets = await self.backstage.all(PDBS)
        objects = [*await self.backstage.all(PODS), *await self.backstage.all(STATEFUL_SETS)] if budgets else []
        for budget in budgets:
            meta, old = budget["metadata"], budget.get("status") or {}
            status = disruptions(budget, objects).status(meta.get("generation", 1))
            if old.get("disruptedPods"):  # those that the API server counted; they are counted as pods by now
                status["disruptedPods"] = None
            if any(old.get(key) != value for key, value in status.items()):
                await self.backstage.set_status(PDBS, meta["namespace"], meta["name"], status)
                changes += 1
        return changes

    # ------------------------------------------------------------------------------------------------ bookkeeping

    async def _look(self) -> None:
        """Remember what tests assert: readiness, how many pods were down at once, what went in which order."""
        self.ready.clear()
        alive: set[str] = set()
        everything = await self.backstage.all(PODS)
        for sts in await self.backstage.all(STATEFUL_SETS):
            meta, wanted = sts["metadata"], sts["spec"].get("replicas", 1)
            pods = [p for p in _pods_of(sts, everything) if "deletionTimestamp" not in p["metadata"]]
            ready = sum(map(is_ready, pods))
            self.ready[meta["namespace"], meta["name"]] = ready
            alive.add(meta["name"])
            if ready >= wanted:
                self._complete.add(meta["name"])
            if meta["name"] in self._complete:
                self.most_down[meta["name"]] = max(self.most_down.get(meta["name"], 0), wanted - ready)
        for pod in everything:
            alive.add(pod["metadata"]["name"].rpartition("-")[0])
        self.order_gone += sorted(self._known - alive)
        self._complete &= alive
        self._known = alive


def _pods_of(sts: Json, pods: Iterable[Json]) -> list[Json]:
    uid = sts["metadata"]["uid"]
    return [pod for pod in pods if any(o["uid"] == uid for o in pod["metadata"].get("ownerReferences") or ())]


def is_ready(pod: Json) -> bool:
    """Whether a pod's Ready condition is True."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _ready_condition(status: Json) -> Json | None:
    return next((each for each in status.get("conditions") or () if each["type"] == "Ready"), None)


def revision_of(sts: Json) -> str:
    """Name of the revision of the template, the same for the same template."""
    text = json.dumps(sts["spec"]["template"], sort_keys=True)
    return f"{sts['metadata']['name']}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def pod_status(pod: Json, degraded: Trouble | None, now: str) -> Json:
    """Status of a pod that runs and is ready, or has a trouble."""
    name = pod["spec"]["containers"][0]["name"]
    ready = degraded is None
    conditions: list[Json] = [{"type": "Ready", "status": str(ready), "lastTransitionTime": now}]
    scheduled: Json = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    if degraded is not None and degraded.unschedulable:
        scheduled |= {"status": "False", "reason": "Unschedulable", "message": degraded.message}
        return {"phase": "Pending", "conditions": [scheduled]}
    # A container runs from the time of the report on, so one that is not ready has never been.
    container: Json = {
        "name": name,
        "image": pod["spec"]["containers"][0]["image"],
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "state": {"running": {"startedAt": now if degraded else "2026-01-01T00:00:00Z"}},
    }
    if degraded is not None and degraded.waiting:
        container["state"] = {"waiting": {"reason": degraded.waiting, "message": degraded.message}}
        if degraded.waiting == "CrashLoopBackOff":
            ended = {"exitCode": 1, "reason": "Error", "message": degraded.message}
            container |= {"restartCount": 3, "lastState": {"terminated": ended}}
    running = {"phase": "Running", "conditions": [*conditions, scheduled], "containerStatuses": [container]}
    running["startTime"] = (pod.get("status") or {}).get("startTime") or now
    return {**running, "podIP": pod_address(pod)}


def pod_address(pod: Json) -> str:
    """Address of a pod, another one for each that was ever made."""
    digits = hashlib.sha256(str(pod["metadata"]["uid"]).encode()).digest()
    return f"10.{digits[0]}.{digits[1]}.{digits[2]}"


def _signature(status: Json) -> str:
    """A status without its times."""
    text = json.dumps({key: each for key, each in status.items() if key != "startTime"}, sort_keys=True)
    conditions: Iterable[Json] = status.get("conditions") or ()
    times = {c.get("lastTransitionTime") for c in conditions}
    for time in times:
        text = text.replace(str(time), "-")
    return text


def _pod(sts: Json, name: str, revision: str, volumes: list[Json]) -> Json:
    template, meta = copy.deepcopy(sts["spec"]["template"]), sts["metadata"]
    spec = template["spec"]
    spec["volumes"] = [*(spec.get("volumes") or ()), *volumes]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {**template["metadata"]["labels"], REVISION: revision},
            "annotations": template["metadata"].get("annotations") or {},
            "finalizers": [KUBELET],
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": meta["name"], "uid": meta["uid"],
                 "controller": True, "blockOwnerDeletion": True}
            ],
        },
        "spec": spec,
    }  # fmt: skip


def _claim(template: Json, namespace: str, name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": template["metadata"].get("labels") or {},
            "finalizers": [PROTECTION],
        },
        # Bound at once, to a volume of its own.
        "spec": {**copy.deepcopy(template["spec"]), "volumeName": f"pvc-{uuid4()}"},
        "status": {"phase": "Bound"},
    }
