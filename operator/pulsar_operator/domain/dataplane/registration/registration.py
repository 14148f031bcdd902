"""What a cluster writes into the configuration store, and when its name there must not be changed.

A cluster is registered once: missing nodes are created, and its name is added to the tenants ``public`` and ``pulsar``.
After that only its own ClusterData is kept current; tenants and namespaces belong to their users.

``bin/pulsar initialize-cluster-metadata`` adds every further cluster to the replication clusters of ``public/default``
and ``pulsar/system``, which silently enables geo-replication. Here replication clusters are never changed. A further
cluster may use ``pulsar/system`` (transactions, topics of the brokers) through its allowed clusters instead: data stays
separate, because a broker starts no replicator if the only replication cluster is another one (Pulsar 4.0,
PersistentTopic.checkReplication). ``public/default`` is a user's namespace and is left as it is.

Brokers with the Extensible load manager add their own cluster to the replication clusters of ``pulsar/system`` at their
start (ServiceUnitStateChannelImpl); the operator cannot prevent or undo that.

A claim, ``/pulsar-operator/clusters/<name>``, ties the name to an INSTANCEID: it proves which cluster registered it. An
INSTANCEID is no secret, so it proves nothing while the claim names another PulsarCluster that exists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from pulsar_operator.api.constants import Reason
from pulsar_operator.api.v1alpha1.confirmations import ClusterConfirmation, ClusterConfirmationAction
from pulsar_operator.domain.consent import Question, answered, how_to_answer
from pulsar_operator.domain.dataplane.registration.metadata import Marker, Refusal, Write, parse_marker
from pulsar_operator.domain.texts import without_userinfo

Fields = dict[str, Any]

SYSTEM_BUNDLES = 16
"""Number of bundles of public/default and pulsar/system (class PulsarClusterMetadataSetup, DEFAULT_BUNDLE_NUMBER)."""
TRANSACTION_COORDINATORS = 16
"""Partitions of transaction_coordinator_assign (option --initial-num-transaction-coordinators)."""

CLUSTERS_PATH = "/admin/clusters"
GLOBAL_PATH = f"{CLUSTERS_PATH}/global"
POLICIES_PATH = "/admin/policies"
TENANTS = ("public", "pulsar")
SYSTEM_NAMESPACE = "pulsar/system"
DEFAULT_NAMESPACE = "public/default"
COORDINATOR_PATH = "/admin/partitioned-topics/pulsar/system/persistent/transaction_coordinator_assign"

CLUSTER_DEFAULTS: Mapping[str, Any] = {
    "brokerClientTlsEnabled": False,
    "tlsAllowInsecureConnection": False,
    "brokerClientTlsEnabledWithKeyStore": False,
    "brokerClientTlsTrustStoreType": "JKS",
    "brokerClientTlsKeyStoreType": "JKS",
    "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
}
"""Fields that Pulsar 4.0's ClusterDataImpl writes besides the URLs; also the whole content of the cluster named
global."""


@dataclass(frozen=True)
class ClusterUrls:
    """URLs by which other clusters and clients reach this one; full host names, since other Kubernetes namespaces use
    them."""

    service_url: str
    """Admin REST, http://host:port."""
    broker_service_url: str
    """Binary protocol, pulsar://host:port."""
    service_url_tls: str | None = None
    """Admin REST over TLS; if None, the registered value stays."""
    broker_service_url_tls: str | None = None
    """Binary protocol over TLS; if None, the registered value stays."""

    def fields(self) -> dict[str, str]:
        """Returns the fields of ClusterData, without unset ones."""
        pairs = {
            "serviceUrl": self.service_url,
            "serviceUrlTls": self.service_url_tls,
            "brokerServiceUrl": self.broker_service_url,
            "brokerServiceUrlTls": self.broker_service_url_tls,
        }
        return {name: url for name, url in pairs.items() if url is not None}


@dataclass(frozen=True)
class Stored:
    """A node as read."""

    data: bytes
    version: int


