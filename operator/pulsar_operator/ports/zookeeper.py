"""ZooKeeper ensembles: those of clusters, and configuration stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState


@dataclass(frozen=True)
class Node:
    """Content and version of a znode."""

    data: bytes
    version: int
    created: int = field(default=0, compare=False)
    """The transaction that created it. A znode that was deleted and created again has another one."""


class ZooKeeperSession(Protocol):
    """A connected session. Paths are relative to the chroot it was opened with."""

    async def get(self, path: str) -> Node | None:
        """Returns content and version; None if the node does not exist."""

    async def children(self, path: str) -> list[str] | None:
        """Returns the names of the children, sorted; None if the node does not exist."""

    async def create(self, path: str, data: bytes) -> None:
        """Creates a persistent node and its missing parents (empty). Raises ConflictError if it exists."""

    async def set(self, path: str, data: bytes, *, version: int) -> None:
        """Replaces the content of that version. Raises ConflictError for another version, NotFoundError if it does not
        exist."""

    async def delete(self, path: str, *, version: int) -> None:
        """Deletes that version of a node without children. Raises ConflictError for another version or if it has
        children."""

    async def watch(self, path: str, on_change: Callable[[], None]) -> int | None:
        """Calls ``on_change`` once: when the node is created, changed or deleted, or the session ends.

        Returns the transaction that last wrote the node, which distinguishes two states of it; None if it does not
        exist. ``on_change`` runs in the event loop; it is not called if this method raises. A change of children does
        not count.
        """


class ZooKeeperPort(Protocol):
    """Opens and keeps sessions to ZooKeeper ensembles."""

    async def session(self, servers: str, chroot: str | None = None) -> ZooKeeperSession:
        """Returns a live session, which is kept and shared. ``servers`` is host:port,... Nothing is created, not even
        the chroot.

        Raises UnavailableError if no server answers within the deadline.
        """

    async def server_state(self, server: str) -> ServerState:
        """Returns the current state that one server (host:port) reports. It needs no session and no quorum.

        Raises UnavailableError if it does not answer within 5 s, serves no requests because it is in no quorum, or
        answers anything else; RefusedError for a server that is not host:port.
        """

    async def close(self) -> None:
        """Closes all sessions."""
