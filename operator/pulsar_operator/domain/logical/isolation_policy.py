"""The plan of a PulsarIsolationPolicy: the same policy and failure domains in each of its clusters.

Pulsar stores an isolation policy as one value and may unload all its namespaces at every write, so all changes in one
cluster are one call. A broker is in at most one failure domain; it leaves its old domain before it joins another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.base import DriftPolicy
from pulsar_operator.api.v1alpha1.isolation_policy import PulsarIsolationPolicySpec
from pulsar_operator.api.v1alpha1.logical import DriftEntry
from pulsar_operator.domain.logical.clusters import refuses
from pulsar_operator.domain.logical.plan import (
    Action,
    Draft,
    Memory,
    Plan,
    Problem,
    Verb,
    action_text,
    change_verb,
    joined,
)
from pulsar_operator.domain.logical.pulsar_names import failure_domain_path, isolation_path
from pulsar_operator.domain.logical.tenant import entry, items_of
from pulsar_operator.domain.policies import Call, describe, lookup
from pulsar_operator.domain.policies.instance_rows import ISOLATION_FIELDS

CLUSTERS = "clusters"
DOMAINS = "failureDomains"


@dataclass(frozen=True)
class ClusterFacts:
    """The isolation policy and failure domains in one cluster."""

    policy: Mapping[str, Any] | None
    """Answer of ``GET /clusters/{cluster}/namespaceIsolationPolicies/{name}``; None if there is no such policy."""
    domains: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Brokers of each failure domain. Only read if domains are declared or managed."""
    brokers: int | None = None
    """Number of live brokers that match the policy; None if unknown."""
    policies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Every isolation policy of the cluster by name, regardless of its creator."""
    live: frozenset[str] = frozenset()
    """Hosts of the live brokers."""


@dataclass(frozen=True)
class IsolationFacts:
    """The facts the plan depends on."""

    name: str
    instance_clusters: frozenset[str]
    """Pulsar names of the instance's clusters."""
    registered: frozenset[str]
    """Clusters that are registered in Pulsar."""
    clusters: Mapping[str, ClusterFacts]
    """Clusters that answered, of those the object applies or applied to."""
    unreachable: tuple[str, ...] = ()
    """Clusters that did not answer."""
    taken: Mapping[str, str] = field(default_factory=dict)
    """Failure domains that another object manages, with that object."""


def target_clusters(
    spec: PulsarIsolationPolicySpec, instance: frozenset[str], known: frozenset[str], managed: Collection[str]
) -> frozenset[str]:
    """Returns the registered clusters that the object applies to. If spec.clusters names an unknown cluster, these are
    the clusters it was applied to before."""
    declared = instance if spec.clusters is None else frozenset(spec.clusters)
    return (declared if declared <= instance else items_of(managed, CLUSTERS) & instance) & known


def exists(spec: PulsarIsolationPolicySpec, facts: IsolationFacts) -> bool:
    """Whether any cluster has the policy; if none is declared, whether any has a declared failure domain."""
    if spec.namespaces is not None:
        return any(found.policy is not None for found in facts.clusters.values())
    declared = {domain.name for domain in spec.failure_domains or ()}
    return any(declared & set(found.domains) for found in facts.clusters.values())


