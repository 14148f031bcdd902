"""The Kubernetes API server, and the objects from its watches."""

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
        """Returns apiVersion in the form of manifests."""
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
        """Returns the object; None if it does not exist. Raises UnavailableError, RefusedError."""

    async def list(self, kind: ResourceType, namespace: str | None, *, selector: str | None = None) -> list[Json]:
        """Returns all objects of a namespace (None for every namespace the operator watches), with apiVersion and kind.

        Raises UnavailableError, RefusedError. Never returns an incomplete list.
        """

    async def apply(self, manifest: Json, *, manager: str | None = None) -> Json:
        """Applies the whole manifest by forced server-side apply. Returns the stored object.

        With metadata.uid in the manifest the call only changes the object with this UID (ConflictError otherwise).
        Raises ConflictError, RefusedError, NotFoundError (the namespace does not exist), UnavailableError.
        """

    async def apply_status(self, manifest: Json) -> Json:
        """Applies the status subresource by server-side apply. metadata.uid is required. Returns the stored object.

        metadata.resourceVersion, if it is given, saves a read. An outdated one is harmless: the status write does not
        affect changes by other writers since then. Raises NotFoundError if the object does not exist, ConflictError if
        it is another one of the same name.
        """

    async def create(self, manifest: Json) -> Json:
        """Creates an object. Raises ConflictError if an object of that name exists."""

    async def dry_run_create(self, manifest: Json) -> None:
        """Requests the API server to admit an object like a creation, without storing it (dryRun=All). Raises the
        errors of a creation."""

    async def warnings(self, involved: Json, reason: str) -> Sequence[Json]:
        """Returns the warning events with a reason about exactly this object, at most 50. Kubernetes deletes them after
        an hour."""

    async def delete(self, kind: ResourceType, namespace: str, name: str, *, uid: str) -> None:
        """Deletes the object with this UID. Returns also if it no longer exists. Raises ConflictError for another
        UID."""

    async def evict(self, namespace: str, name: str, *, uid: str) -> str | None:
        """Evicts the pod with this UID if its PodDisruptionBudget allows that now.

        Returns None if the eviction was accepted or the pod no longer exists, and the budget's message if it refuses:
        nothing changed then, and the same call may be accepted later. A pod that is terminating, has ended or has not
        started is evicted regardless of budgets (source: eviction.go of the API server, canIgnorePDB). Raises
        ConflictError for another UID, RefusedError, UnavailableError, and ServerError, also if a pod has several
        budgets.

        Observed on Kubernetes 1.35: the UID is compared after the budget. So a budget may refuse another pod of the
        name with a message, or be decremented for it until its controller syncs. For a pod that has not started the
        server retries for 10 s before it answers.
        """

    async def remove_entries(self, obj: Json, pointers: Sequence[str]) -> None:
        """Removes entries by JSON pointer, in order, of any field manager, guarded by the object's resourceVersion.
        Either all or none of the pointers refer to the status, which is a separate resource.

        Raises ConflictError if the object changed since it was read or a pointer refers to nothing.
        """

    async def drop_finalizer(self, obj: Json, finalizer: str) -> None:
        """Removes one finalizer of any field manager, guarded by the object's resourceVersion.

        Returns also if the object no longer exists. Raises ConflictError if it changed since it was read.
        """

    async def event(self, involved: Json, *, kind: str, reason: str, message: str) -> None:
        """Records an event of type Normal or Warning on the object. Repeats are aggregated. Never raises."""


class ReaderPort(Protocol):
    """Queries of custom resources other than the reconciled one. Callers do not change the results."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Returns one object; None if it does not exist."""

    async def every(self, kind: Kind, *, allowed_by: Json | None = None) -> list[Json]:
        """Returns all objects of a kind, or at least those in Kubernetes namespaces whose references ``allowed_by``
        allows. Raises PortError while they are unknown."""

    async def duplicates_of(self, obj: Json) -> list[Key]:
        """Returns the other objects of its kind that refer to the same parent and have the same name in Pulsar."""

    async def dependents(self, target: Json, child: Kind) -> int:
        """Returns the number of objects of a kind whose reference to the target is allowed."""

    async def named(self, target: Json, child: Kind) -> dict[str, Key]:
        """Returns the objects of a kind whose reference to the target is allowed, by name in Pulsar."""

    def listed(self, key: Key) -> Json | None:
        """Returns an object from the list at the start of the process, for one observation; None if the API server must
        be asked.

        Callers must not write based on it: the watches have reported no newer version of it, but they may lag.
        """
