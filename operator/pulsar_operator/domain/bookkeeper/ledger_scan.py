"""What one check every ledger found: which of them may have entries on bookies that were asked for. Pure values.

Made by controllers/dataplane/bookkeeper/ledger_scan.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pulsar_operator.domain.bookkeeper.ledgers import LedgerState, LedgerUse

NAMED: Final = 20
"""Ledgers that a message names."""
WRITTEN_BY_TOPICS: Final = frozenset({LedgerUse.DATA, LedgerUse.CURSOR})


@dataclass(frozen=True)
class NamingLedger:
    """A ledger that may have entries on one of the bookies asked for."""

    ledger: int
    state: LedgerState
    bookies: frozenset[str]
    """Those of the bookies asked for."""
    use: LedgerUse
    topic: str | None
    """Full name of its topic; None where the metadata names none."""
    cursor: str | None
    """The subscription, of a cursor's ledger."""
    ensemble_size: int = 1
    """Bookies that each of its segments takes."""
    only: bool = False
    """Whether entries of it may be on none but the bookies asked for."""

    @property
    def writer(self) -> str | None:
        """The topic whose broker may be writing it, and closes it when the topic is unloaded; None where there is none.

        What compaction, schemas and delayed messages keep is written by those who made it, once, and counts only when
        it was closed: fenced, it is made again (classes Compactor, BookkeeperSchemaStorage and
        BookkeeperBucketSnapshotStorage of Pulsar 4.0.8).
        """
        unfinished = self.state is not LedgerState.CLOSED
        return self.topic if unfinished and self.use in WRITTEN_BY_TOPICS else None

    def __str__(self) -> str:
        return f"{self.ledger} ({self.topic})" if self.topic else str(self.ledger)


@dataclass(frozen=True)
class Handles:
    """Topics that may write to ledgers of a bookie, as far as the ledgers show."""

    after: str = ""
    """Only topics whose names come after this one."""
    unloaded: int = -1
    """Ledgers up to this id are done: their topics were unloaded since the bookie took nothing new."""
    suspect: int | None = None
    """From this id on a closed ledger may have named a bookie that was writable for a moment; None if none may."""


@dataclass(frozen=True)
class LedgerScan:
    """Result of an examination: all ledgers were read once, one after another, so later ones may be missing. So the
    bookies must take no new entries before it begins. Only ``clear`` means that no ledger references them.
    """

    scanned: int
    """Ledgers that were read; those that vanished before are none."""
    naming: int
    """Ledgers that may have entries on one of the bookies."""
    unfinished: int
    """Of these, how many are not closed."""
    undecodable: int
    """Nodes that cannot be decoded, so that they may reference any bookie: ledgers, and parents of ledgers."""
    not_closed: tuple[NamingLedger, ...]
    """The first of those that a topic writes, and of the others, by id."""
    closed: tuple[NamingLedger, ...]
    """The first of the others, by id."""
    unreadable: tuple[str, ...]
    """Paths of the first undecodable nodes."""
    widest: NamingLedger | None = None
    """The one of those naming a bookie that takes most bookies; None where there is none."""
    writers: tuple[str, ...] = ()
    """The first topics, by name, whose brokers may have a handle to write to a ledger that references a bookie: one
    that is not closed, or the newest of its topic or subscription. A ledger may be closed by another process than its
    writer: auto-recovery does so without the knowledge of an idle broker."""
    highest: int = -1
    """The highest id of a ledger."""
    only: int = 0
    """Of those naming one, how many may have entries on none but the bookies asked for."""
    only_there: tuple[NamingLedger, ...] = ()
    """The first of these, by id."""

    bytes_by_peers: Mapping[frozenset[str], int] = field(default_factory=dict, hash=False)
    """Bytes of closed ledgers on the bookie, by the other bookies that have them; of one bookie that was asked for."""

    @property
    def clear(self) -> bool:
        """Whether it is sure that no ledger names any of the bookies."""
        return not self.naming and not self.undecodable

    def named(self, limit: int = NAMED) -> str:
        """The first ledgers, as a message: those that are not closed before others."""
        return _listed((*self.not_closed, *self.closed), self.naming, limit)

    def named_only(self, limit: int = NAMED) -> str:
        """The first ledgers that may have entries on none but the bookies, as a message."""
        return _listed(self.only_there, self.only, limit)


def _listed(rows: tuple[NamingLedger, ...], count: int, limit: int) -> str:
    shown = [str(each) for each in rows[:limit]]
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
