"""The record of copies that were requested of a bookie that then stayed: they continue, and cannot be cancelled.

Once the bookie takes entries again, such a copy may close a new ledger on it without its writer's knowledge, and move
the ledger to other bookies. The ledger's metadata then no longer references the bookie, but the writer's open handle
does. So when the bookie is emptied the next time, the topics of all such ledgers are unloaded too
(domain/bookkeeper/ledger_scan.py, Handles.suspect).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from pulsar_operator.domain.dataplane.decommission.decommission_record import (
    COPIES_PATH,
    DecommissionRecord,
    copies_data,
    parse_copies,
)
from pulsar_operator.domain.dataplane.decommission.ended_copies import (
    ENDED_PATH,
    EndedCopies,
    ended_data,
    parse_ended,
    with_another,
)
from pulsar_operator.ports import ZooKeeperSession

EVERY_LEDGER: Final = -1
"""Value of Handles.suspect below the first id."""


async def with_copies(session: ZooKeeperSession, record: DecommissionRecord) -> DecommissionRecord:
    """Returns the record of a decommission that begins, with what earlier copies may have closed. Raises PortError."""
    node = await session.get(COPIES_PATH)
    copies = parse_copies(node.data) if node is not None else {}
    since = EVERY_LEDGER if copies is None else copies.get(record.bookie)
    return record if since is None else replace(record, handles=replace(record.handles, suspect=since))


async def remember_copies(session: ZooKeeperSession, record: DecommissionRecord) -> None:
    """Records requested copies before the record of a bookie is deleted. If the bookie is gone, or has another volume,
    no ledger was left and the copy is complete. Raises PortError; ConflictError if another writer was faster."""
    node = await session.get(COPIES_PATH)
    before = parse_copies(node.data) if node is not None else {}
    if before is None:
        return  # it stays so: all ledgers are suspect then
    after = {bookie: since for bookie, since in before.items() if bookie != record.bookie}
    emptied = record.forgot or (record.renewal is not None and record.renewal.claims)
    known = [each for each in (record.copied_from, before.get(record.bookie)) if each is not None]
    if known and not emptied:
        after[record.bookie] = min(known)
    if after == before:
        return
    if node is None:
        await session.create(COPIES_PATH, copies_data(after))
    else:
        await session.set(COPIES_PATH, copies_data(after), version=node.version)


async def ended_copies(session: ZooKeeperSession, bookie: str, now: datetime) -> EndedCopies | None:
    """Returns copies of a bookie that ended for lack of room; None if none did recently. Raises PortError."""
    node = await session.get(ENDED_PATH)
    return parse_ended(node.data, now).get(bookie) if node is not None else None


async def remember_end(session: ZooKeeperSession, bookie: str, now: datetime) -> None:
    """Records that a copy of a bookie ends now. Raises PortError; ConflictError if another writer was faster."""
    node = await session.get(ENDED_PATH)
    before = parse_ended(node.data, now) if node is not None else {}
    data = ended_data(with_another(before, bookie, now))
    if node is None:
        await session.create(ENDED_PATH, data)
    else:
        await session.set(ENDED_PATH, data, version=node.version)
