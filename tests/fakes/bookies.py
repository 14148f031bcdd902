"""BookKeeper's HTTP servers in memory: ports.BookiePort by host name.

Who is there is said by ``start`` and ``stop``; a start forgets whatever the process before it was told. What an
auto-recovery pod was asked to copy only waits in its queue: whoever plays the pods takes it out (``copying.py``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pulsar_operator.ports import DiskInfo, RefusedError, UnavailableError

GIB = 1 << 30


async def nothing(host: str) -> None:
    """Nobody wants to know."""


@dataclass
class Server:
    """One process."""

    bookie: bool
    """Whether it is a bookie; an auto-recovery pod otherwise."""
    incarnation: str = ""
    """Which process it is, such as its pod's UID."""
    readonly: bool = False
    queue: list[str] = field(default_factory=list)
    """Bookies whose entries it was asked to copy, and did not begin with."""


class FakeBookies:
    """The processes, and what is wrong with them."""

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}
        """Those that answer."""
        self.disks: dict[str, DiskInfo] = {}
        """By host; 10 GiB, half of it free, where nothing is said."""
        self.refusing: set[str] = set()
        """Bookies whose settings forbid a change of read-only."""
        self.failing: set[str] = set()
        """Hosts that fail inside, as with the metadata store away."""
        self.changed: Callable[[str], Awaitable[None]] = nothing
        """Called with the host of a bookie that became read-only or writable, before it answers."""

    def start(self, host: str, *, bookie: bool, incarnation: str = "") -> None:
        """A process begins, or begins again."""
        self.servers[host] = Server(bookie, incarnation)

    def stop(self, host: str) -> None:
        """A process ends, with all that it was told."""
        self.servers.pop(host, None)

    def see(self, host: str, *, bookie: bool, incarnation: str) -> None:
        """This process runs: begins, unless it is the one that ran already."""
        found = self.servers.get(host)
        if found is None or found.incarnation != incarnation:
            self.start(host, bookie=bookie, incarnation=incarnation)

    async def readonly(self, host: str) -> bool:
        """See ports.BookiePort."""
        return self._bookie(host).readonly

    async def set_readonly(self, host: str, readonly: bool) -> None:
        """See ports.BookiePort."""
        server = self._bookie(host)
        if server.readonly is readonly:
            return
        if host in self.refusing:
            words = "Bookie is disabled ReadOnly mode, cannot transit to readOnly mode"
            raise RefusedError(f"{host}: HTTP 400: {words}", status=400)
        server.readonly = readonly
        await self.changed(host)

    async def disk(self, host: str) -> DiskInfo:
        """See ports.BookiePort."""
        self._bookie(host)
        return self.disks.get(host, DiskInfo(5 * GIB, 10 * GIB))

    async def recover(self, host: str, bookie: str) -> None:
        """See ports.BookiePort."""
        self._server(host).queue.append(bookie)

    def _server(self, host: str) -> Server:
        if host not in self.servers:
            raise UnavailableError(f"{host}: connection refused")
        if host in self.failing:
            raise UnavailableError(f"{host}: HTTP 500: Internal Server Error", status=500)
        return self.servers[host]

    def _bookie(self, host: str) -> Server:
        server = self._server(host)
        if not server.bookie:
            raise UnavailableError(f"{host}: HTTP 500: Internal Server Error", status=500)
        return server
