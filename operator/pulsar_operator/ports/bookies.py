"""BookKeeper's HTTP servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class DiskInfo:
    """Total disk space of all ledger directories of a bookie."""

    free: int
    """Free bytes."""
    total: int
    """Total bytes."""


class BookiePort(Protocol):
    """BookKeeper's own HTTP server: of a bookie, and of an auto-recovery pod.

    ``host`` is a DNS name or an address; the port is 8000. Every call raises UnavailableError if there is no usable
    answer: the process does not run, it had an internal error (HTTP 500: it has no bookie, as in an auto-recovery pod,
    or the metadata store is unavailable), or the deadline passed. NotFoundError means that the server has no such
    endpoint, and RefusedError that BookKeeper refused the request, with its message. Sources: package
    server.http.service of BookKeeper 4.17.2; observed on Pulsar 4.0.8.
    """

    async def readonly(self, host: str) -> bool:
        """Whether the bookie is read-only: set by a request, or because of full disks."""

    async def set_readonly(self, host: str, readonly: bool) -> None:
        """Makes the bookie read-only or writable. Does nothing if it is in that state already.

        Returns once the metadata store has the state. A bookie keeps it in memory only: a restart resets it, and so may
        the bookie's disk monitor when a full directory has room again (class BookieStateManager; fixed in 4.17.3).
        Raises RefusedError if its settings forbid it.
        """

    async def disk(self, host: str) -> DiskInfo:
        """Returns the disk space on the volumes of the bookie's ledgers."""

    async def recover(self, host: str, bookie: str) -> None:
        """Makes an auto-recovery pod copy the data of the bookie with this id to others, in the background.

        Returns when the request is queued; BookKeeper reports no result. A second request waits for the first one. The
        queue is lost when the process ends, a copy stops at the first ledger that fails, and a request with an unknown
        bookie is accepted too (class RecoveryBookieService). Ledgers that are not closed are fenced. The cookie is
        kept.
        """
