"""The record of abandoned ledgers: written before a cookie is deleted, and pruned as ledgers are deleted."""

from __future__ import annotations

import asyncio

from pulsar_operator.domain.bookkeeper.abandoned_ledgers import (
    GIVEN_UP_PATH,
    NAMED,
    GivenUp,
    given_up_data,
    parse_given_up,
    pruned,
    with_given_up,
)
from pulsar_operator.domain.bookkeeper.ledger_scan import LedgerScan
from pulsar_operator.domain.bookkeeper.ledgers import decode_ledger
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.znodes import ledger_path
from pulsar_operator.ports import ConflictError, Node, NotFoundError, UnavailableError, ZooKeeperSession


async def remember_given_up(session: ZooKeeperSession, bookie: str, scan: LedgerScan) -> None:
    """Records that the ledgers of a scan are abandoned with a bookie. Raises PortError; ConflictError if another writer
    was faster; UnavailableError if the record cannot be read, since it is not overwritten."""
    node = await session.get(GIVEN_UP_PATH)
    before = parse_given_up(node.data) if node is not None else {}
    if before is None:
        raise UnavailableError(f"Znode {GIVEN_UP_PATH} cannot be read. Repair the znode from a backup, or delete it")
    await _write(session, node, with_given_up(before, bookie, scan))


async def still_given_up(session: ZooKeeperSession, *, act: bool) -> dict[str, GivenUp] | None:
    """Returns the record without those of the first ledgers that are deleted or no longer reference the bookie; None if
    the record cannot be read. Raises PortError."""
    node = await session.get(GIVEN_UP_PATH)
    if node is None:
        return {}
    found = parse_given_up(node.data)
    if found is None:
        return None
    ended = {}
    for bookie, of in found.items():
        asked = of.ledgers[:NAMED]
        names = await asyncio.gather(*(_names(session, each, bookie) for each in asked))
        ended[bookie] = {ledger for ledger, named in zip(asked, names, strict=True) if not named}
    left = pruned(found, ended)
    if left != found and act:
        try:
            await _write(session, node, left)
        except (ConflictError, NotFoundError):
            return found  # another writer was faster: the next pass looks again
    return left


async def _names(session: ZooKeeperSession, ledger: int, bookie: str) -> bool:
    node = await session.get(ledger_path(ledger))
    try:
        return node is not None and decode_ledger(node.data).names(bookie)
    except UndecodableError:
        return True


async def _write(session: ZooKeeperSession, node: Node | None, found: dict[str, GivenUp]) -> None:
    if node is None:
        await session.create(GIVEN_UP_PATH, given_up_data(found))
    else:
        await session.set(GIVEN_UP_PATH, given_up_data(found), version=node.version)
