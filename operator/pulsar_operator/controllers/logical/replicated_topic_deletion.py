"""Deletes a topic in several clusters, after ending its replication. Used by topic.py and topicset/removal.py.

Pulsar deletes a replicated topic only by force (class BrokerService, deleteTopicInternal: HTTP 422). A forced deletion
does not check for clients, and the replicators of the other clusters create the topic again: partitions every time
(seen on 4.0.8). So the operator first sets, in each cluster, the topic's own list of clusters to that cluster alone, in
the local policies of the topic. Its replicators end 0.3 s later. Then Pulsar checks for clients, as for any other
topic.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.api.v1alpha1.topic import OwnClusterList, PulsarTopicSpec, PulsarTopicStatus
from pulsar_operator.controllers.logical.deletion_results import Progress, keep
from pulsar_operator.controllers.logical.logical_pass import LogicalPass
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, Scope, partitions_of
from pulsar_operator.controllers.logical.topic_deletion import Unused, delete_in, users, whole_of
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.policies import Call
from pulsar_operator.domain.texts import sentence
from pulsar_operator.ports import NotFoundError, PortError, RefusedError

Present = Mapping[str, Sequence[str]]
"""Local names of a topic or of its partitions, by cluster."""

log = logging.getLogger(__name__)

CHECKS: Final = 15
PER_PASS: Final = 500
"""Maximum number of partitions deleted in a cluster in one pass. The next pass continues with what Pulsar still
lists."""
APART_SECONDS: Final = 0.2
"""Seconds between two checks whether the replicators have ended."""
LIST: Final = "replication"
"""Last path element of the calls for a topic's own list of clusters."""


async def unrecorded(_lists: Mapping[str, Sequence[str]]) -> None:
    """Records nothing: the lists of topics that left a set are only in memory."""


