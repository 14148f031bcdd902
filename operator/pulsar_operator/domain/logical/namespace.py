"""The plan of a PulsarNamespace: created in one call, then converged field by field through the policy table.

Pulsar has no call that replaces all policies of a live namespace, so there is one call per changed field.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pulsar_operator.api.v1alpha1 import wire
from pulsar_operator.api.v1alpha1.base import DriftPolicy
from pulsar_operator.api.v1alpha1.logical import DriftEntry
from pulsar_operator.api.v1alpha1.namespace import PulsarNamespaceSpec
from pulsar_operator.api.v1alpha1.policies import NamespacePolicies
from pulsar_operator.domain.logical.clusters import (
    ALLOWED,
    CLUSTERS,
    Clusters,
    allowed_of,
    drops_cluster,
    plan_clusters,
    refused_lists,
    replication_of,
)
from pulsar_operator.domain.logical.consent import Guard
from pulsar_operator.domain.logical.entries import declared_entries, plan_entries
from pulsar_operator.domain.logical.plan import Action, Draft, Memory, Plan, Verb, irrevocable, plan_policies
from pulsar_operator.domain.logical.pulsar_names import namespace_path
from pulsar_operator.domain.policies import NAMESPACE_POLICIES, Call, lookup, lookup_each
from pulsar_operator.domain.policies.entry_rows import NAMESPACE_ENTRIES

BUNDLES = "bundles"


def unfinished_deletion(live: Mapping[str, Any], name: str) -> str | None:
    """Returns why a namespace cannot be used although Pulsar has its policies, as a message: it is marked as deleted.
    None if it is not.

    Pulsar marks a namespace before it deletes its content, and no call removes the mark. If a broker stops in between,
    the mark stays, and topics of the namespace are not found from then on (HTTP 404, seen on 4.0.8).
    """
    if live.get("deleted") is not True:
        return None
    return (
        f"Pulsar has started to delete namespace {name} and has not finished. Its topics cannot be listed until "
        "then, and no call reverts the deletion. If no client is deleting the namespace, let Pulsar finish, "
        f"which destroys the remaining content: pulsar-admin namespaces delete {name} --force (without --force if "
        "the namespace is empty). The operator then creates a declared namespace again, without its old content"
    )


@dataclass(frozen=True)
class NamespaceFacts:
    """The facts the plan depends on."""

    tenant: str
    name: str
    live: Mapping[str, Any] | None
    """Answer of ``GET /namespaces/{tenant}/{namespace}``; None if Pulsar has no such namespace."""
    tenant_clusters: frozenset[str]
    """Clusters that Pulsar allows the tenant to use."""
    instance_clusters: frozenset[str]
    """Pulsar names of the instance's clusters."""
    tenant_declared: frozenset[str] | None = None
    """spec.allowedClusters of the PulsarTenant; None if it declares none, and may use every cluster of the instance."""
    deleting: frozenset[str] = frozenset()
    """Clusters of the instance that are being deleted."""
    boundaries: Sequence[str] | None = None
    """All declared bundle boundaries; None for Pulsar's default, or for any if they were chosen at creation."""
    boundaries_why: str = ""
    """Why these boundaries were chosen, if they are not declared."""
    version: str | None = None
    """Pulsar version of the cluster that calls are sent to."""
    answers: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    """The answer of each cluster that holds the namespace. Some policies are specific to a cluster."""
    own: Mapping[str, Mapping[str | None, Any]] = field(default_factory=dict)
    """Live values, by field and cluster, of policies that have their own GET."""
    defaults: NamespacePolicies | None = None
    """spec.namespaceDefaults of the tenant."""
    unreachable: tuple[str, ...] = ()
    """Clusters that hold the namespace and did not answer."""
    confirmations: frozenset[str] = frozenset()
    """Clusters whose data may be deleted when they leave."""
    abandoned: frozenset[str] = frozenset()
    """Clusters that may leave the replication with a replication backlog."""
    undelivered: str | None = None
    """Replication backlog of clusters that are to leave the replication, as a message; None if there is none."""
    guard: Guard | None = None
    """The consent to keep less; None if no change needs it."""
    record: Mapping[str, str] = field(default_factory=dict)
    """Properties with which a new namespace is created: the owner record."""

    def lists(self) -> Clusters:
        """Returns the live lists of clusters."""
        live = self.live or {}
        return Clusters(
            frozenset(replication_of(live)),
            frozenset(allowed_of(live)),
            self.instance_clusters,
            self.confirmations,
            self.abandoned,
            self.undelivered,
        )


