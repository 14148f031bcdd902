"""Decides whether the messages of a topic were delivered to other clusters, from its internal statistics. Pure.

A replicator is a cursor (class AbstractReplicator, replicatorPrefix). Its backlog is lost with the cursor as soon as
its cluster leaves the replication.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pulsar_operator.domain.logical.pulsar_names import is_system_topic

REPLICATOR: Final = "pulsar.repl."
"""Prefix of a replicator's cursor, before the name of the cluster (replicatorPrefix in broker.conf; seen on 4.0.8)."""

Position = tuple[int, int]
"""Ledger id and entry id."""


@dataclass(frozen=True)
class Delivery:
    """The delivery state of one topic, or partition, in one cluster."""

    last: Position
    """Position of its last entry."""
    waiting: Mapping[str, int] = field(hash=False)
    """Number of undelivered entries by target cluster, according to the counters, which may be wrong."""
    delivered: Mapping[str, Position] = field(hash=False)
    """Position of the last entry up to which all were delivered, by target cluster."""


def delivery(stats: Mapping[str, Any], towards: Collection[str]) -> Delivery:
    """Parses the answer of GET internalStats. A cluster without a cursor has no replicator, and no backlog.

    Raises ValueError if the statistics are incomplete: what is unknown does not count as delivered.
    """
    try:
        cursors = {name: stats["cursors"][f"{REPLICATOR}{name}"] for name in towards if _has(stats, name)}
        added = int(stats["entriesAddedCounter"])
        return Delivery(
            _position(stats["lastConfirmedEntry"]),
            {name: added - int(cursor["messagesConsumedCounter"]) for name, cursor in cursors.items()},
            {name: _position(cursor["markDeletePosition"]) for name, cursor in cursors.items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"internal statistics without {error}") from error


def _has(stats: Mapping[str, Any], cluster: str) -> bool:
    return f"{REPLICATOR}{cluster}" in stats["cursors"]


def _position(text: str) -> Position:
    ledger, entry = text.split(":")
    return int(ledger), int(entry)


def undelivered(now: Delivery, goal: Position) -> dict[str, int]:
    """Returns the number of undelivered entries by target cluster, without clusters that have all entries up to
    ``goal``. The number may include entries after ``goal``.

    ``goal`` is the last entry at an earlier time: a check that also waited for later entries would never end. Positions
    decide, since Pulsar's counters may be wrong, even below 0 (class ManagedCursorImpl, getNumberOfEntriesInBacklog). A
    last entry id of -1 belongs to an empty ledger, and is after all entries of earlier ledgers; in that case a count of
    0 is trusted.
    """
    return {
        name: count for name, count in now.waiting.items() if now.delivered[name] < goal and (count or goal[1] >= 0)
    }


def is_asked(topic: str) -> bool:
    """Whether the backlog of a topic must be checked: Pulsar's internal topics and non-persistent topics are left
    out."""
    return topic.startswith("persistent://") and not is_system_topic(topic.rsplit("/", 1)[1])
