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
from dataclasses import dataclass, field
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


@dataclass
class TopicDeletion:
    """One topic that is deleted in each cluster, with the partitions ``present`` there (local names).

    ``look`` says who uses it, and which clusters replicate it; nothing is done before it says nobody. With ``force``
    users count for nothing; with ``free`` see topic_deletion.delete_in.
    """

    scope: Scope
    path: tuple[str, ...]
    present: Mapping[str, Sequence[str]]
    look: Callable[[], Awaitable[Blocker | Unused]]
    partitioned: bool
    force: bool
    free: bool
    lists: dict[str, Sequence[str]] = field(default_factory=dict, init=False)
    """By cluster, the topic's own list of clusters as it was before replication was ended there."""

    async def run(self) -> Blocker | None:
        """Delete it, or say why it stays.

        A cluster whose list was written, and whose topic stays for any reason, gets the list back that it had; where
        that fails the log says so, and where the operator ends before, nobody does. What is published between the two
        is in its own cluster alone: a replicator begins anew at the end of the topic. Raises AdminUnreachableError,
        ConflictError.
        """
        found = await self.look()
        if isinstance(found, Blocker):
            return found
        blocker = await self._apart(found.replicated)
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
        """What is deleted in a cluster first: of a partitioned topic in several clusters its partitions alone."""
        one = () if self.partitioned else (self.path,)
        whole = (whole_of(self.path),) if self.partitioned and len(self.present) == 1 else ()
        return [*dict.fromkeys((*whole, *one, *((*self.path[:-1], part) for part in parts)))]

    async def _delete_in(self, cluster: str, targets: Sequence[tuple[str, ...]]) -> Blocker | None:
        return await delete_in(self.scope, cluster, self.path, targets, force=self.force, free=self.free)

    async def _apart(self, replicated: Collection[str]) -> Blocker | None:
        """Delete what is in each cluster, once none replicates it."""
        gone = False
        try:
            blocker = await self._end(replicated)
            for cluster, parts in self.present.items():
                if blocker is None:
                    blocker = await self._delete_in(cluster, self._targets(parts))
            gone = blocker is None
            return blocker
        finally:
            if not gone:
                await self._give_back()

    async def _end(self, replicated: Collection[str]) -> Blocker | None:
        """Have each cluster keep the topic to itself, and wait until none replicates it."""
        for cluster in sorted(replicated):
            try:
                before = await self.scope.admin.at(cluster, Call("GET", (*self.path, LIST))) or ()
                self.lists[cluster] = before
                await self.scope.admin.at(cluster, Call("POST", (*self.path, LIST), body=[cluster]))
            except RefusedError as error:
                self.lists.pop(cluster, None)
                if not self.force:
                    text = f"Pulsar deletes no topic that is replicated, and its replication cannot be ended: {error}"
                    return Blocker(Reason.NOT_EMPTY, f"{text}. Set spec.deletionPolicy to ForceDelete")
        still: Iterable[str] = replicated if self.lists else ()
        for _ in range(LOOKS if self.lists else 0):
            found = await self.look()
            if isinstance(found, Blocker):
                return found
            still = found.replicated
            if not still:
                break
            await asyncio.sleep(APART_SECONDS)
        if not still or self.force:
            return None
        text = f"topic {self.path[-1]} is still replicated from {', '.join(sorted(still))}"
        return Blocker(Reason.NOT_EMPTY, f"{text}: it is deleted once that has ended")

    async def _drop(self) -> None:
        """Take the lists out of a topic whose partitions are gone. Raises AdminUnreachableError."""
        for cluster in self.present:
            try:
                await self.scope.admin.at(cluster, Call("DELETE", (*self.path, LIST)))
            except (NotFoundError, RefusedError) as error:
                log.info("topic %s in cluster %s has no list of clusters: %s", "/".join(self.path), cluster, error)

    async def _give_back(self) -> None:
        """The topic stays, and is replicated as before."""
        for cluster, before in self.lists.items():
            call = Call("POST", (*self.path, LIST), body=[*before]) if before else Call("DELETE", (*self.path, LIST))
            try:
                await self.scope.admin.at(cluster, call)
            except NotFoundError:
                continue  # it is gone there
            except PortError as error:
                name, remedy = "/".join(self.path), "pulsar-admin topics remove-replication-clusters"
                log.warning("topic %s is replicated from cluster %s no more: %s; see %s", name, cluster, error, remedy)
