"""An in-memory ZooKeeper behind ports.ZooKeeperPort, with a recorder of writes and hooks for faults."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from pulsar_operator.adapters.zookeeper_state import address_of
from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState
from pulsar_operator.ports import ConflictError, Node, NotFoundError, RefusedError, UnavailableError
from tests.fakes.values import Value

WRITES = frozenset({"create", "set", "delete"})


@dataclass(frozen=True)
class Call(Value):
    """One call as the hooks see it; ``path`` includes the chroot, ``index`` counts all calls from 0.

    The state of a server is asked by op "state", of no path.
    """

    servers: str
    op: str
    path: str
    index: int

    @property
    def is_write(self) -> bool:
        """Whether the call changes something."""
        return self.op in WRITES


T = TypeVar("T")
Hook = Callable[[Call], Awaitable[None] | None]
"""Raises what the call shall fail with; as ``before`` nothing happened, as ``after`` it took effect. May also wait."""


@dataclass
class FakeEnsemble:
    """The nodes of one ensemble, by full path."""

    servers: str
    nodes: dict[str, Node] = field(default_factory=lambda: {"/": Node(b"", 0)})
    writes: list[tuple[str, str]] = field(default_factory=list)
    """(op, path) of every successful write, in order; parents made on the way are not listed."""
    reachable: bool = True
    watches: dict[str, list[Callable[[], None]]] = field(default_factory=dict)
    """By path, who wants to be told of the next change."""
    transactions: dict[str, int] = field(default_factory=dict)
    """By path, the transaction that wrote the node last."""
    transaction: int = 0

    def tree(self, below: str = "/") -> dict[str, bytes]:
        """Path to content of every node but the root."""
        prefix = below.rstrip("/") + "/"
        return {path: node.data for path, node in sorted(self.nodes.items()) if path != "/" and path.startswith(prefix)}

    def versions(self) -> dict[str, int]:
        """Path to version of every node."""
        return {path: node.version for path, node in sorted(self.nodes.items())}

    def put(self, path: str, data: bytes | str = b"") -> None:
        """Create or replace a node as some other client would: unrecorded, the version grows."""
        raw = data.encode() if isinstance(data, str) else data
        self._parents(path)
        old = self.nodes.get(path)
        version, created = (0, self.transaction + 1) if old is None else (old.version + 1, old.created)
        self.nodes[path] = Node(raw, version, created)
        self.changed(path)

    def remove(self, path: str) -> None:
        """Delete a node as some other client would."""
        del self.nodes[path]
        self.changed(path)

    def changed(self, path: str) -> None:
        """Tell who watches a node, once."""
        self.transaction += 1
        self.transactions[path] = self.transaction
        for record_event in self.watches.pop(path, []):
            asyncio.get_running_loop().call_soon(record_event)

    def end_sessions(self) -> None:
        """All sessions expire; whoever watched is told."""
        for path in list(self.watches):
            for record_event in self.watches.pop(path):
                asyncio.get_running_loop().call_soon(record_event)

    def wipe(self) -> None:
        """Lose everything, like an ensemble whose volume was emptied."""
        self.nodes = {"/": Node(b"", 0)}

    def children(self, path: str) -> list[str]:
        """Names directly below a path, sorted."""
        prefix = path.rstrip("/") + "/"
        names = [p[len(prefix) :] for p in self.nodes if p != "/" and p.startswith(prefix)]
        return sorted(name for name in names if "/" not in name)

    def _parents(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        while parent:
            if parent not in self.nodes:
                self.nodes[parent] = Node(b"", 0, self.transaction + 1)
                self.changed(parent)
            parent = parent.rpartition("/")[0]


class FakeZooKeeper:
    """ports.ZooKeeperPort in memory. Every servers string is an ensemble of its own, reachable unless told otherwise.

    The hooks ``before`` and ``after`` run around every operation; ``writes`` lists what took effect.
    """

    def __init__(self) -> None:
        self.ensembles: dict[str, FakeEnsemble] = {}
        self.calls: list[Call] = []
        self.writes: list[tuple[str, str]] = []
        """(op, path) of every successful write to any ensemble, in order."""
        self.before: list[Hook] = []
        self.after: list[Hook] = []
        self.states: dict[str, ServerState] = {}
        """What each server (host:port) says it is; one that is not here does not answer."""
        self.closed = False

    def ensemble(self, servers: str) -> FakeEnsemble:
        """The ensemble behind a servers string, made at first mention."""
        return self.ensembles.setdefault(servers, FakeEnsemble(servers))

    async def session(self, servers: str, chroot: str | None = None) -> FakeSession:
        """See ports.ZooKeeperPort."""
        await asyncio.sleep(0)
        root = "" if chroot in (None, "", "/") else _checked(str(chroot))
        if self.closed or not self.ensemble(servers).reachable:
            raise UnavailableError(f"no ZooKeeper server of {servers} accepted a session")
        return FakeSession(self, self.ensemble(servers), root)

    async def server_state(self, server: str) -> ServerState:
        """See ports.ZooKeeperPort."""
        address_of(server)
        call = Call(server, "state", "", len(self.calls))
        self.calls.append(call)
        await asyncio.sleep(0)
        if self.closed or server not in self.states:
            raise UnavailableError(f"ZooKeeper server {server} does not answer")
        await run_hooks(self.before, call)
        found = self.states[server]
        await run_hooks(self.after, call)
        return found

    async def close(self) -> None:
        """See ports.ZooKeeperPort."""
        self.closed = True


class FakeSession:
    """ports.ZooKeeperSession on a FakeEnsemble."""

    def __init__(self, port: FakeZooKeeper, ensemble: FakeEnsemble, root: str) -> None:
        self._port = port
        self._ensemble = ensemble
        self._root = root

    async def get(self, path: str) -> Node | None:
        """See ports.ZooKeeperSession."""
        return await self._call("get", path, self._ensemble.nodes.get)

    async def children(self, path: str) -> list[str] | None:
        """See ports.ZooKeeperSession."""
        return await self._call(
            "children", path, lambda full: self._ensemble.children(full) if full in self._ensemble.nodes else None
        )

    async def create(self, path: str, data: bytes) -> None:
        """See ports.ZooKeeperSession."""

        def create(full: str) -> None:
            if full in self._ensemble.nodes:
                raise ConflictError(f"{full} exists already")
            self._ensemble.put(full, data)

        await self._call("create", path, create)

    async def set(self, path: str, data: bytes, *, version: int) -> None:
        """See ports.ZooKeeperSession."""

        def replace(full: str) -> None:
            self._expect(full, version)
            self._ensemble.put(full, data)

        await self._call("set", path, replace)

    async def delete(self, path: str, *, version: int) -> None:
        """See ports.ZooKeeperSession."""

        def remove(full: str) -> None:
            self._expect(full, version)
            if self._ensemble.children(full):
                raise ConflictError(f"{full} has children")
            self._ensemble.remove(full)

        await self._call("delete", path, remove)

    async def watch(self, path: str, on_change: Callable[[], None]) -> int | None:
        """See ports.ZooKeeperSession."""
        ensemble = self._ensemble

        def watch(full: str) -> int | None:
            ensemble.watches.setdefault(full, []).append(on_change)
            return ensemble.transactions.get(full, 0) if full in ensemble.nodes else None

        return await self._call("watch", path, watch)

    def _expect(self, full: str, version: int) -> None:
        node = self._ensemble.nodes.get(full)
        if version < 0:
            raise ConflictError(f"{full} cannot be changed at version {version}")
        if node is None:
            raise NotFoundError(f"{full} does not exist")
        if node.version != version:
            raise ConflictError(f"{full} was changed by another writer")

    async def _call(self, op: str, path: str, act: Callable[[str], T]) -> T:
        full = (self._root + ("" if path == "/" else _checked(path))) or "/"
        call = Call(self._ensemble.servers, op, full, len(self._port.calls))
        self._port.calls.append(call)
        await asyncio.sleep(0)  # as with the real thing, other tasks run in between
        if self._port.closed or not self._ensemble.reachable:
            raise UnavailableError(f"the connection to ZooKeeper at {self._ensemble.servers} was lost during {op}")
        await run_hooks(self._port.before, call)
        result = act(full)
        if call.is_write:
            self._ensemble.writes.append((op, full))
            self._port.writes.append((op, full))
        await run_hooks(self._port.after, call)
        return result


async def run_hooks(hooks: list[Hook], call: Call) -> None:
    """Call each hook and wait for those that want it."""
    for hook in list(hooks):
        pause = hook(call)
        if inspect.isawaitable(pause):
            await pause


def _checked(path: str) -> str:
    segments = path.split("/")
    if len(segments) < 2 or segments[0] != "" or any(s in ("", ".", "..") for s in segments[1:]) or "\0" in path:
        raise RefusedError(f"{path!r} is not a ZooKeeper path")
    return path
