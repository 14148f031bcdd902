"""Content of a topic other than unread messages: entries that a retention policy keeps, and those of the compacted
ledger.

Used by topic_deletion.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pulsar_operator.controllers.core.bounded import each_of
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, Scope
from pulsar_operator.domain.logical.pulsar_names import namespace_path
from pulsar_operator.domain.logical.retention import Kept, Policy, keeps, of_the_brokers
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import Json, NotFoundError, RefusedError

NO_TOPIC_POLICIES = 405
"""HTTP status with which brokers without topicLevelPoliciesEnabled refuse each request for a topic policy."""


COMPACTION: Final = "__compaction"
"""Pulsar's internal subscription of a compacted topic (class Compactor, COMPACTION_SUBSCRIPTION)."""
LEDGER_PROPERTY: Final = "CompactedTopicLedger"
"""Property of that cursor with the compacted ledger (class Compactor, COMPACTED_TOPIC_LEDGER_PROPERTY)."""


@dataclass(frozen=True)
class Compacted:
    """The compacted ledgers of a topic in one cluster. They have the newest message of each key, which readers of the
    compacted view get although the original messages no longer exist."""

    cluster: str
    entries: int
    size: int
    """Size in bytes."""


class MissingError(AdminUnreachableError):
    """A cluster does not find a topic that it has just listed: either it was deleted in the meantime, as the next list
    shows, or its content is unknown."""


async def kept_entries(scope: Scope, cluster: str, path: tuple[str, ...], parts: Sequence[str]) -> Kept | None:
    """Returns the entries that retention keeps of a topic in one cluster. ``parts`` are the local names of the topic,
    or of its partitions.

    None if no policy keeps anything, or if there are no entries. Raises AdminUnreachableError, also if Pulsar does not
    report them: unknown content is not treated as empty.
    """
    policy = await _in_force(scope, cluster, path)
    if not keeps(policy):
        return None
    counted = await each_of(parts, lambda part: _count(scope, cluster, (*path[:-1], part)))
    entries, size = (sum(column) for column in zip(*counted, strict=True))
    return Kept(cluster, entries, size, policy) if entries else None


async def _count(scope: Scope, cluster: str, path: tuple[str, ...]) -> tuple[int, int]:
    """Returns the number of entries and bytes of a topic, or of a partition. Raises AdminUnreachableError."""
    found: Json = await asked_of_listed(scope, cluster, path, "internalStats")
    try:
        return int(found["numberOfEntries"]), int(found["totalSize"])
    except (KeyError, TypeError, ValueError):
        raise AdminUnreachableError(
            f"cluster {cluster} did not return the number of entries of topic {path[-1]}"
        ) from None


async def compacted_entries(
    scope: Scope, cluster: str, path: tuple[str, ...], parts: Sequence[str]
) -> Compacted | None:
    """Returns the content of the compacted ledgers of a topic in one cluster. ``parts`` are the local names of the
    topic, or of its partitions, that have the cursor of compaction.

    None if they are empty. Raises AdminUnreachableError, also if Pulsar does not report it.
    """
    counted = await each_of(parts, lambda part: _compacted(scope, cluster, (*path[:-1], part)))
    entries, size = (sum(column) for column in zip(*counted, strict=True))
    return Compacted(cluster, entries, size) if entries or size else None


async def _compacted(scope: Scope, cluster: str, path: tuple[str, ...]) -> tuple[int, int]:
    """Returns the number of entries and bytes of the compacted ledger of a topic, or of a partition.

    Pulsar reports -1 if there was no compaction yet, but also if it cannot open the ledger (class PersistentTopic,
    getInternalStats). In the latter case the cursor has a ledger, and AdminUnreachableError is raised.
    """
    found: Json = await asked_of_listed(scope, cluster, path, "internalStats")
    try:
        ledger = found["compactedLedger"]
        entries, size = int(ledger["entries"]), int(ledger["size"])
        properties = found["cursors"][COMPACTION].get("properties") if entries < 0 else None
    except (AttributeError, KeyError, TypeError, ValueError):
        properties = {LEDGER_PROPERTY: None}
    if isinstance(properties, Mapping) and LEDGER_PROPERTY in properties:
        text = f"cluster {cluster} did not return the number of entries in the compacted ledger of topic {path[-1]}"
        raise AdminUnreachableError(text, status=200)
    return max(entries, 0), max(size, 0)


async def asked_of_listed(scope: Scope, cluster: str, path: tuple[str, ...], what: str) -> Json:
    """Returns an answer about a topic that the cluster has just listed. Raises MissingError, AdminUnreachableError."""
    try:
        found = await scope.admin.at(cluster, Call("GET", (*path, what)))
    except NotFoundError as error:
        text = f"cluster {cluster} lists topic {path[-1]}, but does not find the topic: {error}"
        raise MissingError(text, status=404) from error
    if not isinstance(found, dict):
        raise AdminUnreachableError(f"cluster {cluster} did not return {what} of topic {path[-1]}", status=200)
    return found


async def _in_force(scope: Scope, cluster: str, path: tuple[str, ...]) -> Policy:
    """Returns the effective retention policy of a topic: its own in the cluster, its replicated one, its namespace's,
    or the default of the brokers. With ``applied`` Pulsar ignores the replicated one (seen on 4.0.8)."""
    call = (*path, "retention")
    try:
        shared = await scope.admin.at(cluster, Call("GET", call, {"isGlobal": "true"}))
        query = {"applied": "true"} if shared is None else {}
        return dict(await scope.admin.at(cluster, Call("GET", call, query)) or shared or {})
    except NotFoundError:
        pass  # partitions are left of a topic whose deletion was interrupted, and policies of its own it has none
    except RefusedError as error:
        if error.status != NO_TOPIC_POLICIES:
            raise
    found = await scope.admin.at(cluster, Call("GET", (*namespace_path(*path[1:3]), "retention")))
    if found is not None:
        return dict(found)
    return of_the_brokers(await scope.admin.at(cluster, Call("GET", ("brokers", "configuration", "runtime"))) or {})
