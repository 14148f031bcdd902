"""The Kubernetes API server as ports.KubePort."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from pulsar_operator.adapters.kube_events import EventRecorder
from pulsar_operator.adapters.kube_http import (
    APPLY_TYPE,
    JSON_PATCH_TYPE,
    LIST_DEADLINE_SECONDS,
    MERGE_TYPE,
    BudgetError,
    GoneError,
    KubeClient,
    of_status,
    resource_of,
    resource_path,
)
from pulsar_operator.api.constants import FIELD_MANAGER
from pulsar_operator.ports import (
    EVENTS,
    NAMESPACES,
    PODS,
    ConflictError,
    Json,
    MetricsPort,
    NotFoundError,
    NotServedError,
    RefusedError,
    ResourceType,
    ServerError,
    UnavailableError,
)

Items = list[Json]
"""Alias for use inside the class, in which ``list`` is a method."""
PAGE_SIZE = 500
EVENTS_LIMIT = 50
STATUS_ATTEMPTS = 4
"""Maximum attempts of a status write if the object changes between its read and the write."""
LIST_ATTEMPTS = 3
"""Attempts of a paged list whose continue token expires (HTTP 410), before all objects are requested without paging."""


class KubeAdapter:
    """Implements ports.KubePort over one API server."""

    def __init__(
        self,
        client: KubeClient,
        metrics: MetricsPort,
        events: EventRecorder,
        *,
        namespaces: Sequence[str] = (),
        page_size: int = PAGE_SIZE,
    ) -> None:
        """``namespaces`` are those that ``list(kind, None)`` covers; empty for the whole Kubernetes cluster."""
        self._client = client
        self._metrics = metrics
        self._events = events
        self._namespaces = tuple(namespaces)
        self._page_size = page_size

    async def get(self, kind: ResourceType, namespace: str, name: str) -> Json | None:
        """Returns the object; None if it does not exist. Raises UnavailableError, RefusedError."""
        try:
            return await self._client.request("GET", resource_path(kind, namespace, name))
        except NotFoundError:
            return None

    async def list(self, kind: ResourceType, namespace: str | None, *, selector: str | None = None) -> list[Json]:
        """Returns all objects of a namespace (None for every watched one), with apiVersion and kind. Raises an error
        instead of returning an incomplete list."""
        scopes: Sequence[str | None] = [namespace] if namespace is not None else (self._namespaces or [None])
        items: list[Json] = []
        for scope in scopes:
            items.extend(await self._list_scope(kind, scope, selector))
        return items

    async def _list_scope(self, kind: ResourceType, namespace: str | None, selector: str | None) -> Items:
        for attempt in range(LIST_ATTEMPTS + 1):
            limit = self._page_size if attempt < LIST_ATTEMPTS else 0
            try:
                return await self._pages(kind, namespace, selector, limit)
            except GoneError:
                continue
        raise UnavailableError(f"the API server lost the version of the list of {kind.plural} {LIST_ATTEMPTS} times")

    async def _pages(self, kind: ResourceType, namespace: str | None, selector: str | None, limit: int) -> Items:
        query = {"limit": str(limit)} if limit else {}
        if selector:
            query["labelSelector"] = selector
        items: Items = []
        tokens: set[str] = set()
        while True:
            page = await self._client.request(
                "GET", resource_path(kind, namespace), query=query, deadline=LIST_DEADLINE_SECONDS
            )
            for item in page.get("items") or ():
                # The operator does not use managedFields, which take several times the memory of the other fields.
                (item.get("metadata") or {}).pop("managedFields", None)
                # Items of a list do not repeat what the list says about all of them.
                items.append({"apiVersion": kind.api_version, "kind": kind.kind, **item})
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return items
            if token in tokens:  # as from a proxy that answers without regard to the query
                raise UnavailableError(
                    f"the API server returned the same continue token twice for the list of {kind.plural}"
                )
            tokens.add(token)
            query["continue"] = token

    async def apply(self, manifest: Json, *, manager: str | None = None) -> Json:
        """Applies the whole manifest by forced server-side apply. Returns the stored object; for errors see
        ports.KubePort.

        https://kubernetes.io/docs/reference/using-api/server-side-apply/
        """
        return await self._apply(manifest, None, manager or FIELD_MANAGER)

    async def apply_status(self, manifest: Json) -> Json:
        """Applies the status subresource by server-side apply, only of the object with metadata.uid. Returns the stored
        object.

        Observed on Kubernetes 1.35: on the status subresource of a custom resource the API server takes metadata from
        the stored object and ignores another uid in the patch, but it checks resourceVersion. So the object's version
        makes the write conditional on being the same object: the version that the caller read, or if that is unknown or
        outdated, the one that is read now.
        """
        kind, meta = resource_of(manifest), manifest["metadata"]
        if not meta.get("uid"):
            raise ValueError("apply_status needs metadata.uid: a status belongs to one very object")
        version = meta.get("resourceVersion")
        for attempt in range(STATUS_ATTEMPTS):
            version = version or await self._version(kind, meta)
            versioned = {**manifest, "metadata": {**meta, "resourceVersion": version}}
            try:
                return await self._apply(versioned, "status", FIELD_MANAGER)
            except ConflictError:
                version = None
                if attempt == STATUS_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    async def _version(self, kind: ResourceType, meta: Json) -> str:
        """Returns the current resourceVersion of the object with these metadata. Raises NotFoundError,
        ConflictError."""
        live = await self.get(kind, meta["namespace"], meta["name"])
        if live is None:
            raise NotFoundError(f"{kind.kind} {meta['namespace']}/{meta['name']} no longer exists")
        if live["metadata"]["uid"] != meta["uid"]:
            raise ConflictError(f"{kind.kind} {meta['namespace']}/{meta['name']} was replaced by another object")
        return str(live["metadata"]["resourceVersion"])

    async def _apply(self, manifest: Json, subresource: str | None, manager: str) -> Json:
        kind, meta = resource_of(manifest), manifest["metadata"]
        result = await self._client.request(
            "PATCH",
            resource_path(kind, meta["namespace"], meta["name"], subresource),
            query={"fieldManager": manager, "force": "true"},
            body=manifest,
            content_type=APPLY_TYPE,
        )
        self._metrics.kube_write("apply_status" if subresource else "apply", kind.kind)
        return result

    async def create(self, manifest: Json) -> Json:
        """Creates an object. Raises ConflictError if an object of that name exists."""
        kind = resource_of(manifest)
        result = await self._client.request(
            "POST",
            resource_path(kind, manifest["metadata"]["namespace"]),
            query={"fieldManager": FIELD_MANAGER},
            body=manifest,
        )
        self._metrics.kube_write("create", kind.kind)
        return result

    async def dry_run_create(self, manifest: Json) -> None:
        """Requests the API server to admit an object without storing it.

        https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
        """
        await self._client.request(
            "POST",
            resource_path(resource_of(manifest), manifest["metadata"]["namespace"]),
            query={"fieldManager": FIELD_MANAGER, "dryRun": "All"},
            body=manifest,
        )

    async def warnings(self, involved: Json, reason: str) -> Items:
        """Returns the warning events with a reason about exactly this object."""
        fields = {"involvedObject.uid": involved["metadata"]["uid"], "reason": reason, "type": "Warning"}
        selector = ",".join(f"{name}={value}" for name, value in fields.items())
        query = {"fieldSelector": selector, "limit": str(EVENTS_LIMIT)}
        page = await self._client.request("GET", resource_path(EVENTS, involved["metadata"]["namespace"]), query=query)
        return list(page.get("items") or ())

    async def delete(self, kind: ResourceType, namespace: str, name: str, *, uid: str) -> None:
        """Deletes the object with this UID (background propagation). Returns also if it no longer exists."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        try:
            await self._client.request("DELETE", resource_path(kind, namespace, name), body=options)
        except NotFoundError:
            return
        self._metrics.kube_write("delete", kind.kind)

    async def evict(self, namespace: str, name: str, *, uid: str) -> str | None:
        """Deletes the pod with this UID if its budget allows that now; otherwise returns the budget's message. See
        ports.KubePort.

        https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
        """
        path = resource_path(PODS, namespace, name, "eviction")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        try:
            await self._client.request("POST", path, body=body)
        except BudgetError as error:
            return str(error)
        except NotFoundError as error:
            # A budget that is deleted while it is counted down is missing too, and then the pod may be there.
            if str(error).startswith((f'{PODS.plural} "{name}"', f'{NAMESPACES.plural} "{namespace}"')):
                return None
            raise ServerError(f"POST {path}: {error}") from error
        self._metrics.kube_write("evict", PODS.kind)
        return None

    async def event(self, involved: Json, *, kind: str, reason: str, message: str) -> None:
        """Records an event of type Normal or Warning on the object. Repeats are aggregated. Never raises or waits."""
        self._events.record(involved, kind=kind, reason=reason, message=message)

    async def installed(self, kind: ResourceType) -> bool:
        """Whether the API server knows the resource type (discovery). This requires no permission to list it."""
        try:
            found = await self._client.request("GET", f"/apis/{kind.group}/{kind.version}")
        except (NotFoundError, NotServedError):
            return False
        return any(each.get("name") == kind.plural for each in found.get("resources") or ())

    async def remove_entries(self, obj: Json, pointers: Sequence[str]) -> None:
        """Removes entries of any field manager by JSON pointer, in a JSON patch (RFC 6902) that tests the version
        first.

        Observed on Kubernetes 1.35: a failed test and a pointer to nothing are answered with 422 without further
        details; an invalid result with 422 and the field. The first two mean that the object differs from the one that
        the caller read.
        """
        kind, meta, status = resource_of(obj), obj["metadata"], of_status(pointers)
        patch = [{"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]}]
        patch += [{"op": "remove", "path": pointer} for pointer in pointers]
        try:
            await self._client.request(
                "PATCH",
                resource_path(kind, meta["namespace"], meta["name"], "status" if status else None),
                query={"fieldManager": FIELD_MANAGER},
                body=patch,
                content_type=JSON_PATCH_TYPE,
            )
        except RefusedError as error:
            if error.status == HTTPStatus.UNPROCESSABLE_ENTITY and "is invalid" not in str(error):
                raise ConflictError(f"{kind.kind} {meta['name']} changed since it was read") from error
            raise
        self._metrics.kube_write("patch", kind.kind)

    async def drop_finalizer(self, obj: Json, finalizer: str) -> None:
        """Removes one finalizer of any field manager, guarded by the object's resourceVersion.

        This is for objects restored from a backup or edited manually: another manager then owns the finalizer too, and
        a server-side apply without it leaves it in place. Raises ConflictError if the object has changed.
        """
        kind, meta = resource_of(obj), obj["metadata"]
        rest = [item for item in meta.get("finalizers") or () if item != finalizer]
        body = {"metadata": {"finalizers": rest, "resourceVersion": meta["resourceVersion"], "uid": meta["uid"]}}
        try:
            await self._client.request(
                "PATCH",
                resource_path(kind, meta["namespace"], meta["name"]),
                body=body,
                content_type=MERGE_TYPE,
            )
        except NotFoundError:
            return
        self._metrics.kube_write("patch", kind.kind)
