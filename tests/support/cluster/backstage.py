"""Kubernetes as everybody but the operator uses it: users, controllers of workloads, the kubelet, the collector.

The same few verbs over the API server in memory and over a real one; nothing here is counted as the operator's.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from pulsar_operator.adapters.kube_http import APPLY_TYPE, MERGE_TYPE, KubeClient, resource_of, resource_path
from pulsar_operator.ports import EVENTS, PODS, Json, NotFoundError, ResourceType
from tests.fakes.kube import FakeKube


class Backstage(Protocol):
    """What other people do."""

    async def all(self, kind: ResourceType) -> list[Json]:
        """Every object of a kind in the world's Kubernetes namespaces, by namespace and name; not to be changed."""

    async def live(self, kind: ResourceType, namespace: str, name: str) -> Json | None:
        """An object, or None."""

    async def put(self, manifest: Json) -> Json:
        """A user applies an object."""

    async def edit(self, kind: ResourceType, namespace: str, name: str, change: Callable[[Json], None]) -> Json:
        """Somebody changes an object in place; not its status."""

    async def set_status(self, kind: ResourceType, namespace: str, name: str, status: Json) -> None:
        """A controller replaces the fields of the status it names."""

    async def report(self, involved: Json, reason: str, message: str) -> None:
        """A controller records a Warning event about an object."""

    async def remove(self, kind: ResourceType, namespace: str, name: str) -> None:
        """Somebody deletes an object; finalizers hold it. Nothing happens where there is none."""


class FakeBackstage:
    """Over FakeKube."""

    def __init__(self, kube: FakeKube) -> None:
        self.kube = kube

    async def all(self, kind: ResourceType) -> list[Json]:
        """See Backstage."""
        return self.kube.shown(kind)

    async def live(self, kind: ResourceType, namespace: str, name: str) -> Json | None:
        """See Backstage."""
        return self.kube.live(kind, namespace, name)

    async def put(self, manifest: Json) -> Json:
        """See Backstage. Admission is asked about pods alone."""
        meta = manifest["metadata"]
        if manifest["kind"] == PODS.kind and self.kube.live(PODS, meta["namespace"], meta["name"]) is None:
            self.kube.admit(manifest)
        return self.kube.put(manifest)

    async def edit(self, kind: ResourceType, namespace: str, name: str, change: Callable[[Json], None]) -> Json:
        """See Backstage."""
        return self.kube.edit(kind, namespace, name, change)

    async def set_status(self, kind: ResourceType, namespace: str, name: str, status: Json) -> None:
        """See Backstage."""
        found = self.kube.live(kind, namespace, name)
        if found is not None:
            self.kube.set_status(kind, namespace, name, {**(found.get("status") or {}), **status})

    async def report(self, involved: Json, reason: str, message: str) -> None:
        """See Backstage."""
        self.kube.report(involved, reason, message)

    async def remove(self, kind: ResourceType, namespace: str, name: str) -> None:
        """See Backstage."""
        if self.kube.live(kind, namespace, name) is not None:
            self.kube.remove(kind, namespace, name)


class HttpBackstage:
    """Over a real API server; ``namespaces`` are those of the world.

    Nobody else writes there: a list is read again after a write of its kind only, which who makes one elsewhere tells
    by :meth:`forget`.
    """

    def __init__(self, client: KubeClient, namespaces: tuple[str, ...]) -> None:
        self._client = client
        self._namespaces = namespaces
        self._known: dict[str, list[Json]] = {}

    def forget(self, kind: str) -> None:
        """Somebody writes an object of this kind."""
        self._known.pop(kind, None)

    async def all(self, kind: ResourceType) -> list[Json]:
        """See Backstage."""
        if kind.kind not in self._known:
            found: list[Json] = []
            for namespace in self._namespaces:
                page = await self._client.request("GET", resource_path(kind, namespace))
                items = page.get("items") or ()
                found += [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in items]
            self._known[kind.kind] = found
        return list(self._known[kind.kind])

    async def live(self, kind: ResourceType, namespace: str, name: str) -> Json | None:
        """See Backstage."""
        try:
            return await self._client.request("GET", resource_path(kind, namespace, name))
        except NotFoundError:
            return None

    async def put(self, manifest: Json) -> Json:
        """See Backstage: server-side apply, as kubectl does."""
        meta = manifest["metadata"]
        self.forget(manifest["kind"])
        return await self._client.request(
            "PATCH",
            resource_path(resource_of(manifest), meta["namespace"], meta["name"]),
            query={"fieldManager": "user", "force": "true", "fieldValidation": "Strict"},
            body=manifest,
            content_type=APPLY_TYPE,
        )

    async def edit(self, kind: ResourceType, namespace: str, name: str, change: Callable[[Json], None]) -> Json:
        """See Backstage."""
        path = resource_path(kind, namespace, name)
        obj = await self._client.request("GET", path)
        change(obj)
        self.forget(kind.kind)
        return await self._client.request("PUT", path, body=obj)

    async def set_status(self, kind: ResourceType, namespace: str, name: str, status: Json) -> None:
        """See Backstage."""
        path = resource_path(kind, namespace, name, "status")
        self.forget(kind.kind)
        try:
            await self._client.request("PATCH", path, body={"status": status}, content_type=MERGE_TYPE)
        except NotFoundError:
            return

    async def report(self, involved: Json, reason: str, message: str) -> None:
        """See Backstage."""
        meta = involved["metadata"]
        about = {"kind": involved["kind"], **{key: meta[key] for key in ("namespace", "name", "uid")}}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "metadata": {"generateName": f"{meta['name']}.", "namespace": meta["namespace"]},
            "involvedObject": about,
            "type": "Warning",
            "reason": reason,
            "message": message,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
        await self._client.request("POST", resource_path(EVENTS, meta["namespace"]), body=body)

    async def remove(self, kind: ResourceType, namespace: str, name: str) -> None:
        """See Backstage."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        self.forget(kind.kind)
        try:
            await self._client.request("DELETE", resource_path(kind, namespace, name), body=options)
        except NotFoundError:
            return
