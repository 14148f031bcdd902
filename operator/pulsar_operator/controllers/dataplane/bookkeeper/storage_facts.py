"""Reads bookies and copies of ledgers from the metadata store.

The bookies' own HTTP lists are not used: each call creates a manager of under-replicated ledgers, whose listener on the
store is never removed (class PulsarLedgerUnderreplicationManager of Pulsar 4.0.8).
"""

from __future__ import annotations

from typing import Final

from pulsar_operator.controllers.core.bounded import each_of
from pulsar_operator.controllers.dataplane.bookkeeper.ledger_walk import IN_FLIGHT
from pulsar_operator.domain.bookkeeper.bookie_ids import INCARNATIONS_PATH, Counts, parse_incarnations
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.storage_facts import LISTED, StorageFacts, UnderReplicated, moment
from pulsar_operator.domain.bookkeeper.znodes import (
    AUDITOR,
    AVAILABLE,
    COOKIES,
    DISABLE,
    READONLY,
    READONLY_NAME,
    UNDER_REPLICATED,
    marked_ledger,
    parse_auditor,
    parse_mark,
)
from pulsar_operator.ports import Node, NotFoundError, UnavailableError, ZooKeeperSession

MARKS_LIMIT: Final = 1000
"""Maximum reads of the tree of under-replicated ledgers in one pass: each ledger has its own branch."""
ROOT_LEVELS: Final = 4
"""Levels of the tree of under-replicated ledgers above its leaves."""


async def storage_facts(session: ZooKeeperSession, *, limit: int = MARKS_LIMIT) -> StorageFacts:
    """Returns the complete facts. ``limit`` is the number of reads of the tree of under-replicated ledgers. Raises
    PortError; NotFoundError if the store has no node for bookies at all, so that nothing is known of them.
    """
    available, readonly, cookies = await each_of((AVAILABLE, READONLY, COOKIES), session.children, IN_FLIGHT)
    if available is None:
        raise NotFoundError(f"{AVAILABLE} does not exist, so the bookies are not known")
    paths = (AUDITOR, DISABLE, INCARNATIONS_PATH)
    auditor, disabled, incarnations = await each_of(paths, session.get, IN_FLIGHT)
    return StorageFacts(
        # While a bookie changes between the two it is in both (class BookieStateManager).
        writable=frozenset(available) - {READONLY_NAME} - frozenset(readonly or ()),
        readonly=frozenset(readonly or ()),
        cookies=frozenset(cookies or ()),
        under_replicated=await _under_replicated(session, limit),
        auditor=None if auditor is None else parse_auditor(auditor.data),
        disabled=disabled is not None,
        incarnations=_incarnations(incarnations),
    )


def _incarnations(node: Node | None) -> Counts:
    try:
        return parse_incarnations(node.data if node is not None else b"")
    except UndecodableError as error:
        raise UnavailableError(str(error)) from None


async def _under_replicated(session: ZooKeeperSession, limit: int) -> UnderReplicated:
    """Reads the tree level by level. Branches without a leaf are left behind by ledgers that were copied, and do not
    count."""
    found: dict[int, str] = {}
    level, left, cut = [UNDER_REPLICATED], limit, False
    for _ in range(ROOT_LEVELS + 1):
        cut = cut or len(level) > left
        paths, level = level[:left], []
        left -= len(paths)
        for path, names in zip(paths, await each_of(paths, session.children, IN_FLIGHT), strict=True):
            for name in names or ():
                try:
                    ledger = marked_ledger(name)
                except UndecodableError:
                    cut = True  # marks something, nobody knows what
                    continue
                if ledger is not None:
                    found[ledger] = f"{path}/{name}"
                else:
                    level.append(f"{path}/{name}")
    listed = tuple(sorted(found)[:LISTED])
    nodes = await each_of([found[ledger] for ledger in listed], session.get, IN_FLIGHT)
    marked = [moment(_marked(node)) for node in nodes]
    oldest = min((each for each in marked if each is not None), default=None)
    return UnderReplicated(len(found), cut or bool(level), oldest, listed)


def _marked(node: Node | None) -> int | None:
    try:
        return None if node is None else parse_mark(node.data).ctime
    except UndecodableError:
        return None
