"""PulsarTopic: a topic in every cluster of its namespace."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import ValidationError

from pulsar_operator.api.constants import ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1.topic import (
    PulsarTopicSpec,
    PulsarTopicStatus,
    TopicClusterStatus,
)
from pulsar_operator.api.v1alpha1.topic_set import PulsarTopicSetSpec
from pulsar_operator.controllers.core.parent_resolution import ParentResolver, location_of
from pulsar_operator.controllers.core.status import is_true
from pulsar_operator.controllers.core.watch_cache import name_of
from pulsar_operator.controllers.logical.compactions import compact
from pulsar_operator.controllers.logical.consent import inherited_by_topic, stored_of_topic
from pulsar_operator.controllers.logical.controller import LogicalController
from pulsar_operator.controllers.logical.deletion_results import NotOurs, Unfinished
from pulsar_operator.controllers.logical.logical_pass import LogicalPass
from pulsar_operator.controllers.logical.owner_records import TopicRecord
from pulsar_operator.controllers.logical.ownership import Record
from pulsar_operator.controllers.logical.policies import read_own
from pulsar_operator.controllers.logical.replicated_topic_deletion import (
    Present,
    TopicDeletion,
    delete_non_persistent,
    own_lists,
    record_own_lists,
    restore_lists,
    unrestored,
)
from pulsar_operator.controllers.logical.scope import (
    ObstacleError,
    Scope,
    resolve_scope,
)
from pulsar_operator.controllers.logical.stored_lists import check_topic_lists_before_write
from pulsar_operator.controllers.logical.topic_deletion import (
    FENCED_AGAIN_SECONDS,
    FENCED_SECONDS,
    Unused,
    in_use,
    replicating,
)
from pulsar_operator.controllers.logical.topic_inventory import InventoryCache
from pulsar_operator.controllers.logical.topic_parts import PartsReader
from pulsar_operator.controllers.logical.topic_presence import (
    Presence,
    find_topic,
    other_kind,
    present_in,
    read_back_topic,
)
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.logical.clusters import allowed_of, replication_of
from pulsar_operator.domain.logical.consent import Guard, Stored, asked_of
from pulsar_operator.domain.logical.namespace import unfinished_deletion
from pulsar_operator.domain.logical.owners import owner_of, owner_properties, record_in
from pulsar_operator.domain.logical.plan import Action, Memory, Plan, concerned
from pulsar_operator.domain.logical.pulsar_names import (
    is_system_topic,
    namespace_path,
    system_topic_problem,
    topic_name,
    topic_name_problem,
    topic_path,
)
from pulsar_operator.domain.logical.subscriptions import concerned_subscriptions
from pulsar_operator.domain.logical.topic import TopicFacts, desired_policies, plan_topic
from pulsar_operator.domain.logical.topic_set import Selection
from pulsar_operator.domain.policies import TOPIC_POLICIES, Call
from pulsar_operator.ports import CUSTOM, Deps, Json, Key

TopicPass = LogicalPass[PulsarTopicSpec, PulsarTopicStatus]
REMEDY = "set spec.deletionPolicy to ForceDelete"


class TopicController(LogicalController[PulsarTopicSpec, PulsarTopicStatus, TopicFacts]):
    """Reconciles PulsarTopics."""

    kind = Kind.TOPIC

    def name_in_pulsar(self, ctx: TopicPass, scope: Scope) -> str:
        """Returns the full topic name."""
        return topic_name(ctx.spec.persistent, *scope.place, name_of(ctx.obj))

    def problem_of_name(self, ctx: TopicPass) -> str | None:
        """Returns why Pulsar would read the name as something else, as a message. None if it would not."""
        return topic_name_problem(name_of(ctx.obj))

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._inventories = InventoryCache(deps.clock)
        self._fenced: dict[Key, float] = {}
        """Earliest time to unload the bundle of a topic whose deletion hangs, in seconds since the epoch."""
        self._apart: dict[Key, dict[str, Sequence[str]]] = {}
        """Lists of clusters of topics that were kept and could not be restored yet: see TopicDeletion."""
        self._met: set[Key] = set()
        """Topics this process has read in full, or whose status shows that reading them can wait."""

    def forget(self, key: Key) -> None:
        """Forgets a custom resource that no longer exists."""
        super().forget(key)
        self._met.discard(key)
        self._fenced.pop(key, None)
        self._apart.pop(key, None)

    def inherit(self, ctx: TopicPass, scope: Scope) -> None:
        """Raises ObstacleError for a system topic of Pulsar that admission did not reject. A topic inherits nothing."""
        problem = system_topic_problem(*scope.place, name_of(ctx.obj))
        if problem is not None:
            raise ObstacleError(Reason.INVALID_SPEC, problem, known=True, requeue=None)

    async def observe(self, ctx: TopicPass, scope: Scope, memory: Memory) -> TopicFacts:
        """Returns the topic in every cluster of its namespace, and its policies where it exists."""
        tenant, namespace = scope.place
        first = not ctx.observed
        there = await self._counted(ctx, scope) or await self._asked(ctx, scope)
        ctx.trusting = trusted = self._trusted(ctx, memory)
        rows = [] if trusted else concerned(TOPIC_POLICIES, desired_policies(ctx.spec), memory.managed)
        present = sorted(name for name, partitions in there.clusters.items() if partitions is not None)
        found, mute = await read_own(scope, rows, _path(ctx, scope), present) if rows else ({}, ())
        # Any broker reports partitions, and one that did not write a property may know of it a moment later.
        known = there.properties if first or ctx.created else {}
        place = tenant, namespace, name_of(ctx.obj)
        reader = PartsReader(scope, ctx.spec, place, [] if trusted else present, known)
        parts = await reader.read(memory.managed)
        ctx.records.update(parts.records)
        facts = TopicFacts(
            tenant=tenant,
            namespace=namespace,
            name=name_of(ctx.obj),
            clusters=there.clusters,
            unreachable=tuple(sorted({*there.unreachable, *mute, *parts.mute})),
            found=found,
            entries=parts.entries,
            subscriptions=parts.subscriptions,
            schemas=parts.schemas,
            version=scope.version,
            safe=ctx.safe,
            of_the_instance=scope.names,
            partitioned=ctx.spec.partitions is not None,
            record=owner_properties(owner_of(ctx.obj)) if ctx.spec.persistent else {},
        )
        return await self._with_consent(ctx, scope, memory, facts)

    async def _with_consent(self, ctx: TopicPass, scope: Scope, memory: Memory, facts: TopicFacts) -> TopicFacts:
        """Returns the facts with what consent requires, if a change is due after which Pulsar keeps less data.

        A declared value is consent, so only values that are no longer declared matter.
        """
        rows = [
            row
            for row in TOPIC_POLICIES
            if row.keeps is not None and row.field in memory.managed and facts.found.get(row.field)
        ]
        desired = desired_policies(ctx.spec)
        rows = [row for row in rows if desired[row.field] is None]
        if not rows or not ctx.spec.persistent:
            return facts
        kind = str(ctx.obj.get("kind") or self.kind.value)
        asked = asked_of(kind, ctx.obj["metadata"], ctx.meta.annotations)
        guard = Guard((asked,), frozenset(name for name, value in desired.items() if value is not None))
        facts = replace(facts, guard=guard)
        if not plan_topic(ctx.spec, facts, memory).asks:
            return facts
        path = _path(ctx, scope)
        present = {name for name, partitions in facts.clusters.items() if partitions is not None}
        answering = sorted(present - set(facts.unreachable))
        inherited = await inherited_by_topic(scope, rows, path, answering, facts.unreachable)
        facts = replace(facts, guard=replace(guard, inherited=inherited))
        if not plan_topic(ctx.spec, facts, memory).asks:
            return facts
        stored = dict.fromkeys(facts.unreachable, Stored(None))
        stored |= await stored_of_topic(scope, path, answering, partial(present_in, scope, ctx.spec, path))
        return replace(facts, guard=replace(guard, inherited=inherited, stored=stored))

    def _trusted(self, ctx: TopicPass, memory: Memory) -> bool:
        """Whether the policies need not be read: this process sees the topic for the first time, and its predecessor
        left it applied, Ready and without drift.

        The next resync reads them, spread over its period, so that a restart does not request all policies of all
        topics at the same time.
        """
        key = Key(Kind.TOPIC, ctx.meta.namespace, ctx.meta.name)
        if key in self._met:
            return False
        self._met.add(key)
        settled = memory.applied and not memory.refused and ctx.pause_reason is None
        settled = settled and not ctx.before.drift and not ctx.before.repairs
        return settled and is_true(ctx.obj, ConditionType.READY.value)

    async def _counted(self, ctx: TopicPass, scope: Scope) -> Presence | None:
        """Returns the topic from a list of the namespace that many passes share; None if it has to be requested on its
        own.

        Only the first observation of a pass may use a list, and only for a topic that needs nothing but a creation.
        """
        first, ctx.observed = not ctx.observed, True
        if not first or _declared_clusters(ctx) or not ctx.spec.persistent:
            return None
        inventory = await self._inventories.ask(scope, *scope.place)
        if inventory is None or not inventory.topics:
            return None
        found = {cluster: topics.get(name_of(ctx.obj)) for cluster, topics in inventory.topics.items()}
        if any(count is not None and count != (ctx.spec.partitions or 0) for count in found.values()):
            return None
        ctx.holders = inventory.clusters
        return Presence(found, inventory.unreachable)

    async def record_of(self, ctx: TopicPass, scope: Scope) -> Record:
        """See Ownership. The record is a property of a persistent topic."""
        if not ctx.spec.persistent:
            return await super().record_of(ctx, scope)
        return TopicRecord(scope, _path(ctx, scope), await self._holders(ctx, scope))

    def made_with_record(self, ctx: TopicPass) -> bool:
        """Whether the call that creates the topic contains the record. See Ownership."""
        return ctx.spec.persistent

    def manages(self, ctx: TopicPass, facts: TopicFacts) -> bool:
        """Whether the topic can be managed. A topic that is partitioned other than declared is a different one. See
        Ownership."""
        found = [count for count in facts.clusters.values() if count is not None]
        return bool(found) and all((count == 0) == (ctx.spec.partitions is None) for count in found)

    async def _holders(self, ctx: TopicPass, scope: Scope) -> tuple[str, ...]:
        """Returns the clusters that have the namespace. Raises ObstacleError."""
        if ctx.holders is None:
            namespace = await self._namespace(scope)
            unfinished = unfinished_deletion(namespace, "/".join(scope.place))
            if unfinished is not None:
                raise ObstacleError(Reason.PARENT_NOT_READY, unfinished, known=True)
            ctx.safe = frozenset(allowed_of(namespace))
            further = _declared_clusters(ctx) & ctx.safe & scope.names
            ctx.holders = tuple(sorted({*replication_of(namespace), *further}))
        return ctx.holders

    async def _asked(self, ctx: TopicPass, scope: Scope) -> Presence:
        """Returns the topic as requested from each cluster. Raises AdminUnreachableError if none answers."""
        holders, path = await self._holders(ctx, scope), _path(ctx, scope)
        if ctx.created and ctx.spec.properties and ctx.spec.partitions is None:
            found = await read_back_topic(scope, path, holders, owner_properties(owner_of(ctx.obj)))
        else:
            found = await find_topic(scope, path, holders)
        if not found.clusters:
            why = "; ".join(map(scope.admin.why, found.unreachable))
            text = f"no cluster of namespace {'/'.join(scope.place)} answers ({why})"
            raise scope.admin.no_answer(text, found.unreachable)
        reported = {cluster: record_in({"properties": each}) for cluster, each in found.properties.items()}
        ctx.records |= {cluster: text for cluster, text in reported.items() if text}
        return found

    async def _namespace(self, scope: Scope) -> Json:
        tenant, namespace = scope.place
        found = await scope.admin.find(Call("GET", namespace_path(tenant, namespace)))
        if found is None:
            raise ObstacleError(
                Reason.PARENT_NOT_READY,
                f"Namespace {tenant}/{namespace} does not exist in Pulsar. The topic is created once it exists",
                known=True,
            )
        return dict(found[1])

    async def check_before_write(self, ctx: TopicPass, scope: Scope, action: Action) -> None:
        """Checks the clusters before a write, since a cluster that a global list omits may lose the topic. See
        LogicalController."""
        await check_topic_lists_before_write(self.deps, scope, "/".join(scope.place), action)

    def plan(self, ctx: TopicPass, facts: TopicFacts, memory: Memory) -> Plan:
        """See domain.logical.topic."""
        return plan_topic(ctx.spec, facts, memory)

    def timed(self, ctx: TopicPass) -> bool:
        """Whether the topic has a compaction schedule. See ReconcilerBase."""
        return ctx.spec.compaction is not None

    def exists(self, facts: TopicFacts) -> bool:
        """Whether any cluster has the topic as it is declared. One that is partitioned otherwise is refused and not
        managed."""
        return facts.as_declared

    def unreachable(self, ctx: TopicPass, facts: TopicFacts) -> tuple[str, ...]:
        """Returns the clusters that did not answer and whose state matters. See LogicalController.

        A non-partitioned topic, local policies, subscriptions and schemas are written in each cluster. The rest is
        shared, and is known if one cluster answered every request.
        """
        if not facts.unreachable:
            return ()
        rows = concerned(TOPIC_POLICIES, desired_policies(ctx.spec), ctx.memory.managed)
        alone = ctx.spec.partitions is None or any(row.per_cluster for row in rows)
        alone = (
            alone
            or concerned_subscriptions(ctx.spec.subscriptions, ctx.memory.managed)
            or ctx.spec.topic_schema is not None
        )
        return facts.unreachable if alone or not set(facts.clusters) - set(facts.unreachable) else ()

    async def status_fields(self, ctx: TopicPass, scope: Scope, facts: TopicFacts) -> dict[str, Any]:
        """Returns the topic in each cluster. A cluster that does not answer keeps its last observed value."""
        known = {c.name: c for c in ctx.before.clusters}
        clusters = [
            TopicClusterStatus(name=name, exists=found is not None, partitions=found or None)
            for name, found in facts.clusters.items()
        ]
        clusters += [known[name] for name in facts.unreachable if name in known]
        clusters.sort(key=lambda c: c.name)
        return {
            "clusters": clusters,
            "partitions": next((c.partitions for c in clusters if c.partitions is not None), None),
        }

    async def scheduled_tasks(self, ctx: TopicPass, scope: Scope, facts: TopicFacts) -> float | None:
        """Triggers the scheduled compaction in the clusters that have the topic. Returns the seconds until the next
        one."""
        present = [name for name, found in facts.clusters.items() if found is not None]
        return await compact(ctx, scope, _path(ctx, scope), present)

    def kept(self, ctx: TopicPass) -> str | None:
        """See ReconcilerBase."""
        name = name_of(ctx.obj)
        return f"{name} is a system topic of Pulsar" if is_system_topic(name) else super().kept(ctx)

    def kept_there(self, ctx: TopicPass, scope: Scope) -> str | None:
        """Returns why a system topic of Pulsar is not deleted, whatever the policy, as a message. None if it is no
        system topic. See LogicalDeletion."""
        own = system_topic_problem(*scope.place, name_of(ctx.obj)) is not None
        return f"{self.name_in_pulsar(ctx, scope)} is a system topic of Pulsar" if own else None

    async def delete(self, ctx: TopicPass, scope: Scope, *, force: bool) -> Unfinished | None:
        """Deletes the topic in every cluster of the namespace. A topic that is in use or has content is kept."""
        try:
            namespace = await self._namespace(scope)
        except ObstacleError:
            return None  # its namespace is gone, and the topic with it
        unfinished = unfinished_deletion(namespace, "/".join(scope.place))
        if unfinished is not None:
            return Blocker(Reason.DELETION_UNFINISHED, unfinished)
        # A cluster that left replicationClusters may still have it.
        clusters = sorted({*replication_of(namespace), *(set(allowed_of(namespace)) & scope.names)})
        path, partitioned = _path(ctx, scope), ctx.spec.partitions is not None

        async def find() -> Present:
            return {name: await present_in(scope, ctx.spec, path, name) for name in clusters}

        async def check_use(present: Present) -> Blocker | Unused:
            if force:
                return await replicating(scope, path, present)
            return await in_use(scope, path, present, remedy=REMEDY)

        present = await find()
        other = await other_kind(scope, ctx.spec, path, clusters) if not any(present.values()) else None
        if other is not None:
            return NotOurs(other)
        key, now = Key(Kind.TOPIC, ctx.meta.namespace, ctx.meta.name), ctx.conditions.now.timestamp()
        free = self._fenced.get(key, now + 1) <= now
        if ctx.spec.persistent or force or len(clusters) < 2:
            deletion = TopicDeletion(
                scope,
                path,
                present,
                check_use,
                partitioned=partitioned,
                force=force,
                free=free,
                remedy=REMEDY,
                lists=self._apart.setdefault(key, own_lists(ctx)),
                record=lambda lists: record_own_lists(ctx, lists),
                find=find,
            )
            found = await deletion.run()
        else:
            found = await delete_non_persistent(
                scope, path, clusters, partitioned=partitioned, free=free, remedy=REMEDY
            )
        if isinstance(found, Blocker):
            if found.reason is not Reason.TOPIC_FENCED:
                self._fenced.pop(key, None)
            elif free:
                self._fenced[key] = now + FENCED_AGAIN_SECONDS
            else:
                self._fenced.setdefault(key, now + FENCED_SECONDS)
        return found

    def unrestored(self, ctx: TopicPass) -> str | None:
        """See ReconcilerBase."""
        return unrestored(ctx)

    async def release(self, ctx: TopicPass, reason: Reason, message: str) -> None:
        """Releases the object; see ReconcilerBase. For a topic that is not deleted, because of its policy or because
        another object takes it over, the replication is restored first."""
        lists = self._apart.pop(Key(Kind.TOPIC, ctx.meta.namespace, ctx.meta.name), own_lists(ctx))
        if lists and reason is not Reason.DELETED:
            with contextlib.suppress(ObstacleError):
                scope = await resolve_scope(self.deps, self.kind, ctx.obj, deleting=True)
                await restore_lists(scope, _path(ctx, scope), lists)
        await super().release(ctx, reason, message)

    async def declared_elsewhere(self, ctx: TopicPass, scope: Scope) -> str | None:
        """Returns a topic set that names the topic, also through another PulsarNamespace for the same namespace of
        Pulsar.

        A set by pattern selects existing topics and declares none.
        """
        site, resolver = location_of(Kind.TOPIC, ctx.obj), ParentResolver(self.deps)
        for obj in await self.deps.kube.list(CUSTOM[Kind.TOPIC_SET], None) if ctx.spec.persistent else ():
            if "deletionTimestamp" in obj["metadata"]:
                continue
            if not await resolver.may_be_same(site, location_of(Kind.TOPIC_SET, obj)):
                continue
            with contextlib.suppress(ValidationError):  # the set itself says what is wrong with it, and selects nothing
                selection = Selection(PulsarTopicSetSpec.model_validate(obj.get("spec") or {}))
                if not selection.by_pattern and name_of(ctx.obj) in selection:
                    return f"PulsarTopicSet {obj['metadata']['namespace']}/{obj['metadata']['name']}"
        return None


def _declared_clusters(ctx: TopicPass) -> frozenset[str]:
    """Returns spec.replicationClusters."""
    return frozenset(ctx.spec.replication_clusters or ())


def _path(ctx: TopicPass, scope: Scope) -> tuple[str, ...]:
    return topic_path(ctx.spec.persistent, *scope.place, name_of(ctx.obj))
