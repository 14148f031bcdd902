"""The scope of a logical object: its chain of parents, and the admin endpoints of its instance."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pulsar_operator.api.constants import ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1.base import ObjectReference
from pulsar_operator.controllers.core.clusters import members, pulsar_name, serving_endpoint
from pulsar_operator.controllers.core.failures import reason_of_access
from pulsar_operator.controllers.core.index import PARENT_FIELD
from pulsar_operator.controllers.core.objects import described
from pulsar_operator.controllers.core.references import resolve
from pulsar_operator.controllers.core.status import condition_of
from pulsar_operator.controllers.core.stores import store_unavailable_message
from pulsar_operator.controllers.core.watch_cache import name_of, reader_of
from pulsar_operator.controllers.logical.remedies import no_brokers, no_member, object_text
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.dataplane.instance.reachability import PATIENCE_SECONDS, TIMEOUTS
from pulsar_operator.domain.logical.pulsar_names import partition_count
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import (
    AccessError,
    AdminEndpoint,
    ConflictError,
    DeadlineError,
    Deps,
    Json,
    NotFoundError,
    RefusedError,
    UnavailableError,
)

WAIT_SECONDS = 15.0
"""Seconds until a parent is checked again, in case its event was missed."""

_UNFIT_PARENT = frozenset(
    {
        Reason.REFERENCE_NOT_FOUND,
        Reason.REFERENCE_NOT_ALLOWED,
        Reason.PARENT_NOT_READY,
        Reason.DUPLICATE,
        Reason.DELETION_UNFINISHED,
    }
)
"""Reasons of a parent's condition Ready for which children wait: its name in Pulsar may belong to another object, or
nothing can be found inside it."""


class ObstacleError(Exception):
    """The pass cannot continue. This is an expected state, which a condition reports."""

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        known: bool = False,
        gone: bool = False,
        requeue: float | None = WAIT_SECONDS,
    ) -> None:
        """With ``known`` Ready is False instead of Unknown; with ``gone`` a deletion ends without touching Pulsar."""
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.known = known
        self.gone = gone
        self.requeue = requeue


class AdminUnreachableError(UnavailableError):
    """No cluster of Pulsar gave a usable answer (as opposed to the Kubernetes API). ``status`` is as in
    UnavailableError."""

    cluster = ""
    """The cluster that did not answer, if it is a single one."""
    reason = Reason.ADMIN_UNREACHABLE
    """Reason of conditions: another one if the cluster answered that it does not admit the operator."""

    def of(self, cluster: str, reason: Reason = Reason.ADMIN_UNREACHABLE) -> AdminUnreachableError:
        """Sets the cluster and the reason, and returns the error."""
        self.cluster, self.reason = cluster, reason
        return self


class MissingInPulsarError(NotFoundError):
    """Pulsar does not have the object (as opposed to the Kubernetes API)."""


@dataclass(frozen=True)
class Cluster:
    """A cluster of the instance, as its custom resource describes it."""

    name: str
    """Name in Pulsar."""
    endpoint: AdminEndpoint | None
    """Its admin REST endpoint; None while its brokers are not ready."""
    version: str | None
    deleting: bool
    obj: Json
    """The PulsarCluster."""


@dataclass(frozen=True)
class Scope:
    """The parents of one logical object, and the clusters of its instance."""

    chain: tuple[Json, ...]
    """Parents, the nearest first; the last one is the instance."""
    clusters: tuple[Cluster, ...]
    """Clusters of the instance, sorted by name."""
    admin: Admin

    @property
    def names(self) -> frozenset[str]:
        """Returns the Pulsar names of all clusters of the instance."""
        return frozenset(c.name for c in self.clusters)

    @property
    def version(self) -> str | None:
        """Returns the Pulsar version of the first usable cluster."""
        return next((c.version for c in self.clusters if c.endpoint is not None), None)

    def parent_name(self, kind: Kind) -> str:
        """Returns the name in Pulsar of the parent of that kind."""
        obj = next(o for o in self.chain if o["kind"] == kind.value)
        return name_of(obj)

    @functools.cached_property
    def place(self) -> tuple[str, str]:
        """Returns the names in Pulsar of the tenant and the namespace of a topic."""
        return self.parent_name(Kind.TENANT), self.parent_name(Kind.NAMESPACE)


class Admin:
    """The admin REST of one instance. Shared objects are requested from any cluster, others from a named one.

    No pass waits for a cluster that has stopped answering (domain/dataplane/instance/reachability.py): the call fails
    immediately.
    """

    def __init__(self, deps: Deps, clusters: Iterable[Cluster], instance: Json) -> None:
        self._deps = deps
        self._instance = instance
        self._clusters = {c.name: c.obj for c in clusters}
        self._endpoints = {c.name: c.endpoint for c in clusters if c.endpoint is not None}
        self.failures: dict[str, str] = {}
        """Why a cluster gave no usable answer, as of its last failure."""
        self._denied: dict[str, Reason] = {}
        """Reasons of clusters that do not admit the operator."""

    @property
    def usable(self) -> tuple[str, ...]:
        """Returns the clusters with an endpoint, by name."""
        return tuple(self._endpoints)

    async def at(self, cluster: str, call: Call, *, patience: float | None = None) -> Any:
        """Calls one cluster. A read with ``patience``, in seconds, is given up after that time. Raises
        AdminUnreachableError, MissingInPulsarError, ConflictError, RefusedError."""
        endpoint = self._endpoints.get(cluster)
        if endpoint is None:
            raise AdminUnreachableError(self._unusable(cluster)).of(cluster)
        known = self._deps.reachability.of(endpoint.url).since
        if (
            known is not None
            and (since := self._deps.reachability.left_out(endpoint.url, self._deps.clock.now())) is not None
        ):
            self.failures[cluster] = self._left_out(cluster, since)
            raise AdminUnreachableError(self.failures[cluster]).of(cluster)
        try:
            return await self._call(endpoint, call, patience)
        except NotFoundError as error:
            raise MissingInPulsarError(str(error)) from error
        except AccessError as error:
            text = self.failures[cluster] = f"{error} (see {described(self._clusters[cluster])})"
            reason = self._denied[cluster] = reason_of_access(error)
            raise AdminUnreachableError(text, status=error.status).of(cluster, reason) from error
        except UnavailableError as error:
            text = self.failures[cluster] = f"{error} (see {described(self._clusters[cluster])})"
            failed = AdminUnreachableError(text, retry_after=error.retry_after, status=error.status)
            raise failed.of(cluster) from error

    async def listed(self, cluster: str, call: Call) -> list[str]:
        """Returns the names that a cluster lists. Raises AdminUnreachableError if the answer is not a list."""
        return _names(cluster, call, await self.at(cluster, call))

    async def registered(self) -> frozenset[str]:
        """Returns the clusters that Pulsar knows. Raises AdminUnreachableError if the answer is not a list."""
        call = Call("GET", ("clusters",))
        cluster, answer = await self.anywhere(call)
        return frozenset(_names(cluster, call, answer))

    def no_answer(self, text: str, clusters: Iterable[str]) -> AdminUnreachableError:
        """Returns the error for clusters none of which answered."""
        return AdminUnreachableError(text).of("", self.reason(clusters))

    def reason(self, clusters: Iterable[str]) -> Reason:
        """Returns the reason of a condition for clusters that did not answer."""
        return next((self._denied[each] for each in clusters if each in self._denied), Reason.ADMIN_UNREACHABLE)

    def why(self, cluster: str) -> str:
        """Returns why a cluster did not answer, in this pass or in a concurrent one."""
        endpoint = self._endpoints.get(cluster)
        standing = self._deps.reachability.of(endpoint.url) if endpoint is not None else None
        known = "not asked" if endpoint is not None else self._unusable(cluster)
        if standing is not None and standing.since is not None:
            known = self._left_out(cluster, standing.since)
        elif standing is not None and standing.silent:
            known = "the operator skips the cluster, because its last request timed out"
        return self.failures.get(cluster, known)

    def _unusable(self, cluster: str) -> str:
        """Returns why a cluster without an endpoint cannot be called."""
        obj = self._clusters.get(cluster)
        return no_brokers(obj) if obj is not None else no_member(cluster, self._instance, self._clusters)

    def _left_out(self, cluster: str, since: datetime) -> str:
        return (
            f"the operator skips cluster {cluster} since {timestamp(since)}, because {TIMEOUTS} consecutive "
            f"requests timed out. See status.clusters of {object_text(self._instance)} "
            f"({described(self._clusters[cluster])})"
        )

    async def _call(self, endpoint: AdminEndpoint, call: Call, patience: float | None) -> Any:
        """Makes the call, and records what the result shows about the reachability of the cluster."""
        try:
            answer = await self._deps.admin.call(
                endpoint,
                call.method,
                call.path,
                query=call.query,
                body=call.body,
                content_type=call.media,
                deadline=patience,
                text=call.text,
            )
        except (NotFoundError, ConflictError):
            self._heard(endpoint)
            raise
        except DeadlineError:
            if patience is None:
                self._deps.reachability.unheard(endpoint.url, self._deps.clock.now())
            else:
                self._deps.reachability.doubted(endpoint.url)
            raise
        except (RefusedError, UnavailableError) as error:
            if error.status:
                self._heard(endpoint)
            raise
        self._heard(endpoint)
        return answer

    def _heard(self, endpoint: AdminEndpoint) -> None:
        """Records that the cluster answered after failures. The clock is not read for a cluster that had none."""
        known = self._deps.reachability.of(endpoint.url)
        if known.silent or known.in_vain:
            self._deps.reachability.heard(endpoint.url, self._deps.clock.now())

    async def anywhere(self, call: Call) -> tuple[str, Any]:
        """Calls the clusters one after the other until one answers. Returns that cluster and its answer.

        Clusters that did not answer before come last. A GET uses the full timeout only for the last cluster. Raises
        AdminUnreachableError.
        """
        errors: list[AdminUnreachableError] = []
        order = sorted(self._endpoints, key=self._silent)
        for cluster in order:
            brief = call.method == "GET" and cluster != order[-1]
            try:
                return cluster, await self.at(cluster, call, patience=PATIENCE_SECONDS if brief else None)
            except AdminUnreachableError as error:
                errors.append(error)
        if not errors:
            raise AdminUnreachableError(f"no cluster of {object_text(self._instance)} has ready brokers")
        raise errors[0].of(" or ".join(order), errors[0].reason)

    async def find(self, call: Call) -> tuple[str, Any] | None:
        """Returns the same as :meth:`anywhere`; None if the object does not exist."""
        try:
            return await self.anywhere(call)
        except NotFoundError:
            return None

    async def delete(self, call: Call, *, cluster: str | None = None) -> None:
        """Deletes the object at the path of a call: in ``cluster``, or in any one cluster if none is given.

        An object that no longer exists counts as deleted. A 404 may also refer to something inside the object; if the
        object still exists, NotFoundError is raised.
        """
        read = Call("GET", call.path)
        try:
            await (self.anywhere(call) if cluster is None else self.at(cluster, call))
        except NotFoundError:
            if (await self.find(read) if cluster is None else (await self._find_at(cluster, read))[1]) is not None:
                raise

    async def everywhere(
        self, clusters: Iterable[str], call: Call, *, brief: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Calls several clusters concurrently. Returns the answers (None if the object does not exist), and the
        clusters that did not answer.

        A ``brief`` read has a short timeout, and skips a cluster whose last call was not answered.
        """
        names = sorted(set(clusters))
        asked = [name for name in names if not (brief and self._silent(name))]
        patience = PATIENCE_SECONDS if brief else None
        results = await asyncio.gather(*(self._find_at(name, call, patience) for name in asked))
        answers = {name: answer for name, (ok, answer) in zip(asked, results, strict=True) if ok}
        return answers, tuple(name for name in names if name not in answers)

    def _silent(self, cluster: str) -> int:
        """Returns the number of calls to a cluster without an answer since its last answer."""
        endpoint = self._endpoints.get(cluster)
        return self._deps.reachability.of(endpoint.url).silent if endpoint is not None else 0

    async def _find_at(self, cluster: str, call: Call, patience: float | None = None) -> tuple[bool, Any]:
        try:
            return True, await self.at(cluster, call, patience=patience)
        except NotFoundError:
            return True, None
        except AdminUnreachableError:
            return False, None


