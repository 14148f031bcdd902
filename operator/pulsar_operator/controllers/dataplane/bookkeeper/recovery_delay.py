"""Delays BookKeeper's recovery of lost bookies while the operator replaces bookies on purpose.

With its default, 0, the auditor treats every restart of a bookie as a loss and has all its ledgers copied (BookKeeper's
class Auditor, handleLostBookiesAsync). The value in the metadata store counts; that of bookkeeper.conf only initializes
it. An auditor that waits for a bookie waits again for a new value (submitLostBookieRecoveryDelayChangedEvent there).
The previous value is recorded first, in the same store: it outlives the operator, the custom resource and a restored
status.
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
"""Seconds beyond spec.progressDeadlineSeconds, after which the rollout fails."""


@dataclass(frozen=True)
class RaisedDelay:
    """The raised delay, in seconds."""

    before: int
    raised: int
    earlier: int | None = None
    """The earlier raised value, if it was raised further; the store has it if the change was interrupted."""

    @property
    def ours(self) -> frozenset[int]:
        """Values that this operator wrote."""
        return frozenset({self.raised} if self.earlier is None else {self.raised, self.earlier})

    def to_bytes(self) -> bytes:
        """Returns the stored record."""
        fields = {"before": self.before, "raised": self.raised}
        return json.dumps(fields | ({} if self.earlier is None else {"earlier": self.earlier})).encode()


def parse_delay_record(node: Node | None) -> RaisedDelay | None:
    """Parses the record; None if there is none, or it has nothing that can be restored."""
    try:
        found = json.loads(node.data) if node is not None else None
        if not found:
            return None
        earlier = found.get("earlier")
        return RaisedDelay(int(found["before"]), int(found["raised"]), None if earlier is None else int(earlier))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def seconds_for(spec: PulsarClusterSpec) -> int:
    """Returns the delay while bookies are replaced: longer than a rollout waits for a bookie."""
    return spec.progress_deadline_seconds + MARGIN_SECONDS


async def raise_delay(session: ZooKeeperSession, seconds: int) -> RaisedDelay | None:
    """Raises the delay to at least this number of seconds; returns the raised delay, None if nothing had to be raised.

    A delay that is raised already is raised further if it is lower. A value of another writer stays. Raises PortError.
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
    """Restores the delay; returns what was restored, None if nothing is raised. Raises PortError."""
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
    """Returns the raised delay. Raises PortError."""
    return parse_delay_record(await session.get(DELAY_RECORD_PATH))


def _number(node: Node | None) -> int | None:
    try:
        return int(node.data) if node is not None else None
    except ValueError:
        return None
