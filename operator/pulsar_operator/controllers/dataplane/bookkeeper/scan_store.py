"""The stored state of an examination of all ledgers, in the metadata store.

Chunks are written before the head that counts them. A chunk that does not match the head was written by an operator
that was killed before it wrote the head, and counts as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime
from typing import Final

from pulsar_operator.domain.bookkeeper.ledger_scan_record import (
    ONLY,
    SCAN_PATH,
    Chunk,
    ScanRecord,
    block_data,
    digest_of,
    parse_block,
    parse_chunk,
    parse_scan_record,
)
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.ports import Node, NotFoundError, ZooKeeperSession

KEPT: Final = 1000
"""Number of topics, and of unreadable znodes, that one pass reads."""
UNREADABLE: Final = f"{SCAN_PATH}/unreadable"


class ScanStore:
    """The head, and the chunks that are in use. Raises PortError; ValueError for what cannot be read."""

    def __init__(self, session: ZooKeeperSession, bookie: str, alive: frozenset[str], now: datetime) -> None:
        self._session, self._bookie, self._now = session, bookie, now
        self._alive = alive - {bookie}
        self._digest = digest_of(self._alive)
        self._record = ScanRecord(bookie)
        self._version: int | None = None
        self._unreadable: list[str] | None = None
        self._chunks: dict[int, Chunk] = {}
        self._dirty: set[int] = set()
        self._before: dict[int, dict[str, int]] = {}
        """Chunk.by_peers of the chunks that the head counts."""
        self._recount = self._changed = self._unreadable_changed = False

    async def _load_record(self) -> ScanRecord | None:
        """Returns the head; None if there is none that can be read."""
        node = await self._session.get(SCAN_PATH)
        self._version = node.version if node is not None else None
        record = parse_scan_record(node.data) if node is not None else None
        if record is not None:
            paths = await self._load_unreadable(record)
            record.undecodable = max(record.undecodable, KEPT) if len(paths) >= KEPT else len(paths)
        return record

    async def _new_record(self, record: ScanRecord) -> None:
        """Writes a new head first, so that no earlier chunk counts while chunks are written again."""
        self._record, self._chunks, self._dirty, self._unreadable, self._before = record, {}, set(), [], {}
        await self._save_head()
        await self._put(UNREADABLE, block_data({}, record.ident))

    async def _load_unreadable(self, record: ScanRecord) -> list[str]:
        node = await self._session.get(UNREADABLE)
        block, ident = parse_block(node.data) if node is not None else ({}, record.ident)
        if ident != record.ident:
            if record.examined or record.undecodable:
                raise ValueError(f"{UNREADABLE} belongs to another examination")
            block, self._unreadable_changed = {}, True  # killed before it was written
        self._unreadable = list(block)
        return self._unreadable

    async def _stored_chunk(self, index: int) -> Chunk:
        chunk = parse_chunk(await self._content(chunk_path(index)))
        if chunk.ident != self._record.ident:
            raise ValueError(f"{chunk_path(index)} belongs to another examination")
        return chunk

    async def _stored_block(self, index: int) -> dict[str, list[int]]:
        block, ident = parse_block(await self._content(block_path(index)))
        if ident != self._record.ident:
            raise ValueError(f"{block_path(index)} belongs to another examination")
        return block

    async def _chunk(self, index: int) -> Chunk:
        if index not in self._chunks:
            chunk, part = await self._stored_chunk(index), self._record.parts[index]
            known = chunk.part(part.alive)
            if not known.first <= part.first <= part.last <= known.last:
                raise ValueError(
                    f"another writer changed {chunk_path(index)}, so the node does not contain all examined ledgers"
                )
            if known != part:  # killed before the head was written
                self._record.parts[index], self._changed, self._recount = known, True, True
            self._chunks[index], self._before[index] = chunk, chunk.by_peers()
        return self._chunks[index]

    async def _touched(self, index: int) -> Chunk:
        """Marks a chunk as changed. Its counts by other live bookies are not known until the whole chunk is read
        again."""
        chunk, part = await self._chunk(index), self._record.parts[index]
        if part.alive not in ("", self._digest):
            chunk.naming = {number: flags & ~ONLY for number, flags in chunk.naming.items()}
            part.alive = ""
            self._dirty.add(index)
        return chunk

    async def _leave_chunk(self, index: int) -> None:
        """Keeps one chunk at a time in memory."""
        if index in self._dirty:
            await self._save()
        if index < self._record.walked:
            self._chunks.pop(index, None)

    async def _paths(self) -> list[str]:
        return self._unreadable if self._unreadable is not None else await self._load_unreadable(self._record)

    async def _save(self) -> None:
        """Writes the chunks first: what the head does not count is written again."""
        record = self._record
        for index in sorted(self._dirty):
            chunk = self._chunks[index]
            record.parts[index] = chunk.part(record.parts[index].alive)
            self._weigh(index, chunk)
            await self._put(chunk_path(index), chunk.data(record.ident))
        if self._unreadable_changed:
            await self._put(UNREADABLE, block_data({path: [] for path in await self._paths()}, record.ident))
        if self._dirty or self._changed:
            await self._save_head()
        self._dirty.clear()
        self._changed = self._unreadable_changed = False

    def _weigh(self, index: int, chunk: Chunk) -> None:
        """Adds a chunk to the sum. Beyond a number of sets of bookies, ledgers count as held by no other bookie: with
        such a spread no bookie gets much more than another."""
        sizes, now = self._record.sizes, chunk.by_peers()
        for sign, found in ((-1, self._before.get(index, {})), (1, now)):
            for key, size in found.items():
                kept = key if key in sizes or len(sizes) < KEPT else ""
                sizes[kept] = sizes.get(kept, 0) + sign * size
        self._record.sizes = {key: size for key, size in sizes.items() if size > 0}
        self._before[index] = now

    async def _count_sizes(self) -> None:
        """Computes the sum again, from all chunks."""
        self._record.sizes, self._before = {}, {}
        for index in range(len(self._record.parts)):
            kept = index in self._chunks
            self._before[index] = {}
            chunk = self._chunks[index] if kept else await self._stored_chunk(index)
            self._weigh(index, chunk)
        self._recount, self._changed = False, True

    async def _content(self, path: str) -> bytes:
        node = await self._session.get(path)
        if node is None:
            raise NotFoundError(f"{path} does not exist")
        return node.data

    async def _save_head(self) -> None:
        self._record.written_at = timestamp(self._now)
        if self._version is None:
            await self._session.create(SCAN_PATH, self._record.data())
            self._version = 0
        else:
            await self._session.set(SCAN_PATH, self._record.data(), version=self._version)
            self._version += 1

    async def _put(self, path: str, data: bytes) -> None:
        node = await self._session.get(path)
        if node is None:
            await self._session.create(path, data)
        elif node.data != data:
            await self._session.set(path, data, version=node.version)

    async def _cannot_read(self, path: str) -> None:
        paths = await self._paths()
        if path not in paths:
            self._record.undecodable += 1
            self._unreadable_changed = self._changed = True
            if len(paths) < KEPT:
                paths.append(path)


class Unwritten:
    """A session that keeps writes in memory: an examination during a pause or a dry run changes nothing."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._kept: dict[str, Node | None] = {}

    async def get(self, path: str) -> Node | None:
        """Returns the node from memory, else from the store."""
        return self._kept[path] if path in self._kept else await self._session.get(path)

    async def children(self, path: str) -> list[str] | None:
        """Returns the children in the store."""
        return await self._session.children(path)

    async def create(self, path: str, data: bytes) -> None:
        """Keeps a node in memory."""
        self._kept[path] = Node(data, 0)

    async def set(self, path: str, data: bytes, *, version: int) -> None:
        """Keeps a node in memory."""
        self._kept[path] = Node(data, version + 1)

    async def delete(self, path: str, *, version: int) -> None:
        """Keeps in memory that a node is deleted."""
        self._kept[path] = None

    async def watch(self, path: str, on_change: Callable[[], None]) -> int | None:
        """Watches the store."""
        return await self._session.watch(path, on_change)


async def took_entries(session: ZooKeeperSession, bookie: str) -> None:
    """Records that the bookie takes entries, or may have: ledgers that were settled may no longer be. Raises
    PortError."""
    node = await session.get(SCAN_PATH)
    record = parse_scan_record(node.data) if node is not None else None
    if record is not None and record.bookie == bookie and (record.relied or record.quiet):
        await forget_examination(session)


async def forget_examination(session: ZooKeeperSession) -> None:
    """Deletes the examination, the head first. Raises PortError."""
    names = await session.children(SCAN_PATH)
    for path in (*(f"{SCAN_PATH}/{name}" for name in reversed(names or ())), SCAN_PATH):
        node = await session.get(path)
        if node is not None:
            with contextlib.suppress(NotFoundError):
                await session.delete(path, version=node.version)


def chunk_path(index: int) -> str:
    """Returns the path of a chunk."""
    return f"{SCAN_PATH}/ledgers-{index:06}"


def block_path(index: int) -> str:
    """Returns the path of a block of writers."""
    return f"{SCAN_PATH}/topics-{index:06}"