def _names(cluster: str, call: Call, answer: object) -> list[str]:
    """Returns an answer that is a list of names. Raises AdminUnreachableError if it is not."""
    if isinstance(answer, list) and all(isinstance(each, str) for each in answer):
        return answer
    text = f"cluster {cluster} answers GET /{'/'.join(call.path)} without a list of names"
    raise AdminUnreachableError(text, status=200)


def partitions_of(cluster: str, answer: object, topic: str) -> int:
    """Returns the number of partitions that a cluster reports for a topic; 0 if the topic is not partitioned. Raises
    AdminUnreachableError."""
    found = partition_count(answer)
    if found is None:
        text = f"cluster {cluster} reports no usable number of partitions of topic {topic}"
        raise AdminUnreachableError(text, status=200)
    return found


async def resolve_scope(deps: Deps, kind: Kind, obj: Json, *, deleting: bool) -> Scope:
    """Resolves the references up to the instance and its clusters. Raises ObstacleError.

    A deletion only needs the parents to exist. Any other pass also needs the parent to be ready for children.
    """
    chain: list[Json] = []
    child_kind, child = kind, obj
    while child_kind in PARENT_FIELD:
        field, parent_kind = PARENT_FIELD[child_kind]
        parent = await _parent(deps, child, field, parent_kind)
        if not deleting and parent_kind is not Kind.INSTANCE and not chain:
            _check_parent(parent)
        chain.append(parent)
        child_kind, child = parent_kind, parent
    clusters = await _clusters(deps, chain[-1])
    admin = Admin(deps, clusters, chain[-1])
    name = object_text(chain[-1])
    if all(c.deleting for c in clusters) and not admin.usable:
        raise ObstacleError(
            Reason.PARENT_NOT_READY,
            f"{name} has no PulsarCluster. Create one whose spec.instanceRef names the instance",
            gone=True,
        )
    if not admin.usable:
        waiting = ". ".join(no_brokers(c.obj) for c in clusters)
        raise ObstacleError(Reason.PARENT_NOT_READY, f"No cluster of {name} has ready brokers yet. {waiting}")
    unavailable, description = store_unavailable_message(chain[-1]), described(chain[-1])
    if unavailable is not None and not (deleting and all(c.deleting for c in clusters)):
        # Brokers answer from what they remember, and a write would hang.
        raise ObstacleError(
            Reason.CONFIGURATION_STORE_UNAVAILABLE,
            f"Nothing is changed in Pulsar, because {unavailable}. To see its state, run: {description}",
        )
    return Scope(tuple(chain), clusters, admin)


