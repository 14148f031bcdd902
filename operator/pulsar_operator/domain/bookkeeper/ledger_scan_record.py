"""What the operator keeps of an examination of all ledgers, in znodes of the cluster's metadata store. Pure.

A head says how far the examination is; chunks beside it say what it found, each of some ledgers next to each other by
id. A chunk is written before the head that counts it, so that an operator that is killed loses only the ledgers since
the last head. All of them name their examination: a chunk of another one, which a slower operator wrote, counts for
nothing. See controllers/dataplane/bookkeeper/ledger_scan.py for what is done with them.
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
"""The head; its children are the chunks."""
CHUNK_LEDGERS: Final = 5000
"""Most ledgers of a chunk, some ten kilobytes; ZooKeeper takes 1 MB."""
CHUNKS: Final = 200
"""Chunks of a whole examination of few ledgers: 0.5 % each."""
LEAST: Final = 100
"""Fewest ledgers of a chunk, but the last."""
UNFINISHED, ONLY, ENSEMBLE_SHIFT = 1, 2, 2


@dataclass(frozen=True)
class Examining:
    """An examination that needs another pass."""

    examined: int
    total: int
    """Approximate number of ledgers."""
    what: str = "ledgers"

    def __str__(self) -> str:
        total = max(self.examined, self.total)
        return f"The {self.what} are being examined: {self.examined:,} of about {total:,}"


@dataclass
class Part:
    """A chunk, in the head."""

    first: int = -1
    """Lowest and highest id of a ledger in it."""
    last: int = -1
    naming: int = 0
    """Ledgers that may have entries on the bookie."""
    unfinished: int = 0
    """Of these, how many are not closed."""
    opens: int = 0
    """Ledgers that are not closed and did not name it: they may name it by now, if it took entries since."""
    only: int = 0
    """Of those naming it, how many may have entries on none of the bookies that are alive."""
    alive: str = ""
    """Stands for the bookies that were alive when ``only`` was counted; empty = it was not, of all of them."""
    ensemble: int = 0
    """Bookies that the widest ledger of those naming it takes."""
    widest: int = -1
    """Its id."""
    writer: int = -1
    """Highest id of a ledger in ``later``."""
    size: int = 0
    """Bytes of closed ledgers on the bookie."""


@dataclass
class ScanRecord:
    """The head."""

    bookie: str
    ident: str = ""
    """Stands for this examination; empty in a record of an operator that gave none."""
    suspect: int | None = None
    """See Handles.suspect; another one is another examination."""
    quiet: bool = False
    """Whether the bookie took nothing from before the first ledger was read: what is closed then is settled."""
    token: str = ""
    """What must not have changed for that: the process, or the StatefulSet without it."""
    relied: bool = False
    """Whether a later look counted on the bookie taking nothing."""
    done: bool = False
    """Whether all ledgers were read once."""
    after: int = -1
    """All ledgers up to this id were."""
    examined: int = 0
    total: int = 0
    highest: int = -1
    floor: int = 0
    """Ledgers made since have ids from here on."""
    undecodable: int = 0
    walked: int = 0
    """Parts that hold what was found then; the others have ledgers made since."""
    sweep: list[int] = field(default_factory=lambda: [0, -1])
    """The part in which ledgers naming the bookie were read again last, and up to which id."""
    sweep_unfinished: list[int] = field(default_factory=lambda: [0, -1])
    """The same of those that were not closed."""
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
        """Ledgers that may have entries on the bookie, as last read."""
        return sum(part.naming for part in self.parts)

    @property
    def opens(self) -> int:
        """Open ledgers to be read again once the bookie takes nothing."""
        return sum(part.opens for part in self.parts)

    @property
    def step(self) -> int:
        """Ledgers between two writes of the head: 0.5 % of all, so that a killed operator repeats no more than 1 %."""
        return min(CHUNK_LEDGERS, max(LEAST, self.total // CHUNKS))

    def data(self) -> bytes:
        """Content of the znode."""
        fields = {key: value for key, value in asdict(self).items() if key != "parts"}
        parts = [list(asdict(part).values()) for part in self.parts]
        return zlib.compress(json.dumps({**fields, "parts": parts}).encode())


def parse_scan_record(data: bytes) -> ScanRecord | None:
    """What the znode says; None where that cannot be read: then nothing was examined."""
    try:
        found = json.loads(zlib.decompress(data))
        parts = [Part(*each) for each in found.pop("parts")]
        blocks = [(str(name), int(count)) for name, count in found.pop("blocks")]
        return ScanRecord(**found, parts=parts, blocks=blocks)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, zlib.error):
        return None


@dataclass
class Chunk:
    """What was found in some ledgers."""

    ids: list[int] = field(default_factory=list)
    """All that were there, in order."""
    naming: dict[int, int] = field(default_factory=dict)
    """Flags of those naming the bookie, by id: see flags_of."""
    opens: list[int] = field(default_factory=list)
    """See Part.opens."""
    sizes: dict[int, dict[str, int]] = field(default_factory=dict)
    """Bytes on the bookie of closed ledgers that name it, by the other bookies that have them."""
    newest: dict[str, int] = field(default_factory=dict)
    """See Writers, of this chunk alone."""
    passed: set[str] = field(default_factory=set)
    """Topics and subscriptions of which a newer ledger was found, which does not name the bookie."""
    opened: dict[str, int] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)
    """Of ledgers made since: the newest that does not name the bookie, of each topic or subscription."""
    later: dict[str, list[int]] = field(default_factory=dict)
    """As a block of writers, of ledgers that were found to name the bookie after all were read once."""
    text: int = 0
    """Characters of names."""
    ident: str = ""
    """Of the examination, as stored: see data."""

    def put(self, number: int, ledger: Ledger, flags: int, bookie: str) -> None:
        """A ledger that names the bookie, as it is."""
        self.naming[number] = flags
        self.sizes.pop(number, None)
        sizes = {peers_key(others): size for others, size in ledger.bytes_on(bookie, ENTRY).items()}
        if sizes:
            self.sizes[number] = sizes

    def drop(self, number: int) -> None:
        """A ledger that names it no longer."""
        self.naming.pop(number, None)
        self.sizes.pop(number, None)

    def by_peers(self) -> dict[str, int]:
        """Bytes of all of them."""
        found: dict[str, int] = {}
        for sizes in self.sizes.values():
            for key, size in sizes.items():
                found[key] = found.get(key, 0) + size
        return found

    def part(self, alive: str) -> Part:
        """Its row of the head."""
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
        """Content of the znode, as part of that examination."""
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
    """Raises ValueError where it cannot be read."""
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
        raise ValueError(f"no chunk of an examination: {error}") from None


def _deltas(numbers: list[int]) -> list[int]:
    return [*numbers[:1], *(later - earlier for earlier, later in pairwise(numbers))]


def digest_of(bookies: Iterable[str]) -> str:
    """Stands for some bookies."""
    return sha256("\n".join(sorted(bookies)).encode()).hexdigest()[:8]


def peers_key(others: Iterable[str]) -> str:
    """Stands for a set of bookies; an id has no space."""
    return " ".join(sorted(others))


def flags_of(ledger: Ledger, bookie: str, alive: frozenset[str]) -> int | None:
    """What a chunk keeps of a ledger that may have entries on the bookie; None of one that has none."""
    if not ledger.names(bookie):
        return None
    flags = ledger.ensemble_size << ENSEMBLE_SHIFT
    flags |= 0 if is_closed(ledger) else UNFINISHED
    return flags | (ONLY if ledger.only_on((bookie,), alive) else 0)


def key_of(ledger: Ledger) -> str | None:
    """Topic and subscription that a ledger is written by; None where none is."""
    if ledger.use not in WRITTEN_BY_TOPICS:
        return None
    topic = ledger.topic
    cursor = ledger.cursor
    return topic if topic is None or cursor is None else f"{topic}\0{cursor}"


def topic_of_key(key: str) -> str:
    """Its topic."""
    return key.partition("\0")[0]


class Writers:
    """Topics whose brokers may have a handle on a ledger that names the bookie: one that is not closed, or the newest
    of its topic or subscription. Ledgers come by id; one that comes late is taken for the newest.

    Some 250 bytes for each topic or subscription whose newest ledger names the bookie, and nothing of others.
    """

    def __init__(self, suspect: int | None) -> None:
        self._suspect = suspect
        self.newest: dict[str, int] = {}
        self.opened: dict[str, int] = {}

    def take(self, number: int, ledger: Ledger, *, named: bool, chunk: Chunk) -> None:
        """One ledger; what it changes goes to the chunk."""
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
        """What a chunk has of them, in the order of the chunks."""
        for key in chunk.passed:
            self.newest.pop(key, None)
        self.newest.update(chunk.newest)
        self.opened.update(chunk.opened)

    def blocks(self, size: int) -> Iterator[dict[str, list[int]]]:
        """Yields all of them by key, in blocks: the newest closed and the newest open ledger, -1 for none."""
        keys = sorted(self.newest.keys() | self.opened.keys())
        for begin in range(0, len(keys), size):
            some = keys[begin : begin + size]
            yield {key: [self.newest.get(key, -1), self.opened.get(key, -1)] for key in some}


def is_closed(ledger: Ledger) -> bool:
    """Whether nothing is added to it any more."""
    return ledger.state is LedgerState.CLOSED


def counts(number: int, ledger: Ledger, *, named: bool, suspect: int | None) -> bool:
    """Whether a handle on it may name the bookie, if there is one: see Handles.suspect."""
    return named or (suspect is not None and is_closed(ledger) and number > suspect)


def block_data(block: Mapping[str, list[int]], ident: str) -> bytes:
    """Content of a znode with some writers, as part of that examination."""
    return zlib.compress(json.dumps({"examination": ident, "block": dict(block)}).encode())


def parse_block(data: bytes) -> tuple[dict[str, list[int]], str]:
    """A block, and the examination it is of. Raises ValueError where it cannot be read."""
    try:
        found = json.loads(zlib.decompress(data))
        if "examination" not in found:  # of an operator that gave none
            return dict(found), ""
        return dict(found["block"]), str(found["examination"])
    except (TypeError, KeyError, AttributeError, RecursionError, zlib.error) as error:
        raise ValueError(f"no block of writers: {error}") from None