@dataclass
class TopicDeletion:
    """The deletion of one topic in each cluster, with the partitions ``present`` there (local names).

    ``check_use`` returns who uses the topic, and which clusters replicate it. Nothing is deleted before it returns
    Unused. ``find`` lists again what is present, if ``check_use`` would not see a partition that is created in the
    meantime. ``remedy`` is a further remedy, as the end of a sentence. With ``force`` the topic is deleted regardless
    of its clients. For ``free`` see topic_deletion.delete_in.
    """

    scope: Scope
    path: tuple[str, ...]
    present: Present
    check_use: Callable[[Present], Awaitable[Blocker | Unused]]
    partitioned: bool
    force: bool
    free: bool
    remedy: str
    lists: dict[str, Sequence[str]]
    """The topic's own list of clusters before its replication was ended, by cluster. Lists that could not be restored
    yet stay here, and the next attempt restores them."""
    find: Callable[[], Awaitable[Present]] | None = None
    record: Callable[[Mapping[str, Sequence[str]]], Awaitable[None]] = unrecorded
    """Stores ``lists`` so that they survive a restart of the operator. Raises PortError."""

    async def run(self) -> Blocker | Progress | None:
        """Deletes the topic, or some of its partitions. Returns why it is kept, or None if it no longer exists.

        If the topic is kept in a cluster whose list was changed, the list is restored; for a cluster that does not
        answer, at the next attempt. Messages published in between stay in their own cluster, since a replicator starts
        again at the end of the topic. Raises AdminUnreachableError, ConflictError.
        """
        result: Blocker | Progress | None = None
        gone = False
        try:
            found = await self.check_use(self.present)
            result = found if isinstance(found, Blocker) else await self._delete(found.replicated | found.unreported)
            gone = result is None
            return result
        finally:
            if gone:
                self.lists.clear()
            elif not isinstance(result, Progress):
                # Not between two passes of one deletion: replicators would make again what is deleted already.
                await restore_lists(self.scope, self.path, self.lists)
                with suppress(PortError):  # a list that is given back twice does no harm
                    await self.record(self.lists)

    async def _delete(self, replicated: Collection[str]) -> Blocker | Progress | None:
        blocker = await self._apart(replicated)
        if blocker is not None or not self.partitioned or len(self.present) == 1:
            return blocker
        # While the topic is known: Pulsar forgets its policies in the cluster that is asked alone, and one that is made
        # again under its name would not be replicated.
        if self.path[0] == "persistent":
            await self._drop()
        for cluster in self.present:
            blocker = await self._delete_in(cluster, [whole_of(self.path)])
            if blocker is not None:
                return blocker
        return None

    def _targets(self, parts: Sequence[str]) -> list[tuple[str, ...]]:
        """Returns the paths that are deleted first in a cluster. For a partitioned topic these are only partitions if
        it is in several clusters or has more partitions than one pass deletes."""
        one = () if self.partitioned else (self.path,)
        whole = self.partitioned and len(self.present) == 1 and len(parts) <= PER_PASS
        some = ((*self.path[:-1], part) for part in parts[:PER_PASS])
        return [*dict.fromkeys((*((whole_of(self.path),) if whole else ()), *one, *some))]

    async def _delete_in(self, cluster: str, targets: Sequence[tuple[str, ...]]) -> Blocker | None:
        return await delete_in(self.scope, cluster, self.path, targets, force=self.force, free=self.free)

    async def _apart(self, replicated: Collection[str]) -> Blocker | Progress | None:
        """Deletes the topic in each cluster once no cluster replicates it; a part of it if there are many
        partitions."""
        blocker = await self._end(replicated) or await self._found_since(replicated)
        for cluster, parts in self.present.items():
            if blocker is None:
                blocker = await self._delete_in(cluster, self._targets(parts))
        left = {cluster: len(parts) - PER_PASS for cluster, parts in self.present.items() if len(parts) > PER_PASS}
        if blocker is not None or not left:
            return blocker
        where = ", ".join(f"{number} in cluster {cluster}" for cluster, number in left.items())
        return Progress(f"Topic {self.path[-1]} is being deleted. These partitions are left: {where}")

    async def _end(self, replicated: Collection[str]) -> Blocker | None:
        """Sets the topic's own list of clusters in each cluster to that cluster, and waits until none replicates the
        topic."""
        blocker = await self._each_list(replicated, self._remember)
        if blocker is None and self.lists:
            await self.record(self.lists)
            blocker = await self._each_list(set(replicated) & set(self.lists), self._keep_apart)
        if blocker is not None:
            return blocker
        still: Iterable[str] = replicated if self.lists else ()
        for _ in range(CHECKS if self.lists else 0):
            found = await self.check_use(self.present)
            if isinstance(found, Blocker):
                return found
            still = found.replicated
            if not still:
                break
            await asyncio.sleep(APART_SECONDS)
        return None if not still or self.force else self._still(still)

    async def _each_list(self, clusters: Collection[str], call: Callable[[str], Awaitable[None]]) -> Blocker | None:
        """Calls each cluster about the topic's own list. With ``force``, a cluster that refuses or does not answer is
        skipped."""
        for cluster in sorted(clusters):
            try:
                await call(cluster)
            except (NotFoundError, RefusedError) as error:
                # With 404 partitions whose topic is gone: what replicates them is the namespace's list alone.
                self.lists.pop(cluster, None)
                if not self.force:
                    text = (
                        "Pulsar does not delete a topic that is replicated, and the operator cannot end the "
                        f"replication of topic {self.path[-1]} ({error})"
                    )
                    return Blocker(Reason.NOT_EMPTY, f"{text}. {sentence(self.remedy)}")
            except AdminUnreachableError as error:
                if not self.force:
                    raise
                log.debug("the replication of topic %s cannot be ended: %s", "/".join(self.path), error)
        return None

    async def _remember(self, cluster: str) -> None:
        before = await self.scope.admin.at(cluster, Call("GET", (*self.path, LIST))) or ()
        self.lists.setdefault(cluster, before)

    async def _keep_apart(self, cluster: str) -> None:
        await self.scope.admin.at(cluster, Call("POST", (*self.path, LIST), body=[cluster]))

    def _still(self, replicated: Iterable[str]) -> Blocker:
        text = f"Topic {self.path[-1]} is still replicated from {', '.join(sorted(replicated))}"
        return Blocker(Reason.NOT_EMPTY, f"{text}. It is deleted once the replication has ended")

    async def _found_since(self, replicated: Collection[str]) -> Blocker | None:
        """Checks partitions that were created since the first check: Pulsar creates them in a cluster when a client
        uses them."""
        if self.find is None or not replicated:
            return None
        before, self.present = self.present, await self.find()
        if self.present == before:
            return None
        found = await self.check_use(self.present)
        if isinstance(found, Blocker):
            return found
        return self._still(found.replicated) if found.replicated and not self.force else None

    async def _drop(self) -> None:
        """Removes the topic's own lists of clusters after its partitions were deleted. Raises AdminUnreachableError."""
        for cluster in self.present:
            try:
                await self.scope.admin.at(cluster, Call("DELETE", (*self.path, LIST)))
            except (NotFoundError, RefusedError) as error:
                log.debug("topic %s in cluster %s has no list of clusters: %s", "/".join(self.path), cluster, error)


