"""The stored state of an examination of all ledgers, in znodes of the cluster's metadata store. Pure.

A head has the progress of the examination. Chunks beside it have the results, each for some ledgers with consecutive
ids. A chunk is written before the head that counts it, so that an operator that is killed loses only the ledgers since
the last head. All znodes name their examination, and a chunk of another examination, written by a slower operator, is
ignored. See controllers/dataplane/bookkeeper/ledger_scan.py for their use.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import Final

from pulsar_operator.domain.bookkeeper.disk_space import ENTRY
from pulsar_operator.domain.bookkeeper.ledger_scan import WRITTEN_BY_TOPICS
from pulsar_operator.domain.bookkeeper.ledgers import Ledger, LedgerState

SCAN_PATH: Final = "/pulsar-operator/ledger-scan"
"""Path of the head. Its children are the chunks."""
CHUNK_LEDGERS: Final = 5000
"""Maximum number of ledgers of a chunk, which then has some ten kilobytes; ZooKeeper allows 1 MB."""
CHUNKS: Final = 200
"""Number of chunks of a complete examination of few ledgers: 0.5 % each."""
LEAST: Final = 100
"""Minimum number of ledgers of a chunk, except the last one."""
UNFINISHED, ONLY, ENSEMBLE_SHIFT = 1, 2, 2


@dataclass(frozen=True)
class Examining:
    """An examination that needs another pass."""

    examined: int
    total: int
    """Approximate number of ledgers."""
    what: str = "ledgers"

    def __str__(self) -> str:
        return f"The {self.what} are being examined: {self._count}"

    @property
    def past(self) -> str:
        """Returns the progress for a sentence about an earlier time."""
        return f"{self._count} {self.what} had been examined"

    @property
    def _count(self) -> str:
        return f"{self.examined:,} of about {max(self.examined, self.total):,}"


@dataclass
class Part:
    """The entry of a chunk in the head."""

    first: int = -1
    """Lowest id of a ledger in it; ``last`` is the highest."""
    last: int = -1
    naming: int = 0
    """Number of ledgers that may have entries on the bookie."""
    unfinished: int = 0
    """Number of these that are not closed."""
    opens: int = 0
    """Number of ledgers that are not closed and did not name the bookie. They may name it now, if it accepted entries
    since."""
    only: int = 0
    """Number of ledgers that name the bookie and may have entries on none of the bookies that are alive."""
    alive: str = ""
    """Hash of the bookies that were alive when ``only`` was counted; empty if it was not counted for all ledgers."""
    ensemble: int = 0
    """Size of the largest ensemble of the ledgers that name the bookie."""
    widest: int = -1
    """Id of that ledger."""
    writer: int = -1
    """Highest id of a ledger in ``later``."""
    size: int = 0
    """Bytes of closed ledgers on the bookie."""


@dataclass
class ScanRecord:
    """The head."""

    bookie: str
    ident: str = ""
    """Id of this examination; empty in a record of an earlier version of the operator, which wrote none."""
    suspect: int | None = None
    """See Handles.suspect. Another value is another examination."""
    quiet: bool = False
    """Whether the bookie accepted no entries since before the first ledger was read, so that closed ledgers are
    final."""
    token: str = ""
    """What must not have changed for that: the process of the bookie, or the StatefulSet without it."""
    relied: bool = False
    """Whether a later observation relied on the bookie accepting no entries."""
    done: bool = False
    """Whether all ledgers were read once."""
    after: int = -1
    """All ledgers up to this id were read."""
    examined: int = 0
    total: int = 0
    highest: int = -1
    floor: int = 0
    """Ledgers that were created since have at least this id."""
    undecodable: int = 0
    walked: int = 0
    """Number of parts with the results of the complete scan. Later parts have ledgers that were created since."""
    sweep: list[int] = field(default_factory=lambda: [0, -1])
    """The part, and the id up to which, ledgers that name the bookie were last read again."""
    sweep_unfinished: list[int] = field(default_factory=lambda: [0, -1])
    """The same for ledgers that were not closed."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of closed ledgers on the bookie, by the other bookies that have them: see peers_key."""
    written_at: str = ""
    """When it was last written."""
    parts: list[Part] = field(default_factory=list)
    blocks: list[tuple[str, int]] = field(default_factory=list)
    """Last key and number of keys of each block of writers, once all ledgers were read."""
    max_writer: int = -1
    """Highest id of a ledger in blocks."""

    @property
    def naming(self) -> int:
        """Returns the number of ledgers that may have entries on the bookie, as last read."""
        return sum(part.naming for part in self.parts)

    @property
    def opens(self) -> int:
        """Returns the number of open ledgers that must be read again once the bookie accepts no entries."""
        return sum(part.opens for part in self.parts)

    @property
    def step(self) -> int:
        """Returns the number of ledgers between two writes of the head: 0.5 % of all, so that a killed operator repeats
        at most 1 %."""
        return min(CHUNK_LEDGERS, max(LEAST, self.total // CHUNKS))

    def data(self) -> bytes:
        """Returns the content of the znode."""
        fields = {key: value for key, value in asdict(self).items() if key != "parts"}
        parts = [list(asdict(part).values()) for part in self.parts]
        return zlib.compress(json.dumps({**fields, "parts": parts}).encode())


def parse_scan_record(data: bytes) -> ScanRecord | None:
    """Parses the znode; None if it cannot be parsed. The examination then starts again."""
    try:
        found = json.loads(zlib.decompress(data))
        parts = [Part(*each) for each in found.pop("parts")]
        blocks = [(str(name), int(count)) for name, count in found.pop("blocks")]
        return ScanRecord(**found, parts=parts, blocks=blocks)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, zlib.error):
        return None


@dataclass
class Chunk:
    """The results for some ledgers."""

    ids: list[int] = field(default_factory=list)
    """Ids of all ledgers, in order."""
    naming: dict[int, int] = field(default_factory=dict)
    """Flags of the ledgers that name the bookie, by id: see flags_of."""
    opens: list[int] = field(default_factory=list)
    """Ids of the ledgers in Part.opens."""
    sizes: dict[int, dict[str, int]] = field(default_factory=dict)
    """Bytes on the bookie of closed ledgers that name it, by the other bookies that have them."""
    newest: dict[str, int] = field(default_factory=dict)
    """See Writers; for this chunk alone."""
    passed: set[str] = field(default_factory=set)
    """Topics and subscriptions for which a newer ledger was found that does not name the bookie."""
    opened: dict[str, int] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)
    """For ledgers that were created since: the newest that does not name the bookie, by topic or subscription."""
    later: dict[str, list[int]] = field(default_factory=dict)
    """Ledgers that were found to name the bookie after all were read once, in the form of a block of writers."""
    text: int = 0
    """Number of characters of names."""
    ident: str = ""
    """Id of the examination in the stored chunk: see data."""

    def put(self, number: int, ledger: Ledger, flags: int, bookie: str) -> None:
        """Records a ledger that names the bookie, with its current state."""
        self.naming[number] = flags
        self.sizes.pop(number, None)
        sizes = {peers_key(others): size for others, size in ledger.bytes_on(bookie, ENTRY).items()}
        if sizes:
            self.sizes[number] = sizes

    def drop(self, number: int) -> None:
        """Removes a ledger that no longer names the bookie."""
        self.naming.pop(number, None)
        self.sizes.pop(number, None)

    def by_peers(self) -> dict[str, int]:
        """Returns the bytes of all ledgers, by the other bookies that have them."""
        found: dict[str, int] = {}
        for sizes in self.sizes.values():
            for key, size in sizes.items():
                found[key] = found.get(key, 0) + size
        return found

    def part(self, alive: str) -> Part:
        """Returns its entry in the head."""
        flags = self.naming.values()
        widest = max(((value >> ENSEMBLE_SHIFT, -number) for number, value in self.naming.items()), default=(0, 1))
        return Part(
            min(self.ids, default=-1),
            max(self.ids, default=-1),
            len(self.naming),
            sum(value & UNFINISHED for value in flags),
            len(self.opens),
            sum(1 for value in flags if value & ONLY),
            alive,
            widest[0],
            -widest[1],
            max((number for numbers in self.later.values() for number in numbers), default=-1),
            sum(self.by_peers().values()),
        )

    def data(self, ident: str) -> bytes:
        """Returns the content of the znode, as a part of that examination."""
        peers = sorted({key for sizes in self.sizes.values() for key in sizes})
        place = {key: index for index, key in enumerate(peers)}
        fields = {
            "ids": _deltas(self.ids),
            "peers": peers,
            "sizes": [
                [number, *(each for key, size in sizes.items() for each in (place[key], size))]
                for number, sizes in sorted(self.sizes.items())
            ],
            "naming": _deltas(sorted(self.naming)),
            "flags": [self.naming[number] for number in sorted(self.naming)],
            "opens": _deltas(self.opens),
            "newest": self.newest,
            "passed": sorted(self.passed),
            "opened": self.opened,
            "since": self.since,
            "later": self.later,
            "examination": ident,
        }
        return zlib.compress(json.dumps(fields).encode())


