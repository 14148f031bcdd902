"""The plan of a PulsarTenant.

Pulsar stores a tenant as one value that every update replaces, so each update contains the other live values. Admin
roles and clusters are changed one after the other, so that a refusal identifies one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.base import DriftPolicy
from pulsar_operator.api.v1alpha1.logical import DriftEntry
from pulsar_operator.api.v1alpha1.tenant import PulsarTenantSpec
from pulsar_operator.domain.logical.clusters import ALLOWED as CLUSTERS
from pulsar_operator.domain.logical.clusters import keep_refused, refuses
from pulsar_operator.domain.logical.plan import Action, Draft, Memory, Plan, Problem, Verb, action_text
from pulsar_operator.domain.logical.pulsar_names import tenant_path
from pulsar_operator.domain.policies import Call, describe

ROLES = "adminRoles"


@dataclass(frozen=True)
class LiveTenant:
    """A tenant in Pulsar's answer."""

    admin_roles: frozenset[str]
    allowed_clusters: frozenset[str]

    @staticmethod
    def parse(answer: Mapping[str, Any]) -> LiveTenant:
        """Parses an answer of ``GET /tenants/{tenant}``."""
        return LiveTenant(frozenset(answer.get("adminRoles") or ()), frozenset(answer.get("allowedClusters") or ()))


