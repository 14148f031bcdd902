"""Deletes a topic without losing what a client still needs.

Used by replicated_topic_deletion.py, topic.py, topicset/removal.py.
"""

from __future__ import annotations

import logging
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pulsar_operator.api.constants import Reason
from pulsar_operator.balance.model.hashing import topic_hash
from pulsar_operator.balance.model.ranges import boundary_points
from pulsar_operator.controllers.core.bounded import each_of
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, Scope
from pulsar_operator.controllers.logical.topic_content import (
    COMPACTION,
    MissingError,
    asked_of_listed,
    compacted_entries,
    kept_entries,
)
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.logical.pulsar_names import namespace_path
from pulsar_operator.domain.logical.retention import describe_kept
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import Json, NotFoundError, PortError, RefusedError, UnavailableError

log = logging.getLogger(__name__)

FENCED: Final = "Topic is already fenced"
"""Text of Pulsar's answer (HTTP 500) if the topic is being closed or deleted, or if an earlier deletion hangs."""
FENCED_SECONDS: Final = 120.0
"""Seconds that a deletion may take. On 4.0.8 a deletion that hangs on policies gives up after 30 s, then starts
again."""
FENCED_AGAIN_SECONDS: Final = 600.0
"""Seconds between two unloads for the same topic."""
FEW: Final = 8
"""Number of partitions up to which each is read separately. For more, one request returns the statistics of all."""
COMPACTION_FAILED: Final = "ERROR"
"""Value of Pulsar's LongRunningProcessStatus for a failed compaction."""


@dataclass(frozen=True)
class Unused:
    """A topic that no client uses and that has no content."""

    replicated: frozenset[str] = frozenset()
    """Clusters that replicate it to others. The replication is ended before the deletion: see
    replicated_topic_deletion.py."""
    unreported: frozenset[str] = frozenset()
    """Clusters that do not report whether they replicate it. Only a forced deletion continues then."""


async def in_use(
    scope: Scope,
    path: tuple[str, ...],
    present: Mapping[str, Sequence[str]],
    *,
    remedy: str,
    counted: bool = False,
) -> Blocker | Unused:
    """Returns who uses a topic, or its content, in any cluster. ``present`` has by cluster the local names of the topic
    or of its partitions.

    Pulsar deletes unread messages, and those that retention or compaction keeps, without a check. The operator does
    not, nor does it delete messages that are not replicated yet, since they may be unread in the other cluster.
    ``remedy`` is a further remedy, as the end of a sentence. With ``counted`` the names are derived from the number of
    partitions, so that one may not exist; otherwise Pulsar has just listed them. Raises AdminUnreachableError.
    """
    found = await _stats(scope, path, present, remedy, counted=counted)
    if isinstance(found, list) and any(stats.get("replication") for _, _, stats in found):
        # What was on its way to a cluster that had been checked before has arrived there.
        found = await _stats(scope, path, present, remedy, counted=counted)
    if isinstance(found, Blocker):
        return found
    filled: dict[str, list[str]] = {}
    tables: dict[str, list[str]] = {}
    for cluster, part, stats in found:
        if COMPACTION in (stats.get("subscriptions") or {}):
            tables.setdefault(cluster, []).append(part)
        if stats.get("storageSize") != 0:
            filled.setdefault(cluster, []).append(part)
    compacted = [one for one in [await compacted_entries(scope, c, path, parts) for c, parts in tables.items()] if one]
    if compacted:
        where = ", ".join(f"{one.entries} entries ({one.size} bytes) in cluster {one.cluster}" for one in compacted)
        text = f"The compacted ledger of topic {path[-1]} still has {where}, with the newest message of each key"
        return Blocker(
            Reason.NOT_EMPTY, f"{text}, so the topic is not deleted. If these messages are no longer needed, {remedy}"
        )
    kept = [one for one in [await kept_entries(scope, c, path, parts) for c, parts in filled.items()] if one]
    if not kept:
        return _replicated(found)
    return Blocker(
        Reason.NOT_EMPTY,
        f"{describe_kept(path[-1], kept)}, so the topic is not deleted. If these messages are no longer needed, "
        f"set the retention of the topic to 0. Otherwise {remedy}",
    )