async def _parent(deps: Deps, child: Json, field: str, kind: Kind) -> Json:
    ref = ObjectReference.model_validate((child.get("spec") or {}).get(field) or {})
    child_meta = child["metadata"]
    found = await resolve(deps, kind, ref, from_namespace=child_meta["namespace"])
    if not found.found:
        raise ObstacleError(
            Reason.REFERENCE_NOT_FOUND,
            f"{found.text}, which spec.{field} of {child['kind']} {child_meta['name']} names, does not exist. "
            f"Create {found.text}, or create a new object with the correct spec.{field}",
            known=True,
            gone=True,
        )
    if found.obj is None:
        raise ObstacleError(
            Reason.REFERENCE_NOT_ALLOWED,
            f"{found.text} does not allow references from Kubernetes namespace {child_meta['namespace']}. Add the "
            f"namespace to spec.allowedKubernetesNamespaces of {found.text}",
            known=True,
            gone=True,
        )
    return found.obj


def _check_parent(parent: Json) -> None:
    text, description = object_text(parent), described(parent)
    if "deletionTimestamp" in parent["metadata"]:
        raise ObstacleError(
            Reason.PARENT_NOT_READY, f"{text} is being deleted. To see its state, run: {description}", known=True
        )
    ready = condition_of(parent, ConditionType.READY.value)
    if ready is None:
        raise ObstacleError(
            Reason.PARENT_NOT_READY, f"{text} is not reconciled yet. To see its state, run: {description}"
        )
    if ready.get("status") == "True":
        return
    exists = bool((parent.get("status") or {}).get("pulsarName"))
    if not exists or ready.get("reason") in {r.value for r in _UNFIT_PARENT}:
        why = f"{text} is not ready: {str(ready.get('message'))[:500]}. To see its state, run: {description}"
        raise ObstacleError(Reason.PARENT_NOT_READY, why, known=True)


async def _clusters(deps: Deps, instance: Json) -> tuple[Cluster, ...]:
    """Returns the clusters that refer to the instance and are allowed to."""
    found: dict[str, Cluster] = {}
    for obj in members(await reader_of(deps).every(Kind.CLUSTER, allowed_by=instance), instance):
        cluster = _cluster(obj)
        if cluster.name not in found or found[cluster.name].endpoint is None:
            found[cluster.name] = cluster
    return tuple(found[name] for name in sorted(found))


def _cluster(obj: Json) -> Cluster:
    return Cluster(
        name=pulsar_name(obj),
        endpoint=serving_endpoint(obj),
        version=(obj.get("status") or {}).get("version"),
        deleting="deletionTimestamp" in obj["metadata"],
        obj=obj,
    )