def parse_chunk(data: bytes) -> Chunk:
    """Parses a chunk. Raises ValueError if it cannot be parsed."""
    try:
        found = json.loads(zlib.decompress(data))
        ids, naming = list(accumulate(found["ids"])), accumulate(found["naming"])
        flags = dict(zip(naming, found["flags"], strict=True))
        opens, passed = list(accumulate(found["opens"])), set(found["passed"])
        since, later, peers = found["since"], found["later"], found["peers"]
        sizes = {
            number: {peers[index]: size for index, size in zip(rest[::2], rest[1::2], strict=True)}
            for number, *rest in found["sizes"]
        }
        newest, opened, ident = found["newest"], found["opened"], str(found.get("examination", ""))
        return Chunk(ids, flags, opens, sizes, newest, passed, opened, since, later, ident=ident)
    except (TypeError, KeyError, IndexError, RecursionError, zlib.error) as error:
        raise ValueError(f"the znode has no chunk of an examination: {error}") from None


def _deltas(numbers: list[int]) -> list[int]:
    return [*numbers[:1], *(later - earlier for earlier, later in pairwise(numbers))]


def digest_of(bookies: Iterable[str]) -> str:
    """Returns a hash of some bookies."""
    return sha256("\n".join(sorted(bookies)).encode()).hexdigest()[:8]


