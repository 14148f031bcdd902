"""Fault hooks and a write recorder around any ZooKeeperPort, so that the real one can be killed like the fake."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState
from pulsar_operator.ports import Node, ZooKeeperPort, ZooKeeperSession
from tests.fakes.zookeeper import Call, Hook, run_hooks

T = TypeVar("T")


class HookedZooKeeper:
    """A ZooKeeperPort that calls ``before`` and ``after`` around every operation of the port inside."""

    def __init__(self, inner: ZooKeeperPort) -> None:
        self._inner = inner
        self.before: list[Hook] = []
        self.after: list[Hook] = []
        self.calls: list[Call] = []
        self.writes: list[tuple[str, str]] = []

    async def session(self, servers: str, chroot: str | None = None) -> ZooKeeperSession:
        """See ports.ZooKeeperPort."""
        return _HookedSession(self, await self._inner.session(servers, chroot), servers, chroot or "")

    async def server_state(self, server: str) -> ServerState:
        """See ports.ZooKeeperPort."""
        call = Call(server, "state", "", len(self.calls))
        self.calls.append(call)
        await run_hooks(self.before, call)
        found = await self._inner.server_state(server)
        await run_hooks(self.after, call)
        return found

    async def close(self) -> None:
        """See ports.ZooKeeperPort."""
        await self._inner.close()


class _HookedSession:
    def __init__(self, port: HookedZooKeeper, inner: ZooKeeperSession, servers: str, root: str) -> None:
        self._port, self._inner, self._servers, self._root = port, inner, servers, root

    async def get(self, path: str) -> Node | None:
        return await self._around("get", path, self._inner.get(path))

    async def children(self, path: str) -> list[str] | None:
        return await self._around("children", path, self._inner.children(path))

    async def create(self, path: str, data: bytes) -> None:
        await self._around("create", path, self._inner.create(path, data))

    async def set(self, path: str, data: bytes, *, version: int) -> None:
        await self._around("set", path, self._inner.set(path, data, version=version))

    async def delete(self, path: str, *, version: int) -> None:
        await self._around("delete", path, self._inner.delete(path, version=version))

    async def watch(self, path: str, on_change: Callable[[], None]) -> int | None:
        return await self._around("watch", path, self._inner.watch(path, on_change))

    async def _around(self, op: str, path: str, action: Awaitable[T]) -> T:
        call = Call(self._servers, op, self._root + path, len(self._port.calls))
        self._port.calls.append(call)
        try:
            await run_hooks(self._port.before, call)
        except BaseException:
            action.close()  # type: ignore[attr-defined]  # a coroutine that is never awaited
            raise
        result = await action
        if call.is_write:
            self._port.writes.append((op, call.path))
        await run_hooks(self._port.after, call)
        return result
