"""PulsarTenant: admin roles and allowed clusters of a tenant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.api.v1alpha1.base import MAX_CLUSTERS
from pulsar_operator.api.v1alpha1.tenant import PulsarTenantSpec, PulsarTenantStatus
from pulsar_operator.controllers.core.watch_cache import name_of, reader_of
from pulsar_operator.controllers.logical.controller import LogicalController
from pulsar_operator.controllers.logical.logical_pass import LogicalPass
from pulsar_operator.controllers.logical.scope import Scope
from pulsar_operator.controllers.logical.stored_lists import check_tenant_before_write
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.logical.clusters import clusters_of
from pulsar_operator.domain.logical.plan import Action, Memory, Plan, Verb
from pulsar_operator.domain.logical.pulsar_names import tenant_path
from pulsar_operator.domain.logical.tenant import LiveTenant, TenantFacts, clusters_to_remove, plan_tenant
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import ConflictError, Deps, RefusedError

TenantPass = LogicalPass[PulsarTenantSpec, PulsarTenantStatus]


class TenantController(LogicalController[PulsarTenantSpec, PulsarTenantStatus, TenantFacts]):
    """Reconciles PulsarTenants."""

    kind = Kind.TENANT

    def __init__(self, deps: Deps) -> None:
        super().__init__(deps)

    def name_in_pulsar(self, ctx: TenantPass, scope: Scope) -> str:
        """Returns the name of the tenant."""
        return name_of(ctx.obj)

    async def observe(self, ctx: TenantPass, scope: Scope, memory: Memory) -> TenantFacts:
        """Returns the tenant, the registered clusters and, only if a cluster is to be removed, the namespaces that use
        it."""
        name = name_of(ctx.obj)
        found = await scope.admin.find(Call("GET", tenant_path(name)))
        registered = await scope.admin.registered()
        facts = TenantFacts(
            live=LiveTenant.parse(found[1]) if found is not None else None,
            instance_clusters=scope.names,
            registered=registered,
            deleting=frozenset(each.name for each in scope.clusters if each.deleting),
        )
        going = clusters_to_remove(ctx.spec, facts, memory.managed)
        if not going:
            return facts
        usage: dict[str, list[str]] = {cluster: [] for cluster in going}
        for full in await self._namespaces(scope, name):
            policies = await scope.admin.find(Call("GET", ("namespaces", name, full.split("/", 1)[1])))
            for cluster in going & set(clusters_of(policies[1]) if policies is not None else ()):
                usage[cluster].append(full)
        return replace(facts, usage=usage)

    async def check_before_write(self, ctx: TenantPass, scope: Scope, action: Action) -> None:
        """Checks the tenant in the configuration store before an update, since an update contains what brokers
        answered. See LogicalController."""
        if action.verb is not Verb.CREATE:
            await check_tenant_before_write(self.deps, scope, name_of(ctx.obj))

    def plan(self, ctx: TenantPass, facts: TenantFacts, memory: Memory) -> Plan:
        """See domain.logical.tenant."""
        return plan_tenant(name_of(ctx.obj), ctx.spec, facts, memory)

    def exists(self, facts: TenantFacts) -> bool:
        """Whether Pulsar has the tenant."""
        return facts.live is not None

    async def status_fields(self, ctx: TenantPass, scope: Scope, facts: TenantFacts) -> dict[str, Any]:
        """Returns the clusters as Pulsar reports them."""
        clusters = sorted(facts.live.allowed_clusters)[:MAX_CLUSTERS] if facts.live is not None else None
        return {"clusters": clusters, "cluster_names": _some(clusters) if clusters else None}

    async def counts(self, ctx: TenantPass) -> dict[str, Any]:
        """Returns the number of namespaces that refer to the tenant."""
        return {"dependents": await reader_of(self.deps).dependents(ctx.obj, Kind.NAMESPACE)}

    async def delete(self, ctx: TenantPass, scope: Scope, *, force: bool) -> Blocker | None:
        """Deletes the tenant. Pulsar refuses to delete one with namespaces, unless it is forced and its configuration
        allows that."""
        name = name_of(ctx.obj)
        namespaces = await self._namespaces(scope, name)
        if namespaces and not force:
            return Blocker(
                Reason.NOT_EMPTY,
                f"Tenant {name} is not deleted, because it still has namespaces in Pulsar ({_some(namespaces)}). "
                "Delete the namespaces first",
            )
        try:
            await scope.admin.delete(Call("DELETE", tenant_path(name), {"force": "true"} if force else {}))
        except (RefusedError, ConflictError) as error:
            if not force:
                raise
            return Blocker(
                Reason.REJECTED_BY_PULSAR,
                f"{error}. The brokers do not allow ForceDelete. Set forceDeleteTenantAllowed=true in "
                "spec.broker.config of the PulsarCluster, or delete the namespaces of the tenant first "
                f"({_some(namespaces)})",
            )
        return None

    async def _namespaces(self, scope: Scope, tenant: str) -> list[str]:
        found = await scope.admin.find(Call("GET", ("namespaces", tenant)))
        return sorted(found[1] or ()) if found is not None else []


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