def bundle_count(live: Mapping[str, Any] | None) -> int | None:
    """Returns the number of bundles in the answer of a cluster; None if the answer has none."""
    bundles = (live or {}).get("bundles") or {}
    count = bundles.get("numBundles")
    return int(count) if isinstance(count, int) else None


def boundaries_match(answers: Iterable[Mapping[str, Any] | None]) -> bool | None:
    """Whether the clusters have the same bundle boundaries, according to their answers. None if fewer than two have the
    namespace.

    Each cluster splits its own bundles. The shared store has those of the cluster that split last.
    """
    found = [((each.get("bundles") or {}).get("boundaries") or []) for each in answers if each is not None]
    return all(each == found[0] for each in found) if len(found) > 1 else None


INHERITED = "policies."
_FIELDS = tuple(row.field for row in NAMESPACE_POLICIES)


def desired_policies(spec: PulsarNamespaceSpec, defaults: NamespacePolicies | None = None) -> dict[str, Any]:
    """Returns the desired values by field: those of the namespace, otherwise the ``defaults`` of its tenant."""
    desired = lookup_each(spec, _FIELDS)
    for name, value in desired.items():
        if value is None and defaults is not None and name.startswith(INHERITED):
            desired[name] = lookup(defaults, name.removeprefix(INHERITED))
    return desired


def declared_policies(spec: PulsarNamespaceSpec) -> frozenset[str]:
    """Returns the fields that the namespace itself declares."""
    return frozenset(field for field, value in lookup_each(spec, _FIELDS).items() if value is not None)


def digest_of(defaults: NamespacePolicies | None) -> str | None:
    """Returns a hash of the defaults, by which a change is detected; None if there are none."""
    values = wire(defaults) if defaults is not None else {}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16] if values else None


def found_policies(
    live: Mapping[str, Any],
    answers: Mapping[str, Mapping[str, Any] | None],
    own: Mapping[str, Mapping[str | None, Any]],
) -> dict[str, Mapping[str | None, Any]]:
    """Returns live values by field and cluster; see NamespaceFacts."""
    found: dict[str, Mapping[str | None, Any]] = {**own}
    for row in NAMESPACE_POLICIES:
        if row.own_get:
            continue
        if row.per_cluster:
            found[row.field] = {c: row.read(answer, c) for c, answer in answers.items() if answer is not None}
        else:
            found[row.field] = {None: row.read(live)}
    return found


def plan_namespace(spec: PulsarNamespaceSpec, facts: NamespaceFacts, memory: Memory) -> Plan:
    """Returns the plan that makes the namespace match the spec."""
    draft = Draft()
    if spec.bundles is not None and (facts.live is None or BUNDLES in memory.managed):
        draft.declared.add(BUNDLES)
    desired = desired_policies(spec, facts.defaults)
    if facts.live is None:
        refused = refused_lists(draft, spec, facts.instance_clusters)
        _plan_creation(
            draft, spec, facts, {name: None if name in refused else desired[name] for name in desired}, refused
        )
        return draft.done()
    _compare_bundles(draft, facts)
    clusters = plan_clusters(
        draft,
        spec,
        facts.lists(),
        base=namespace_path(facts.tenant, facts.name),
        memory=memory,
        repair=spec.drift_policy is DriftPolicy.REPAIR,
    )
    plan_policies(
        draft,
        [row for row in NAMESPACE_POLICIES if row.field not in (CLUSTERS, ALLOWED) or row.field in (clusters or {})],
        desired | (clusters or {}),
        found_policies(facts.live, facts.answers, facts.own),
        base=namespace_path(facts.tenant, facts.name),
        memory=memory,
        repair=spec.drift_policy is DriftPolicy.REPAIR,
        version=facts.version,
        unreachable=facts.unreachable,
        guard=facts.guard,
    )
    draft.actions[:] = (irrevocable(each) if drops_cluster(each, facts.lists()) else each for each in draft.actions)
    for row in NAMESPACE_ENTRIES:
        plan_entries(
            draft,
            row,
            spec,
            {None: row.read(facts.live)},
            base=namespace_path(facts.tenant, facts.name),
            memory=memory,
            repair=spec.drift_policy is DriftPolicy.REPAIR,
        )
    return draft.done()


