"""Reads the parts of a topic other than policies: lists, subscriptions, the schema. Used by topic.py.

A part that is neither declared nor managed is not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.api.v1alpha1.topic import PulsarTopicSpec
from pulsar_operator.api.v1alpha1.topic_parts import TopicSchema
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, Scope
from pulsar_operator.domain.logical.entries import Live, concerned_entries
from pulsar_operator.domain.logical.owners import record_in
from pulsar_operator.domain.logical.pulsar_names import namespace_path, topic_name, topic_path
from pulsar_operator.domain.logical.schema import (
    LiveSchema,
    SchemaFacts,
    body_of,
    is_same,
    schema_path,
    version_among,
)
from pulsar_operator.domain.logical.subscriptions import (
    ClusterSubscriptions,
    concerned_subscriptions,
    parse,
    partitions_without_stats,
    rate_call,
    rates_to_read,
)
from pulsar_operator.domain.logical.topic import kept_by_each
from pulsar_operator.domain.policies import Call, Unreadable
from pulsar_operator.domain.policies.codecs import DISPATCH_RATE
from pulsar_operator.domain.policies.entry_rows import TOPIC_ENTRIES, EntryRow
from pulsar_operator.ports import Json, NotFoundError, RefusedError

T = TypeVar("T")


@dataclass
class Parts:
    """The parts that were read."""

    entries: dict[str, Live] = field(default_factory=dict)
    subscriptions: dict[str, ClusterSubscriptions | Unreadable] = field(default_factory=dict)
    schemas: dict[str, SchemaFacts | Unreadable] = field(default_factory=dict)
    records: dict[str, str] = field(default_factory=dict)
    """See LogicalPass.records. Only filled if the topic's properties are read."""
    mute: set[str] = field(default_factory=set)
    """Clusters that did not answer."""


