"""Reports whether isolation policies leave a broker for the namespaces outside of them.

A broker that matches a primary expression of any policy serves no namespace outside the policies (Pulsar's classes
NamespaceIsolationPolicies, isSharedBroker, and SimpleResourceAllocationPolicies). If this applies to all brokers, the
other namespaces, including Pulsar's own, keep their brokers until a bundle is unloaded and then have none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pulsar_operator.api.constants import ConditionType, Reason
from pulsar_operator.api.v1alpha1.base import ConditionStatus
from pulsar_operator.balance.model.isolation import expressions_of, shared_brokers, unevaluated_in
from pulsar_operator.controllers.logical.logical_pass import LogicalPass
from pulsar_operator.controllers.logical.scope import Scope
from pulsar_operator.domain.conditions import FALSE, UNKNOWN
from pulsar_operator.domain.expressions import covers
from pulsar_operator.domain.logical.clusters import clusters_of
from pulsar_operator.domain.logical.isolation_policy import ClusterFacts, IsolationFacts
from pulsar_operator.domain.logical.plan import printable
from pulsar_operator.domain.logical.pulsar_names import namespace_path, tenant_path
from pulsar_operator.domain.policies import Call
from pulsar_operator.ports import NotFoundError, PortError

LEFT = ConditionType.SHARED_BROKERS_AVAILABLE
NAMED = 3
"""Maximum number of namespaces without a broker that a message names, and of policies and expressions of each that
cannot be evaluated."""
SHOWN = 100
"""Maximum length of such an expression in a message, in characters."""
MAX_CHECKED = 50
"""Maximum number of namespaces checked to find those without a broker. Every pass reads them."""


async def record_shared_brokers(ctx: LogicalPass[Any, Any], scope: Scope, facts: IsolationFacts) -> None:
    """Sets condition SharedBrokersAvailable, with an event when it becomes False. Condition Ready is not affected."""
    if ctx.spec.namespaces is None:
        ctx.conditions.set(LEFT, True, Reason.NOT_APPLICABLE, "The object declares only failure domains")
        return
    texts: list[str] = []
    unevaluated = [_unevaluated(cluster, found.policies) for cluster, found in sorted(facts.clusters.items())]
    for cluster, found in sorted(facts.clusters.items()):
        takers = taking(facts.name, found)
        if not takers:
            continue
        try:
            outside = await outsiders(scope, cluster, found.policies)
        except PortError as error:
            ctx.conditions.set(
                LEFT,
                UNKNOWN,
                Reason.ADMIN_UNREACHABLE,
                f"The operator cannot read the namespaces of cluster {cluster}: {error}",
            )
            return
        if outside:
            texts.append(_explain(cluster, takers, len(found.live), outside))
    if facts.unreachable:
        text = (
            f"These clusters do not answer: {', '.join(facts.unreachable)}. To see their state, run: kubectl get "
            "pulsarclusters -A"
        )
        ctx.conditions.set(LEFT, UNKNOWN, Reason.ADMIN_UNREACHABLE, text)
    if not texts and any(unevaluated):
        await _record(ctx, UNKNOWN, Reason.EXPRESSION_NOT_EVALUATED, "; ".join(filter(None, unevaluated)))
        return
    if not texts:
        if not facts.unreachable:
            text = "Every namespace outside the isolation policies has brokers, or no such namespace exists"
            ctx.conditions.set(LEFT, True, Reason.BROKERS_SHARED, text)
        return
    await _record(ctx, FALSE, Reason.NO_BROKERS_FOR_OTHERS, "; ".join(texts))


async def _record(ctx: LogicalPass[Any, Any], status: ConditionStatus, reason: Reason, text: str) -> None:
    """Sets the condition, with an event if its status or reason has changed."""
    before = ctx.before.condition(LEFT)
    ctx.conditions.set(LEFT, status, reason, text)
    if before is None or (before.status, before.reason) != (status, reason):
        await ctx.event(reason, text, warning=True)


def _unevaluated(cluster: str, policies: Mapping[str, Any]) -> str:
    """Returns a message about the expressions of a cluster's policies that cannot be evaluated; "" if there are
    none."""
    found = unevaluated_in(policies)
    if not found:
        return ""
    named = ", ".join(
        f"{json.dumps(each[:SHOWN])} of policy {printable(name)}"
        for name, listed in list(found.items())[:NAMED]
        for each in listed[:NAMED]
    )
    return (
        f"In cluster {cluster} the operator cannot evaluate the expressions {named}, because they use syntax that "
        "RE2 does not share with Java, such as lookaround or back references. The operator does not move or "
        "split namespaces that these expressions may match. Write the expressions without that syntax"
    )


def taking(name: str, found: ClusterFacts) -> list[str]:
    """Returns the policies of a cluster that together match every live broker, if this policy is one of them; otherwise
    an empty list.

    An expression that cannot be evaluated matches no broker.
    """
    if name not in found.policies or not found.live or shared_brokers(found.live, found.policies) != frozenset():
        return []
    primaries = {each: expressions_of(policy, "primary") or () for each, policy in found.policies.items()}
    takers = [each for each, primary in primaries.items() if any(covers(primary, host) for host in found.live)]
    return sorted(takers) if name in takers else []


async def outsiders(scope: Scope, cluster: str, policies: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns up to NAMED namespaces of the cluster that no policy covers, those of users before Pulsar's own. Raises
    PortError."""
    listed = [expressions_of(policy, "namespaces") for policy in policies.values()]
    expressions = [each for those in listed for each in those or ()]
    tenants = await scope.admin.at(cluster, Call("GET", ("tenants",))) or ()
    found: list[str] = []
    checked = 0
    for tenant in sorted(tenants, key=lambda name: (name == "pulsar", name)):
        for full in await _namespaces(scope, cluster, str(tenant)):
            # The heartbeat namespaces pulsar/<host>:<port> stay with their broker, whatever the policies.
            if ":" in full or covers(expressions, full) is not False:
                continue
            checked += 1
            if await _in_cluster(scope, cluster, full):
                found.append(full)
            if len(found) == NAMED or checked == MAX_CHECKED:
                return found
    return found


async def _namespaces(scope: Scope, cluster: str, tenant: str) -> list[str]:
    """Returns the namespaces of a tenant that is allowed to use the cluster; none if it is not."""
    try:
        live = await scope.admin.at(cluster, Call("GET", tenant_path(tenant))) or {}
        if cluster not in (live.get("allowedClusters") or ()):
            return []
        return sorted(await scope.admin.at(cluster, Call("GET", ("namespaces", tenant))) or ())
    except NotFoundError:
        return []


async def _in_cluster(scope: Scope, cluster: str, full: str) -> bool:
    try:
        live = await scope.admin.at(cluster, Call("GET", namespace_path(*full.split("/", 1)))) or {}
    except NotFoundError:
        return False
    return cluster in clusters_of(live)


def _explain(cluster: str, takers: Iterable[str], brokers: int, outside: list[str]) -> str:
    return (
        f"In cluster {cluster} the primary expressions of {', '.join(takers)} match all {brokers} live brokers. A "
        "primary broker of a policy serves no namespace outside the policies. These namespaces, such as "
        f"{', '.join(outside)}, have no broker once they are unloaded. Change spec.primary so that it does not "
        "match every broker. To let the namespaces of the policy share all brokers with the others instead, set "
        "spec.primary to [no-such-broker] and spec.secondary to ['.*']"
    )
