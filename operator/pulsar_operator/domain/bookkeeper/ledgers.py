"""The metadata of a ledger, which bookies and brokers store in one znode for each: which bookies have its entries.
Pure.

Source: class LedgerMetadataSerDe of BookKeeper 4.17.2. Version 3 is a line of text and a protobuf message with its
length. Version 2, written before BookKeeper 4.9, has the message as text. Version 1 is older than any supported version
of Pulsar and is not parsed. Metadata that is not parsed completely is undecodable: the ledger may name any bookie.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote_plus

from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError, as_text, read_delimited, read_text

NOTHING_WRITTEN: Final = -1
"""lastEntryId of a closed ledger without entries (class LedgerHandle, INVALID_ENTRY_ID)."""

_HEADER: Final = re.compile(rb"BookieMetadataFormatVersion\t([0-9]{1,9})\n")
_LEDGER: Final = "LedgerMetadataFormat"
_BOOKIE_ID: Final = re.compile(r"[a-zA-Z0-9:-_.\-]+", re.ASCII)
"""Pattern of class BookieId, in which ``:-_`` is a range, as it is here."""


class LedgerState(StrEnum):
    """State of a ledger, with BookKeeper's names."""

    OPEN = "OPEN"
    """A client writes it, or stopped without closing it."""
    IN_RECOVERY = "IN_RECOVERY"
    """A client determines its last entry to close it."""
    CLOSED = "CLOSED"
    """No entry is added any longer."""


class LedgerUse(StrEnum):
    """Pulsar's use of a ledger."""

    DATA = "Data"
    """Messages of a topic."""
    CURSOR = "Cursor"
    """Position of a subscription."""
    COMPACTED = "Compacted"
    """The newest message of each key of a topic."""
    SCHEMA = "Schema"
    """Schemas of a topic."""
    DELAYED = "Delayed"
    """Index of messages with delayed delivery."""
    OTHER = "Other"
    """Unknown: of another application, or without metadata about its use."""


@dataclass(frozen=True)
class Segment:
    """Consecutive entries of a ledger on the same bookies."""

    first_entry_id: int
    bookies: tuple[str, ...]
    """Bookie ids, in the order of the ensemble."""


