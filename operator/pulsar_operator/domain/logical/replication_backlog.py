"""Whether what a topic has for other clusters was delivered: its replicators by its internal statistics. Pure.

A replicator is a cursor (class AbstractReplicator, replicatorPrefix); what is behind it is dropped with the cursor as
soon as its cluster leaves the replication.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pulsar_operator.domain.logical.pulsar_names import is_system_topic

REPLICATOR: Final = "pulsar.repl."
"""In front of the cluster's name, of the cursor's (replicatorPrefix in broker.conf; seen on 4.0.8)."""

Position = tuple[int, int]
"""Ledger and entry."""


@dataclass(frozen=True)
class Delivery:
    """One topic, or partition, in one cluster."""

    last: Position
    """Its last entry."""
    waiting: Mapping[str, int] = field(hash=False)
    """Entries that were not delivered, by the cluster they are for; those that its counters report, at times wrong."""
    delivered: Mapping[str, Position] = field(hash=False)
    """The last entry up to which all were delivered, by cluster."""


def delivery(stats: Mapping[str, Any], towards: Collection[str]) -> Delivery:
    """Read GET internalStats. A cluster without a cursor has no replicator, and nothing waits for it.

    Raises ValueError for statistics that do not contain it: what is not known is not delivered.
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
    """Returns entries up to ``goal``, or all where those are not counted apart, that clusters lack; without those that
    have it.

    ``goal`` is the last entry of a moment ago: what is published later is not waited for, or it never ends. Positions
    decide, for Pulsar's counters may be wrong, also below 0, as it knows itself (class ManagedCursorImpl,
    getNumberOfEntriesInBacklog). A last entry of -1 is of an empty ledger, and behind all that is in others: then a
    count of 0 is believed.
    """
    return {
        name: count for name, count in now.waiting.items() if now.delivered[name] < goal and (count or goal[1] >= 0)
    }


def is_asked(topic: str) -> bool:
    """Whether a topic's messages are another client's: Pulsar's own topics and those that keep nothing are not."""
    return topic.startswith("persistent://") and not is_system_topic(topic.rsplit("/", 1)[1])
