"""PulsarIsolationPolicy: a namespace isolation policy and failure domains in each of its clusters.

The isolation policies of a cluster are one value in the configuration store. A broker that receives a new policy writes
that value based on what it last read. Two simultaneous writes, or one broker that lags by a moment, therefore lose one
of the two policies (class ClustersBase, setIsolationDataAsync). So the operator writes the policies one after the
other, and reads them again some seconds after a write.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from pulsar_operator.api.constants import ConditionType, Kind, Reason
from pulsar_operator.api.v1alpha1.isolation_policy import (
    BROKERS,
    IsolationClusterStatus,
    IsolationSummary,
    PulsarIsolationPolicySpec,
    PulsarIsolationPolicyStatus,
)
from pulsar_operator.balance.model.isolation import host_of
from pulsar_operator.controllers.core.index import references
from pulsar_operator.controllers.core.watch_cache import name_of, reader_of
from pulsar_operator.controllers.logical.controller import DUPLICATE_SECONDS, LogicalController
from pulsar_operator.controllers.logical.logical_pass import KNOWN, LogicalPass, Refusals
from pulsar_operator.controllers.logical.owner_records import NodeRecord
from pulsar_operator.controllers.logical.ownership import Record
from pulsar_operator.controllers.logical.scope import AdminUnreachableError, Scope
from pulsar_operator.controllers.logical.shared_brokers import record_shared_brokers
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.logical.isolation_policy import (
    CLUSTERS,
    DOMAINS,
    ClusterFacts,
    IsolationFacts,
    exists,
    plan_isolation,
    target_clusters,
)
from pulsar_operator.domain.logical.owners import Claim, claim_of, owner_node, winner
from pulsar_operator.domain.logical.plan import Memory, Plan
from pulsar_operator.domain.logical.pulsar_names import failure_domain_path, isolation_path
from pulsar_operator.domain.logical.tenant import entry, items_of
from pulsar_operator.domain.logical.topic_set import some
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import Deps, Json, NotFoundError

IsolationPass = LogicalPass[PulsarIsolationPolicySpec, PulsarIsolationPolicyStatus]
Facts = tuple[IsolationFacts, bool]
"""The facts the plan depends on, and whether the policy or a failure domain exists in any cluster."""
LOST_SECONDS = 5.0
"""Seconds until a written policy is read once more. Brokers see each other's writes in far less time."""