def plan_isolation(spec: PulsarIsolationPolicySpec, facts: IsolationFacts, memory: Memory) -> Plan:
    """Returns the plan that makes the policy and the failure domains match the spec."""
    draft = Draft()
    targets = target_clusters(spec, facts.instance_clusters, facts.registered, memory.managed)
    refused = refuses(draft, CLUSTERS, spec.clusters, facts.instance_clusters)
    if refused:
        draft.declared |= {entry(CLUSTERS, cluster) for cluster in items_of(memory.managed, CLUSTERS)}
    else:
        _check_clusters(draft, spec, targets)
    draft.declared |= {entry(CLUSTERS, cluster) for cluster in targets}
    if spec.namespaces is not None and targets:
        draft.declared |= {row.field for row in ISOLATION_FIELDS if lookup(spec, row.field) is not None}
    domains = {d.name: frozenset(d.brokers) for d in spec.failure_domains or () if d.name not in facts.taken}
    if targets:
        draft.declared |= {entry(DOMAINS, name) for name in domains}
    for name, owner in sorted(facts.taken.items()):
        text = (
            f"spec.failureDomains[{name}] is already managed by PulsarIsolationPolicy {owner}, so this object does "
            "not change it. Declare the failure domain in only one of the two objects"
        )
        draft.problems.append(Problem(DOMAINS, Reason.DUPLICATE, text))
    repair = spec.drift_policy is DriftPolicy.REPAIR
    lost = not exists(spec, facts)
    for cluster, live in sorted(facts.clusters.items()):
        if cluster in targets:
            if spec.namespaces is not None:
                _plan_policy(draft, spec, facts.name, cluster, live.policy, memory, repair=repair, lost=lost)
            _plan_domains(draft, domains, cluster, live, facts.taken, memory, repair=repair)
        elif entry(CLUSTERS, cluster) in memory.managed and not refused:
            _plan_removal(draft, facts.name, cluster, live, memory, isolated=spec.namespaces is not None)
    # A cluster that Pulsar knows and the instance does not know at the moment is as good as silent.
    unseen = (items_of(memory.managed, CLUSTERS) & facts.registered) - set(facts.clusters)
    if unseen or facts.unreachable:  # what they may still have is kept in mind
        draft.kept |= memory.managed - {entry(DOMAINS, name) for name in facts.taken}
    draft.drift[:] = joined(draft.drift)
    return draft.done()


def _check_clusters(draft: Draft, spec: PulsarIsolationPolicySpec, targets: Collection[str]) -> None:
    for cluster in sorted(set(spec.clusters or ()) - set(targets)):
        draft.waiting.append(f"Cluster {cluster} is not registered in Pulsar yet")
    if not targets and not draft.waiting:
        draft.waiting.append("No cluster of the instance is registered in Pulsar yet")


def _plan_policy(
    draft: Draft,
    spec: PulsarIsolationPolicySpec,
    name: str,
    cluster: str,
    live: Mapping[str, Any] | None,
    memory: Memory,
    *,
    repair: bool,
    lost: bool,
) -> None:
    body: dict[str, Any] = dict(live or {})
    changes: list[tuple[Verb, DriftEntry]] = []
    for row in ISOLATION_FIELDS:
        key, desired, found = row.live[0], lookup(spec, row.field), row.read(live)
        text = f"{describe(found)} in cluster {cluster}"
        if desired is None:
            if live is not None and row.field in memory.managed and row.is_set(found):
                draft.kept.add(row.field)
                difference = DriftEntry(field=row.field, desired=describe(row.unset), actual=text)
                changes.append((Verb.RESET, difference))
                body.pop(key, None)
            if row.unset is not None and key not in body:
                body[key] = row.encode(row.unset)
            continue
        if row.in_sync(desired, found):
            continue
        difference = DriftEntry(field=row.field, desired=describe(desired), actual=text)
        if live is not None and memory.leaves(row.field, repair=repair):
            draft.drift.append(difference)
            continue
        changes.append((change_verb(memory, row.field), difference))
        body[key] = row.encode(desired)
    call = Call("POST", isolation_path(cluster, name), body=body)
    if live is None:
        _plan_missing(draft, name, cluster, call, memory, repair=repair, lost=lost)
    elif changes:
        verb = next((v for v in (Verb.REPAIR, Verb.SET) if v in {c[0] for c in changes}), Verb.RESET)
        reason = "; ".join(_change(each, difference) for each, difference in changes)
        first, *others = [difference for _, difference in changes]
        draft.actions.append(Action(verb, first.field, call, reason, first, cluster, tuple(others)))


def _change(verb: Verb, difference: DriftEntry) -> str:
    if verb is Verb.RESET:
        return f"Reset spec.{difference.field} (was {difference.actual}), because the field was removed from the spec"
    return action_text(verb, difference)


