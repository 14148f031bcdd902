"""BookKeeper waits before it copies what a lost bookie has, while bookies are replaced on purpose.

With its default, 0, the auditor takes every restart of a bookie for a loss and has all its ledgers copied (BookKeeper's
class Auditor, handleLostBookiesAsync). The value in the metadata store rules; that of bookkeeper.conf only seeds it. An
auditor that waits for a bookie waits again for as long as a new value says (submitLostBookieRecoveryDelayChangedEvent
there). What it was is written beside it first, in the same store: it survives the operator, the custom resource and a
restored status.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.ports import ConflictError, Node, NotFoundError, ZooKeeperSession

DELAY_PATH: Final = "/ledgers/underreplication/lostBookieRecoveryDelay"
DELAY_RECORD_PATH: Final = "/pulsar-operator/lost-bookie-recovery-delay"
MARGIN_SECONDS: Final = 60
"""Beyond spec.progressDeadlineSeconds, after which the roll stops."""


@dataclass(frozen=True)
class RaisedDelay:
    """What was raised, in seconds."""

    before: int
    raised: int
    earlier: int | None = None
    """What it was raised to before it was raised further; the store has that where the change was interrupted."""

    @property
    def ours(self) -> frozenset[int]:
        """Values that this operator has put there."""
        return frozenset({self.raised} if self.earlier is None else {self.raised, self.earlier})

    def to_bytes(self) -> bytes:
        """The record as stored."""
        fields = {"before": self.before, "raised": self.raised}
        return json.dumps(fields | ({} if self.earlier is None else {"earlier": self.earlier})).encode()


def parse_delay_record(node: Node | None) -> RaisedDelay | None:
    """What the record says; None where there is none, or it says nothing that can be put back."""
    try:
        found = json.loads(node.data) if node is not None else None
        if not found:
            return None
        earlier = found.get("earlier")
        return RaisedDelay(int(found["before"]), int(found["raised"]), None if earlier is None else int(earlier))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def seconds_for(spec: PulsarClusterSpec) -> int:
    """How long the auditor shall wait while bookies roll: longer than a roll waits for a bookie."""
    return spec.progress_deadline_seconds + MARGIN_SECONDS


async def raise_delay(session: ZooKeeperSession, seconds: int) -> RaisedDelay | None:
    """Have the auditor wait at least so many seconds; what is raised now, None where nothing had to be.

    One that is raised already is raised further where it is less. A value that somebody else set meanwhile stays.
    Raises PortError.
    """
    node, record = await session.get(DELAY_PATH), await session.get(DELAY_RECORD_PATH)
    current = _number(node)
    if node is None or current is None:
        return None  # no auditor was ever here
    known = parse_delay_record(record)
    if record is not None and known is None:
        await session.delete(DELAY_RECORD_PATH, version=record.version)
        record = None
    if known is None:
        if current >= seconds:
            return None
        known = RaisedDelay(current, seconds)
        await session.create(DELAY_RECORD_PATH, known.to_bytes())
    elif record is not None and known.raised < seconds and current in known.ours | {known.before}:
        known = RaisedDelay(known.before, seconds, current if current in known.ours else None)
        await session.set(DELAY_RECORD_PATH, known.to_bytes(), version=record.version)
    if current in {known.before, known.earlier} - {known.raised}:
        await session.set(DELAY_PATH, str(known.raised).encode(), version=node.version)
    return known


async def restore_delay(session: ZooKeeperSession) -> RaisedDelay | None:
    """Put back what was raised; what was put back, None where nothing is raised. Raises PortError."""
    record = await session.get(DELAY_RECORD_PATH)
    if record is None:
        return None
    known, node = parse_delay_record(record), await session.get(DELAY_PATH)
    ours = known is not None and node is not None and _number(node) in known.ours
    if known is not None and node is not None and ours:
        await session.set(DELAY_PATH, str(known.before).encode(), version=node.version)
    try:
        await session.delete(DELAY_RECORD_PATH, version=record.version)
    except (ConflictError, NotFoundError):
        return None  # another pass did
    return known if ours else None


async def raised_delay(session: ZooKeeperSession) -> RaisedDelay | None:
    """What is raised now. Raises PortError."""
    return parse_delay_record(await session.get(DELAY_RECORD_PATH))


def _number(node: Node | None) -> int | None:
    try:
        return int(node.data) if node is not None else None
    except ValueError:
        return None