@dataclass(frozen=True)
class RegistrationFacts:
    """Facts that decide what is written."""

    cluster_name: str
    owner: str
    instance_id: str
    store: str
    """Servers and chroot, for messages."""
    urls: ClusterUrls
    registered: bool
    """Whether the record in Kubernetes says that registration was completed."""
    adopted_own_store: bool
    """Whether the configuration store is this cluster's local store and was set up before this operator: then its
    entries about the cluster are about this one."""
    nodes: Mapping[str, Stored | None]
    """The nodes of ``paths_to_read``; None for one that does not exist."""
    now: datetime
    """Time at which confirmations must be valid."""
    claimant_there: bool = False
    """Whether the claim names another PulsarCluster that exists."""
    brokers_ran: bool = False
    """Whether the local store has topics: brokers start after registration, so the cluster was registered once. Read
    unless the record says that it is."""
    confirmations: Sequence[ClusterConfirmation] = ()
    """Confirmations of the specification."""


@dataclass(frozen=True)
class RegistrationPlan:
    """Writes in order, and messages on what is left alone although the cluster could use it."""

    writes: Sequence[Write]
    notes: Sequence[str] = ()


class _UnreadableError(ValueError):
    """A node does not contain the JSON object that Pulsar stores there."""


def claim_path(cluster_name: str) -> str:
    """Returns the node that ties a cluster name to an INSTANCEID."""
    return f"/pulsar-operator/clusters/{cluster_name}"


def cluster_path(cluster_name: str) -> str:
    """Returns the node with the ClusterData of a cluster."""
    return f"{CLUSTERS_PATH}/{cluster_name}"


def claimant(data: bytes | None, instance_id: str, owner: str) -> tuple[str, str] | None:
    """Returns Kubernetes namespace and name of the PulsarCluster in a claim with that id, if it is not ``owner``; else
    None."""
    try:
        found = parse_marker(data) if data is not None else None
    except ValueError:
        return None
    if found is None or found.instance_id != instance_id or found.owner == owner:
        return None
    namespace, _, name = found.owner.partition("/")
    return (namespace, name) if namespace and name else None


def paths_to_read(cluster_name: str, *, registered: bool) -> list[str]:
    """Returns the nodes that a plan reads; only two once the cluster is registered."""
    own = [claim_path(cluster_name), cluster_path(cluster_name)]
    if registered:
        return own
    policies = [f"{POLICIES_PATH}/{name}" for name in (*TENANTS, SYSTEM_NAMESPACE, DEFAULT_NAMESPACE)]
    return [*own, GLOBAL_PATH, *policies, COORDINATOR_PATH]


def plan_registration(facts: RegistrationFacts, *, boundaries: Sequence[str]) -> RegistrationPlan | Refusal:
    """Returns the writes, or why the name must not be changed. ``boundaries`` are those of SYSTEM_BUNDLES even
    bundles."""
    try:
        refusal = _claimed_by_other(facts)
        if refusal is not None:
            return refusal
        writes: list[Write] = []
        notes: list[str] = []
        if facts.nodes[claim_path(facts.cluster_name)] is None:
            claim = Marker(facts.instance_id, facts.cluster_name, facts.owner)
            why = f"the node ties the cluster name to instance id {facts.instance_id}"
            writes.append(Write(claim_path(facts.cluster_name), claim.to_bytes(), None, why))
        writes += _cluster_data(facts)
        if not facts.registered:
            _create(facts, writes, GLOBAL_PATH, dict(CLUSTER_DEFAULTS), "Pulsar requires the pseudo cluster global")
            for tenant in TENANTS:
                writes += _tenant(facts, tenant)
            writes += _system_namespace(facts, boundaries, notes)
            writes += _default_namespace(facts, boundaries, notes)
            coordinators = {"partitions": TRANSACTION_COORDINATORS, "deleted": False}
            _create(
                facts, writes, COORDINATOR_PATH, coordinators, "brokers find the transaction coordinators by this node"
            )
        return RegistrationPlan(writes, notes)
    except _UnreadableError as error:
        return Refusal(
            Reason.METADATA_CONFLICT,
            f"{error} in the configuration store {facts.store}. Nothing is written until the node is repaired. "
            "Repair the node",
        )


