"""BookKeeper waits before it copies what a lost bookie has, while bookies are replaced on purpose.

With its default, 0, the auditor takes every restart of a bookie for a loss and has all its ledgers copied (BookKeeper's
class Auditor, handleLostBookiesAsync). The value in the metadata store rules; that of bookkeeper.conf only seeds it.
What it was is written beside it first, in the same store: it survives the operator, the custom resource and a restored
status.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from pulsar_operator.ports import ConflictError, Node, NotFoundError, ZooKeeperSession

DELAY_PATH: Final = "/ledgers/underreplication/lostBookieRecoveryDelay"
MEMO_PATH: Final = "/pulsar-operator/lost-bookie-recovery-delay"


@dataclass(frozen=True)
class RaisedDelay:
    """What was raised, in seconds."""

    before: int
    raised: int


def parse_memo(node: Node | None) -> RaisedDelay | None:
    """What the memo says; None where there is none, or it says nothing that can be put back."""
    try:
        found = json.loads(node.data) if node is not None else None
        return RaisedDelay(int(found["before"]), int(found["raised"])) if found else None
    except (ValueError, TypeError, KeyError):
        return None


async def raise_delay(session: ZooKeeperSession, seconds: int) -> RaisedDelay | None:
    """Have the auditor wait at least so long; what is raised now, None where nothing had to be.

    A value that somebody else set meanwhile stays. Raises PortError.
    """
    node, memo = await session.get(DELAY_PATH), await session.get(MEMO_PATH)
    current = _number(node)
    if node is None or current is None:
        return None  # no auditor was ever here
    known = parse_memo(memo)
    if memo is not None and known is None:
        await session.delete(MEMO_PATH, version=memo.version)
        memo = None
    if known is None:
        if current >= seconds:
            return None
        known = RaisedDelay(current, seconds)
        text = json.dumps({"before": known.before, "raised": known.raised})
        await session.create(MEMO_PATH, text.encode())
    if current == known.before != known.raised:
        await session.set(DELAY_PATH, str(known.raised).encode(), version=node.version)
    return known


async def restore_delay(session: ZooKeeperSession) -> RaisedDelay | None:
    """Put back what was raised; what was put back, None where nothing is raised. Raises PortError."""
    memo = await session.get(MEMO_PATH)
    if memo is None:
        return None
    known, node = parse_memo(memo), await session.get(DELAY_PATH)
    ours = known is not None and node is not None and _number(node) == known.raised
    if known is not None and node is not None and ours:
        await session.set(DELAY_PATH, str(known.before).encode(), version=node.version)
    try:
        await session.delete(MEMO_PATH, version=memo.version)
    except (ConflictError, NotFoundError):
        return None  # another pass did
    return known if ours else None


async def raised_delay(session: ZooKeeperSession) -> RaisedDelay | None:
    """What is raised now. Raises PortError."""
    return parse_memo(await session.get(MEMO_PATH))


def _number(node: Node | None) -> int | None:
    try:
        return int(node.data) if node is not None else None
    except ValueError:
        return None