class PartsReader:
    """Reads the parts of one topic in the clusters that have it."""

    def __init__(
        self,
        scope: Scope,
        spec: PulsarTopicSpec,
        place: tuple[str, str, str],
        present: Sequence[str],
        properties: Mapping[str, Json],
    ) -> None:
        """``present`` are the clusters that have the topic. ``properties``, by cluster, are known already and not read
        again."""
        self._scope = scope
        self._spec = spec
        self._place = place
        self._present = present
        self._properties = properties
        self._path = topic_path(spec.persistent, *place)
        self._parts = Parts()

    async def read(self, managed: frozenset[str]) -> Parts:
        """Returns everything that is declared or managed. A cluster that does not answer is noted in Parts.mute."""
        if not self._present:
            return self._parts
        for row in concerned_entries(TOPIC_ENTRIES, self._spec, managed):
            self._parts.entries[row.field] = await self._entries(row)
        if concerned_subscriptions(self._spec.subscriptions, managed):
            rates = rates_to_read(self._spec.subscriptions, managed)
            self._parts.subscriptions = await self._each(lambda cluster: self._subscriptions(cluster, rates))
        if self._spec.topic_schema is not None:
            desired = self._spec.topic_schema
            self._parts.schemas = await self._each(lambda cluster: self._schema(cluster, desired))
        return self._parts

    async def _each(self, ask: Callable[[str], Awaitable[T]]) -> dict[str, T | Unreadable]:
        """Calls ``ask`` for each cluster concurrently. A refusal is a result; a cluster that does not answer is noted.

        A cluster that no longer has the topic is left out.
        """
        results = await asyncio.gather(*(self._one(cluster, ask) for cluster in self._present))
        return {c: found for c, found in zip(self._present, results, strict=True) if found is not None}

    async def _one(self, cluster: str, ask: Callable[[str], Awaitable[T]]) -> T | Unreadable | None:
        try:
            return await ask(cluster)
        except NotFoundError:
            return None
        except RefusedError as error:
            return Unreadable(str(error))
        except AdminUnreachableError as error:
            self._scope.admin.failures[cluster] = str(error)
            self._parts.mute.add(cluster)
            return None

    async def _entries(self, row: EntryRow) -> Live:
        """Returns one list by cluster; under the key None if all clusters share it."""
        if row.own_get is None:
            namespace = await self._scope.admin.find(Call("GET", namespace_path(*self._place[:2])))
            live = namespace[1] if namespace is not None else {}
            return {None: row.read(live, topic_name(self._spec.persistent, *self._place))}
        call = Call("GET", (*self._path, *row.own_get))

        async def ask(cluster: str) -> dict[str, Any]:
            known = self._properties.get(cluster) if OWNER_PROPERTY in row.reserved else None
            answer = await self._scope.admin.at(cluster, call) if known is None else known
            if OWNER_PROPERTY in row.reserved:
                self._parts.records[cluster] = record_in({"properties": answer})
            return row.read(answer)

        if kept_by_each(row, self._spec):
            return {cluster: found for cluster, found in (await self._each(ask)).items()}
        for cluster in self._present:
            found = await self._one(cluster, ask)
            if found is not None:
                return {None: found}
        return {}

    async def _subscriptions(self, cluster: str, rates: Sequence[str]) -> ClusterSubscriptions:
        partitioned = self._spec.partitions is not None
        query = {"getPreciseBacklog": "true", **({"perPartition": "true"} if partitioned else {})}
        call = Call("GET", (*self._path, "partitioned-stats" if partitioned else "stats"), query)
        stats = await self._scope.admin.at(cluster, call) or {}
        if partitioned:
            await self._check_complete(cluster, stats)
        calls = [rate_call(self._path, "GET", name) for name in rates]
        answers = await asyncio.gather(*(self._scope.admin.at(cluster, each) for each in calls))
        found = {n: DISPATCH_RATE.decode(a) if a is not None else None for n, a in zip(rates, answers, strict=True)}
        return ClusterSubscriptions(parse(stats, partitioned=partitioned), found)

    async def _check_complete(self, cluster: str, stats: Mapping[str, Any]) -> None:
        """Raises AdminUnreachableError if the statistics lack a partition that exists.

        The statistics of the other partitions are not sufficient: a subscription may have its unread messages in that
        one.
        """
        missing = partitions_without_stats(stats)
        if missing is None:
            text = f"cluster {cluster} did not return the number of partitions of topic {self._place[2]}"
            raise AdminUnreachableError(text, status=200)
        if not missing:
            return
        names = await self._scope.admin.listed(cluster, Call("GET", self._path[:-1]))
        full = topic_name(self._spec.persistent, *self._place)
        silent = [each for each in (f"{full}-partition-{index}" for index in missing) if each in set(names)]
        if silent:
            text = f"cluster {cluster} did not return statistics of {len(silent)} partitions, such as {silent[0]}"
            raise AdminUnreachableError(text, status=200)

    async def _schema(self, cluster: str, desired: TopicSchema) -> SchemaFacts:
        at = self._scope.admin.at
        try:
            live = LiveSchema.parse(await at(cluster, Call("GET", schema_path(*self._place, "schema"))))
        except NotFoundError:
            live = None
        if live is not None and is_same(desired, live):
            return SchemaFacts(live)
        if live is not None:
            older = version_among(desired, await at(cluster, Call("GET", schema_path(*self._place, "schemas"))))
            if older is not None:
                return SchemaFacts(LiveSchema(live.version, live.type, live.definition, live.properties, older))
        return SchemaFacts(live, await self._refusal(cluster, desired))

    async def _refusal(self, cluster: str, desired: TopicSchema) -> str | None:
        """Returns why Pulsar's compatibility check refuses the schema, as a message. None if it accepts it. The check
        changes nothing."""
        call = Call("POST", schema_path(*self._place, "compatibility"), body=body_of(desired))
        try:
            answer = await self._scope.admin.at(cluster, call) or {}
        except RefusedError as error:
            return str(error)
        if answer.get("compatibility") is True:
            return None
        return f"the schema is not compatible under the strategy {answer.get('schemaCompatibilityStrategy')}"