def _claimed_by_other(facts: RegistrationFacts) -> Refusal | None:
    """Returns the refusal if the cluster name in this store belongs to another cluster, or the cluster was registered
    in another store."""
    name = facts.cluster_name
    stored = facts.nodes[claim_path(name)]
    data = _fields(facts, cluster_path(name))
    if stored is not None:
        try:
            claim = parse_marker(stored.data)
        except ValueError as error:
            raise _UnreadableError(f"{claim_path(name)} is not readable ({error})") from error
        if claim.instance_id == facts.instance_id and not facts.claimant_there:
            return None
        return Refusal(
            Reason.METADATA_CONFLICT,
            f"Cluster name {name!r} is registered in the configuration store {facts.store} by PulsarCluster "
            f"{claim.owner} with instance id {claim.instance_id}, and this cluster has instance id "
            f"{facts.instance_id}. Choose another spec.clusterName. If PulsarCluster {claim.owner} no longer "
            f"exists, delete the node {claim_path(name)}",
        )
    if data is None:
        if not facts.registered:
            return _empty_under_topics(facts)
        return Refusal(
            Reason.METADATA_LOST,
            f"The configuration store {facts.store} has neither {cluster_path(name)} nor {claim_path(name)}, "
            "although this cluster was registered there. The store is empty, or it is another store. Nothing is "
            "written. Restore the store from its volumes or a backup, or correct its address",
        )
    desired = facts.urls.fields()
    different = [
        f"{k} {_url_text(data.get(k))} instead of {_url_text(v)}" for k, v in desired.items() if data.get(k) != v
    ]
    if facts.adopted_own_store or not different:
        return None
    return Refusal(
        Reason.METADATA_CONFLICT,
        f"Cluster name {name!r} is already registered in the configuration store {facts.store}, but not by this "
        f"operator, with {', '.join(different)}. Choose another spec.clusterName. If the registered cluster is "
        "this cluster, set these URLs with `pulsar-admin clusters update`, and the operator adopts the "
        "registration",
    )


def _empty_under_topics(facts: RegistrationFacts) -> Refusal | None:
    """Returns the refusal if the store has nothing of Pulsar although brokers of this cluster ran: its tenants and
    namespaces were in another store, which may be lost. A deleted cluster leaves them behind, so that it can return."""
    if not facts.brokers_ran or any(node is not None for node in facts.nodes.values()):
        return None
    # Nothing in an empty store could name it: the cluster and the address of the store do.
    subject = f"{facts.instance_id}/{sha256(facts.store.encode()).hexdigest()[:12]}"
    question = Question(ClusterConfirmationAction.ADOPT_METADATA, subject)
    if answered(question, facts.confirmations, (), facts.now) is not None:
        return None
    return Refusal(
        Reason.METADATA_LOST,
        f"The configuration store {facts.store} is empty, but the metadata store of this cluster has topics, "
        "which brokers create only after the cluster is registered. So the configuration store is lost, or it is "
        "another store. Nothing is written. Restore the store from its volumes or a backup, or correct its "
        "address. To start again without tenants and namespaces, "
        f"{how_to_answer(question, facts.confirmations, facts.now)}",
    )


def _cluster_data(facts: RegistrationFacts) -> list[Write]:
    """Returns the write that creates ClusterData, or corrects its URLs; fields of other writers stay."""
    path = cluster_path(facts.cluster_name)
    found, desired = _fields(facts, path), facts.urls.fields()
    if found is None:
        return [
            _put(facts, path, {**desired, **CLUSTER_DEFAULTS}, f"cluster {facts.cluster_name} is not registered yet")
        ]
    changed = [
        f"{k} is {_url_text(found.get(k))} and should be {_url_text(v)}"
        for k, v in desired.items()
        if found.get(k) != v
    ]
    if not changed:
        return []
    return [_put(facts, path, {**found, **desired}, "; ".join(changed))]


def _url_text(url: Any) -> str:
    """Returns a URL for a message, without the user information that another writer may have put there."""
    return "unset" if url is None else without_userinfo(repr(url))


