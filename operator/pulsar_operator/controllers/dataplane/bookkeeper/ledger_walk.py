"""The tree of ledgers in a metadata store, in the order of their ids, from any place on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from pulsar_operator.controllers.core.bounded import each_of
from pulsar_operator.domain.bookkeeper.ledgers import Ledger, decode_ledger
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.znodes import LEDGERS, NOT_LEDGERS, is_level, ledger_id, levels_below
from pulsar_operator.ports import Node, NotFoundError, ZooKeeperSession

IN_FLIGHT: Final = 32
"""Concurrent reads; the store serves other clients at the same time."""
LARGE: Final = 16 * 1024
"""Size of metadata in bytes from which it is decoded in a thread: a ledger of thousands of segments takes that long."""
GROUP: Final = 4
"""Parents that are listed at the same time; each has 10,000 ledgers at most."""
SAMPLE: Final = 16
"""Parents that are listed to estimate the number of ledgers."""
_SHORT, _LONG = 10, 19
"""Digits of an id, by layout."""


@dataclass(frozen=True)
class Found:
    """The znode of a ledger, as read."""

    path: str
    number: int
    """Id of the ledger; -1 if the path is not that of a ledger."""
    ledger: Ledger | None
    """None if it cannot be decoded."""


async def ledgers_below(session: ZooKeeperSession, paths: list[str], in_flight: int = IN_FLIGHT) -> list[Found]:
    """Reads ledgers, several at the same time; deleted ones are left out. Raises PortError."""

    async def read(path: str) -> Found | None:
        node = await session.get(path)
        return None if node is None else await decoded(path, node)

    return [each for each in await each_of(paths, read, in_flight) if each is not None]


async def decoded(path: str, node: Node) -> Found:
    """Decodes a znode."""
    number = -1
    try:
        number = ledger_id(path)
        large = len(node.data) > LARGE
        ledger = await asyncio.to_thread(decode_ledger, node.data) if large else decode_ledger(node.data)
    except UndecodableError:
        return Found(path, number, None)
    return Found(path, number, ledger)


def number_of(path: str) -> int:
    """Returns the ledger id of a znode's path; -1 if it is none."""
    try:
        return ledger_id(path)
    except UndecodableError:
        return -1


async def groups(
    session: ZooKeeperSession, cannot_read: Callable[[str], None], begin: int = 0
) -> AsyncIterator[tuple[int, list[str]]]:
    """Yields paths of ledgers by id, some parents at a time, from parents with ids from ``begin`` on; with the lowest
    id that the first of these parents may have. Raises PortError; NotFoundError if the store has no node for ledgers at
    all.
    """
    some: list[str] = []
    async for parent in parents(session, cannot_read, begin):
        some.append(parent)
        if len(some) == GROUP:
            yield _lowest(some[0]), await _children(session, some)
            some = []
    if some:
        yield _lowest(some[0]), await _children(session, some)


async def _children(session: ZooKeeperSession, some: list[str]) -> list[str]:
    listed = await each_of(some, session.children, GROUP)
    return [f"{parent}/{name}" for parent, names in zip(some, listed, strict=True) for name in names or ()]


async def parents(session: ZooKeeperSession, cannot_read: Callable[[str], None], begin: int = 0) -> AsyncIterator[str]:
    """Yields paths of the parents of ledgers with ids from ``begin`` on, by id."""
    top = await session.children(LEDGERS)
    if top is None:
        raise NotFoundError(f"{LEDGERS} does not exist, so the ledgers are not known")
    for name in sorted(top, key=lambda each: (len(each), each)):
        levels = levels_below(name)
        if levels is not None:
            async for parent in _below(session, f"{LEDGERS}/{name}", levels, cannot_read, begin):
                yield parent
        elif name not in NOT_LEDGERS:
            cannot_read(f"{LEDGERS}/{name}")


async def _below(
    session: ZooKeeperSession, path: str, levels: int, cannot_read: Callable[[str], None], begin: int
) -> AsyncIterator[str]:
    if _highest(path) < begin:
        return
    if levels == 0:
        yield path
        return
    for name in await session.children(path) or []:
        if not is_level(name):
            cannot_read(f"{path}/{name}")
            continue
        async for parent in _below(session, f"{path}/{name}", levels - 1, cannot_read, begin):
            yield parent


def _digits(path: str) -> tuple[str, int]:
    first, *others = path.removeprefix(f"{LEDGERS}/").split("/")
    return "".join((first, *others)), _SHORT if len(first) == 2 else _LONG


def _lowest(path: str) -> int:
    digits, width = _digits(path)
    return int(digits.ljust(width, "0"))


def _highest(path: str) -> int:
    digits, width = _digits(path)
    return int(digits.ljust(width, "9"))


async def about_how_many(session: ZooKeeperSession) -> int:
    """Returns the number of ledgers: exact for few parents, estimated from a sample for many. Raises PortError."""
    found = [parent async for parent in parents(session, lambda path: None)]
    some = found if len(found) <= SAMPLE else [found[len(found) * each // SAMPLE] for each in range(SAMPLE)]
    sizes = [len(names or ()) for names in await each_of(some, session.children, GROUP)]
    return sum(sizes) * len(found) // len(some) if some else 0
