"""What the operator does to the world, in order: taps around the four ports, for counting, failing and killing.

A tap calls :meth:`Journal.around` for every call. A call that fails or is killed *before* had no effect; *after*, it
took effect and only the reply was not seen. Events are kept in a list and are not counted as writes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState
from pulsar_operator.ports import (
    PODS,
    AdminEndpoint,
    BookiePort,
    DiskInfo,
    Json,
    KubePort,
    Node,
    PortError,
    PulsarAdminPort,
    ResourceType,
    ZooKeeperPort,
    ZooKeeperSession,
)
from tests.fakes.killed import Killed
from tests.fakes.streams import Streaming
from tests.fakes.values import Value

T = TypeVar("T")
KUBERNETES, ZOOKEEPER, ADMIN, BOOKIES = "kubernetes", "zookeeper", "admin", "bookies"
EVICT = "evict"
"""Verb of an eviction."""


@dataclass(frozen=True)
class PortCall(Value):
    """One call of a port."""

    port: str
    verb: str
    kind: str
    """Kind of Kubernetes object; ensemble of a znode, or a server of it; cluster of an admin call; host of a bookie."""
    name: str
    is_write: bool

    def __str__(self) -> str:
        return f"{self.port:10} {self.verb:12} {self.kind} {self.name}"


Hook = Callable[[PortCall], None]


@dataclass(frozen=True)
class Event(Value):
    """An event the operator recorded."""

    kind: str
    reason: str
    message: str
    object_kind: str
    object_name: str


class Journal:
    """All calls of one world."""

    def __init__(self) -> None:
        self.calls: list[PortCall] = []
        self.attempts: list[PortCall] = []
        """Writes that were begun."""
        self.effects: list[PortCall] = []
        """Writes that were accepted."""
        self.events: list[Event] = []
        self.before: list[Hook] = []
        self.after: list[Hook] = []
        self._kill: tuple[int, str] | None = None

    def arm(self, number: int, when: str) -> None:
        """End the operator ``when`` ("before" or "after") the write of this number: a position in ``attempts``."""
        self._kill = (number, when)

    def disarm(self) -> None:
        """Let everything pass."""
        self._kill = None

    @property
    def armed(self) -> bool:
        """Whether the kill is still to come."""
        return self._kill is not None

    def since(self, mark: int) -> list[PortCall]:
        """Writes accepted after a mark (a length of ``effects``)."""
        return self.effects[mark:]

    def of(self, port: str, verb: str | None = None, *, kind: str | None = None) -> list[str]:
        """Names in accepted writes of a port."""
        return [
            c.name
            for c in self.effects
            if c.port == port and (verb is None or c.verb == verb) and (kind is None or c.kind == kind)
        ]

    def pods_gone(self) -> list[str]:
        """Names of pods that were deleted or evicted, in order."""
        gone = [c for c in self.effects if c.port == KUBERNETES and c.kind == "Pod" and c.verb in ("delete", EVICT)]
        return [c.name for c in gone]

    async def around(
        self, call: PortCall, action: Callable[[], Awaitable[T]], took: Callable[[T], bool] = lambda result: True
    ) -> T:
        """Make the call, with everything that may happen to it; ``took``: whether the answer tells of an effect."""
        self.calls.append(call)
        number = len(self.attempts)
        if call.is_write:
            self._killed(number, "before")
            self.attempts.append(call)
        for hook in list(self.before):
            hook(call)
        try:
            result = await action()
        except PortError:
            if call.is_write:
                self._killed(number, "after")
            raise
        if not took(result):
            self._killed(number, "after")
            return result
        if call.is_write:
            self.effects.append(call)
            self._killed(number, "after")
        for hook in list(self.after):
            hook(call)
        return result

    def _killed(self, number: int, when: str) -> None:
        if self._kill == (number, when):
            self._kill = None
            raise Killed


class TappedKube:
    """ports.KubePort through a journal; events stay in it."""

    def __init__(self, inner: KubePort, journal: Journal) -> None:
        self._inner, self._journal = inner, journal

    async def get(self, kind: ResourceType, namespace: str, name: str) -> Json | None:
        """See ports.KubePort."""
        return await self._around("get", kind.kind, name, lambda: self._inner.get(kind, namespace, name), write=False)

    async def list(self, kind: ResourceType, namespace: str | None, *, selector: str | None = None) -> list[Json]:
        """See ports.KubePort."""
        text = f"{namespace or '*'} {selector or ''}"
        return await self._around(
            "list", kind.kind, text, lambda: self._inner.list(kind, namespace, selector=selector), write=False
        )

    async def apply(self, manifest: Json, *, manager: str | None = None) -> Json:
        """See ports.KubePort."""
        verb = "finalizer" if "finalizers" in manifest["metadata"] else "apply"
        return await self._write(verb, manifest, lambda: self._inner.apply(manifest, manager=manager))

    async def apply_status(self, manifest: Json) -> Json:
        """See ports.KubePort."""
        return await self._write("status", manifest, lambda: self._inner.apply_status(manifest))

    async def create(self, manifest: Json) -> Json:
        """See ports.KubePort."""
        return await self._write("create", manifest, lambda: self._inner.create(manifest))

    async def dry_run_create(self, manifest: Json) -> None:
        """See ports.KubePort. Nothing is written."""
        name = manifest["metadata"]["name"]
        await self._around("dry run", manifest["kind"], name, lambda: self._inner.dry_run_create(manifest), write=False)

    async def warnings(self, involved: Json, reason: str) -> list[Json]:
        """See ports.KubePort."""
        name = involved["metadata"]["name"]
        return await self._around("events", "Event", name, lambda: self._inner.warnings(involved, reason), write=False)

    async def delete(self, kind: ResourceType, namespace: str, name: str, *, uid: str) -> None:
        """See ports.KubePort."""
        await self._around("delete", kind.kind, name, lambda: self._inner.delete(kind, namespace, name, uid=uid))

    async def evict(self, namespace: str, name: str, *, uid: str) -> str | None:
        """See ports.KubePort. What a budget refuses is an attempt without an effect."""
        call = PortCall(KUBERNETES, EVICT, PODS.kind, name, True)
        return await self._journal.around(
            call, lambda: self._inner.evict(namespace, name, uid=uid), lambda refusal: refusal is None
        )

    async def remove_entries(self, obj: Json, pointers: Sequence[str]) -> None:
        """See ports.KubePort."""
        name = obj["metadata"]["name"]
        await self._around("remove", obj["kind"], name, lambda: self._inner.remove_entries(obj, pointers))

    async def drop_finalizer(self, obj: Json, finalizer: str) -> None:
        """See ports.KubePort."""
        name = obj["metadata"]["name"]
        await self._around("release", obj["kind"], name, lambda: self._inner.drop_finalizer(obj, finalizer))

    async def event(self, involved: Json, *, kind: str, reason: str, message: str) -> None:
        """See ports.KubePort."""
        self._journal.events.append(Event(kind, reason, message, involved["kind"], involved["metadata"]["name"]))

    async def _write(self, verb: str, manifest: Json, action: Callable[[], Awaitable[Json]]) -> Json:
        return await self._around(verb, manifest["kind"], manifest["metadata"]["name"], action)

    async def _around(
        self, verb: str, kind: str, name: str, action: Callable[[], Awaitable[T]], *, write: bool = True
    ) -> T:
        return await self._journal.around(PortCall(KUBERNETES, verb, kind, name, write), action)


class TappedZooKeeper:
    """ports.ZooKeeperPort through a journal."""

    def __init__(self, inner: ZooKeeperPort, journal: Journal) -> None:
        self._inner, self._journal = inner, journal

    async def session(self, servers: str, chroot: str | None = None) -> ZooKeeperSession:
        """See ports.ZooKeeperPort."""
        return _TappedSession(await self._inner.session(servers, chroot), self._journal, servers, chroot or "")

    async def server_state(self, server: str) -> ServerState:
        """See ports.ZooKeeperPort."""
        call = PortCall(ZOOKEEPER, "state", server, "", False)
        return await self._journal.around(call, lambda: self._inner.server_state(server))

    async def close(self) -> None:
        """See ports.ZooKeeperPort."""
        await self._inner.close()


class _TappedSession:
    def __init__(self, inner: ZooKeeperSession, journal: Journal, servers: str, root: str) -> None:
        self._inner, self._journal, self._servers, self._root = inner, journal, servers, root

    async def get(self, path: str) -> Node | None:
        return await self._around("get", path, lambda: self._inner.get(path), write=False)

    async def children(self, path: str) -> list[str] | None:
        return await self._around("children", path, lambda: self._inner.children(path), write=False)

    async def create(self, path: str, data: bytes) -> None:
        await self._around("create", path, lambda: self._inner.create(path, data))

    async def set(self, path: str, data: bytes, *, version: int) -> None:
        await self._around("set", path, lambda: self._inner.set(path, data, version=version))

    async def delete(self, path: str, *, version: int) -> None:
        await self._around("delete", path, lambda: self._inner.delete(path, version=version))

    async def _around(self, verb: str, path: str, action: Callable[[], Awaitable[T]], *, write: bool = True) -> T:
        return await self._journal.around(PortCall(ZOOKEEPER, verb, self._servers, self._root + path, write), action)


class TappedAdmin(Streaming):
    """ports.PulsarAdminPort through a journal."""

    def __init__(self, inner: PulsarAdminPort, journal: Journal) -> None:
        self._inner, self._journal = inner, journal

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

        def action() -> Awaitable[Any]:
            return self._inner.call(
                endpoint,
                method,
                path,
                query=query,
                body=body,
                content_type=content_type,
                deadline=deadline,
                text=text,
            )

        call = PortCall(ADMIN, method, endpoint.cluster, "/".join(path), method != "GET")
        return await self._journal.around(call, action)


class TappedBookies:
    """ports.BookiePort through a journal."""

    def __init__(self, inner: BookiePort, journal: Journal) -> None:
        self._inner, self._journal = inner, journal

    async def readonly(self, host: str) -> bool:
        """See ports.BookiePort."""
        call = PortCall(BOOKIES, "readonly", host, "", False)
        return await self._journal.around(call, lambda: self._inner.readonly(host))

    async def set_readonly(self, host: str, readonly: bool) -> None:
        """See ports.BookiePort."""
        call = PortCall(BOOKIES, "set_readonly", host, str(readonly).lower(), True)
        await self._journal.around(call, lambda: self._inner.set_readonly(host, readonly))

    async def disk(self, host: str) -> DiskInfo:
        """See ports.BookiePort."""
        return await self._journal.around(PortCall(BOOKIES, "disk", host, "", False), lambda: self._inner.disk(host))

    async def recover(self, host: str, bookie: str) -> None:
        """See ports.BookiePort."""
        call = PortCall(BOOKIES, "recover", host, bookie, True)
        await self._journal.around(call, lambda: self._inner.recover(host, bookie))