def _tenant(facts: RegistrationFacts, tenant: str) -> list[Write]:
    path = f"{POLICIES_PATH}/{tenant}"
    found, name = _fields(facts, path), facts.cluster_name
    if found is None:
        fields = {"allowedClusters": [name], "adminRoles": []}
        return [_put(facts, path, fields, f"Pulsar requires the tenant {tenant}")]
    allowed = _names(found, "allowedClusters", path)
    if name in allowed:
        return []
    fields = {**found, "allowedClusters": [*allowed, name]}
    return [_put(facts, path, fields, f"namespaces of tenant {tenant} must be allowed to use cluster {name}")]


def _system_namespace(facts: RegistrationFacts, boundaries: Sequence[str], notes: list[str]) -> list[Write]:
    path = f"{POLICIES_PATH}/{SYSTEM_NAMESPACE}"
    found, name = _fields(facts, path), facts.cluster_name
    if found is None:
        return [_new_namespace(facts, path, boundaries)]
    replication, allowed = _names(found, "replication_clusters", path), _names(found, "allowed_clusters", path)
    if name in replication or name in allowed:
        return []
    if len(replication) != 1 or found.get("deleted"):
        notes.append(
            f"Cluster {name} is not added to the allowed clusters of {SYSTEM_NAMESPACE}: its replication clusters are "
            f"{', '.join(replication) or 'unset'}, and allowing {name} would start replication from this cluster. "
            f"Transactions do not work in this cluster until {name} is allowed"
        )
        return []
    fields = {**found, "allowed_clusters": [*(allowed or replication), name]}
    return [
        _put(facts, path, fields, f"cluster {name} must be allowed to serve {SYSTEM_NAMESPACE} without replicating it")
    ]


def _default_namespace(facts: RegistrationFacts, boundaries: Sequence[str], notes: list[str]) -> list[Write]:
    path = f"{POLICIES_PATH}/{DEFAULT_NAMESPACE}"
    found, name = _fields(facts, path), facts.cluster_name
    if found is None:
        return [_new_namespace(facts, path, boundaries)]
    replication, allowed = _names(found, "replication_clusters", path), _names(found, "allowed_clusters", path)
    if name not in replication and name not in allowed:
        notes.append(
            f"Cluster {name} is not added to {DEFAULT_NAMESPACE}, which exists for "
            f"{', '.join(allowed or replication) or 'no cluster'}. To use the namespace in this cluster, add {name} to "
            "its allowed or replication clusters"
        )
    return []


def _new_namespace(facts: RegistrationFacts, path: str, boundaries: Sequence[str]) -> Write:
    """Returns the policies of a new namespace. Unset fields take the defaults of Pulsar's class Policies."""
    fields = {
        "replication_clusters": [facts.cluster_name],
        "bundles": {"boundaries": list(boundaries), "numBundles": len(boundaries) - 1},
    }
    return _put(facts, path, fields, f"Pulsar requires the namespace {path.removeprefix(POLICIES_PATH + '/')}")


def _create(facts: RegistrationFacts, writes: list[Write], path: str, fields: Fields, why: str) -> None:
    if _fields(facts, path) is None:
        writes.append(_put(facts, path, fields, why))


def _put(facts: RegistrationFacts, path: str, fields: Fields, why: str) -> Write:
    """Returns the write that creates the node, or replaces the version that was read (a node that was created as a
    parent is empty)."""
    stored = facts.nodes[path]
    return Write(path, json.dumps(fields).encode(), None if stored is None else stored.version, why)


def _fields(facts: RegistrationFacts, path: str) -> Fields | None:
    """Returns the JSON object in a node; None if the node does not exist or is empty."""
    stored = facts.nodes[path]
    if stored is None or not stored.data.strip():
        return None
    try:
        fields = json.loads(stored.data)
    except (ValueError, RecursionError) as error:
        raise _UnreadableError(f"{path} is not readable ({error})") from error
    if not isinstance(fields, dict):
        raise _UnreadableError(f"{path} is not a JSON object")
    return fields


def _names(fields: Fields, key: str, path: str) -> list[str]:
    """A list of cluster names; absent and null count as empty."""
    value = fields.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _UnreadableError(f"{path} has {key} {json.dumps(value)[:80]}, which is not a list of names,")
    return list(value)
