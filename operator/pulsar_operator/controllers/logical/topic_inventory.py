"""The topics of a Pulsar namespace, from one list instead of a request for each topic.

The cost of a list grows with the namespace, that of a request for one topic is constant. So lists are only read while
many topics of a namespace are checked (start of the operator, many new objects), and are reused for a few seconds. A
pass that acts on a list first reads its own topic again, or gets a 409 from Pulsar. Used by topic.py and
topicset/listing.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pulsar_operator.controllers.logical.scope import Scope
from pulsar_operator.domain.conditions import seconds_since
from pulsar_operator.domain.logical.clusters import allowed_of, replication_of
from pulsar_operator.domain.logical.pulsar_names import MOST_PARTITIONS, namespace_path, split_partition
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import Clock

KEEP_SECONDS = 5.0
"""Seconds for which a list is used."""
LARGE = 10_000
"""Number of names of one cluster above which its lists are parsed in a thread. 100,000 names take a tenth of a
second."""
CROWD = 20
"""Number of requests for one namespace within KEEP_SECONDS above which a list is read."""


@dataclass(frozen=True)
class TopicInventory:
    """The persistent topics of a namespace in every cluster that holds it."""

    clusters: tuple[str, ...]
    """Clusters that hold the namespace."""
    topics: Mapping[str, Mapping[str, int]]
    """For each cluster that answered, the number of partitions by local topic name; 0 if not partitioned."""
    unreachable: tuple[str, ...]
    """Clusters that did not answer."""
    further: frozenset[str] = frozenset()
    """Clusters of ``clusters`` to which the namespace is no longer replicated. Topics may be left there."""
    partitioned: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """For each cluster that answered, the local names of partitioned topics, including those without a partition
    there."""


@dataclass
class _Place:
    """The cached state of one namespace."""

    begin: datetime
    questions: int = 0
    inventory: TopicInventory | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class InventoryCache:
    """Counts the requests for a namespace, and reads lists if there are many."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._places: dict[tuple[str, str, str], _Place] = {}

    async def ask(self, scope: Scope, tenant: str, namespace: str) -> TopicInventory | None:
        """Returns a list that is at most KEEP_SECONDS old, or None: the caller then reads its own topic.

        Raises AdminUnreachableError, RefusedError if the list cannot be read.
        """
        now = self._clock.now()
        key = (str(scope.chain[-1]["metadata"]["uid"]), tenant, namespace)
        place = self._places.get(key)
        if place is None or seconds_since(place.begin, now) > KEEP_SECONDS:
            self._forget(now)
            # A crowd that was there a moment ago is usually still there.
            crowded = place is not None and place.questions >= CROWD
            place = self._places[key] = _Place(now, CROWD if crowded else 0)
        place.questions += 1
        if place.questions <= CROWD:
            return None
        async with place.lock:
            if place.inventory is None:
                place.inventory = await read_inventory(scope, tenant, namespace)
        return place.inventory

    def _forget(self, now: datetime) -> None:
        old = [k for k, place in self._places.items() if seconds_since(place.begin, now) > 2 * KEEP_SECONDS]
        for key in old:
            del self._places[key]


async def read_inventory(
    scope: Scope, tenant: str, namespace: str, *, without: Collection[str] = (), left: bool = False
) -> TopicInventory | None:
    """Returns the current topics of the namespace; None if Pulsar has no such namespace.

    The clusters ``without`` are known not to answer and are not asked. With ``left`` clusters in which the namespace is
    only allowed are asked too. Raises AdminUnreachableError if it is unknown which clusters hold the namespace.
    """
    found = await scope.admin.find(Call("GET", namespace_path(tenant, namespace)))
    if found is None:
        return None
    clusters = replication_of(found[1])
    further = sorted(set(allowed_of(found[1])) & scope.names - set(clusters)) if left else []
    clusters = [*clusters, *further]
    asked = [cluster for cluster in clusters if cluster not in without]
    names, unreachable = await scope.admin.everywhere(asked, Call("GET", ("persistent", tenant, namespace)))
    whole, mute = await scope.admin.everywhere(asked, Call("GET", ("persistent", tenant, namespace, "partitioned")))
    prefix = len(f"persistent://{tenant}/{namespace}/")
    partitioned: dict[str, frozenset[str]] = {}
    topics: dict[str, dict[str, int]] = {}
    for cluster, listed in names.items():
        # A cluster that the namespace is in and that does not find it (yet, or any more) says nothing of topics, nor
        # does one whose answer is no list.
        parts = whole.get(cluster)
        if isinstance(listed, list) and isinstance(parts, list):
            large = len(listed) + len(parts) > LARGE
            read = await asyncio.to_thread(_read, listed, parts, prefix) if large else _read(listed, parts, prefix)
            if read is not None:
                topics[cluster], partitioned[cluster] = read
    unreachable = (*unreachable, *(cluster for cluster in (*names, *whole) if cluster not in topics))
    mute = tuple(sorted({*unreachable, *mute, *(set(clusters) & set(without))}))
    return TopicInventory(tuple(clusters), topics, mute, frozenset(further), partitioned)


def _read(names: list[Any], whole: list[Any], prefix: int) -> tuple[dict[str, int], frozenset[str]] | None:
    """Parses two lists of one cluster. Returns the number of partitions by local name, and the partitioned topics; None
    if a list contains anything but strings."""
    if not all(isinstance(name, str) for each in (names, whole) for name in each):
        return None
    partitioned = frozenset(name[prefix:] for name in whole)
    return _counted([name[prefix:] for name in names], partitioned), partitioned


def _counted(names: list[str], partitioned: frozenset[str]) -> dict[str, int]:
    """Returns the number of partitions by local name. For a partitioned topic it is derived from its existing
    partitions."""
    out = dict.fromkeys(partitioned, 0)
    for name in names:
        part = split_partition(name)
        if part is not None and part[0] in partitioned and part[1] < MOST_PARTITIONS:
            out[part[0]] = max(out[part[0]], part[1] + 1)
        else:
            out.setdefault(name, 0)
    # A partitioned topic none of whose partitions exists is not to be taken for a plain one.
    return {name: count for name, count in out.items() if count or name not in partitioned}