async def _stats(
    scope: Scope, path: tuple[str, ...], present: Mapping[str, Sequence[str]], remedy: str, *, counted: bool
) -> list[tuple[str, str, Json]] | Blocker:
    """Returns the statistics by cluster and local name, or a blocker if a client uses one of them."""
    found: list[tuple[str, str, Json]] = []
    for cluster, parts in present.items():
        together = await _together(scope, cluster, path, parts)

        async def ask(part: str, cluster: str = cluster, together: Mapping[str, Json] = together) -> Json | None:
            if part in together:
                return together[part]
            try:
                return await asked_of_listed(scope, cluster, (*path[:-1], part), "stats")
            except MissingError:
                if counted:
                    return None
                raise

        for part, stats in zip(parts, await each_of(parts, ask), strict=True):
            if stats is None:
                continue
            blocker = _users(stats, part, cluster, remedy)
            if blocker is not None:
                return blocker
            found.append((cluster, part, stats))
    return found


async def _together(scope: Scope, cluster: str, path: tuple[str, ...], parts: Sequence[str]) -> Mapping[str, Json]:
    """Returns the statistics of many partitions from one answer, by local name.

    Pulsar omits partitions whose broker does not answer, and does not find those whose topic was deleted. They are
    requested one by one.
    """
    if len(parts) <= FEW:
        return {}
    try:
        found = await scope.admin.at(cluster, Call("GET", (*path, "partitioned-stats"), {"perPartition": "true"}))
        partitions = found["partitions"].items()
        return {
            full.rpartition("/")[2]: stats for full, stats in partitions if isinstance(stats.get("subscriptions"), dict)
        }
    except (NotFoundError, RefusedError, UnavailableError, AttributeError, KeyError, TypeError) as error:
        log.debug("cluster %s gives no statistics of topic %s in one answer: %s", cluster, "/".join(path), error)
        return {}


def _users(stats: Json, name: str, cluster: str, remedy: str) -> Blocker | None:
    """Returns a blocker if a topic or a partition has connected clients, or unread or unreplicated messages; None
    otherwise."""
    publishers = len(stats.get("publishers") or ())
    if publishers:
        return Blocker(
            Reason.NOT_EMPTY,
            f"Topic {name} in cluster {cluster} has {publishers} connected producers, so the topic is not "
            f"deleted. Stop the producers first, or {remedy}",
        )
    for subscription, facts in sorted((stats.get("subscriptions") or {}).items()):
        if subscription == COMPACTION:
            continue  # its backlog is no client's; in_use checks the compacted ledger
        consumers, backlog = len(facts.get("consumers") or ()), int(facts.get("msgBacklog") or 0)
        if consumers or backlog:
            return Blocker(
                Reason.NOT_EMPTY,
                f"Subscription {subscription} of topic {name} in cluster {cluster} has {consumers} connected "
                f"consumers and {backlog} unread messages, so the topic is not deleted. Consume or clear the "
                f"messages and stop the consumers first, or {remedy}",
            )
    for target, facts in sorted((stats.get("replication") or {}).items()):
        backlog = int(facts.get("replicationBacklog") or 0)
        if backlog:
            return Blocker(
                Reason.NOT_EMPTY,
                f"Topic {name} in cluster {cluster} has {backlog} messages that are not replicated to {target} "
                f"yet, so the topic is not deleted. Wait until the messages are replicated, or {remedy}",
            )
    return None


async def users(
    scope: Scope, path: tuple[str, ...], present: Mapping[str, Sequence[str]], *, remedy: str
) -> Blocker | None:
    """Returns a blocker if a client is connected to a non-persistent topic in any cluster; None otherwise. A cluster
    does not know a topic that no client has open there. Raises AdminUnreachableError."""
    found = await _stats(scope, path, present, remedy, counted=True)
    return found if isinstance(found, Blocker) else None