def _plan_creation(
    draft: Draft,
    spec: PulsarNamespaceSpec,
    facts: NamespaceFacts,
    desired: Mapping[str, Any],
    refused: Collection[str],
) -> None:
    """Plans the creation. The namespace is not created if its list of clusters is refused."""
    declared: Collection[str] | None = desired[CLUSTERS]
    if refused and not declared:
        return
    clusters = sorted(declared) if declared else _default_clusters(draft, facts, desired[ALLOWED])
    if not clusters:
        return
    draft.declared |= {name for name, value in desired.items() if value is not None}
    draft.declared |= declared_entries(NAMESPACE_ENTRIES, spec)
    body: dict[str, Any] = {"replication_clusters": clusters}
    if facts.record:
        body["properties"] = dict(facts.record)
    shape = "Pulsar's default bundles"
    if facts.boundaries is not None:
        count = len(facts.boundaries) - 1
        body["bundles"] = {"boundaries": list(facts.boundaries), "numBundles": count}
        shape = f"{count} bundles"
    why = f". {facts.boundaries_why.rstrip('.')}" if facts.boundaries is not None and facts.boundaries_why else ""
    draft.actions.append(
        Action(
            Verb.CREATE,
            "",
            Call("PUT", namespace_path(facts.tenant, facts.name), body=body),
            f"Create namespace {facts.tenant}/{facts.name} with {shape} in {', '.join(clusters)}, because Pulsar "
            f"has no namespace of that name{why}",
        )
    )


def _default_clusters(draft: Draft, facts: NamespaceFacts, allowed: Collection[str] | None) -> list[str]:
    """Returns the clusters of a new namespace that declares none: every cluster of the instance that the tenant may
    use.

    Returns none while Pulsar does not allow the tenant to use one of them: a namespace is created once, and its
    clusters must not depend on which of them became ready first.
    """
    every = (facts.instance_clusters - facts.deleting) or facts.instance_clusters
    usable = every if facts.tenant_declared is None else every & facts.tenant_declared
    usable = usable & set(allowed) if allowed else usable
    missing = sorted(usable - facts.tenant_clusters)
    if not usable:
        draft.waiting.append(
            "The namespace is not created yet, because the tenant may not use any cluster of the instance yet. See "
            "spec.allowedClusters of the PulsarTenant"
        )
    elif missing:
        names = ", ".join(missing)
        draft.waiting.append(
            f"The namespace is not created yet. spec.{CLUSTERS} is not set, so the namespace is created in all "
            f"clusters that the tenant may use ({', '.join(sorted(usable))}), and Pulsar does not let the tenant "
            f"use {names} yet. See the PulsarTenant and PulsarCluster {names}, or set spec.{CLUSTERS} to create "
            f"the namespace without {names}"
        )
    return [] if missing else sorted(usable)


def _compare_bundles(draft: Draft, facts: NamespaceFacts) -> None:
    """Compares the bundles, which apply at creation only. A difference is reported and never changed. Further splits
    are not a difference."""
    if facts.boundaries is None or facts.live is None:
        return
    live = list(((facts.live.get("bundles") or {}).get("boundaries")) or ())
    desired = list(facts.boundaries)
    if not live or set(desired) <= set(live):
        return
    where = "" if len(live) != len(desired) else ", at other boundaries"
    draft.fixed.append(
        DriftEntry(field=BUNDLES, desired=f"{len(desired) - 1} bundles", actual=f"{len(live) - 1} bundles{where}")
    )