@dataclass(frozen=True)
class TenantFacts:
    """The facts the plan depends on."""

    live: LiveTenant | None
    """None if Pulsar has no such tenant."""
    instance_clusters: frozenset[str]
    """Pulsar names of the instance's clusters."""
    registered: frozenset[str]
    """Clusters that are registered in Pulsar."""
    usage: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Namespaces of the tenant by cluster they use. Only read if a cluster is to be removed."""
    deleting: frozenset[str] = frozenset()
    """Clusters of the instance that are being deleted."""


def entry(name: str, item: str) -> str:
    """Returns the entry in status.managedFields for an item of a list."""
    return f"{name}[{item}]"


def items_of(managed: Collection[str], name: str) -> frozenset[str]:
    """Returns the items of a list among the entries of status.managedFields."""
    prefix = f"{name}["
    return frozenset(e[len(prefix) : -1] for e in managed if e.startswith(prefix) and e.endswith("]"))


def desired_clusters(spec: PulsarTenantSpec, facts: TenantFacts) -> frozenset[str]:
    """Returns the declared clusters that are registered in Pulsar; none if the declared list names an unknown cluster,
    since it is then refused.

    If none are declared, a cluster that is being deleted is not added again to a tenant, unless all clusters are being
    deleted.
    """
    every = (facts.instance_clusters - facts.deleting) or facts.instance_clusters
    declared = every if spec.allowed_clusters is None else frozenset(spec.allowed_clusters)
    return declared & facts.registered if declared <= facts.instance_clusters else frozenset()


def clusters_to_remove(spec: PulsarTenantSpec, facts: TenantFacts, managed: Collection[str]) -> frozenset[str]:
    """Returns the clusters that must be removed from the tenant.

    With spec.allowedClusters the list is exact, unless it names an unknown cluster. Without it, only clusters that this
    object added are removed, once they are not registered in Pulsar either: a PulsarCluster that was not observed may
    still exist.
    """
    if facts.live is None:
        return frozenset()
    if spec.allowed_clusters is not None:
        declared = frozenset(spec.allowed_clusters)
        return facts.live.allowed_clusters - declared if declared <= facts.instance_clusters else frozenset()
    return (facts.live.allowed_clusters & items_of(managed, CLUSTERS)) - facts.instance_clusters - facts.registered


def plan_tenant(name: str, spec: PulsarTenantSpec, facts: TenantFacts, memory: Memory) -> Plan:
    """Returns the plan that makes the tenant match the spec."""
    draft = Draft()
    clusters = desired_clusters(spec, facts)
    draft.declared |= {entry(ROLES, role) for role in spec.admin_roles}
    draft.declared |= {entry(CLUSTERS, cluster) for cluster in clusters}
    refused = refuses(draft, CLUSTERS, spec.allowed_clusters, facts.instance_clusters)
    if refused:
        keep_refused(draft, CLUSTERS, memory)
    for cluster in sorted(set(spec.allowed_clusters or ()) - facts.registered) if not refused else ():
        draft.waiting.append(f"Cluster {cluster} is not registered in Pulsar yet, so the tenant cannot use it")
    if facts.live is None:
        if not refused:
            _plan_creation(draft, name, spec, clusters)
        return draft.done()
    repair = spec.drift_policy is DriftPolicy.REPAIR
    roles = _roles(draft, spec, facts.live, memory, repair=memory.repairs(ROLES, repair=repair))
    draft.kept |= {e for e in memory.managed - draft.declared if items_of((e,), ROLES) & facts.live.admin_roles}
    draft.kept |= {e for e in memory.managed - draft.declared if items_of((e,), CLUSTERS) & facts.live.allowed_clusters}
    if roles != facts.live.admin_roles and ROLES not in memory.skip:
        draft.actions.append(_update(name, ROLES, roles, facts.live, memory))
        return draft.done()
    allowed = _clusters(draft, spec, facts, clusters, memory, repair=memory.repairs(CLUSTERS, repair=repair))
    if allowed != facts.live.allowed_clusters:
        draft.actions.append(_update(name, CLUSTERS, allowed, facts.live, memory))
    return draft.done()


def _plan_creation(draft: Draft, name: str, spec: PulsarTenantSpec, clusters: frozenset[str]) -> None:
    if not clusters:
        draft.waiting.append("None of the clusters that the tenant may use is registered in Pulsar yet")
        return
    body = {"adminRoles": sorted(spec.admin_roles), "allowedClusters": sorted(clusters)}
    draft.actions.append(
        Action(
            Verb.CREATE,
            "",
            Call("PUT", tenant_path(name), body=body),
            f"Create tenant {name} with clusters {', '.join(sorted(clusters))}, because Pulsar has no tenant of "
            "that name",
        )
    )


def _roles(draft: Draft, spec: PulsarTenantSpec, live: LiveTenant, memory: Memory, *, repair: bool) -> frozenset[str]:
    """Returns the desired roles: the live ones, without those this object added and no longer declares, plus the
    declared ones."""
    declared = frozenset(spec.admin_roles)
    revoked = items_of(memory.managed, ROLES) - declared
    if spec.prune is not None and spec.prune.admin_roles:
        strangers = live.admin_roles - declared - revoked
        if memory.applied and not repair:
            # Declared as a complete list before, so these were added by another client.
            draft.drift += [
                DriftEntry(field=entry(ROLES, r), desired=describe(None), actual="an admin role") for r in strangers
            ]
        else:
            revoked |= strangers
    add = declared - live.admin_roles
    return (live.admin_roles - revoked) | _without_drift(draft, ROLES, add, live.admin_roles, memory, repair=repair)


def _clusters(
    draft: Draft,
    spec: PulsarTenantSpec,
    facts: TenantFacts,
    desired: frozenset[str],
    memory: Memory,
    *,
    repair: bool,
) -> frozenset[str]:
    assert facts.live is not None
    live = facts.live.allowed_clusters
    remove = set(clusters_to_remove(spec, facts, memory.managed))
    for cluster in sorted(remove):
        users = sorted(facts.usage.get(cluster, ()))
        if users:
            remove.discard(cluster)
            draft.problems.append(
                Problem(
                    CLUSTERS,
                    Reason.NOT_EMPTY,
                    f"The operator does not remove cluster {cluster} from the tenant, because these namespaces "
                    f"still use the cluster and would stop working there: {_some(users)}. Remove the cluster from "
                    "replicationClusters of these namespaces first",
                )
            )
    foreign = frozenset(remove) if spec.allowed_clusters is not None else frozenset()
    if foreign and memory.applied and CLUSTERS not in memory.refused and not repair:
        # Declared as an exact list before, so these were added by another client.
        draft.drift.append(
            DriftEntry(
                field=CLUSTERS, desired=describe(sorted(spec.allowed_clusters or ())), actual=describe(sorted(live))
            )
        )
        remove -= foreign
    add = _without_drift(draft, CLUSTERS, desired - live, live, memory, repair=repair)
    result = (live - remove) | add
    return result or live


def _without_drift(
    draft: Draft, name: str, add: frozenset[str], live: frozenset[str], memory: Memory, *, repair: bool
) -> frozenset[str]:
    """Returns the entries to add. With driftPolicy Report, entries that another writer removed are only reported."""
    if repair:
        return add
    gone = frozenset(item for item in add if memory.drifted(entry(name, item)))
    if gone:
        draft.drift.append(DriftEntry(field=name, desired=describe(sorted(live | gone)), actual=describe(sorted(live))))
    return add - gone


def _update(name: str, what: str, after: frozenset[str], live: LiveTenant, memory: Memory) -> Action:
    before = live.admin_roles if what == ROLES else live.allowed_clusters
    body = {
        "adminRoles": sorted(after if what == ROLES else live.admin_roles),
        "allowedClusters": sorted(after if what == CLUSTERS else live.allowed_clusters),
    }
    repaired = any(memory.drifted(entry(what, item)) for item in after - before)
    # What was added to a list that is complete is drift as well; what left the spec comes with a new generation.
    complete = what == ROLES and memory.applied and ROLES not in memory.refused
    repaired = repaired or (complete and bool(before - after))
    verb = Verb.REPAIR if repaired else Verb.SET
    difference = DriftEntry(field=what, desired=describe(sorted(after)), actual=describe(sorted(before)))
    return Action(
        verb,
        what,
        Call("POST", tenant_path(name), body=body),
        action_text(verb, difference),
        difference,
    )


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return f"namespaces {shown}" + (f" and {len(names) - 5} more" if len(names) > 5 else "")