async def replicating(scope: Scope, path: tuple[str, ...], present: Mapping[str, Sequence[str]]) -> Unused:
    """Returns which clusters replicate a topic to others, regardless of its clients.

    A topic that cannot be loaded reports nothing, and its deletion is usually forced. Its cluster is then not read any
    further.
    """
    found: list[tuple[str, str, Json]] = []
    unreported: set[str] = set()
    for cluster, parts in present.items() if len(present) > 1 else ():
        together = await _together(scope, cluster, path, parts)
        found += [(cluster, part, together[part]) for part in parts if part in together]

        async def ask(part: str, cluster: str = cluster) -> Json | None:
            if cluster in unreported:
                return None
            try:
                return await asked_of_listed(scope, cluster, (*path[:-1], part), "stats")
            except MissingError:
                return None
            except (AdminUnreachableError, RefusedError) as error:
                log.debug(
                    "cannot read replication targets of topic %s in cluster %s: %s", "/".join(path), cluster, error
                )
                unreported.add(cluster)
                return None

        rest = [part for part in parts if part not in together]
        found += [(cluster, part, s) for part, s in zip(rest, await each_of(rest, ask), strict=True) if s is not None]
    return replace(_replicated(found), unreported=frozenset(unreported))


def _replicated(found: Iterable[tuple[str, str, Json]]) -> Unused:
    return Unused(frozenset(cluster for cluster, _, stats in found if stats.get("replication")))


