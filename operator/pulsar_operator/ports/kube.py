"""The Kubernetes API server, and the objects that its watches delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pulsar_operator.api.constants import GROUP, PLURALS, VERSION, Kind

Json = dict[str, Any]


@dataclass(frozen=True, order=True)
class ResourceType:
    """A Kubernetes resource type. All fields are set: the operator uses no API discovery."""

    group: str
    version: str
    plural: str
    kind: str

    @property
    def api_version(self) -> str:
        """apiVersion as written in manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version


STATEFUL_SETS = ResourceType("apps", "v1", "statefulsets", "StatefulSet")
PODS = ResourceType("", "v1", "pods", "Pod")
SERVICES = ResourceType("", "v1", "services", "Service")
CONFIG_MAPS = ResourceType("", "v1", "configmaps", "ConfigMap")
SECRETS = ResourceType("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = ResourceType("", "v1", "serviceaccounts", "ServiceAccount")
PVCS = ResourceType("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
EVENTS = ResourceType("", "v1", "events", "Event")
PDBS = ResourceType("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
OPTIONAL = frozenset({PDBS})
"""Types that a Kubernetes API server may not serve: pods run without them."""
NAMESPACES = ResourceType("", "v1", "namespaces", "Namespace")
"""Kubernetes namespaces. They are cluster-scoped, so requests use an empty namespace."""
NODES = ResourceType("", "v1", "nodes", "Node")
"""Kubernetes nodes, cluster-scoped. Read only for racks from a node label that pods lack; requires its own
permission."""

CUSTOM: dict[Kind, ResourceType] = {kind: ResourceType(GROUP, VERSION, PLURALS[kind], kind.value) for kind in Kind}
"""Resource types of this API group."""


@dataclass(frozen=True, order=True)
class Key:
    """Identifies one custom resource; the unit of the work queue."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value} {self.namespace}/{self.name}"


class KubePort(Protocol):
    """The Kubernetes API server, raw JSON in and out."""

    async def get(self, kind: ResourceType, namespace: str, name: str) -> Json | None:
        """The object, or None where there is none. Raises UnavailableError, RefusedError."""

    async def list(self, kind: ResourceType, namespace: str | None, *, selector: str | None = None) -> list[Json]:
        """All objects of a namespace (None if every namespace the operator watches), complete or an error.

        Items carry apiVersion and kind. Raises UnavailableError, RefusedError; never returns a truncated list.
        """

    async def apply(self, manifest: Json, *, manager: str | None = None) -> Json:
        """Server-side apply of the whole manifest, force. Returns the stored object.

        With metadata.uid in the manifest the call only ever changes that very object (ConflictError otherwise).
        Raises ConflictError, RefusedError, NotFoundError (namespace gone), UnavailableError.
        """

    async def apply_status(self, manifest: Json) -> Json:
        """Server-side apply on the status subresource; metadata.uid is required. Returns the stored object.

        metadata.resourceVersion, where it is given, spares a read; an old one does no harm: changes by other writers
        since then are outside of the status. Raises NotFoundError when the object is gone, ConflictError when it is
        another one of the same name.
        """

    async def create(self, manifest: Json) -> Json:
        """Create; ConflictError when an object of that name exists."""

    async def dry_run_create(self, manifest: Json) -> None:
        """Have the API server admit an object as for a creation, and store nothing (dryRun=All). Raises what a creation
        raises."""

    async def warnings(self, involved: Json, reason: str) -> Sequence[Json]:
        """Warning events of a reason about exactly this object, at most 50; Kubernetes deletes them after an hour."""

    async def delete(self, kind: ResourceType, namespace: str, name: str, *, uid: str) -> None:
        """Delete the object with this UID; returns when it is gone already. Raises ConflictError on another UID."""

    async def evict(self, namespace: str, name: str, *, uid: str) -> str | None:
        """Have the pod with this UID deleted, if its PodDisruptionBudget allows that now.

        Returns None if the eviction was accepted or the pod is gone already, and the budget's message if it refuses:
        then nothing changed, and the same call may be accepted later. A pod that is terminating, has ended or has not
        started is evicted regardless of budgets (source: eviction.go of the API server, canIgnorePDB).

        Raises ConflictError on another UID, RefusedError, UnavailableError, and ServerError, also where a pod has
        several budgets.
        Observed on Kubernetes 1.35: the UID is compared after the budget. So a budget may refuse another pod of the
        name with a message, or be counted down for it until its controller syncs; for a pod that has not started the
        server retries for 10 s before it answers.
        """

    async def remove_entries(self, obj: Json, pointers: Sequence[str]) -> None:
        """Remove entries by JSON pointer, in order, of any owner; guarded by the object's resourceVersion. All of the
        status, or none: that is a separate resource.

        Raises ConflictError when the object changed since it was read or a pointer leads nowhere.
        """

    async def drop_finalizer(self, obj: Json, finalizer: str) -> None:
        """Remove one finalizer of any field manager, guarded by the object's resourceVersion.

        Returns when the object is gone already. Raises ConflictError when it changed since it was read.
        """

    async def event(self, involved: Json, *, kind: str, reason: str, message: str) -> None:
        """Record an event of type Normal or Warning on the object; repeats are aggregated. Never raises."""


class ReaderPort(Protocol):
    """Queries of custom resources other than the reconciled one. Callers do not change the results."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """One object; None when there is none."""

    async def every(self, kind: Kind, *, allowed_by: Json | None = None) -> list[Json]:
        """All objects of a kind, or at least those of Kubernetes namespaces whose references an object allows: what is
        in others need not be known then. Raises PortError while it is not known."""

    async def duplicates_of(self, obj: Json) -> list[Key]:
        """Other objects of its kind that refer to the same parent and have the same name inside Pulsar."""

    async def dependents(self, target: Json, child: Kind) -> int:
        """Number of objects of a kind whose reference to the target is allowed."""

    async def named(self, target: Json, child: Kind) -> dict[str, Key]:
        """Objects of a kind whose reference to the target is allowed, by name inside Pulsar."""

    def listed(self, key: Key) -> Json | None:
        """An object from the list at the start of the process, for one observation; None means: ask the API server.

        Callers must not write based on it: the watches have no newer version of it, and they may be late.
        """
