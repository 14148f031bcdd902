"""The ports through a gate: everything the operator asks passes it on the way to the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsar_operator.adapters.kube_http import resource_of
from pulsar_operator.ports import (
    PODS,
    AdminEndpoint,
    ConflictError,
    Json,
    PulsarAdminPort,
    ResourceType,
)
from tests.fakes.kube import FakeKube
from tests.fakes.streams import Streaming
from tests.support.core.journal import ADMIN, EVICT, KUBERNETES, PortCall, TappedKube
from tests.support.faults.gate import Act, Gate


class GatedKube:
    """ports.KubePort through a gate."""

    def __init__(self, inner: TappedKube, fake: FakeKube, gate: Gate) -> None:
        """``fake`` is the server behind ``inner``: it tells an object's version."""
        self._inner, self._fake, self._gate = inner, fake, gate

    async def get(self, kind: ResourceType, namespace: str, name: str) -> Json | None:
        """See ports.KubePort."""
        found: Json | None = await self._read("get", kind, name, lambda: self._inner.get(kind, namespace, name))
        return found

    async def list(self, kind: ResourceType, namespace: str | None, *, selector: str | None = None) -> list[Json]:
        """See ports.KubePort."""
        found: list[Json] = await self._read(
            "list", kind, namespace or "*", lambda: self._inner.list(kind, namespace, selector=selector)
        )
        return found

    async def apply(self, manifest: Json, *, manager: str | None = None) -> Json:
        """See ports.KubePort."""
        verb = "finalizer" if "finalizers" in manifest["metadata"] else "apply"
        stored: Json = await self._write(verb, manifest, lambda: self._inner.apply(manifest, manager=manager))
        return stored

    async def apply_status(self, manifest: Json) -> Json:
        """See ports.KubePort."""
        version = self._version(manifest)

        async def act() -> Json:
            # The adapter reads the version first and makes the write conditional on it.
            if self._version(manifest) != version:
                raise ConflictError("the object has been modified")
            return await self._inner.apply_status(manifest)

        stored: Json = await self._write("status", manifest, act)
        return stored

    async def create(self, manifest: Json) -> Json:
        """See ports.KubePort."""
        stored: Json = await self._write("create", manifest, lambda: self._inner.create(manifest))
        return stored

    async def dry_run_create(self, manifest: Json) -> None:
        """See ports.KubePort."""
        call = PortCall(KUBERNETES, "dry run", manifest["kind"], manifest["metadata"]["name"], False)
        await self._gate.through(call, lambda: self._inner.dry_run_create(manifest))

    async def warnings(self, involved: Json, reason: str) -> list[Json]:
        """See ports.KubePort."""
        call = PortCall(KUBERNETES, "events", "Event", involved["metadata"]["name"], False)
        found: list[Json] = await self._gate.through(call, lambda: self._inner.warnings(involved, reason))
        return found

    async def delete(self, kind: ResourceType, namespace: str, name: str, *, uid: str) -> None:
        """See ports.KubePort."""
        call = PortCall(KUBERNETES, "delete", kind.kind, name, True)
        await self._gate.through(call, lambda: self._inner.delete(kind, namespace, name, uid=uid))

    async def evict(self, namespace: str, name: str, *, uid: str) -> str | None:
        """See ports.KubePort."""
        call = PortCall(KUBERNETES, EVICT, PODS.kind, name, True)
        refusal: str | None = await self._gate.through(call, lambda: self._inner.evict(namespace, name, uid=uid))
        return refusal

    async def remove_entries(self, obj: Json, pointers: Sequence[str]) -> None:
        """See ports.KubePort."""
        await self._write("remove", obj, lambda: self._inner.remove_entries(obj, pointers))

    async def drop_finalizer(self, obj: Json, finalizer: str) -> None:
        """See ports.KubePort."""
        await self._write("release", obj, lambda: self._inner.drop_finalizer(obj, finalizer))

    async def event(self, involved: Json, *, kind: str, reason: str, message: str) -> None:
        """See ports.KubePort."""
        await self._inner.event(involved, kind=kind, reason=reason, message=message)

    def _version(self, manifest: Json) -> str | None:
        meta = manifest["metadata"]
        found = self._fake.live(resource_of(manifest), meta["namespace"], meta["name"])
        return None if found is None else str(found["metadata"]["resourceVersion"])

    async def _read(self, verb: str, kind: ResourceType, name: str, act: Act) -> Any:
        return await self._gate.through(PortCall(KUBERNETES, verb, kind.kind, name, False), act)

    async def _write(self, verb: str, manifest: Json, act: Act) -> Any:
        call = PortCall(KUBERNETES, verb, manifest["kind"], manifest["metadata"]["name"], True)
        return await self._gate.through(call, act)


class GatedAdmin(Streaming):
    """ports.PulsarAdminPort through a gate."""

    def __init__(self, inner: PulsarAdminPort, gate: Gate) -> None:
        self._inner, self._gate = inner, gate

    async def call(
        self,
        endpoint: AdminEndpoint,
        method: str,
        path: Sequence[str],
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        deadline: float | None = None,
        text: bool = False,
    ) -> Any:
        """See ports.PulsarAdminPort."""
        call = PortCall(ADMIN, method, endpoint.cluster, "/".join(path), method != "GET")
        return await self._gate.through(
            call,
            lambda: self._inner.call(
                endpoint,
                method,
                path,
                query=query,
                body=body,
                content_type=content_type,
                deadline=deadline,
                text=text,
            ),
        )
