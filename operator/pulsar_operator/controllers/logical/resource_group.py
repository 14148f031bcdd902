"""PulsarResourceGroup: limits that the namespaces of a group share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.api.v1alpha1.resource_group import PulsarResourceGroupSpec, PulsarResourceGroupStatus
from pulsar_operator.controllers.core.index import mentions
from pulsar_operator.controllers.core.watch_cache import name_of, reader_of
from pulsar_operator.controllers.logical.controller import LogicalController
from pulsar_operator.controllers.logical.logical_pass import LogicalPass
from pulsar_operator.controllers.logical.scope import Scope
from pulsar_operator.domain.blockers import Blocker
from pulsar_operator.domain.logical.plan import Memory, Plan
from pulsar_operator.domain.logical.pulsar_names import resource_group_path
from pulsar_operator.domain.logical.resource_group import plan_resource_group
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import RefusedError

GroupPass = LogicalPass[PulsarResourceGroupSpec, PulsarResourceGroupStatus]
Facts = tuple[Mapping[str, Any] | None, str | None]
"""The group in Pulsar's answer, and the version of Pulsar."""

MAX_CHECKED = 200
"""Maximum number of Pulsar's namespaces that are checked for the use of a group. Each costs a call."""
NAMED = 3
IN_USE = "in use"
"""Text in Pulsar's refusal to delete a group (class ResourceGroupsBase: "ResourceGroup is in use", HTTP 412)."""


class ResourceGroupController(LogicalController[PulsarResourceGroupSpec, PulsarResourceGroupStatus, Facts]):
    """Reconciles PulsarResourceGroups."""

    kind = Kind.RESOURCE_GROUP

    def name_in_pulsar(self, ctx: GroupPass, scope: Scope) -> str:
        """Returns the group's name."""
        return name_of(ctx.obj)

    async def observe(self, ctx: GroupPass, scope: Scope, memory: Memory) -> Facts:
        """Returns the group and the version of Pulsar."""
        found = await scope.admin.find(Call("GET", resource_group_path(name_of(ctx.obj))))
        return (found[1] if found is not None else None), scope.version

    def plan(self, ctx: GroupPass, facts: Facts, memory: Memory) -> Plan:
        """See domain.logical.resource_group."""
        return plan_resource_group(name_of(ctx.obj), ctx.spec, facts[0], memory, facts[1])

    def exists(self, facts: Facts) -> bool:
        """Whether Pulsar has the group."""
        return facts[0] is not None

    async def status_fields(self, ctx: GroupPass, scope: Scope, facts: Facts) -> dict[str, Any]:
        """Returns nothing: the kind adds no status fields."""
        return {}

    async def delete(self, ctx: GroupPass, scope: Scope, *, force: bool) -> Blocker | None:
        """Deletes the group. Returns what blocks the deletion; None if the group no longer exists. Pulsar refuses to
        delete a group that namespaces use, even by force, and does not name the namespaces."""
        call = Call("GET", resource_group_path(name_of(ctx.obj)))
        if await scope.admin.find(call) is None:
            return None  # Pulsar answers 500 to the deletion of a group it does not have (seen on 4.0.8)
        try:
            await scope.admin.delete(Call("DELETE", call.path))
        except RefusedError as error:
            if IN_USE not in str(error):
                raise
            users = await self._users(scope, name_of(ctx.obj))
            named = (
                (f"The resource group cannot be deleted, because namespaces {', '.join(users)} use it")
                if users
                else ("The resource group cannot be deleted, because namespaces use it")
            )
            return Blocker(
                Reason.IN_USE,
                f"{named} ({error}). Remove spec.policies.resourceGroup from these namespaces first",
            )
        return None

    async def _users(self, scope: Scope, group: str) -> list[str]:
        """Returns some namespaces that use the group: those whose custom resource refers to it, otherwise those Pulsar
        knows."""
        known = [
            str((obj.get("status") or {}).get("pulsarName") or "")
            for obj in await reader_of(self.deps).every(Kind.NAMESPACE)
            if any(key.name == group for key in mentions(Kind.NAMESPACE, obj))
        ]
        found = await self._that_use(scope, group, sorted(filter(None, known)))
        if found:
            return found
        names: list[str] = []
        for tenant in (await scope.admin.anywhere(Call("GET", ("tenants",))))[1] or ():
            inside = await scope.admin.find(Call("GET", ("namespaces", tenant)))
            names += inside[1] or () if inside is not None else ()
            if len(names) >= MAX_CHECKED:
                break
        return await self._that_use(scope, group, names[:MAX_CHECKED])

    async def _that_use(self, scope: Scope, group: str, names: list[str]) -> list[str]:
        out: list[str] = []
        for full in names:
            policies = await scope.admin.find(Call("GET", ("namespaces", *full.split("/", 1))))
            if policies is not None and policies[1].get("resource_group_name") == group:
                out.append(full)
            if len(out) == NAMED:
                break
        return out
