"""PulsarNamespace: a namespace with its bundles at creation, its clusters and its policies."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.api.v1alpha1.base import DriftPolicy
from pulsar_operator.api.v1alpha1.confirmations import ConfirmationAction, UsedConfirmation
from pulsar_operator.api.v1alpha1.namespace import (
    NamespaceClusterStatus,
    PulsarNamespaceSpec,
    PulsarNamespaceStatus,
)
from pulsar_operator.api.v1alpha1.policies import NamespacePolicies
from pulsar_operator.balance.model.ranges import even_boundaries
from pulsar_operator.controllers.core.index import key_of, references
from pulsar_operator.controllers.core.objects import invalid_fields
from pulsar_operator.controllers.core.watch_cache import name_of, reader_of
from pulsar_operator.controllers.logical.consent import StoredBytes, inherited_by_namespace
from pulsar_operator.controllers.logical.controller import LogicalController
from pulsar_operator.controllers.logical.initial_bundles import new_bundles
from pulsar_operator.controllers.logical.logical_pass import LogicalPass
from pulsar_operator.controllers.logical.namespace_deletion import NamespaceDeletion, unrestored
from pulsar_operator.controllers.logical.owner_records import NamespaceRecord
from pulsar_operator.controllers.logical.ownership import Record
from pulsar_operator.controllers.logical.policies import read_own
from pulsar_operator.controllers.logical.replication_backlog import ClusterRemoval, ReplicationBacklogs
from pulsar_operator.controllers.logical.scope import ObstacleError, Scope, resolve_scope
from pulsar_operator.controllers.logical.stored_lists import check_lists_before_write
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.conditions import timestamp
from pulsar_operator.domain.logical.clusters import clusters_of, confirmed, removed_clusters, used_confirmations
from pulsar_operator.domain.logical.consent import Guard, asked_of, moment_of
from pulsar_operator.domain.logical.namespace import (
    NamespaceFacts,
    boundaries_match,
    bundle_count,
    declared_policies,
    desired_policies,
    digest_of,
    plan_namespace,
    unfinished_deletion,
)
from pulsar_operator.domain.logical.owners import owner_of, owner_properties, record_in
from pulsar_operator.domain.logical.plan import Action, Memory, Plan, Verb, concerned
from pulsar_operator.domain.logical.pulsar_names import namespace_path, tenant_path
from pulsar_operator.domain.policies import NAMESPACE_POLICIES, Call
from pulsar_operator.domain.stored import unreadable
from pulsar_operator.domain.texts import sentence
from pulsar_operator.ports import ConflictError, Deps, Json, RefusedError

log = logging.getLogger(__name__)

NamespacePass = LogicalPass[PulsarNamespaceSpec, PulsarNamespaceStatus]


class NamespaceController(LogicalController[PulsarNamespaceSpec, PulsarNamespaceStatus, NamespaceFacts]):
    """Reconciles PulsarNamespaces."""

    kind = Kind.NAMESPACE

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._backlogs = ReplicationBacklogs()
        self._stored = StoredBytes()

    def begin(self, obj: Json) -> NamespacePass:
        """Returns the context of one pass (see ObjectReconciler).

        If the stored list of used confirmations cannot be read, all declared confirmations count as used: a
        confirmation that counted again would delete the data of a cluster that joined since.
        """
        ctx = super().begin(obj)
        if ctx.spec is not None and "usedConfirmations" in unreadable(PulsarNamespaceStatus, obj.get("status")):
            used_time = timestamp(ctx.conditions.now)
            used = [UsedConfirmation(**each.model_dump(), used_time=used_time) for each in ctx.spec.confirmations]
            ctx.before = ctx.before.model_copy(update={"used_confirmations": used})
        return ctx

    def name_in_pulsar(self, ctx: NamespacePass, scope: Scope) -> str:
        """Returns the full name, tenant/namespace."""
        return f"{scope.parent_name(Kind.TENANT)}/{name_of(ctx.obj)}"

    def inherit(self, ctx: NamespacePass, scope: Scope) -> None:
        """Applies spec.namespaceDefaults of the tenant. Raises ObstacleError if they are invalid."""
        given = (scope.chain[0].get("spec") or {}).get("namespaceDefaults")
        try:
            ctx.inherited = NamespacePolicies.model_validate(given) if given else None
        except ValidationError as error:
            text = (
                f"spec.namespaceDefaults of PulsarTenant {scope.chain[0]['metadata']['name']} is not valid. "
                f"{sentence(invalid_fields(error))}"
            )
            raise ObstacleError(Reason.PARENT_NOT_READY, text, known=True) from None
        ctx.renewed = digest_of(ctx.inherited) != ctx.before.applied_defaults

    async def observe(self, ctx: NamespacePass, scope: Scope, memory: Memory) -> NamespaceFacts:
        """Returns the namespace's policies; for a namespace that does not exist also the clusters its tenant allows."""
        tenant, name = scope.parent_name(Kind.TENANT), name_of(ctx.obj)
        found = await scope.admin.find(Call("GET", namespace_path(tenant, name)))
        tenant_clusters: frozenset[str] = frozenset()
        if found is None:
            parent = await scope.admin.find(Call("GET", tenant_path(tenant)))
            if parent is None:
                raise ObstacleError(
                    Reason.PARENT_NOT_READY,
                    f"Tenant {tenant} does not exist in Pulsar. The namespace is created once it exists",
                    known=True,
                )
            tenant_clusters = frozenset(parent[1].get("allowedClusters") or ())
        facts = NamespaceFacts(
            tenant=tenant,
            name=name,
            live=found[1] if found is not None else None,
            tenant_clusters=tenant_clusters,
            instance_clusters=scope.names,
            tenant_declared=_declared_by_tenant(scope),
            deleting=frozenset(each.name for each in scope.clusters if each.deleting),
            boundaries=_boundaries(ctx.spec),
            version=scope.version,
            defaults=ctx.inherited,
            confirmations=_confirmed(ctx, ConfirmationAction.REMOVE_CLUSTER),
            abandoned=_confirmed(ctx, ConfirmationAction.ABANDON_BACKLOG),
            record=owner_properties(owner_of(ctx.obj)),
        )
        if found is None:
            if ctx.spec.bundles is not None and ctx.spec.bundles.sizing is not None:
                new = await new_bundles(self.deps, ctx.obj, scope, f"{tenant}/{name}")
                return replace(facts, boundaries=new.boundaries, boundaries_why=new.reason)
            return facts
        ctx.records[""] = record_in(found[1])
        unfinished = unfinished_deletion(found[1], f"{tenant}/{name}")
        if unfinished is not None:
            raise ObstacleError(Reason.DELETION_UNFINISHED, unfinished, known=True)
        facts = await self._delivered(ctx, scope, memory, facts)
        return await self._in_each_cluster(ctx, scope, memory, facts, found[0], found[1])

    async def _delivered(
        self, ctx: NamespacePass, scope: Scope, memory: Memory, facts: NamespaceFacts
    ) -> NamespaceFacts:
        """Returns the facts with the replication backlog of clusters that are to leave the replication: messages to
        them, and their messages to others."""
        lists = facts.lists()
        ctx.replicating = lists.replicating
        gone = removed_clusters(ctx.spec, lists, memory=memory, repair=ctx.spec.drift_policy is DriftPolicy.REPAIR)
        if not gone or ctx.pause_reason is not None:
            self._backlogs.forget(ctx.meta.uid)
            return facts
        leave = ClusterRemoval(f"{facts.tenant}/{facts.name}", lists.replicating, gone)
        return replace(
            facts, undelivered=await self._backlogs.undelivered(ctx.meta.uid, scope, leave, ctx.conditions.now)
        )

    async def _in_each_cluster(
        self,
        ctx: NamespacePass,
        scope: Scope,
        memory: Memory,
        facts: NamespaceFacts,
        answered_by: str,
        live: Mapping[str, Any],
    ) -> NamespaceFacts:
        """Returns the facts with what is specific to each cluster: its answer, and the policies only that cluster
        reports."""
        path = namespace_path(facts.tenant, facts.name)
        holders = set(clusters_of(live)) & set(scope.names)
        answers, unreachable = await scope.admin.everywhere(holders - {answered_by}, Call("GET", path), brief=True)
        if answered_by in holders:
            answers[answered_by] = dict(live)
        desired = desired_policies(ctx.spec, ctx.inherited)
        rows = [row for row in concerned(NAMESPACE_POLICIES, desired, memory.managed) if row.own_get]
        present = sorted(name for name, answer in answers.items() if answer is not None)
        own, mute = await read_own(scope, rows, path, present) if rows else ({}, ())
        return await self._with_consent(
            ctx,
            scope,
            memory,
            replace(
                facts,
                answers={name: answer for name, answer in answers.items() if name not in mute},
                own=own,
                unreachable=tuple(sorted({*unreachable, *mute})),
            ),
            sorted(clusters_of(live)),
        )

    async def _with_consent(
        self, ctx: NamespacePass, scope: Scope, memory: Memory, facts: NamespaceFacts, holders: list[str]
    ) -> NamespaceFacts:
        """Returns the facts with what consent requires, if a change is due after which Pulsar keeps less data."""
        own, desired = declared_policies(ctx.spec), desired_policies(ctx.spec, ctx.inherited)
        rows = [
            row
            for row in concerned(NAMESPACE_POLICIES, desired, memory.managed)
            if row.keeps is not None and row.field not in own
        ]
        if not rows:
            self._stored.forget(ctx.meta.uid)
            return facts
        tenant = scope.chain[0]["metadata"]
        itself = asked_of(self.kind.value, ctx.obj["metadata"], ctx.meta.annotations)
        created = moment_of(ctx.obj["metadata"])
        above = asked_of(Kind.TENANT.value, tenant, tenant.get("annotations") or {}, created=created)
        # The tenant answers for what its own change asks, and not for what the namespace or another client does later.
        asks_above = ctx.before.settled_defaults != digest_of(ctx.inherited)
        source = f"spec.namespaceDefaults of PulsarTenant {tenant['name']}"
        guard = Guard((itself, above) if asks_above else (itself,), own, source)
        facts = replace(facts, guard=guard)
        if not plan_namespace(ctx.spec, facts, memory).asks:
            self._stored.forget(ctx.meta.uid)
            return facts
        if asks_above:
            guard = replace(guard, asked=(itself, replace(above, until=await self._youngest(scope))))
            facts = replace(facts, guard=guard)
        # A cluster that is none of the instance may store something anyway, and cannot be asked.
        silent = {*facts.unreachable, *(set(holders) - scope.names)}
        inherited = await inherited_by_namespace(scope, rows, holders, silent)
        facts = replace(facts, guard=replace(guard, inherited=inherited))
        if not plan_namespace(ctx.spec, facts, memory).asks:
            return facts
        stored = await self._stored.of_namespace(
            ctx.meta.uid,
            scope,
            (facts.tenant, facts.name),
            holders,
            silent=silent,
            now=ctx.conditions.now,
        )
        return replace(facts, guard=replace(guard, inherited=inherited, stored=stored))

    async def _youngest(self, scope: Scope) -> str:
        """Returns the creation time of the youngest PulsarNamespace of the tenant; see moment_of."""
        tenant = scope.chain[0]
        key = key_of(Kind.TENANT, tenant)
        objects = await reader_of(self.deps).every(self.kind, allowed_by=tenant)
        moments = (moment_of(obj["metadata"]) for obj in objects if key in references(self.kind, obj))
        return max(moments, default="")

    async def record_of(self, ctx: NamespacePass, scope: Scope) -> Record:
        """Returns the owner record, which is a property of the namespace. See Ownership."""
        return NamespaceRecord(scope, namespace_path(scope.parent_name(Kind.TENANT), name_of(ctx.obj)))

    def made_with_record(self, ctx: NamespacePass) -> bool:
        """See Ownership."""
        return True

    async def check_before_write(self, ctx: NamespacePass, scope: Scope, action: Action) -> None:
        """Checks the clusters before a write, since a cluster that is removed from a list may lose all its data. See
        LogicalController."""
        if action.verb is not Verb.CREATE:
            name, removed = self.name_in_pulsar(ctx, scope), _confirmed(ctx, ConfirmationAction.REMOVE_CLUSTER)
            await check_lists_before_write(self.deps, scope, name, action, removed=removed, replicating=ctx.replicating)

    def plan(self, ctx: NamespacePass, facts: NamespaceFacts, memory: Memory) -> Plan:
        """See domain.logical.namespace."""
        return plan_namespace(ctx.spec, facts, memory)

    def exists(self, facts: NamespaceFacts) -> bool:
        """Whether Pulsar has the namespace."""
        return facts.live is not None

    def unreachable(self, ctx: NamespacePass, facts: NamespaceFacts) -> tuple[str, ...]:
        """Returns the clusters that did not answer, if a policy is written in each cluster. All other policies are
        shared. See LogicalController."""
        rows = concerned(NAMESPACE_POLICIES, desired_policies(ctx.spec, ctx.inherited), ctx.memory.managed)
        return facts.unreachable if any(row.per_cluster for row in rows) else ()

    async def status_fields(self, ctx: NamespacePass, scope: Scope, facts: NamespaceFacts) -> dict[str, Any]:
        """Returns the status of the namespace in each of its clusters. Each cluster has its own bundles."""
        live = facts.live
        if live is None:
            return {"clusters": [], "bundle_count": None, "boundaries_match": None}
        # Only what was applied completely counts as applied; see Result.report.
        complete = ctx.fields.get("applied_generation") == ctx.meta.generation
        applied = {"applied_defaults": digest_of(ctx.inherited)} if complete else {}
        if complete and not ctx.asks:
            applied["settled_defaults"] = digest_of(ctx.inherited)
        known = {c.name: c for c in ctx.before.clusters}
        clusters = [_cluster_status(name, answer) for name, answer in sorted(facts.answers.items())]
        # A cluster that does not answer keeps what was last seen of it.
        clusters += [known[name] for name in facts.unreachable if name in known]
        clusters.sort(key=lambda c: c.name)
        used = used_confirmations(
            ctx.spec, ctx.before.used_confirmations, live, ctx.conditions.now, taken_over=not _knows_what_was_used(ctx)
        )
        return {
            **applied,
            "used_confirmations": used,
            "clusters": clusters,
            "boundaries_match": boundaries_match(facts.answers.values()),
            "bundle_count": next((c.bundles for c in clusters if c.bundles is not None), None),
        }

    async def counts(self, ctx: NamespacePass) -> dict[str, Any]:
        """Returns the number of topics and topic sets that refer to the namespace."""
        reader = reader_of(self.deps)
        each = [await reader.dependents(ctx.obj, kind) for kind in (Kind.TOPIC, Kind.TOPIC_SET)]
        return {"dependents": sum(each)}

    async def delete(self, ctx: NamespacePass, scope: Scope, *, force: bool) -> Blocker | None:
        """See namespace_deletion."""
        self._backlogs.forget(ctx.meta.uid)
        self._stored.forget(ctx.meta.uid)
        return await NamespaceDeletion(self.deps, ctx, scope).run(force=force)

    def unrestored(self, ctx: NamespacePass) -> str | None:
        """See ReconcilerBase."""
        lists = ctx.before.clusters_before_deletion
        return unrestored(ctx.obj, ctx.before.pulsar_name or name_of(ctx.obj), lists) if lists is not None else None

    async def release(self, ctx: NamespacePass, reason: Reason, message: str) -> None:
        """Releases the object; see ReconcilerBase. A namespace that is not deleted, because of its policy or because
        another object takes it over, is first restored in all its clusters."""
        if ctx.before.clusters_before_deletion is not None and reason not in (Reason.DELETED, Reason.PARENT_DELETED):
            try:
                scope = await resolve_scope(self.deps, self.kind, ctx.obj, deleting=True)
                await NamespaceDeletion(self.deps, ctx, scope).restore()
            except ObstacleError as obstacle:
                if not obstacle.gone:
                    raise
            except (RefusedError, ConflictError) as error:
                # It would be refused without end, and the object could never be let go.
                text = (
                    f"{message}. The namespace is missing in clusters that its deletion removed from its lists, "
                    f"because Pulsar refuses to add them again: {error}"
                )
                await ctx.event(Reason.REJECTED_BY_PULSAR, text, warning=True)
        await super().release(ctx, reason, message)