class IsolationPolicyController(LogicalController[PulsarIsolationPolicySpec, PulsarIsolationPolicyStatus, Facts]):
    """Reconciles PulsarIsolationPolicies."""

    kind = Kind.ISOLATION_POLICY
    shared = False
    known = (*KNOWN, ConditionType.SHARED_BROKERS_AVAILABLE)

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)
        self._writing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Locks by UID of the instance."""

    def name_in_pulsar(self, ctx: IsolationPass, scope: Scope) -> str:
        """Returns the name of the policy."""
        return name_of(ctx.obj)

    def problem_of_name(self, ctx: IsolationPass) -> str | None:
        """Returns why the name cannot be used, as a message: Pulsar's REST API uses it as another path. None if it can
        be used."""
        taken = name_of(ctx.obj) == BROKERS
        return f"An isolation policy cannot have the name {BROKERS}. Set spec.name to another name" if taken else None

    async def record_of(self, ctx: IsolationPass, scope: Scope) -> Record:
        """Returns the owner record. It is a node of the instance, since other instances on the same store have other
        clusters and may have a policy of that name."""
        meta, name = scope.chain[-1]["metadata"], name_of(ctx.obj)
        path = owner_node(self.kind.value, f"{meta['namespace']}/{meta['name']}", name)
        return NodeRecord(self.deps, scope, path, f"isolation policy {name}")

    async def observe(self, ctx: IsolationPass, scope: Scope, memory: Memory) -> Facts:
        """Returns the policy, the failure domains and the brokers of each cluster that the policy applies or applied
        to."""
        name = name_of(ctx.obj)
        known = await scope.admin.registered()
        before = items_of(memory.managed, CLUSTERS) & scope.names & known
        desired = target_clusters(ctx.spec, scope.names, known, memory.managed) | before
        domains = bool(ctx.spec.failure_domains) or bool(items_of(memory.managed, DOMAINS))
        found = dict(
            zip(
                sorted(desired),
                await asyncio.gather(*(self._cluster(ctx, scope, c, domains=domains) for c in sorted(desired))),
                strict=True,
            )
        )
        if desired and not any(found.values()):
            why = "; ".join(map(scope.admin.why, sorted(desired)))
            raise scope.admin.no_answer(f"no cluster of isolation policy {name} answers ({why})", sorted(desired))
        facts = IsolationFacts(
            name=name,
            instance_clusters=scope.names,
            registered=known,
            clusters={cluster: facts for cluster, facts in found.items() if facts is not None},
            unreachable=tuple(cluster for cluster, facts in found.items() if facts is None),
            taken=await self._taken(ctx) if ctx.spec.failure_domains else {},
        )
        return facts, exists(ctx.spec, facts)

    async def _cluster(self, ctx: IsolationPass, scope: Scope, cluster: str, *, domains: bool) -> ClusterFacts | None:
        """Returns the policy and the failure domains of one cluster, as its own brokers report them; None if it does
        not answer."""
        policy: Mapping[str, Any] | None = None
        brokers: int | None = None
        found: Mapping[str, Any] = {}
        every: Mapping[str, Any] = {}
        live: frozenset[str] = frozenset()
        try:
            if ctx.spec.namespaces is not None:
                every = await self._policies(scope, cluster)
                policy = every.get(name_of(ctx.obj))
                if policy is not None:
                    live = await self._hosts(scope, cluster)
                    brokers = await self._matching(scope, cluster, policy, live)
            if domains:
                found = await scope.admin.at(cluster, Call("GET", failure_domain_path(cluster))) or {}
        except AdminUnreachableError:
            return None
        domains_of = {d: frozenset(v.get("brokers") or ()) for d, v in found.items()}
        return ClusterFacts(policy, domains_of, brokers, every, live)

    async def _policies(self, scope: Scope, cluster: str) -> Mapping[str, Any]:
        """Returns all isolation policies of a cluster by name. Pulsar answers 404 for a cluster that never had one."""
        with contextlib.suppress(NotFoundError):
            return await scope.admin.at(cluster, Call("GET", isolation_path(cluster, "")[:-1])) or {}
        return {}

    async def _hosts(self, scope: Scope, cluster: str) -> frozenset[str]:
        """Returns the hosts of the live brokers of a cluster."""
        return frozenset(
            host_of(str(broker)) for broker in await scope.admin.at(cluster, Call("GET", ("brokers", cluster))) or ()
        )

    async def _matching(self, scope: Scope, cluster: str, policy: Mapping[str, Any], hosts: Collection[str]) -> int:
        """Returns the number of live brokers that match the policy according to Pulsar, since regular expressions of
        Java differ from those of Python.

        Pulsar's list of brokers with policies compares with host:port, although Pulsar chooses a broker by its host
        alone (seen on 4.0.8). So the operator asks for each host. The answer contains the namespaces of all matching
        policies but the name of only one of these policies, so the operator compares the namespaces.
        """
        base = isolation_path(cluster, BROKERS)
        answers = await asyncio.gather(*(scope.admin.at(cluster, Call("GET", (*base, host))) for host in sorted(hosts)))
        desired = set(policy.get("namespaces") or ())
        return sum(1 for each in answers if desired and desired <= set((each or {}).get("namespaceRegex") or ()))

    async def _taken(self, ctx: IsolationPass) -> dict[str, str]:
        """Returns the declared failure domains that another object manages, with that object: two objects would
        overwrite each other."""
        parents = references(self.kind, ctx.obj)
        duplicates = [
            obj
            for obj in await reader_of(self.deps).every(self.kind)
            if obj["metadata"]["uid"] != ctx.meta.uid and references(self.kind, obj) == parents and _meet(ctx.obj, obj)
        ]
        taken: dict[str, str] = {}
        for name in sorted(_domains(ctx.obj)):
            first = winner([_claim(obj, name) for obj in (ctx.obj, *duplicates) if name in _domains(obj)])
            if first.uid != ctx.meta.uid:
                taken[name] = first.text
        return taken

    def plan(self, ctx: IsolationPass, facts: Facts, memory: Memory) -> Plan:
        """See domain.logical.isolation_policy."""
        return plan_isolation(ctx.spec, facts[0], memory)

    def exists(self, facts: Facts) -> bool:
        """Whether the policy or a failure domain exists in any cluster."""
        return facts[1]

    def unreachable(self, ctx: IsolationPass, facts: Facts) -> tuple[str, ...]:
        """Returns the clusters that did not answer. The policy is written in each cluster."""
        return facts[0].unreachable

    def degraded(self, ctx: IsolationPass, facts: Facts) -> tuple[Reason, str] | None:
        """Returns the clusters in which no live broker may serve the namespaces, so that their topics cannot be used
        there; None if there is none."""
        idle = [c for c, found in sorted(facts[0].clusters.items()) if found.policy is not None and found.brokers == 0]
        if not idle:
            return None
        return (
            Reason.NO_BROKER_MATCHES,
            f"No live broker of cluster {', '.join(idle)} matches spec.primary or spec.secondary, so no broker "
            "serves the namespaces of the policy in that cluster. Correct the expressions, or start a broker "
            "that matches. Each expression is compared with the complete host name of a broker, without the "
            "port, such as east-broker-0.east-broker-headless.pulsar.svc.cluster.local",
        )

    def recheck_seconds(self, facts: Facts, *, wrote: bool) -> float | None:
        """Returns the seconds until the next pass. A written policy may be lost, see the module. A failure domain of
        another object may become available."""
        if wrote:
            return LOST_SECONDS
        return DUPLICATE_SECONDS if facts[0].taken else None

    async def _act(
        self, ctx: IsolationPass, scope: Scope, memory: Memory, facts: Facts, plan: Plan
    ) -> tuple[Facts, Plan, Refusals, frozenset[str]]:
        """Performs the plan under a lock, so that there is one writer at a time; see the module."""
        async with self._writing[str(scope.chain[-1]["metadata"]["uid"])]:
            return await super()._act(ctx, scope, memory, facts, plan)

    async def counts(self, ctx: IsolationPass) -> dict[str, Any]:
        """Returns the lists of the specification in the form that printer columns show."""
        lists = ctx.spec.namespaces, ctx.spec.primary, ctx.spec.clusters or ["all"]
        shown = (some(each) if each else None for each in lists)
        return {"summary": IsolationSummary(**dict(zip(("namespaces", "primary", "clusters"), shown, strict=True)))}

    async def status_fields(self, ctx: IsolationPass, scope: Scope, facts: Facts) -> dict[str, Any]:
        """Returns the policy in each cluster. A cluster that does not answer keeps its last observed value."""
        await record_shared_brokers(ctx, scope, facts[0])
        known = {c.name: c for c in ctx.before.clusters}
        found, managed = facts[0], ctx.memory.managed
        targets = target_clusters(ctx.spec, found.instance_clusters, found.registered, managed)
        clusters = [
            IsolationClusterStatus(name=name, exists=each.policy is not None, brokers=each.brokers)
            for name, each in found.clusters.items()
            if name in targets or each.policy is not None
        ]
        clusters += [known[name] for name in found.unreachable if name in known]
        return {"clusters": sorted(clusters, key=lambda c: c.name)}

    async def delete(self, ctx: IsolationPass, scope: Scope, *, force: bool) -> Blocker | None:
        """Deletes the policy, and the failure domains this object managed, in each cluster. Nothing blocks it."""
        managed = frozenset(ctx.before.managed_fields)
        known = await scope.admin.registered()
        desired = items_of(managed, CLUSTERS) | target_clusters(ctx.spec, scope.names, known, managed)
        silent: AdminUnreachableError | None = None
        async with self._writing[str(scope.chain[-1]["metadata"]["uid"])]:
            for cluster in sorted(desired & scope.names & known):
                paths = [failure_domain_path(cluster, domain) for domain in sorted(items_of(managed, DOMAINS))]
                if ctx.spec.namespaces is not None:
                    paths.append(isolation_path(cluster, name_of(ctx.obj)))
                try:
                    for path in paths:
                        await self._remove(scope, cluster, path)
                except AdminUnreachableError as error:
                    silent = silent or error  # the other clusters are freed of it anyway
        if silent is not None:
            raise silent
        return None

    async def _remove(self, scope: Scope, cluster: str, path: tuple[str, ...]) -> None:
        try:
            await scope.admin.at(cluster, Call("GET", path))
            await scope.admin.at(cluster, Call("DELETE", path))
        except NotFoundError:
            return


def _domains(obj: Json) -> set[str]:
    listed = (obj.get("spec") or {}).get("failureDomains") or ()
    return {str(each.get("name")) for each in listed if isinstance(each, dict)}


def _claim(obj: Json, domain: str) -> Claim:
    """Returns the claim of an object to a failure domain. The object that already manages the domain keeps it."""
    managed = (obj.get("status") or {}).get("managedFields") or ()
    return replace(claim_of(obj), newcomer=entry(DOMAINS, domain) not in managed)


def _meet(one: Json, other: Json) -> bool:
    """Whether two objects have a cluster in common."""
    lists = [(obj.get("spec") or {}).get("clusters") for obj in (one, other)]
    return not all(lists) or bool(set(lists[0] or ()) & set(lists[1] or ()))
