"""BookKeeper's HTTP servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class DiskInfo:
    """Room in a bookie's ledger directories, all of them together."""

    free: int
    """Bytes."""
    total: int
    """Bytes."""


class BookiePort(Protocol):
    """BookKeeper's own HTTP server: of a bookie, and of an auto-recovery pod.

    ``host`` is a DNS name or an address; the port is 8000. Every call raises UnavailableError when there is no usable
    answer: the process is not there, it failed inside (HTTP 500: it has no bookie, as in an auto-recovery pod, or the
    metadata store is away), or the deadline passed. NotFoundError means that the server has no such endpoint, and
    RefusedError that BookKeeper said no in its own words. Sources: package server.http.service of BookKeeper 4.17.2;
    seen on Pulsar 4.0.8.
    """

    async def readonly(self, host: str) -> bool:
        """Whether the bookie takes no new entries: told to, or because a disk is full."""

    async def set_readonly(self, host: str, readonly: bool) -> None:
        """Make the bookie read-only or writable; nothing happens where it is so already.

        Returns once it is registered so in the metadata store. It is kept in memory alone: a restart undoes it, and so
        may the bookie's disk monitor when a full directory has room again (class BookieStateManager; fixed in 4.17.3).
        Raises RefusedError where its settings forbid it.
        """

    async def disk(self, host: str) -> DiskInfo:
        """Room on the volumes of the bookie's ledgers."""

    async def recover(self, host: str, bookie: str) -> None:
        """Have an auto-recovery pod copy what the bookie of this id has to others, in the background.

        Returns when the request is queued, and nothing is ever reported: a second request waits behind the first one,
        the queue dies with the process, a copy stops at the first ledger that fails, and one that names no bookie is
        accepted too (class RecoveryBookieService). Ledgers that are not closed are fenced. The cookie stays.
        """