def _confirmed(ctx: NamespacePass, action: ConfirmationAction) -> frozenset[str]:
    """Returns the clusters with a valid confirmation. There is none in the pass that takes the namespace over; see
    used_confirmations."""
    if not _knows_what_was_used(ctx):
        return frozenset()
    return confirmed(ctx.spec.confirmations, ctx.before.used_confirmations, ctx.conditions.now, action)


def _knows_what_was_used(ctx: NamespacePass) -> bool:
    """Whether the status belongs to this object and shows which confirmations were used.

    A status with a later generation than the object's belongs to an earlier object: it was restored from a backup,
    which was made before or after they were used.
    """
    return ctx.memory.established and (ctx.before.observed_generation or 0) <= ctx.meta.generation


def _declared_by_tenant(scope: Scope) -> frozenset[str] | None:
    given = (scope.chain[0].get("spec") or {}).get("allowedClusters")
    return None if given is None else frozenset(map(str, given))


def _boundaries(spec: PulsarNamespaceSpec) -> list[str] | None:
    if spec.bundles is None:
        return None
    if spec.bundles.boundaries is not None:
        return list(spec.bundles.boundaries)
    return even_boundaries(spec.bundles.count) if spec.bundles.count is not None else None


def _cluster_status(name: str, answer: Mapping[str, Any] | None) -> NamespaceClusterStatus:
    return NamespaceClusterStatus(name=name, exists=answer is not None, bundles=bundle_count(answer))
