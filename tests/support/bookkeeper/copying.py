"""What auto-recovery does with a bookie it was asked to copy from, on the metadata of ledgers alone.

As class BookKeeperAdmin, recoverBookieData, does it: a ledger that is not closed is closed first, the bookie's place in
every segment goes to a writable bookie that is not in the segment yet, and the first ledger that cannot be done ends
the whole copy. Ledgers are taken by their ids here; the real one takes some of a folder at once.
"""

from __future__ import annotations

from collections.abc import Collection

from pulsar_operator.domain.bookkeeper.ledgers import Ledger, LedgerState, decode_ledger
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.znodes import (
    AVAILABLE,
    LEDGERS,
    READONLY,
    READONLY_NAME,
    is_level,
    ledger_id,
    levels_below,
)
from pulsar_operator.ports import ZooKeeperSession
from tests.support.bookkeeper.encoding import framed, ledger_body


async def ledger_paths(session: ZooKeeperSession) -> list[str]:
    """Paths of all ledgers, by id."""
    level = {
        f"{LEDGERS}/{name}": depth for name in await session.children(LEDGERS) or () if (depth := levels_below(name))
    }
    found: list[str] = []
    while level:
        path, depth = level.popitem()
        for name in await session.children(path) or ():
            if depth and is_level(name):
                level[f"{path}/{name}"] = depth - 1
            elif not depth:
                found.append(f"{path}/{name}")
    return sorted(found, key=ledger_id)


async def copy_from(session: ZooKeeperSession, bookie: str, bad: Collection[int] = ()) -> bool:
    """Copy all that names a bookie to others; whether it came to its end. ``bad`` are ledgers that cannot be read."""
    for path in await ledger_paths(session):
        node = await session.get(path)
        if node is None:
            continue
        try:
            ledger = decode_ledger(node.data)
        except UndecodableError:
            return False
        if not any(bookie in segment.bookies for segment in ledger.segments):
            continue
        writable = [name for name in await session.children(AVAILABLE) or () if name != READONLY_NAME]
        moved = None if ledger_id(path) in bad else without(ledger, bookie, writable)
        if moved is None:
            return False
        await session.set(path, moved, version=node.version)
    return True


async def copy_lost(session: ZooKeeperSession, bad: Collection[int] = ()) -> None:
    """As the auditor and those that replicate for it do: each ledger by itself, those on bookies that are not there.

    A ledger with entries on no bookie that is there stays as it is.
    """
    for path in await ledger_paths(session):
        node = await session.get(path)
        if node is None or ledger_id(path) in bad:
            continue
        try:
            ledger = decode_ledger(node.data)
        except UndecodableError:
            continue
        writable = {name for name in await session.children(AVAILABLE) or () if name != READONLY_NAME}
        alive = writable | set(await session.children(READONLY) or ())
        moved: bytes | None = node.data
        for bookie in sorted({each for segment in ledger.segments for each in segment.bookies} - alive):
            if moved is None or not alive.intersection(*({*s.bookies} for s in ledger.segments if bookie in s.bookies)):
                moved = None
                break
            moved = without(decode_ledger(moved), bookie, writable)
        if moved is not None and moved != node.data:
            await session.set(path, moved, version=node.version)


def without(ledger: Ledger, bookie: str, writable: Collection[str]) -> bytes | None:
    """The metadata of a closed ledger without that bookie; None where there is no other for it.

    One that is not closed ends at entry 0, as if one had been written.
    """
    segments = []
    for segment in ledger.segments:
        others = [name for name in sorted(writable) if name != bookie and name not in segment.bookies]
        if bookie in segment.bookies and not others:
            return None
        segments.append((segment.first_entry_id, [others[0] if name == bookie else name for name in segment.bookies]))
    closed = ledger.state is LedgerState.CLOSED
    return framed(
        ledger_body(
            state=LedgerState.CLOSED.value,
            quorums=(ledger.ensemble_size, ledger.write_quorum, ledger.ack_quorum),
            segments=segments,
            last=ledger.last_entry_id if closed and ledger.last_entry_id is not None else segments[-1][0],
            length=ledger.length or 0,
            custom=ledger.custom,
            ctime=ledger.ctime,
        )
    )
