"""PulsarNamespace: a namespace with its bundles at creation, its clusters and its policies."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.api.v1alpha1.base import DriftPolicy
from pulsar_operator.api.v1alpha1.confirmations import ConfirmationAction
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
from pulsar_operator.controllers.logical.deletion_results import Blocker
from pulsar_operator.controllers.logical.initial_bundles import new_bundles
from pulsar_operator.controllers.logical.logical_pass import LogicalPass
from pulsar_operator.controllers.logical.namespace_deletion import NamespaceDeletion, unrestored
from pulsar_operator.controllers.logical.owner_records import NamespaceRecord
from pulsar_operator.controllers.logical.ownership import Record
from pulsar_operator.controllers.logical.policies import read_own
from pulsar_operator.controllers.logical.replication_backlog import Deliveries, Leaving
from pulsar_operator.controllers.logical.scope import ObstacleError, Scope, resolve_scope
from pulsar_operator.controllers.logical.stored_lists import look_before_write
from pulsar_operator.domain.logical.clusters import clusters_of, confirmed, leaving, used_confirmations
from pulsar_operator.domain.logical.consent import Guard, asked_of, moment_of
from pulsar_operator.domain.logical.namespace import (
    NamespaceFacts,
    boundaries_match,
    bundle_count,
    declared_policies,
    digest_of,
    plan_namespace,
    unfinished_deletion,
    wanted_policies,
)
from pulsar_operator.domain.logical.owners import owner_of, owner_properties, record_in
from pulsar_operator.domain.logical.plan import Action, Memory, Plan, Verb, concerned
from pulsar_operator.domain.logical.pulsar_names import namespace_path, tenant_path
from pulsar_operator.domain.policies import NAMESPACE_POLICIES, Call
from pulsar_operator.ports import ConflictError, Deps, RefusedError

log = logging.getLogger(__name__)

NamespacePass = LogicalPass[PulsarNamespaceSpec, PulsarNamespaceStatus]


class NamespaceController(LogicalController[PulsarNamespaceSpec, PulsarNamespaceStatus, NamespaceFacts]):
    """Reconciles PulsarNamespaces."""

    kind = Kind.NAMESPACE

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._deliveries = Deliveries()
        self._stored = StoredBytes()

    def name_in_pulsar(self, p: NamespacePass, scope: Scope) -> str:
        """tenant/namespace."""
        return f"{scope.parent_name(Kind.TENANT)}/{name_of(p.obj)}"

    def inherit(self, p: NamespacePass, scope: Scope) -> None:
        """spec.namespaceDefaults of the tenant."""
        given = (scope.chain[0].get("spec") or {}).get("namespaceDefaults")
        try:
            p.inherited = NamespacePolicies.model_validate(given) if given else None
        except ValidationError as error:
            text = (
                f"spec.namespaceDefaults of PulsarTenant {scope.chain[0]['metadata']['name']}: {invalid_fields(error)}"
            )
            raise ObstacleError(Reason.PARENT_NOT_READY, text, known=True) from None
        p.renewed = digest_of(p.inherited) != p.before.applied_defaults

    async def observe(self, p: NamespacePass, scope: Scope, memory: Memory) -> NamespaceFacts:
        """The namespace's policies; for a namespace that does not exist also what its tenant allows."""
        tenant, name = scope.parent_name(Kind.TENANT), name_of(p.obj)
        found = await scope.admin.find(Call("GET", namespace_path(tenant, name)))
        tenant_clusters: frozenset[str] = frozenset()
        if found is None:
            parent = await scope.admin.find(Call("GET", tenant_path(tenant)))
            if parent is None:
                raise ObstacleError(Reason.PARENT_NOT_READY, f"tenant {tenant} does not exist in Pulsar", known=True)
            tenant_clusters = frozenset(parent[1].get("allowedClusters") or ())
        facts = NamespaceFacts(
            tenant=tenant,
            name=name,
            live=found[1] if found is not None else None,
            tenant_clusters=tenant_clusters,
            instance_clusters=scope.names,
            tenant_declared=_declared_by_tenant(scope),
            deleting=frozenset(each.name for each in scope.clusters if each.deleting),
            boundaries=_boundaries(p.spec),
            version=scope.version,
            defaults=p.inherited,
            confirmations=_confirmed(p, ConfirmationAction.REMOVE_CLUSTER),
            abandoned=_confirmed(p, ConfirmationAction.ABANDON_BACKLOG),
            record=owner_properties(owner_of(p.obj)),
        )
        if found is None:
            if p.spec.bundles is not None and p.spec.bundles.sizing is not None:
                new = await new_bundles(self.deps, p.obj, scope, f"{tenant}/{name}")
                return replace(facts, boundaries=new.boundaries, boundaries_why=new.reason)
            return facts
        p.records[""] = record_in(found[1])
        unfinished = unfinished_deletion(found[1], f"{tenant}/{name}")
        if unfinished is not None:
            raise ObstacleError(Reason.DELETION_UNFINISHED, unfinished, known=True)
        facts = await self._delivered(p, scope, memory, facts)
        return await self._in_each_cluster(p, scope, memory, facts, found[0], found[1])

    async def _delivered(self, p: NamespacePass, scope: Scope, memory: Memory, facts: NamespaceFacts) -> NamespaceFacts:
        """The facts with what waits for clusters that are to leave the replication, or is theirs and waits for
        others."""
        lists = facts.lists()
        p.replicating = lists.replicating
        gone = leaving(p.spec, lists, memory=memory, repair=p.spec.drift_policy is DriftPolicy.REPAIR)
        if not gone or p.held is not None:
            self._deliveries.forget(p.meta.uid)
            return facts
        leave = Leaving(f"{facts.tenant}/{facts.name}", lists.replicating, gone)
        return replace(
            facts, undelivered=await self._deliveries.undelivered(p.meta.uid, scope, leave, p.conditions.now)
        )

    async def _in_each_cluster(
        self,
        p: NamespacePass,
        scope: Scope,
        memory: Memory,
        facts: NamespaceFacts,
        answered_by: str,
        live: Mapping[str, Any],
    ) -> NamespaceFacts:
        """The facts with what is each cluster's own: its answer, and the policies only it can tell."""
        path = namespace_path(facts.tenant, facts.name)
        holders = set(clusters_of(live)) & set(scope.names)
        answers, unreachable = await scope.admin.everywhere(holders - {answered_by}, Call("GET", path), brief=True)
        if answered_by in holders:
            answers[answered_by] = dict(live)
        wanted = wanted_policies(p.spec, p.inherited)
        rows = [row for row in concerned(NAMESPACE_POLICIES, wanted, memory.managed) if row.own_get]
        present = sorted(name for name, answer in answers.items() if answer is not None)
        own, mute = await read_own(scope, rows, path, present) if rows else ({}, ())
        return await self._with_consent(
            p,
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
        self, p: NamespacePass, scope: Scope, memory: Memory, facts: NamespaceFacts, holders: list[str]
    ) -> NamespaceFacts:
        """The facts with what is known of a change by which Pulsar keeps less, where one is due."""
        own, wanted = declared_policies(p.spec), wanted_policies(p.spec, p.inherited)
        rows = [
            row
            for row in concerned(NAMESPACE_POLICIES, wanted, memory.managed)
            if row.keeps is not None and row.field not in own
        ]
        if not rows:
            self._stored.forget(p.meta.uid)
            return facts
        tenant = scope.chain[0]["metadata"]
        itself = asked_of(self.kind.value, p.obj["metadata"], p.meta.annotations)
        created = moment_of(p.obj["metadata"])
        above = asked_of(Kind.TENANT.value, tenant, tenant.get("annotations") or {}, created=created)
        # The tenant answers for what its own change asks, and not for what the namespace or somebody else does later.
        asks_above = p.before.settled_defaults != digest_of(p.inherited)
        source = f"spec.namespaceDefaults of PulsarTenant {tenant['name']}"
        guard = Guard((itself, above) if asks_above else (itself,), own, source)
        facts = replace(facts, guard=guard)
        if not plan_namespace(p.spec, facts, memory).asks:
            self._stored.forget(p.meta.uid)
            return facts
        if asks_above:
            guard = replace(guard, asked=(itself, replace(above, until=await self._youngest(scope))))
            facts = replace(facts, guard=guard)
        # A cluster that is none of the instance may store something all the same, and nobody can ask it.
        silent = {*facts.unreachable, *(set(holders) - scope.names)}
        inherited = await inherited_by_namespace(scope, rows, holders, silent)
        facts = replace(facts, guard=replace(guard, inherited=inherited))
        if not plan_namespace(p.spec, facts, memory).asks:
            return facts
        stored = await self._stored.of_namespace(
            p.meta.uid,
            scope,
            (facts.tenant, facts.name),
            holders,
            silent=silent,
            now=p.conditions.now,
        )
        return replace(facts, guard=replace(guard, inherited=inherited, stored=stored))

    async def _youngest(self, scope: Scope) -> str:
        """When the youngest PulsarNamespace of the tenant was created; see moment_of."""
        tenant = scope.chain[0]
        key = key_of(Kind.TENANT, tenant)
        objects = await reader_of(self.deps).every(self.kind, allowed_by=tenant)
        moments = (moment_of(obj["metadata"]) for obj in objects if key in references(self.kind, obj))
        return max(moments, default="")

    async def record_of(self, p: NamespacePass, scope: Scope) -> Record:
        """A property of the namespace."""
        return NamespaceRecord(scope, namespace_path(scope.parent_name(Kind.TENANT), name_of(p.obj)))

    def made_with_record(self, p: NamespacePass) -> bool:
        """See Ownership."""
        return True

    async def look_before(self, p: NamespacePass, scope: Scope, action: Action) -> None:
        """A cluster that leaves a list may lose all that it holds."""
        if action.verb is not Verb.CREATE:
            name, leaving = self.name_in_pulsar(p, scope), _confirmed(p, ConfirmationAction.REMOVE_CLUSTER)
            await look_before_write(self.deps, scope, name, action, leaving=leaving, replicating=p.replicating)

    def plan(self, p: NamespacePass, facts: NamespaceFacts, memory: Memory) -> Plan:
        """See domain.logical.namespace."""
        return plan_namespace(p.spec, facts, memory)

    def exists(self, facts: NamespaceFacts) -> bool:
        """Whether Pulsar has the namespace."""
        return facts.live is not None

    def unreachable(self, p: NamespacePass, facts: NamespaceFacts) -> tuple[str, ...]:
        """Some policies are written in each cluster; everything else is shared by all."""
        rows = concerned(NAMESPACE_POLICIES, wanted_policies(p.spec, p.inherited), p.memory.managed)
        return facts.unreachable if any(row.per_cluster for row in rows) else ()

    async def status_fields(self, p: NamespacePass, scope: Scope, facts: NamespaceFacts) -> dict[str, Any]:
        """The namespace in each of its clusters; bundles are a cluster's own."""
        live = facts.live
        if live is None:
            return {"clusters": [], "bundle_count": None, "boundaries_match": None}
        # Only what was applied completely counts as applied; see Result.report.
        complete = p.fields.get("applied_generation") == p.meta.generation
        applied = {"applied_defaults": digest_of(p.inherited)} if complete else {}
        if complete and not p.asks:
            applied["settled_defaults"] = digest_of(p.inherited)
        known = {c.name: c for c in p.before.clusters}
        clusters = [_cluster_status(name, answer) for name, answer in sorted(facts.answers.items())]
        # A cluster that does not answer keeps what was last seen of it.
        clusters += [known[name] for name in facts.unreachable if name in known]
        clusters.sort(key=lambda c: c.name)
        used = used_confirmations(
            p.spec, p.before.used_confirmations, live, p.conditions.now, taken_over=not _knows_what_was_used(p)
        )
        return {
            **applied,
            "used_confirmations": used,
            "clusters": clusters,
            "boundaries_match": boundaries_match(facts.answers.values()),
            "bundle_count": next((c.bundles for c in clusters if c.bundles is not None), None),
        }

    async def counts(self, p: NamespacePass) -> dict[str, Any]:
        """Topics and sets of topics that refer to it."""
        reader = reader_of(self.deps)
        each = [await reader.dependents(p.obj, kind) for kind in (Kind.TOPIC, Kind.TOPIC_SET)]
        return {"dependents": sum(each)}

    async def delete(self, p: NamespacePass, scope: Scope, *, force: bool) -> Blocker | None:
        """See namespace_deletion."""
        self._deliveries.forget(p.meta.uid)
        self._stored.forget(p.meta.uid)
        return await NamespaceDeletion(self.deps, p, scope).run(force=force)

    def unrestored(self, p: NamespacePass) -> str | None:
        """See PassFrame."""
        lists = p.before.clusters_before_deletion
        return unrestored(p.obj, p.before.pulsar_name or name_of(p.obj), lists) if lists is not None else None

    async def release(self, p: NamespacePass, reason: Reason, message: str) -> None:
        """See PassFrame. A namespace that stays, by its policy or with another object, is in all its clusters again."""
        if p.before.clusters_before_deletion is not None and reason not in (Reason.DELETED, Reason.PARENT_DELETED):
            try:
                scope = await resolve_scope(self.deps, self.kind, p.obj, deleting=True)
                await NamespaceDeletion(self.deps, p, scope).give_back()
            except ObstacleError as obstacle:
                if not obstacle.gone:
                    raise
            except (RefusedError, ConflictError) as error:
                # It would be refused for ever, and the object could never be let go.
                text = f"{message}. It lacks clusters that its deletion took out, and Pulsar refuses them: {error}"
                await p.event(Reason.REJECTED_BY_PULSAR, text, warning=True)
        await super().release(p, reason, message)


def _confirmed(p: NamespacePass, action: ConfirmationAction) -> frozenset[str]:
    """None in the pass that takes the namespace over: see used_confirmations."""
    if not _knows_what_was_used(p):
        return frozenset()
    return confirmed(p.spec.confirmations, p.before.used_confirmations, p.conditions.now, action)


def _knows_what_was_used(p: NamespacePass) -> bool:
    """Whether the status is this object's and tells which confirmations were used. A status of a later generation than
    the object's is of an earlier object: a backup was restored with it, from before or after they were used."""
    return p.memory.established and (p.before.observed_generation or 0) <= p.meta.generation


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
