"""Deletes topics that left a set, or all topics of a set that is deleted.

The topics are deleted a few at a time and never by force. Topics of other objects are not deleted. The operator only
considers names that the set has recorded as its own, and deletes only those that Pulsar lists: an empty or incomplete
list deletes nothing. A list may be minutes old, so each topic is requested again before its use is checked. Used by
controller.py.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.controllers.logical.deletion_results import NotOurs, Progress
from pulsar_operator.controllers.logical.owner_records import parsed
from pulsar_operator.controllers.logical.replicated_topic_deletion import (
    PER_PASS,
    Present,
    TopicDeletion,
    restore_lists,
)
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, ObstacleError, Scope, partitions_of
from pulsar_operator.controllers.logical.topic_deletion import Unused, in_use
from pulsar_operator.controllers.topicset.round import Listing
from pulsar_operator.controllers.topicset.topic_schedule import ScheduledTopic, State
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.logical.owners import Owner
from pulsar_operator.domain.logical.pulsar_names import topic_path
from pulsar_operator.domain.logical.topic_set import Left
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import ConflictError, Json, NotFoundError, RefusedError

log = logging.getLogger(__name__)

AT_A_TIME = 100
"""Maximum number of topics deleted in a pass."""
AT_ONCE = 4
FENCED_ATTEMPTS = 3
"""Number of attempts, which take minutes, after which the bundle of a topic that stays fenced is unloaded. For the time
of the next attempt see topic_schedule.py."""
REMEDY = "set deletionPolicy to Retain to keep the topic"


@dataclass
class Removal:
    """The topics that are to be deleted, and their progress."""

    owner: Owner
    """The set, as the owner record in Pulsar names it."""
    schedule: dict[str, ScheduledTopic] = field(default_factory=dict)
    """Topics to delete by name, with what blocks their deletion."""
    not_owned: set[str] = field(default_factory=set)
    """Topics that left the set and whose owner record does not name it. They are kept."""
    released: list[str] = field(default_factory=list)
    """Topics of ``not_owned`` that were found in this pass."""
    deleted: list[str] = field(default_factory=list)
    """Topics deleted in this pass."""
    lists: dict[str, dict[str, Sequence[str]]] = field(default_factory=dict)
    """Lists of clusters by topic name that could not be restored yet, see TopicDeletion."""

    def observe(self, listing: Listing, left: Left, taken: Collection[str], now: float) -> None:
        """Finds topics that left the set and exist. Topics that another object declares, ``taken``, are left to it."""
        self.deleted, self.released = [], []
        here = there(listing, left) if left.number else set()
        self.not_owned &= here
        found = sorted(here - set(taken) - self.not_owned)
        self.schedule = {name: self.schedule.get(name) or ScheduledTopic(due=now) for name in found}

    @property
    def blocked(self) -> list[str]:
        """Returns the names of topics that cannot be deleted yet."""
        return [name for name, item in self.schedule.items() if item.message]

    def next_due(self, now: float) -> float | None:
        """Returns the seconds until the next deletion is tried; None if no topic is to be deleted."""
        return max(0.0, min(item.due or 0.0 for item in self.schedule.values()) - now) if self.schedule else None

    async def run(self, scope: Scope, place: tuple[str, str], listing: Listing, now: float) -> None:
        """Deletes some of the topics that are due. Raises AdminUnreachableError if a cluster does not answer.

        Nothing is deleted while a cluster does not answer: a client may use the topics there, and the first cluster
        that deletes a partitioned topic deletes it for all.
        """
        if listing.unreachable:
            return
        due = [name for name, item in self.schedule.items() if (item.due or 0.0) <= now][:AT_A_TIME]
        pending = iter(due)

        async def work() -> None:
            for name in pending:
                await self._remove(scope, place, listing, name, now)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(work())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def restore(self, scope: Scope, place: tuple[str, str]) -> None:
        """Restores the replication of topics that are no longer to be deleted."""
        for name in [each for each in self.lists if each not in self.schedule]:
            lists = self.lists[name]
            await restore_lists(scope, topic_path(True, *place, name), lists)
            if not lists:
                del self.lists[name]

    async def _remove(self, scope: Scope, place: tuple[str, str], listing: Listing, name: str, now: float) -> None:
        item = self.schedule[name]
        lists = self.lists.setdefault(name, {})
        blocker: Blocker | NotOurs | None
        try:
            free = item.attempts >= FENCED_ATTEMPTS
            found = await _delete(scope, place, listing, name, self.owner, free=free, lists=lists)
            if isinstance(found, Progress):
                stands, item.pending = item.pending == (found.message,), (found.message,)
                if not stands:
                    item.message, item.due = "", now  # the next pass continues
                    return
                found = found.nothing
            blocker = found
        except ConflictError as error:
            blocker = Blocker(Reason.NOT_EMPTY, str(error))
        except (NotFoundError, RefusedError) as error:
            blocker = Blocker(Reason.REJECTED_BY_PULSAR, str(error))
        except ObstacleError as obstacle:
            blocker = Blocker(obstacle.reason, obstacle.message)
        except AdminUnreachableError as error:
            blocker = Blocker(error.reason, str(error))
            if not error.status:
                # The others are first next time: it may be this topic alone that gives no answer.
                _note(item, blocker, now)
                raise
        finally:
            if not lists:
                del self.lists[name]
        if isinstance(blocker, NotOurs):
            del self.schedule[name]
            self.not_owned.add(name)
            self.released.append(name)
            return
        if blocker is not None:
            _note(item, blocker, now)
            return
        del self.schedule[name]
        self.deleted.append(name)
        for topics in listing.topics.values():
            topics.pop(name, None)
        for lost in listing.orphans.values():
            lost.pop(name, None)


def _note(item: ScheduledTopic, blocker: Blocker, now: float) -> None:
    item.state, item.reason, item.message = State.REFUSED, blocker.reason.value, blocker.message
    item.failed(now)


def there(listing: Listing, left: Left) -> set[str]:
    """Returns the names of topics that left the set and exist in some cluster."""
    places: tuple[Mapping[str, object], ...] = (*listing.topics.values(), *listing.orphans.values())
    return {name for topics in places for name in topics if left.has(name)}


async def _present(
    scope: Scope, path: tuple[str, ...], listing: Listing, owner: Owner
) -> dict[str, list[str]] | NotOurs:
    """Returns the local names of the topic or of its partitions by cluster: those that exist now, and orphaned
    partitions.

    Pulsar deletes a partitioned topic with the partitions that it has at that moment. A topic whose record does not
    name ``owner`` does not belong to the set: either it existed before the set would have created it, or another client
    has taken it over. Raises AdminUnreachableError, and ObstacleError if a record cannot be read.
    """
    name, present = path[-1], dict[str, list[str]]()
    clusters = sorted({*listing.clusters, *listing.orphans})
    answers, unreachable = await scope.admin.everywhere(clusters, Call("GET", (*path, "partitions")))
    if unreachable:
        why = "; ".join(f"{each}: {scope.admin.why(each)}" for each in unreachable)
        raise AdminUnreachableError(f"The number of partitions of topic {name} is not known: {why}")
    for cluster in clusters:
        answer, number = answers[cluster], listing.topics.get(cluster, {}).get(name)
        lost = listing.orphans.get(cluster, {}).get(name, [])
        if answer is not None:
            number = partitions_of(cluster, answer, name)
        if answer is not None:
            properties = (answer.get("properties") or {}) if number else await _properties(scope, cluster, path)
            recorded = parsed(properties.get(OWNER_PROPERTY), f"topic {name} in cluster {cluster}")
            if recorded != owner:
                return NotOurs(
                    f"the record in Pulsar names {recorded.text if recorded is not None else 'no object'} as the "
                    f"manager of topic {name}"
                )
        if number == 0:
            present[cluster] = [name]
        elif number is not None or lost:
            parts = [f"{name}-partition-{i}" for i in range(number or 0)]
            if len(parts) > PER_PASS:  # some may be deleted already
                listed = await scope.admin.listed(cluster, Call("GET", path[:-1]))
                there = {full.rpartition("/")[2] for full in listed}
                parts = [part for part in parts if part in there]
            present[cluster] = [*dict.fromkeys((*parts, *lost))]
    return present


async def _properties(scope: Scope, cluster: str, path: tuple[str, ...]) -> Json:
    """Returns the properties of a non-partitioned topic, which are stored in each cluster. Raises RefusedError,
    AdminUnreachableError, and NotFoundError if the topic no longer exists."""
    return dict(await scope.admin.at(cluster, Call("GET", (*path, "properties"))) or {})


async def _delete(
    scope: Scope,
    place: tuple[str, str],
    listing: Listing,
    name: str,
    owner: Owner,
    *,
    free: bool,
    lists: dict[str, Sequence[str]],
) -> Blocker | NotOurs | Progress | None:
    path = topic_path(True, *place, name)
    present = await _present(scope, path, listing, owner)
    if isinstance(present, NotOurs):
        return present
    partitioned = any(parts != [name] for parts in present.values())
    begun = False

    async def check_use(present: Present) -> Blocker | Unused:
        nonlocal begun
        found = await in_use(scope, path, present, remedy=REMEDY, counted=partitioned)
        if isinstance(found, Unused) and not begun:
            begun = True
            log.info("Deleting topic %s, which was removed from its set", "/".join((*place, name)))
        return found

    return await TopicDeletion(
        scope, path, present, check_use, partitioned=partitioned, force=False, free=free, remedy=REMEDY, lists=lists
    ).run()