def _plan_missing(
    draft: Draft, name: str, cluster: str, call: Call, memory: Memory, *, repair: bool, lost: bool
) -> None:
    """Plans a policy that the cluster lacks: no cluster has it (create), or others have it (a new cluster, or
    drift)."""
    what = f"for namespaces {describe(call.body['namespaces'])} on brokers {describe(call.body['primary'])}"
    text = (
        f"Create isolation policy {name} in cluster {cluster}, {what}, because the cluster has no policy of that name"
    )
    if lost:
        draft.actions.append(Action(Verb.CREATE, "", call, text, None, cluster))
        return
    item = entry(CLUSTERS, cluster)
    difference = DriftEntry(field=item, desired="a policy", actual="no policy")
    if memory.leaves(item, repair=repair):
        draft.drift.append(difference)
        return
    draft.actions.append(Action(change_verb(memory, item), item, call, text, difference, cluster))


def _plan_domains(
    draft: Draft,
    desired: Mapping[str, frozenset[str]],
    cluster: str,
    live: ClusterFacts,
    taken: Collection[str],
    memory: Memory,
    *,
    repair: bool,
) -> None:
    going = items_of(memory.managed, DOMAINS) - set(desired) - set(taken)
    for name in sorted(going & set(live.domains)):
        draft.kept.add(entry(DOMAINS, name))
        draft.actions.append(_remove_domain(name, cluster, live.domains[name]))
    for name, brokers in sorted(desired.items()):
        found = live.domains.get(name)
        if found == brokers:
            continue
        item = entry(DOMAINS, name)
        text = "no failure domain" if found is None else describe(found)
        difference = DriftEntry(field=item, desired=describe(brokers), actual=f"{text} in cluster {cluster}")
        if memory.leaves(item, repair=repair):
            draft.drift.append(difference)
            continue
        claimed = {broker: other for other, its in live.domains.items() if other != name for broker in its & brokers}
        for broker, other in sorted(claimed.items()):
            if other not in going and broker in desired.get(other, live.domains[other]):
                problem = (
                    f"spec.failureDomains[{name}] contains broker {broker}, which is already in failure domain "
                    f"{other} of cluster {cluster}. A broker can be in only one failure domain. Remove the broker "
                    "from one of the two"
                )
                draft.problems.append(Problem(DOMAINS, Reason.INVALID_SPEC, problem))
        now = brokers - set(claimed)
        if now == found or (found is None and not now):
            draft.postponed.add(item)
            continue  # another domain lets go first
        verb = change_verb(memory, item)
        call = Call("POST", failure_domain_path(cluster, name), body={"brokers": sorted(now)})
        draft.actions.append(Action(verb, item, call, action_text(verb, difference), difference, cluster))


def _remove_domain(name: str, cluster: str, brokers: frozenset[str]) -> Action:
    item = entry(DOMAINS, name)
    difference = DriftEntry(field=item, desired=describe(None), actual=f"{describe(brokers)} in cluster {cluster}")
    reason = (
        f"Delete failure domain {name} of cluster {cluster} (was {describe(brokers)}), because it was removed "
        "from the spec"
    )
    return Action(Verb.DELETE, item, Call("DELETE", failure_domain_path(cluster, name)), reason, difference, cluster)


def _plan_removal(draft: Draft, name: str, cluster: str, live: ClusterFacts, memory: Memory, *, isolated: bool) -> None:
    """Plans the removal of what this object created in a cluster that was removed from the list."""
    item = entry(CLUSTERS, cluster)
    if isolated and live.policy is not None:
        draft.kept.add(item)
        difference = DriftEntry(field=item, desired="no policy", actual="a policy")
        reason = (
            f"Delete isolation policy {name} in cluster {cluster}, because the cluster was removed from spec.clusters"
        )
        draft.actions.append(
            Action(Verb.DELETE, item, Call("DELETE", isolation_path(cluster, name)), reason, difference, cluster)
        )
    for domain in sorted(items_of(memory.managed, DOMAINS) & set(live.domains)):
        draft.kept |= {item, entry(DOMAINS, domain)}
        draft.actions.append(_remove_domain(domain, cluster, live.domains[domain]))
