"""Deleting a topic in several clusters, which end its replication first. Used by topic.py and topicset/removal.py.

Pulsar deletes no topic that is replicated unless it is forced (class BrokerService, deleteTopicInternal: HTTP 422).
Force asks nobody, and replicators of the other clusters make again what was forced: partitions each time (seen on
4.0.8). So each cluster first keeps the topic to itself, by a list of its own in the local policies of the topic; its
replicators are gone 0.3 s later. Then Pulsar asks who uses it, as of any other topic.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from pulsar_operator.api.constants import Reason
from pulsar_operator.controllers.logical.scope import Scope
from pulsar_operator.controllers.logical.topic_deletion import Blocker, Unused, delete_in, whole_of
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import NotFoundError, PortError, RefusedError

log = logging.getLogger(__name__)

LOOKS: Final = 15
APART_SECONDS: Final = 0.2
"""From one look at replicators that end to the next."""
LIST: Final = "replication"
"""Of the calls for a topic's own list of clusters."""


async def delete_everywhere(
    scope: Scope,
    path: tuple[str, ...],
    present: Mapping[str, Sequence[str]],
    *,
    partitioned: bool,
    force: bool,
    free: bool,
    look: Callable[[], Awaitable[Blocker | Unused]],
) -> Blocker | None:
    """Delete a topic in each cluster, with the partitions ``present`` there (local names).

    ``look`` says who uses it, and which clusters replicate it; nothing is done before it says nobody. A cluster whose
    list was written, and whose topic stays for any reason, gets the list back that it had; where that fails the log
    says so, and where the operator ends before, nobody does. What is published between the two is in its own cluster
    alone: a replicator begins anew at the end of the topic. Raises AdminUnreachableError, ConflictError.
    """
    found = await look()
    if isinstance(found, Blocker):
        return found
    whole = whole_of(path)
    targets = {
        cluster: [*dict.fromkeys((*(() if partitioned else (path,)), *((*path[:-1], part) for part in parts)))]
        for cluster, parts in present.items()
    }
    if len(present) == 1 and partitioned:
        targets = {cluster: [whole, *parts] for cluster, parts in targets.items()}
    blocker = await _apart(scope, path, targets, found.replicated, force=force, free=free, look=look)
    if blocker is not None or not partitioned or len(present) == 1:
        return blocker
    # While the topic is known: Pulsar forgets its policies in the cluster that is asked alone, and one that is made
    # again under its name would not be replicated.
    if path[0] == "persistent":
        await _drop(scope, path, present)
    for cluster in present:
        blocker = await delete_in(scope, cluster, path, [whole], force=force, free=free)
        if blocker is not None:
            return blocker
    return None


async def _apart(
    scope: Scope,
    path: tuple[str, ...],
    targets: Mapping[str, Sequence[tuple[str, ...]]],
    replicated: Collection[str],
    *,
    force: bool,
    free: bool,
    look: Callable[[], Awaitable[Blocker | Unused]],
) -> Blocker | None:
    """Delete what is in each cluster, once none replicates it."""
    lists: dict[str, Sequence[str]] = {}
    gone = False
    try:
        blocker = await _end(scope, path, replicated, lists, force=force, look=look)
        for cluster, those in targets.items():
            if blocker is None:
                blocker = await delete_in(scope, cluster, path, those, force=force, free=free)
        gone = blocker is None
        return blocker
    finally:
        if not gone:
            await _give_back(scope, path, lists)


async def _end(
    scope: Scope,
    path: tuple[str, ...],
    replicated: Collection[str],
    lists: dict[str, Sequence[str]],
    *,
    force: bool,
    look: Callable[[], Awaitable[Blocker | Unused]],
) -> Blocker | None:
    """Have each cluster keep the topic to itself, and wait until none replicates it; ``lists`` gets those of before."""
    for cluster in sorted(replicated):
        try:
            before = await scope.admin.at(cluster, Call("GET", (*path, LIST))) or ()
            lists[cluster] = before
            await scope.admin.at(cluster, Call("POST", (*path, LIST), body=[cluster]))
        except RefusedError as error:
            lists.pop(cluster, None)
            if not force:
                text = f"Pulsar deletes no topic that is replicated, and its replication cannot be ended: {error}"
                return Blocker(Reason.NOT_EMPTY, f"{text}. Set spec.deletionPolicy to ForceDelete")
    still: Iterable[str] = replicated if lists else ()
    for _ in range(LOOKS if lists else 0):
        found = await look()
        if isinstance(found, Blocker):
            return found
        still = found.replicated
        if not still:
            break
        await asyncio.sleep(APART_SECONDS)
    if not still or force:
        return None
    text = f"topic {path[-1]} is still replicated from {', '.join(sorted(still))}: it is deleted once that has ended"
    return Blocker(Reason.NOT_EMPTY, text)


async def _drop(scope: Scope, path: tuple[str, ...], clusters: Iterable[str]) -> None:
    """Take the lists out of a topic whose partitions are gone. Raises AdminUnreachableError."""
    for cluster in clusters:
        try:
            await scope.admin.at(cluster, Call("DELETE", (*path, LIST)))
        except (NotFoundError, RefusedError) as error:
            log.info("topic %s in cluster %s has no list of clusters: %s", "/".join(path), cluster, error)


async def _give_back(scope: Scope, path: tuple[str, ...], lists: Mapping[str, Sequence[str]]) -> None:
    """The topic stays, and is replicated as before."""
    for cluster, before in lists.items():
        call = Call("POST", (*path, LIST), body=[*before]) if before else Call("DELETE", (*path, LIST))
        try:
            await scope.admin.at(cluster, call)
        except NotFoundError:
            continue  # it is gone there
        except PortError as error:
            name, remedy = "/".join(path), "pulsar-admin topics remove-replication-clusters"
            log.warning("topic %s is replicated from cluster %s no more: %s; see %s", name, cluster, error, remedy)