async def restore_lists(scope: Scope, path: tuple[str, ...], lists: dict[str, Sequence[str]]) -> None:
    """Restores the replication of a topic that is kept. Lists that could not be restored remain in ``lists``."""
    for cluster, before in [*lists.items()]:
        call = Call("POST", (*path, LIST), body=[*before]) if before else Call("DELETE", (*path, LIST))
        try:
            await scope.admin.at(cluster, call)
        except NotFoundError:
            pass  # it is gone there
        except PortError as error:
            name, remedy = "/".join(path), "pulsar-admin topics remove-replication-clusters"
            log.warning(
                "Topic %s is no longer replicated from cluster %s, because restoring its list of clusters failed: "
                "%s. See %s",
                name,
                cluster,
                error,
                remedy,
            )
            continue
        del lists[cluster]


async def delete_non_persistent(
    scope: Scope, path: tuple[str, ...], clusters: Sequence[str], *, partitioned: bool, free: bool, remedy: str
) -> Blocker | None:
    """Deletes a non-persistent topic in each cluster. Returns who is connected to it, or None if it was deleted.

    Such a topic has no separate list of clusters. Pulsar treats the replicator of another cluster as a producer (HTTP
    412, or 422 with three or more clusters, class NonPersistentTopic). So the operator checks that only replicators are
    connected, then forces the deletion, which disconnects them. They may open the topic again; Pulsar removes it when
    it is idle. Raises AdminUnreachableError.
    """
    count = 0
    for cluster in clusters if partitioned else ():
        with suppress(NotFoundError):
            found = await scope.admin.at(cluster, Call("GET", whole_of(path))) or {}
            count = max(count, partitions_of(cluster, found, path[-1]))
    parts = [f"{path[-1]}-partition-{i}" for i in range(count)] if partitioned else [path[-1]]
    blocker = await users(scope, path, dict.fromkeys(clusters, parts), remedy=remedy)
    whole = [whole_of(path)] if partitioned else []
    for cluster in clusters:
        if blocker is None:
            targets = [*whole, *((*path[:-1], part) for part in parts)]
            blocker = await delete_in(scope, cluster, path, targets, force=True, free=free)
    return blocker


TopicPass = LogicalPass[PulsarTopicSpec, PulsarTopicStatus]


def own_lists(ctx: TopicPass) -> dict[str, Sequence[str]]:
    """Returns the recorded lists by cluster. An empty list stands for a topic without its own list."""
    return {each.name: each.replication_clusters for each in ctx.before.replication_before_deletion or ()}


async def record_own_lists(ctx: TopicPass, lists: Mapping[str, Sequence[str]]) -> None:
    """Writes the lists into the status if they differ from the recorded ones. Raises PortError."""
    if dict(lists) == own_lists(ctx):
        return
    rows = [OwnClusterList(name=name, replication_clusters=list(found)) for name, found in sorted(lists.items())]
    await ctx.store({"replication_before_deletion": rows or None})


def unrestored(ctx: TopicPass) -> str | None:
    """Returns a message for a topic whose deletion is pending and whose replication was ended; None if it was not."""
    lists = own_lists(ctx)
    if not lists:
        return None
    return (
        f"While the deletion is pending, the topic is not replicated from {', '.join(sorted(lists))}. To keep the "
        "topic and have the operator restore the replication, run: "
        f"{keep(Kind.TOPIC, ctx.obj)}"
    )
