"""PulsarNamespace: a namespace with its bundles at creation, its clusters and its policies."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
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
from pulsar_operator.controllers.core.objects import invalid_fields
from pulsar_operator.controllers.core.watch_cache import name_of, reader_of
from pulsar_operator.controllers.logical.consent import StoredBytes, inherited_by_namespace
from pulsar_operator.controllers.logical.controller import LogicalController
from pulsar_operator.controllers.logical.deletion_results import Blocker
from pulsar_operator.controllers.logical.deliveries import Deliveries, Leaving
from pulsar_operator.controllers.logical.initial_bundles import new_bundles
from pulsar_operator.controllers.logical.logical_pass import LogicalPass
from pulsar_operator.controllers.logical.policies import read_own
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, ObstacleError, Scope
from pulsar_operator.controllers.logical.stored_lists import look_before_deletion, look_before_write
from pulsar_operator.domain.logical.clusters import clusters_of, confirmed, leaving, replication_of, used_confirmations
from pulsar_operator.domain.logical.consent import Guard, asked_of
from pulsar_operator.domain.logical.names import namespace_path, tenant_path
from pulsar_operator.domain.logical.namespace import (
    NamespaceFacts,
    boundaries_match,
    bundle_count,
    declared_policies,
    digest_of,
    plan_namespace,
    wanted_policies,
)
from pulsar_operator.domain.logical.plan import Action, Memory, Plan, Verb, concerned
from pulsar_operator.domain.policies import NAMESPACE_POLICIES, Call
from pulsar_operator.ports import ConflictError, Deps, PortError, RefusedError

log = logging.getLogger(__name__)

FAILED = frozenset({422, 500})
"""What a broker answers that began to delete a namespace and failed; without an answer it may still be at work."""

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
        )
        if found is None:
            if p.spec.bundles is not None and p.spec.bundles.sizing is not None:
                new = await new_bundles(self.deps, p.obj, scope, f"{tenant}/{name}")
                return replace(facts, boundaries=new.boundaries, boundaries_why=new.reason)
            return facts
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
            sorted(holders),
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
        guard = Guard(
            (
                asked_of(self.kind.value, p.obj["metadata"], p.meta.annotations),
                asked_of(Kind.TENANT.value, tenant, tenant.get("annotations") or {}, many=True),
            ),
            own,
            f"spec.namespaceDefaults of PulsarTenant {tenant['name']}",
        )
        facts = replace(facts, guard=guard)
        if not plan_namespace(p.spec, facts, memory).asks:
            self._stored.forget(p.meta.uid)
            return facts
        inherited = await inherited_by_namespace(scope, rows, holders, facts.unreachable)
        facts = replace(facts, guard=replace(guard, inherited=inherited))
        if not plan_namespace(p.spec, facts, memory).asks:
            return facts
        stored = await self._stored.of_namespace(
            p.meta.uid,
            scope,
            (facts.tenant, facts.name),
            holders,
            silent=facts.unreachable,
            now=p.conditions.now,
        )
        return replace(facts, guard=replace(guard, inherited=inherited, stored=stored))

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
        """Delete the namespace, in steps that can each be repeated.

        Pulsar refuses to delete a namespace of several clusters, and taking a cluster out deletes its data there: so a
        replicated namespace is first seen to be empty in every cluster, then reduced to one, then deleted.
        """
        self._deliveries.forget(p.meta.uid)
        self._stored.forget(p.meta.uid)
        tenant, name = scope.parent_name(Kind.TENANT), name_of(p.obj)
        path = namespace_path(tenant, name)
        found = await scope.admin.find(Call("GET", path))
        if found is None:
            return None
        holders = clusters_of(found[1])
        if not force:
            await look_before_deletion(self.deps, scope, f"{tenant}/{name}", holders)
        # Pulsar marks a namespace once it found it empty, and then lists no topics of it (HTTP 404).
        begun = found[1].get("deleted") is True
        blocker = None if force or begun else await self._contents(scope, tenant, name, holders)
        if blocker is not None:
            return blocker
        home = next((c for c in scope.admin.usable if c in replication_of(found[1])), scope.admin.usable[0])
        if len(holders) > 1 and not force:
            await self._reduce(scope, path, found[1], home)
        try:
            await scope.admin.delete(Call("DELETE", path, {"force": "true"} if force else {}), cluster=home)
        except AdminUnreachableError as error:
            if error.status in FAILED:
                await self._free(scope, path, home)
            raise
        except (RefusedError, ConflictError) as error:
            if not force:
                raise
            return Blocker(
                Reason.REJECTED_BY_PULSAR,
                f"{error}. ForceDelete does only what Pulsar allows: set forceDeleteNamespaceAllowed=true in the "
                "brokers' configuration (and leave the namespace in one cluster), or delete its topics first",
            )
        return None

    async def _free(self, scope: Scope, path: tuple[str, ...], home: str) -> None:
        """Unload the bundles of a namespace whose deletion has begun and failed; the next attempt then succeeds.

        Its system topic ``__change_events`` can be left so that each further attempt fails alike until it is loaded
        anew (seen on 4.0.8): fenced, when a reader of the broker's own connects while it is being deleted (HTTP 500
        ``Topic is already fenced``, apache/pulsar#15451); or with a compaction that lost its connection and that every
        deletion waits for (HTTP 422 ``HTTP 422 {}``, or 500 ``Consumer connect fail!``). Pulsar has the namespace
        marked as deleted by then, so nobody can be using it. Of a cluster that does not answer nothing is asked.
        """
        try:
            live = await scope.admin.at(home, Call("GET", path))
        except PortError:
            return
        if not live.get("deleted"):
            return
        log.info("unload namespace %s in cluster %s: its deletion has begun and failed", "/".join(path[1:]), home)
        for lower, upper in pairwise((live.get("bundles") or {}).get("boundaries") or ()):
            with suppress(PortError):  # Bundles without owner are unknown; the stuck one answers after a minute.
                await scope.admin.at(home, Call("PUT", (*path, f"{lower}_{upper}", "unload")))

    async def _contents(self, scope: Scope, tenant: str, name: str, holders: list[str]) -> Blocker | None:
        """The topics in the way, looked for in every cluster that holds the namespace. Raises AdminUnreachableError."""
        path = namespace_path(tenant, name)
        for cluster in holders:
            if cluster not in scope.names and len(holders) > 1:
                return Blocker(
                    Reason.NOT_EMPTY,
                    f"the namespace is also in cluster {cluster}, which is no cluster of the instance: its topics "
                    "there cannot be seen. Take it out of the namespace's clusters first",
                )
            if cluster not in scope.names:
                continue
            topics = await scope.admin.listed(cluster, Call("GET", (*path, "topics"), {"mode": "ALL"}))
            for domain in ("persistent", "non-persistent"):
                topics += await scope.admin.listed(cluster, Call("GET", (domain, tenant, name, "partitioned")))
            if topics:
                shown = ", ".join(sorted(topics)[:5]) + (f" and {len(topics) - 5} more" if len(topics) > 5 else "")
                return Blocker(
                    Reason.NOT_EMPTY,
                    f"namespace {tenant}/{name} still has topics in cluster {cluster} ({shown}): delete them first, or "
                    "set spec.deletionPolicy to Retain",
                )
        return None

    async def _reduce(self, scope: Scope, path: tuple[str, ...], live: Mapping[str, Any], home: str) -> None:
        if replication_of(live) != [home]:
            await scope.admin.at(home, Call("POST", (*path, "replication"), body=[home]))
        if live.get("allowed_clusters") and sorted(live["allowed_clusters"]) != [home]:
            await scope.admin.at(home, Call("POST", (*path, "allowedClusters"), body=[home]))


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
