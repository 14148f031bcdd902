"""Reads what a question about stored messages shows: the values an object inherits, and how much is stored.

The operator reads this only while a question is open; see domain/logical/consent.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pulsar_operator.controllers.core.bounded import each_of
from pulsar_operator.controllers.logical.policies import read_own
from pulsar_operator.controllers.logical.scope import Scope
from pulsar_operator.controllers.logical.topic_content import asked_of_listed
from pulsar_operator.domain.conditions import seconds_since
from pulsar_operator.domain.logical.consent import Stored
from pulsar_operator.domain.logical.pulsar_names import namespace_path
from pulsar_operator.domain.logical.replication_backlog import is_asked
from pulsar_operator.domain.policies import NAMESPACE_POLICIES, TOPIC_POLICIES, Call, PolicyRow
from pulsar_operator.domain.policies.kept import Amount, Keeps, least
from pulsar_operator.ports import PortError

FRESH_SECONDS: Final = 600.0
"""Seconds for which a known size of a namespace is shown. A question may stay open for days."""
MOST: Final = 500
"""Maximum number of topics of a namespace whose size is read in each cluster."""

Inherited = dict[str, Mapping[str | None, Amount | None]]
Sizes = Mapping[str, Stored]


# ------------------------------------------------------------------------------------------------------- inherited


async def inherited_by_namespace(
    scope: Scope, rows: Sequence[PolicyRow], clusters: Sequence[str], silent: Collection[str]
) -> Inherited:
    """Returns how much the configuration of the brokers keeps, by field: the smallest amount of several clusters, since
    they share the policy. Returns nothing if one of the clusters is in ``silent``."""
    if set(silent) & set(clusters):
        return {}
    configurations = await asyncio.gather(*(_configuration(scope, each) for each in clusters))
    return {
        row.field: {None: least(_default(row.keeps, each) for each in configurations)}
        for row in rows
        if row.keeps is not None
    }


async def inherited_by_topic(
    scope: Scope,
    rows: Sequence[PolicyRow],
    path: tuple[str, ...],
    clusters: Sequence[str],
    silent: Collection[str],
) -> Inherited:
    """Returns how much each cluster keeps without this policy of the topic: by the topic's policy of the other scope,
    by the policy of its namespace, or by the default of the brokers.

    For a policy that all clusters share this is the smallest amount; it is unknown while a cluster is in ``silent``.
    """
    results = await asyncio.gather(*(_below_topic(scope, rows, path, each) for each in clusters))
    found: Inherited = {}
    for row in rows:
        amounts = [each.get(row.field) for each in results]
        shared = [None if silent else least(amounts)] * len(clusters)
        found[row.field] = dict(zip(clusters, amounts if row.per_cluster else shared, strict=True))
    return found


async def _below_topic(
    scope: Scope, rows: Sequence[PolicyRow], path: tuple[str, ...], cluster: str
) -> dict[str, Amount | None]:
    """Returns the amounts in one cluster by field. A field that is missing is unknown."""
    try:
        namespace = await scope.admin.at(cluster, Call("GET", namespace_path(*path[1:3])))
    except PortError:
        return {}
    configuration = await _configuration(scope, cluster)
    fields, paths = {row.field for row in rows}, {row.path for row in rows}
    others = [each for each in TOPIC_POLICIES if each.path in paths and each.field not in fields]
    values, mute = await read_own(scope, others, path, [cluster])
    if mute:
        return {}
    found: dict[str, Amount | None] = {}
    for row in rows:
        if row.keeps is None:
            continue
        amount = _default(row.keeps, configuration)
        below = next((each for each in NAMESPACE_POLICIES if each.path == row.path), None)
        if below is not None:
            amount = row.keeps.of(below.read(namespace, cluster), amount)
        for other in others:
            if other.path == row.path:
                amount = row.keeps.of(values.get(other.field, {}).get(cluster), amount)
        found[row.field] = amount
    return found


async def _configuration(scope: Scope, cluster: str) -> Mapping[str, Any] | None:
    try:
        found = await scope.admin.at(cluster, Call("GET", ("brokers", "configuration", "runtime")))
    except PortError:
        return None
    return found if isinstance(found, Mapping) else None


def _default(keeps: Keeps | None, configuration: Mapping[str, Any] | None) -> Amount | None:
    if keeps is None or configuration is None:
        return None
    try:
        return keeps.default(configuration)
    except (TypeError, ValueError):
        return None


# ---------------------------------------------------------------------------------------------------------- stored


async def stored_of_topic(
    scope: Scope,
    path: tuple[str, ...],
    clusters: Sequence[str],
    present: Callable[[str], Awaitable[Sequence[str]]],
) -> dict[str, Stored]:
    """Returns the bytes of a topic by cluster. ``present`` returns the local names of the topic, or of its partitions,
    in a cluster."""

    async def one(cluster: str) -> Stored:
        try:
            parts = await present(cluster)
        except PortError:
            return Stored(None)
        size = await _sum(scope, cluster, [(*path[:-1], part) for part in parts[:MOST]])
        return Stored(size, len(parts) <= MOST)

    return dict(zip(clusters, await asyncio.gather(*map(one, clusters)), strict=True))


@dataclass
class StoredBytes:
    """Caches the stored bytes of namespaces for FRESH_SECONDS. It lives as long as the process."""

    _known: dict[str, tuple[datetime, Sizes]] = field(default_factory=dict)

    def forget(self, uid: str) -> None:
        """Forgets the sizes of an object that has no open question."""
        self._known.pop(uid, None)

    async def of_namespace(
        self,
        uid: str,
        scope: Scope,
        namespace: tuple[str, str],
        clusters: Sequence[str],
        *,
        silent: Collection[str],
        now: datetime,
    ) -> Sizes:
        """Returns the stored bytes of a namespace by cluster. Clusters in ``silent`` are not asked.

        A result with an unknown or an empty cluster is not cached.
        """
        known = self._known.get(uid)
        if known is not None and set(known[1]) == set(clusters) and seconds_since(known[0], now) < FRESH_SECONDS:
            return known[1]
        asked = [each for each in clusters if each not in silent]
        found = await asyncio.gather(*(_namespace(scope, each, namespace) for each in asked))
        sizes = dict.fromkeys(clusters, Stored(None)) | dict(zip(asked, found, strict=True))
        if any(not each.size for each in sizes.values()):
            self.forget(uid)
        else:
            self._known[uid] = now, sizes
        return sizes


async def _namespace(scope: Scope, cluster: str, namespace: tuple[str, str]) -> Stored:
    try:
        listed = await scope.admin.listed(cluster, Call("GET", (*namespace_path(*namespace), "topics")))
    except PortError:
        return Stored(None)
    topics = sorted(filter(is_asked, listed))
    places = [(domain, *rest.split("/", 2)) for domain, _, rest in (each.partition("://") for each in topics[:MOST])]
    return Stored(await _sum(scope, cluster, places), len(topics) <= MOST)


async def _sum(scope: Scope, cluster: str, places: Sequence[tuple[str, ...]]) -> int | None:
    """Returns the total bytes of topics in a cluster; None if the size of one of them is unknown."""

    async def size(path: tuple[str, ...]) -> int | None:
        try:
            return int((await asked_of_listed(scope, cluster, path, "internalStats"))["totalSize"])
        except (PortError, KeyError, TypeError, ValueError):
            return None

    found = await each_of(places, size)
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None