@dataclass(frozen=True)
class Ledger:
    """Metadata of one ledger, without the password."""

    state: LedgerState
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    last_entry_id: int | None
    """None unless the ledger is closed; -1 if it is closed without entries."""
    length: int | None
    """Bytes of its entries; None unless the ledger is closed."""
    segments: tuple[Segment, ...]
    """Segments by first entry; at least one."""
    ctime: int | None = None
    """Creation time in milliseconds since 1970; None if the metadata has none."""
    custom: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    """Metadata that its writer added."""

    @property
    def bookies(self) -> frozenset[str]:
        """Returns the bookies that may have entries of the ledger: those named in a segment that is not empty.

        This is stricter than BookKeeper (class BookKeeperAdmin, areEntriesOfLedgerStoredInTheBookie), which also checks
        whether an entry is on the bookie if the ensemble is larger than the write quorum.
        """
        return frozenset(bookie for segment in self.segments if self._written(segment) for bookie in segment.bookies)

    @property
    def members(self) -> frozenset[str]:
        """Returns the bookies that a writer's handle may name: those of all segments, including empty ones.
        Auto-recovery closes the ledger of an idle topic without entries, and its broker keeps the handle."""
        return frozenset(bookie for segment in self.segments for bookie in segment.bookies)

    def _written(self, segment: Segment) -> bool:
        return self.last_entry_id is None or self.last_entry_id >= segment.first_entry_id

    def names(self, bookie: str) -> bool:
        """Whether that bookie may have entries of the ledger."""
        return bookie in self.bookies

    def named_of(self, bookies: Collection[str]) -> frozenset[str]:
        """Returns which of these bookies may have entries of the ledger."""
        return self.bookies.intersection(bookies)

    def only_on(self, bookies: Collection[str], alive: Collection[str]) -> bool:
        """Whether entries may be only on these bookies, and not on one of ``alive``.

        An entry is on as many bookies of its segment as the write quorum, starting at a place that moves by one with
        each entry (class RoundRobinDistributionSchedule). An entry that too few bookies stored before it was
        acknowledged may be missing on a bookie that has it according to this method.
        """
        return any(
            not any(bookie in alive for bookie in written) and any(bookie in bookies for bookie in written)
            for segment in self.segments
            if self._written(segment)
            for written in self._write_sets(segment)
        )

    def bytes_on(self, bookie: str, entry: int = 0) -> dict[frozenset[str], int]:
        """Returns the bytes of its entries on a bookie, by the other bookies of the segment; empty if the ledger is not
        closed, since its metadata has no size then.

        ``entry`` are the bytes of each entry besides its content. An entry is on as many bookies of its segment as the
        write quorum, evenly distributed.
        """
        if self.last_entry_id is None or self.length is None or self.last_entry_id < 0:
            return {}
        found: dict[frozenset[str], int] = {}
        total, ends = self.last_entry_id + 1, [each.first_entry_id for each in self.segments[1:]]
        for segment, end in zip(self.segments, [*ends, total], strict=True):
            entries = min(end, total) - segment.first_entry_id
            if entries <= 0 or bookie not in segment.bookies:
                continue
            size = (self.length * entries // total + entry * entries) * self.write_quorum
            others = frozenset(segment.bookies) - {bookie}
            found[others] = found.get(others, 0) + -(-size // len(segment.bookies))
        return found

    def write_sets(self) -> frozenset[tuple[str, ...]]:
        """Returns the sets of bookies that an entry may be on, for all entries."""
        return frozenset(
            written for segment in self.segments if self._written(segment) for written in self._write_sets(segment)
        )

    def _write_sets(self, segment: Segment) -> list[tuple[str, ...]]:
        size = len(segment.bookies)
        return [tuple(segment.bookies[(first + n) % size] for n in range(self.write_quorum)) for first in range(size)]

    @property
    def use(self) -> LedgerUse:
        """Returns Pulsar's use of the ledger (class LedgerMetadataUtils of Pulsar 4.0.8)."""
        if self.custom.get("application") != b"pulsar":
            return LedgerUse.OTHER
        component = self.custom.get("component")
        if component == b"managed-ledger":
            return LedgerUse.CURSOR if "pulsar/cursor" in self.custom else LedgerUse.DATA
        return _COMPONENTS.get(component or b"", LedgerUse.OTHER)

    @property
    def topic(self) -> str | None:
        """Returns the full name of its topic, or of the partition; None if the metadata has none.

        All partitions share their schemas, so for these it is the name of the partitioned topic.
        """
        use = self.use
        name = self._text(_NAMED_BY[use]) if use in _NAMED_BY else None
        if name is None:
            return None
        if use in (LedgerUse.DATA, LedgerUse.CURSOR):
            return topic_of(name)
        if use is LedgerUse.SCHEMA:
            *namespace, local = name.split("/")
            return f"persistent://{'/'.join(namespace)}/{unquote_plus(local)}" if namespace else None
        return name

    @property
    def cursor(self) -> str | None:
        """Returns the subscription whose position it has, with Pulsar's encoding; None if it is not the ledger of a
        cursor."""
        return self._text("pulsar/cursor") if self.use is LedgerUse.CURSOR else None

    def _text(self, key: str) -> str | None:
        try:
            return as_text(self.custom[key]) if key in self.custom else None
        except UndecodableError:
            return None


_COMPONENTS: Final[Mapping[bytes, LedgerUse]] = MappingProxyType(
    {
        b"compacted-ledger": LedgerUse.COMPACTED,
        b"schema": LedgerUse.SCHEMA,
        b"delayed-index-bucket": LedgerUse.DELAYED,
    }
)
_NAMED_BY: Final[Mapping[LedgerUse, str]] = MappingProxyType(
    {
        LedgerUse.DATA: "pulsar/managed-ledger",
        LedgerUse.CURSOR: "pulsar/managed-ledger",
        LedgerUse.COMPACTED: "pulsar/compactedTopic",
        LedgerUse.SCHEMA: "pulsar/schemaId",
        LedgerUse.DELAYED: "pulsar/delayedIndexTopic",
    }
)


def topic_of(managed_ledger: str) -> str | None:
    """Returns the full name of the topic of a managed ledger, ``tenant/namespace/persistent/name``; None if it does not
    belong to a topic.

    The last part is encoded (class TopicName, getPersistenceNamingEncoding).
    """
    *namespace, domain, name = managed_ledger.split("/") if managed_ledger.count("/") >= 3 else ("", "")
    if not namespace or domain != "persistent" or not name:
        return None
    return f"{domain}://{'/'.join(namespace)}/{unquote_plus(name)}"


def decode_ledger(data: bytes) -> Ledger:
    """Parses the metadata in a ledger's znode. Raises UndecodableError for anything but one complete ledger, also if
    empty."""
    header = _HEADER.match(data)
    if header is None:
        raise UndecodableError("the ledger metadata has no header" if data else "no data")
    version, body = int(header[1]), data[header.end() :]
    if version == 3:
        return _ledger(read_delimited(_LEDGER, body))
    if version == 2:
        message = read_text(_LEDGER, body)
        if not message.HasField("ackQuorumSize"):
            # A text has no length. This field comes after the segments, so that none of them is missing.
            raise UndecodableError("LedgerMetadataFormat has no ackQuorumSize and may be incomplete")
        return _ledger(message)
    raise UndecodableError(f"version {version} of ledger metadata is not supported")


def checked_bookie_id(text: str) -> str:
    """Returns the id of a bookie. Raises UndecodableError if BookKeeper would not accept it (class BookieId)."""
    if not _BOOKIE_ID.fullmatch(text) or text.lower() == "readonly":
        raise UndecodableError(f"{text[:80]!r} is not a bookie id")
    return text


def _ledger(message: Any) -> Ledger:
    """Validates a message like BookKeeper (classes LedgerMetadataBuilder and LedgerMetadataImpl), with further
    checks."""
    state = tuple(LedgerState)[message.state - 1]
    write_quorum, ensemble_size = message.quorumSize, message.ensembleSize
    ack_quorum = message.ackQuorumSize if message.HasField("ackQuorumSize") else write_quorum
    if not ensemble_size >= write_quorum >= ack_quorum >= 1:
        raise UndecodableError(
            f"ensemble size {ensemble_size} with quorums {write_quorum} and {ack_quorum} is not valid"
        )
    segments = tuple(
        Segment(each.firstEntryId, tuple(checked_bookie_id(bookie) for bookie in each.ensembleMember))
        for each in message.segment
    )
    if not segments or any(len(each.bookies) != ensemble_size for each in segments):
        raise UndecodableError(f"the ledger has no segments, or a segment does not have {ensemble_size} bookies")
    firsts = [each.first_entry_id for each in segments]
    if firsts[0] < 0 or any(later <= earlier for earlier, later in pairwise(firsts)):
        raise UndecodableError("the segments are out of order")
    closed = state is LedgerState.CLOSED
    last_entry_id = message.lastEntryId if message.HasField("lastEntryId") else None
    if closed and (last_entry_id is None or last_entry_id < NOTHING_WRITTEN or message.length < 0):
        raise UndecodableError(f"the last entry {last_entry_id} or the length {message.length} is not valid")
    custom = {each.key: each.value for each in message.customMetadata}
    if len(custom) != len(message.customMetadata):
        raise UndecodableError("customMetadata contains a key twice")
    return Ledger(
        state=state,
        ensemble_size=ensemble_size,
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        last_entry_id=last_entry_id if closed else None,
        length=message.length if closed else None,
        segments=segments,
        ctime=message.ctime if message.HasField("ctime") else None,
        custom=MappingProxyType(custom),
    )