def whole_of(path: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the path of a partitioned topic as a whole. The clusters that share its number of partitions share it."""
    return (*path, "partitions")


async def delete_in(
    scope: Scope,
    cluster: str,
    path: tuple[str, ...],
    targets: Sequence[tuple[str, ...]],
    *,
    force: bool,
    free: bool,
) -> Blocker | None:
    """Deletes in one cluster a topic, some of its partitions, or a partitioned topic as a whole: see whole_of. A target
    that no longer exists counts as deleted.

    The first cluster removes the metadata of a partitioned topic. The other clusters keep their partitions, so these
    are targets too. With ``free`` the bundles of topics that are already being deleted, according to Pulsar, are
    unloaded, see unload_fenced. Raises ConflictError, and AdminUnreachableError also if a 404 is not about the topic,
    which still exists.
    """
    query, whole = {"force": "true"} if force else {}, whole_of(path)
    places = [place for place in targets if place != whole]
    fenced: list[tuple[str, ...]] = []
    refused: list[RefusedError] = []

    async def delete(target: tuple[str, ...]) -> None:
        if refused:
            return
        try:
            await scope.admin.at(cluster, Call("DELETE", target, query))
        except NotFoundError as error:
            if await _is_there(scope, cluster, target, whole=target == whole):
                text = (
                    f"cluster {cluster} has topic {target[3]}, but does not find an object that its deletion "
                    f"requires: {error}"
                )
                raise AdminUnreachableError(text, status=404) from error
        except AdminUnreachableError as error:
            if FENCED not in str(error):
                raise
            fenced.append(target)  # one partition must not keep the others, and each says it of itself
        except RefusedError as error:
            refused.append(error)

    try:
        left: Sequence[tuple[str, ...]] = places
        if whole in targets:
            await delete(whole)
            left = await _still_listed(scope, cluster, path, places)
        await each_of(left, delete)
    except AdminUnreachableError as error:
        if error.status not in (0, 404):
            await _free(scope, cluster, places)
        raise
    if refused:
        return Blocker(Reason.NOT_EMPTY, f"{refused[0]}. Stop the producers and consumers of the topic first")
    if not fenced:
        return None
    stuck = [target for target in fenced if target in places] or places
    unloaded = await unload_fenced(scope, cluster, stuck) if free else []
    return Blocker(
        Reason.TOPIC_FENCED,
        f"Pulsar reports that topic {path[3]} in cluster {cluster} is already being closed or deleted ({FENCED}). "
        "If the deletion makes no progress, the operator unloads the bundle of the topic after "
        f"{FENCED_SECONDS / 60:g} minutes"
        + (f". The operator has just unloaded {', '.join(unloaded)}" if unloaded else "")
        + ". If the topic stays in this state, restart the broker that owns the topic",
    )


async def _still_listed(
    scope: Scope, cluster: str, path: tuple[str, ...], places: Sequence[tuple[str, ...]]
) -> Sequence[tuple[str, ...]]:
    """Returns the partitions that are left after a partitioned topic was deleted as a whole; many are found by one
    list. Raises AdminUnreachableError."""
    if len(places) <= FEW or path[0] != "persistent":
        return places
    try:
        listed = set(await scope.admin.listed(cluster, Call("GET", path[:-1])))
    except (NotFoundError, RefusedError):
        return places
    return [place for place in places if f"{place[0]}://{'/'.join(place[1:])}" in listed]


async def unload_fenced(scope: Scope, cluster: str, places: Iterable[tuple[str, ...]]) -> list[str]:
    """Unloads the bundles of topics that stay fenced. Returns the bundles.

    A deletion that hangs, for example on the topic's policies, leaves the topic fenced, and each further deletion fails
    immediately (class PersistentTopic, delete; apache/pulsar#15451). Unloading the topic itself waits for the deletion
    that hangs (seen on 4.0.8). Unloading its bundle waits for at most a minute and assigns the topic to a broker again.
    The other topics of the bundle are not served in the meantime, so this is not done at the first attempt: most
    deletions complete.
    """
    unloaded: list[str] = []
    for place in places:
        path = namespace_path(*place[1:3])
        try:
            bundles = (await scope.admin.at(cluster, Call("GET", (*path, "bundles"))) or {}).get("boundaries") or []
            points = boundary_points(bundles)
            index = min(bisect(points, topic_hash(f"{place[0]}://{'/'.join(place[1:])}")), len(points) - 1)
            bundle = f"{bundles[index - 1]}_{bundles[index]}"
            if bundle not in unloaded:
                unloaded.append(bundle)
                log.info(
                    "Unloading bundle %s of %s in cluster %s, because a topic in it stays fenced", bundle, path, cluster
                )
                await scope.admin.at(cluster, Call("PUT", (*path, bundle, "unload")))
        except (PortError, ValueError, IndexError) as error:
            log.debug("the bundle of a fenced topic in cluster %s is not unloaded: %s", cluster, error)
    return unloaded


async def _is_there(scope: Scope, cluster: str, target: tuple[str, ...], *, whole: bool) -> bool:
    """Whether a target whose deletion was answered with 404 still exists. Raises AdminUnreachableError."""
    try:
        found = await scope.admin.at(cluster, Call("GET", target if whole else (*target, "stats")))
    except NotFoundError:
        return False
    return not whole or bool((found or {}).get("partitions"))


async def _free(scope: Scope, cluster: str, places: Sequence[tuple[str, ...]]) -> None:
    """Unloads the topics, or partitions, whose last compaction failed, so that the next deletion succeeds.

    Before it deletes a topic, Pulsar waits for the topic's last compaction and fails if that failed, until there is
    another compaction or the topic is loaded again (class PersistentTopic, asyncDeleteCursorWithCleanCompactionLedger
    of 4.0.8). The clients have left by then, or are disconnected by force.
    """

    async def free(place: tuple[str, ...]) -> None:
        name = "/".join(place)
        try:
            last: Json = await scope.admin.at(cluster, Call("GET", (*place, "compaction"))) or {}
            if last.get("status") == COMPACTION_FAILED:
                log.info(
                    "Unloading %s in cluster %s, because its last compaction failed and Pulsar does not delete "
                    "it until it is loaded again",
                    name,
                    cluster,
                )
                await scope.admin.at(cluster, Call("PUT", (*place, "unload")))
        except PortError as error:
            log.debug("%s in cluster %s is not unloaded: %s", name, cluster, error)

    await each_of(places, free)
