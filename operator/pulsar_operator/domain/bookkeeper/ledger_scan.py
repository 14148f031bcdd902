"""Result of one scan of all ledgers: which of them may have entries on the given bookies. Pure values.

Produced by controllers/dataplane/bookkeeper/ledger_scan.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pulsar_operator.domain.bookkeeper.ledgers import LedgerState, LedgerUse

NAMED: Final = 20
"""Maximum number of ledgers that a message names."""
WRITTEN_BY_TOPICS: Final = frozenset({LedgerUse.DATA, LedgerUse.CURSOR})


@dataclass(frozen=True)
class NamingLedger:
    """A ledger that may have entries on one of the given bookies."""

    ledger: int
    state: LedgerState
    bookies: frozenset[str]
    """The given bookies that it names."""
    use: LedgerUse
    topic: str | None
    """Full name of its topic; None if the metadata has none."""
    cursor: str | None
    """The subscription, for the ledger of a cursor."""
    ensemble_size: int = 1
    """Number of bookies of each of its segments."""
    only: bool = False
    """Whether entries of it may be only on the given bookies."""

    @property
    def writer(self) -> str | None:
        """Returns the topic whose broker may be writing the ledger, and closes it when the topic is unloaded; None if
        there is none.

        Ledgers of compaction, schemas and delayed messages are written once by their creator and only count once they
        were closed: if fenced, they are created again (classes Compactor, BookkeeperSchemaStorage and
        BookkeeperBucketSnapshotStorage of Pulsar 4.0.8).
        """
        unfinished = self.state is not LedgerState.CLOSED
        return self.topic if unfinished and self.use in WRITTEN_BY_TOPICS else None

    def __str__(self) -> str:
        return f"{self.ledger} ({self.topic})" if self.topic else str(self.ledger)


@dataclass(frozen=True)
class Handles:
    """The topics that may write to ledgers of a bookie, according to an observation."""

    after: str = ""
    """Only topics whose names sort after this one."""
    unloaded: int = -1
    """Ledgers up to this id are done: their topics were unloaded since the bookie stopped accepting entries."""
    suspect: int | None = None
    """From this id on a closed ledger may have named a bookie that was writable for a moment; None if none may."""


@dataclass(frozen=True)
class LedgerScan:
    """A scan in which all ledgers were read once, one after another. Ledgers that are created in the meantime may be
    missed.

    So the bookies must not accept new entries when the scan begins. Only ``clear`` proves that no ledger names them.
    """

    scanned: int
    """Number of ledgers read, without those that were deleted before they could be read."""
    naming: int
    """Number of ledgers that may have entries on one of the bookies."""
    unfinished: int
    """Number of these that are not closed."""
    undecodable: int
    """Number of nodes that cannot be parsed and may therefore name any bookie: ledgers, and nodes above ledgers."""
    not_closed: tuple[NamingLedger, ...]
    """The first of these ledgers that a topic writes, and as many others, by id."""
    closed: tuple[NamingLedger, ...]
    """The first closed ones, by id."""
    unreadable: tuple[str, ...]
    """Paths of the first undecodable nodes."""
    widest: NamingLedger | None = None
    """The ledger with the largest ensemble of those that name a bookie; None if there is none."""
    writers: tuple[str, ...] = ()
    """The first topics, by name, whose brokers may have a writable handle of a ledger that names a bookie: one that is
    not closed, or the newest of its topic or subscription. A closed ledger may have been closed by another process than
    its writer: auto-recovery closes the ledgers of idle brokers."""
    highest: int = -1
    """The highest id of a ledger."""
    only: int = 0
    """Number of the ledgers that name a bookie and may have entries only on the given bookies."""
    only_there: tuple[NamingLedger, ...] = ()
    """The first of these, by id."""

    bytes_by_peers: Mapping[frozenset[str], int] = field(default_factory=dict, hash=False)
    """Bytes of closed ledgers on the bookie, by the other bookies that have them; only for a scan for one bookie."""

    @property
    def clear(self) -> bool:
        """Whether certainly no ledger names any of the bookies."""
        return not self.naming and not self.undecodable

    def named(self, limit: int = NAMED) -> str:
        """Returns the first ledgers as a message, those that are not closed before the others."""
        return _listed((*self.not_closed, *self.closed), self.naming, limit)

    def named_only(self, limit: int = NAMED) -> str:
        """Returns the first ledgers that may have entries only on the bookies, as a message."""
        return _listed(self.only_there, self.only, limit)


def _listed(rows: tuple[NamingLedger, ...], count: int, limit: int) -> str:
    shown = [str(each) for each in rows[:limit]]
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
