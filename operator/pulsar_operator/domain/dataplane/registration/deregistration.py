"""What a deleted cluster removes from the configuration store in which it was registered.

The counterpart of registration.py; pure. A name is removed only if its claim belongs to this cluster: the claim has its
INSTANCEID, and names this PulsarCluster or, where the instance allows this cluster, one that no longer exists.
INSTANCEIDs are no secrets, and any user may name any cluster. In order:

1. While its brokers run: the name is removed from the allowed clusters of tenants, so that no further namespace can be
   given to it, and from the replication clusters of the namespaces of tenant ``pulsar``, so that no cluster replicates
   to it. There it stays in the allowed clusters: brokers delete what they have of a namespace that does not allow their
   cluster, within a second (Pulsar 4.0, PersistentTopic.checkReplication; measured on 4.0.8).
2. Once they are gone: the name is removed from those too, then the entry below ``/admin/clusters`` with its children,
   and last the claim.

No list of a namespace is left empty. If no other cluster of the instance is left, tenants and namespaces keep their
lists: no other cluster uses them, and a cluster that is created again finds them unchanged. Namespaces of other tenants
belong to their users: a cluster that one of them needs is not deleted
(controllers/dataplane/observed/namespace_inventory.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pulsar_operator.api.constants import Reason
from pulsar_operator.domain.dataplane.registration.metadata import Refusal, Write, parse_marker
from pulsar_operator.domain.dataplane.registration.registration import (
    DEFAULT_NAMESPACE,
    POLICIES_PATH,
    Stored,
    claim_path,
    cluster_path,
)

OWN_TENANT: Final = "pulsar"
"""Tenant of Pulsar itself."""
ALLOWED, REPLICATION, OF_TENANT = "allowed_clusters", "replication_clusters", "allowedClusters"


@dataclass(frozen=True)
class DeregistrationFacts:
    """Facts that decide what is removed."""

    cluster_name: str
    instance_id: str | None
    """INSTANCEID of the cluster; None if not known, in which case no claim belongs to it."""
    registered: bool
    """Whether the record in Kubernetes says that the cluster is registered."""
    store: str
    """Servers and chroot, for messages."""
    owner: str
    """The PulsarCluster, as namespace/name."""
    last: bool
    """Whether every other cluster of the instance is deleted or being deleted."""
    brokers_run: bool
    """Whether its brokers may still run."""
    nodes: Mapping[str, Stored | None]
    """The claim, the entry, each tenant, the namespaces of tenant pulsar, and public/default; a missing node is None or
    left out."""
    below: Mapping[str, Stored] = field(default_factory=dict)
    """All nodes below the entry."""
    allowed: bool = True
    """Whether the instance allows the PulsarCluster to refer to it. If not, messages name no other objects."""
    claimant_there: bool = False
    """Whether the claim names another PulsarCluster that exists."""


@dataclass(frozen=True)
class Removal:
    """The deletion of a node at a version."""

    path: str
    version: int
    why: str


@dataclass(frozen=True)
class DeregistrationPlan:
    """The remaining changes, in order; empty if nothing of this cluster is left."""

    narrowing: Sequence[Write] = ()
    """Writes of lists of clusters."""
    removals: Sequence[Removal] = ()
    """Removal of the entry, after its children; empty while brokers run."""
    claim: Removal | None = None
    """Removal of the claim, the last of all."""
    left: bool = False
    """Whether neither entry nor claim exists."""
    notes: Sequence[str] = ()
    """Messages on nodes that name the cluster and are kept."""


def paths_of_lists(tenants: Iterable[str], of_pulsar: Iterable[str]) -> list[str]:
    """Returns the nodes with lists of clusters that a plan reads: every tenant, the namespaces of tenant pulsar by
    their local names, and public/default."""
    names = [*tenants, *(f"{OWN_TENANT}/{name}" for name in of_pulsar), DEFAULT_NAMESPACE]
    return [f"{POLICIES_PATH}/{name}" for name in names]


def is_claimed_by(data: bytes, instance_id: str | None, owner: str) -> bool:
    """Whether a claim was made for a PulsarCluster, namespace/name, with that INSTANCEID."""
    try:
        found = parse_marker(data)
    except ValueError:
        return False
    return instance_id is not None and (found.instance_id, found.owner) == (instance_id, owner)


def is_claim_of(data: bytes, owner: str) -> bool:
    """Whether a claim was made for a PulsarCluster, namespace/name."""
    try:
        return parse_marker(data).owner == owner
    except ValueError:
        return False


def list_text(write: Write) -> str:
    """Returns which list a write narrows, and of what: tenants are one path segment, namespaces are two."""
    of_tenant = "/" not in write.path.removeprefix(f"{POLICIES_PATH}/")
    return f"{OF_TENANT} of tenants" if of_tenant else f"the lists of clusters of namespaces of tenant {OWN_TENANT}"


def plan_deregistration(facts: DeregistrationFacts) -> DeregistrationPlan | Refusal:
    """Returns the next changes, or a refusal if the nodes cannot be read."""
    name, claim, entry = facts.cluster_name, claim_path(facts.cluster_name), cluster_path(facts.cluster_name)
    stored, registered = facts.nodes.get(claim), facts.nodes.get(entry)
    if not facts.allowed and (stored is None or not is_claimed_by(stored.data, facts.instance_id, facts.owner)):
        return DeregistrationPlan()
    if stored is None:
        if registered is not None:
            text = (
                f"{entry} in the configuration store {facts.store} is not deleted, because no claim {claim} shows "
                "that it belongs to this cluster"
            )
            return DeregistrationPlan(notes=(text,))
        if facts.registered and not facts.last:
            return Refusal(
                Reason.METADATA_LOST,
                f"The configuration store {facts.store} has neither {entry} nor {claim}, although this cluster "
                "was registered there. The store is empty, or it is another store. Restore the store, or correct "
                "its address",
            )
        return DeregistrationPlan(left=True)
    try:
        owner = parse_marker(stored.data)
    except ValueError as error:
        return Refusal(
            Reason.METADATA_CONFLICT,
            f"{claim} in the configuration store {facts.store} is not readable ({error}), so it is not known "
            f"which cluster {entry} belongs to. Repair the node, or delete it if {entry} may stay",
        )
    if facts.instance_id is None or owner.instance_id != facts.instance_id or facts.claimant_there:
        text = (
            f"{entry} in the configuration store {facts.store} is not deleted, because {claim} belongs to "
            f"PulsarCluster {owner.owner} with instance id {owner.instance_id}, and this cluster has instance id "
            f"{facts.instance_id or '(not known)'}"
        )
        return DeregistrationPlan(notes=(text,))
    notes: list[str] = []
    narrowing = [] if facts.last else [*_tenants(facts, notes), *_namespaces(facts, notes)]
    if facts.brokers_run:
        return DeregistrationPlan(narrowing, notes=notes)
    gone = f"cluster {name} is being deleted"
    deepest = sorted(facts.below.items(), key=lambda each: (-each[0].count("/"), each[0]))
    removals = [Removal(path, node.version, gone) for path, node in deepest]
    if registered is not None:
        removals.append(Removal(entry, registered.version, gone))
    return DeregistrationPlan(
        narrowing, removals, Removal(claim, stored.version, f"the name {name} is no longer used"), notes=notes
    )


def _tenants(facts: DeregistrationFacts, notes: list[str]) -> list[Write]:
    """Returns the narrowed lists of tenants. An empty list means that the tenant may have no namespace in any cluster,
    which is true then."""
    writes, name = [], facts.cluster_name
    for path, node in sorted(facts.nodes.items()):
        tenant = path.removeprefix(f"{POLICIES_PATH}/")
        if tenant == path or "/" in tenant or node is None:
            continue
        found = _fields(path, node, notes)
        allowed = _names(path, found, OF_TENANT, notes)
        if found is None or name not in allowed:
            continue
        left = [each for each in allowed if each != name]
        if not left:
            notes.append(
                f"Tenant {tenant} may no longer use any cluster, because {name} was the only entry of its {OF_TENANT}"
            )
        writes.append(
            _put(path, node, {**found, OF_TENANT: left}, f"namespaces of the tenant may no longer use cluster {name}")
        )
    return writes


def _namespaces(facts: DeregistrationFacts, notes: list[str]) -> list[Write]:
    writes = []
    for path, node in sorted(facts.nodes.items()):
        full = path.removeprefix(f"{POLICIES_PATH}/")
        if full == path or "/" not in full or node is None:
            continue
        found = _fields(path, node, notes)
        replication, allowed = _names(path, found, REPLICATION, notes), _names(path, found, ALLOWED, notes)
        if found is None or found.get("deleted") or facts.cluster_name not in (*replication, *allowed):
            continue
        if not full.startswith(f"{OWN_TENANT}/"):
            notes.append(
                f"{full} is a namespace of users, so the operator does not change its lists of clusters. Correct the "
                "lists, or delete the namespace"
            )
            continue
        lists = _narrowed(facts, replication, allowed)
        if lists is None:
            notes.append(
                f"The operator does not change the lists of clusters of {full}, because {facts.cluster_name} is their "
                "only entry"
            )
            continue
        before = {REPLICATION: replication, ALLOWED: allowed}
        if change := {key: value for key, value in lists.items() if value != before[key]}:
            why = f"cluster {facts.cluster_name} is being deleted"
            why += ", and stays allowed until its brokers have ended" if facts.brokers_run else ""
            writes.append(_put(path, node, {**found, **change}, why))
    return writes


def _narrowed(facts: DeregistrationFacts, replication: list[str], allowed: list[str]) -> dict[str, list[str]] | None:
    """Returns both lists without the cluster; None if a list would be empty. While brokers run, the cluster stays
    allowed."""
    others = [each for each in allowed if each != facts.cluster_name]
    replicating = [each for each in replication if each != facts.cluster_name] or others[:1]
    if not replicating:
        return None
    if not facts.brokers_run:
        return {REPLICATION: replicating, ALLOWED: others}
    if facts.cluster_name not in replication:
        return {}
    # Without a list of its own, that of the replication is what allows.
    return {REPLICATION: replicating, ALLOWED: allowed or replication}


def _put(path: str, node: Stored, fields: Mapping[str, Any], why: str) -> Write:
    return Write(path, json.dumps(fields).encode(), node.version, why)


def _fields(path: str, node: Stored, notes: list[str]) -> dict[str, Any] | None:
    """Returns the JSON object in a node of another writer; None, and a note, if there is none."""
    if not node.data.strip():
        return None
    try:
        fields = json.loads(node.data)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        notes.append(f"The operator does not change {path}, because the node is not readable")
        return None
    return fields


def _names(path: str, found: Mapping[str, Any] | None, key: str, notes: list[str]) -> list[str]:
    """Returns a list of cluster names; absent and null count as empty, and so does an invalid list, with a note."""
    value = (found or {}).get(key) or []
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return value
    notes.append(f"The operator does not change {key} of {path}, because it is not a list of names")
    return []