def peers_key(others: Iterable[str]) -> str:
    """Returns a key for a set of bookies: their ids separated by spaces, which an id cannot contain."""
    return " ".join(sorted(others))


def flags_of(ledger: Ledger, bookie: str, alive: frozenset[str]) -> int | None:
    """Returns the flags of a ledger that may have entries on the bookie; None if it has none."""
    if not ledger.names(bookie):
        return None
    flags = ledger.ensemble_size << ENSEMBLE_SHIFT
    flags |= 0 if is_closed(ledger) else UNFINISHED
    return flags | (ONLY if ledger.only_on((bookie,), alive) else 0)


def key_of(ledger: Ledger) -> str | None:
    """Returns the topic and subscription that write a ledger; None if none does."""
    if ledger.use not in WRITTEN_BY_TOPICS:
        return None
    topic = ledger.topic
    cursor = ledger.cursor
    return topic if topic is None or cursor is None else f"{topic}\0{cursor}"


def topic_of_key(key: str) -> str:
    """Returns the topic of a key."""
    return key.partition("\0")[0]


class Writers:
    """The topics whose brokers may have a handle of a ledger that names the bookie: one that is not closed, or the
    newest of its topic or subscription.

    Ledgers are processed by id, and a later one is taken for the newest. The memory is about 250 bytes for each topic
    or subscription whose newest ledger names the bookie, and none for others.
    """

    def __init__(self, suspect: int | None) -> None:
        self._suspect = suspect
        self.newest: dict[str, int] = {}
        self.opened: dict[str, int] = {}

    def take(self, number: int, ledger: Ledger, *, named: bool, chunk: Chunk) -> None:
        """Processes one ledger, and records the change in the chunk."""
        key = key_of(ledger)
        if key is None:
            return
        if not counts(number, ledger, named=named, suspect=self._suspect):
            if number > self.newest.get(key, number):
                del self.newest[key]
                chunk.newest.pop(key, None)
                chunk.passed.add(key)
                chunk.text += len(key)
            return
        known, kept = (self.newest, chunk.newest) if is_closed(ledger) else (self.opened, chunk.opened)
        kept[key] = known[key] = max(number, known.get(key, number))
        chunk.text += len(key)

    def replay(self, chunk: Chunk) -> None:
        """Applies a stored chunk. Chunks must be applied in their order."""
        for key in chunk.passed:
            self.newest.pop(key, None)
        self.newest.update(chunk.newest)
        self.opened.update(chunk.opened)

    def blocks(self, size: int) -> Iterator[dict[str, list[int]]]:
        """Yields all writers sorted by key, ``size`` at a time: the newest closed and the newest open ledger, -1 if
        none."""
        keys = sorted(self.newest.keys() | self.opened.keys())
        for begin in range(0, len(keys), size):
            some = keys[begin : begin + size]
            yield {key: [self.newest.get(key, -1), self.opened.get(key, -1)] for key in some}


def is_closed(ledger: Ledger) -> bool:
    """Whether nothing can be added to the ledger any longer."""
    return ledger.state is LedgerState.CLOSED


def counts(number: int, ledger: Ledger, *, named: bool, suspect: int | None) -> bool:
    """Whether a handle of the ledger may name the bookie, if there is one: see Handles.suspect."""
    return named or (suspect is not None and is_closed(ledger) and number > suspect)


def block_data(block: Mapping[str, list[int]], ident: str) -> bytes:
    """Returns the content of a znode with some writers, as a part of that examination."""
    return zlib.compress(json.dumps({"examination": ident, "block": dict(block)}).encode())


def parse_block(data: bytes) -> tuple[dict[str, list[int]], str]:
    """Parses a block. Returns it with the id of its examination. Raises ValueError if it cannot be parsed."""
    try:
        found = json.loads(zlib.decompress(data))
        if "examination" not in found:  # of an operator that gave none
            return dict(found), ""
        return dict(found["block"]), str(found["examination"])
    except (TypeError, KeyError, AttributeError, RecursionError, zlib.error) as error:
        raise ValueError(f"the znode has no block of writers: {error}") from None
