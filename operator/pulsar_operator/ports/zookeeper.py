"""ZooKeeper ensembles: those of clusters, and configuration stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pulsar_operator.domain.dataplane.rollout.zookeeper_servers import ServerState


@dataclass(frozen=True)
class Node:
    """A znode's content and version."""

    data: bytes
    version: int
    created: int = field(default=0, compare=False)
    """The transaction that created it: a znode that was deleted and made again has another."""


class ZooKeeperSession(Protocol):
    """A connected session; paths are relative to the chroot it was opened with."""

    async def get(self, path: str) -> Node | None:
        """Content and version, or None."""

    async def children(self, path: str) -> list[str] | None:
        """Names of the children, sorted, or None when the node does not exist."""

    async def create(self, path: str, data: bytes) -> None:
        """Create a persistent node and its missing parents (empty). ConflictError when it exists."""

    async def set(self, path: str, data: bytes, *, version: int) -> None:
        """Replace the content of that version. ConflictError on another version, NotFoundError when gone."""

    async def delete(self, path: str, *, version: int) -> None:
        """Delete that version of a node without children. ConflictError on another version or with children."""

    async def watch(self, path: str, on_change: Callable[[], None]) -> int | None:
        """Have ``on_change`` called once: when the node is created, changed or deleted, or the session ends.

        Returns the transaction that wrote the node last, which distinguishes two states of it, or None while it does
        not exist. ``on_change`` runs in the event loop; it is not called if this raises. A change of children does not
        count.
        """


class ZooKeeperPort(Protocol):
    """Opens and keeps sessions to ZooKeeper ensembles."""

    async def session(self, servers: str, chroot: str | None = None) -> ZooKeeperSession:
        """A live session (kept and shared). ``servers`` is host:port,... Creates nothing, not even the chroot.

        Raises UnavailableError when no server answers within the deadline.
        """

    async def server_state(self, server: str) -> ServerState:
        """The current state that one server (host:port) reports; needs no session and no quorum.

        Raises UnavailableError when it does not answer within 5 s, serves no requests because it is in no quorum, or
        answers anything else; RefusedError for a server that is not host:port.
        """

    async def close(self) -> None:
        """Close all sessions."""
