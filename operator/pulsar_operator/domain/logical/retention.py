"""Determines which entries of a topic are content: those that the effective retention policy keeps.

Without retention Pulsar deletes entries once every subscription has acknowledged them, so remaining entries are not
content. Unread messages are reported as backlog.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TIME, SIZE = "retentionTimeInMinutes", "retentionSizeInMB"
DEFAULTS = {TIME: "defaultRetentionTimeInMinutes", SIZE: "defaultRetentionSizeInMB"}
"""Settings of the brokers' configuration, by member of a policy."""

Policy = Mapping[str, Any]


@dataclass(frozen=True)
class Kept:
    """Entries of a topic in one cluster, and the retention policy that keeps them."""

    cluster: str
    entries: int
    size: int
    """Size in bytes."""
    policy: Policy


def keeps(policy: Policy) -> bool:
    """Whether a retention policy keeps anything: neither limit is 0. -1 means no limit.

    Pulsar deletes a ledger if one of the two limits is exceeded (class ManagedLedgerImpl, internalTrimLedgers), so 0 in
    one of them keeps nothing. Newer brokers refuse it with another value beside it.
    """
    return bool(policy.get(TIME)) and bool(policy.get(SIZE))


def of_the_brokers(configuration: Mapping[str, Any]) -> Policy:
    """Returns the default policy of the brokers, from their configuration (defaults of class ServiceConfiguration)."""
    return {member: int(configuration.get(name) or 0) for member, name in DEFAULTS.items()}


def describe_kept(name: str, kept: list[Kept]) -> str:
    """Returns a message about the kept entries."""
    where = ", ".join(f"{each.entries} entries ({each.size} bytes) in cluster {each.cluster}" for each in kept)
    return f"Topic {name} has {where}, which retention keeps ({_limits(kept[0].policy)})"


def _limits(policy: Policy) -> str:
    time, size = policy.get(TIME), policy.get(SIZE)
    action_text = [f"{time} minutes" if time != -1 else "any time", f"{size} MiB" if size != -1 else "any size"]
    return ", ".join(action_text)
