"""The namespaces in Pulsar, declared or not, as read from the stores: what their policies require, and which of them
need a cluster that is being deleted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pulsar_operator.api.constants import Component, ConditionType, Kind
from pulsar_operator.api.v1alpha1.cluster import ClusterMode
from pulsar_operator.controllers.core.bounded import each_of
from pulsar_operator.controllers.core.clusters import allows, instance_of, members, owner_text, pulsar_name, referring
from pulsar_operator.controllers.core.status import condition_of
from pulsar_operator.controllers.core.stores import configuration_store, metadata_store
from pulsar_operator.controllers.core.watch_cache import DirectReader
from pulsar_operator.controllers.dataplane.objects.children import observe_children
from pulsar_operator.controllers.dataplane.objects.tear_down_record import can_be_kept, has_begun
from pulsar_operator.domain.conditions import parse_time, seconds_since
from pulsar_operator.domain.dataplane.observed.broker_store import store_of_brokers
from pulsar_operator.domain.dataplane.observed.remote_clusters import GLOBAL
from pulsar_operator.domain.dataplane.registration.deregistration import is_claim_of, is_claimed_by
from pulsar_operator.domain.dataplane.registration.metadata import INSTANCE_ID_PATH
from pulsar_operator.domain.dataplane.registration.registration import (
    CLUSTERS_PATH,
    DEFAULT_NAMESPACE,
    POLICIES_PATH,
    claim_path,
)
from pulsar_operator.domain.logical.clusters import clusters_of
from pulsar_operator.domain.logical.pulsar_names import is_system_topic
from pulsar_operator.domain.render.addresses import StoreAddress
from pulsar_operator.domain.render.child_names import workload_name
from pulsar_operator.ports import (
    CUSTOM,
    STATEFUL_SETS,
    Deps,
    Json,
    Key,
    Node,
    PortError,
    RefusedError,
    ZooKeeperSession,
)

AT_ONCE: Final = 32
"""Concurrent reads."""
MANAGED_LEDGERS: Final = "/managed-ledgers"
"""Node of persistent topics, below tenant, namespace and domain, in the cluster's own store (class MetaStoreImpl)."""
SILENT_SECONDS: Final = 120.0
"""How long a cluster is kept that has the configuration store of other clusters, while that store does not answer."""
NAMED: Final = 20
"""Namespaces that a message names."""
LISTS: Final = ("replication_clusters", "allowed_clusters")
PERSISTENCE: Final = "persistence"
"""Fields of class Policies that are read."""
PULSARS_OWN: Final = "pulsar"
"""Tenant of Pulsar itself."""


async def namespace_policies(store: ZooKeeperSession) -> dict[str, Json]:
    """Returns all policies by tenant/namespace. Raises PortError, since a part of them is not known to be complete."""
    names = []
    for tenant in await store.children(POLICIES_PATH) or []:
        names += [f"{tenant}/{name}" for name in await store.children(f"{POLICIES_PATH}/{tenant}") or []]
    nodes = await each_of(names, lambda name: store.get(f"{POLICIES_PATH}/{name}"), AT_ONCE)
    return {name: _policies(node) for name, node in zip(names, nodes, strict=True)}


def _policies(node: Node | None) -> Json:
    """Returns the policies of a namespace; unreadable ones count as absent."""
    try:
        found = json.loads(node.data) if node is not None and node.data else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    unfit = [key for key in LISTS if not _names_only(found.get(key) or [])]
    unfit += [] if isinstance(found.get(PERSISTENCE) or {}, dict) else [PERSISTENCE]
    return {key: value for key, value in found.items() if key not in unfit}


def _names_only(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


async def needed_by_namespaces(deps: Deps, cluster: Json) -> str | None:
    """Returns why namespaces in Pulsar still need a cluster that is being deleted, as a message; None if none does, or
    no other cluster is left, of the instance or registered in its store from elsewhere.

    Pulsar does not check this: a deleted cluster stays in the lists of namespaces, the other clusters keep messages for
    it, and no new topic can be created there (observed on 4.0.8). Undeclared topics would be lost unnoticed. If
    something cannot be read, the cluster counts as needed.
    """
    key = instance_of(cluster)
    instance = await deps.kube.get(CUSTOM[Kind.INSTANCE], key.namespace, key.name) if key is not None else None
    if instance is None:
        return await _instance_gone(deps, key, cluster) if key is not None else None
    others = await other_clusters(deps, instance, cluster)
    store, own = configuration_store(instance), metadata_store(cluster)
    if has_own_store(instance, cluster) and not (others.staying and own):
        return await _shared_apart(deps, others, cluster)
    all_go = not others.staying and await _goes_with_all(deps, instance)
    unknown = "It is not known whether namespaces in Pulsar need this cluster"
    if store is None:
        return None if all_go else f"{unknown}, because no status has the address of the configuration store yet"
    try:
        shared = await deps.zookeeper.session(*store)
        if not others.staying and not await others.apart(shared, pulsar_name(cluster)):
            return None
        if own is None:
            return f"{unknown}, because no status has the address of its metadata store yet"
        if not (allows(instance, cluster) or await _is_its_name(shared, cluster)):
            return None  # whoever may not refer to the instance is told nothing of it
        policies = await namespace_policies(shared)
        topics = await deps.zookeeper.session(*own)
        if (lost := await _lost(topics, own.servers, _instance_id(cluster))) is not None:
            return lost
        found = await _needing(policies, topics, pulsar_name(cluster))
    except PortError as error:
        return None if all_go else f"{unknown}: {error}"
    return f"{len(found)} namespaces in Pulsar still need this cluster: {named(found)}" if found else None


async def _instance_gone(deps: Deps, key: Key, cluster: Json) -> str | None:
    """Returns why a cluster is kept whose instance was deleted first, as a message. None if it is not kept. The status
    that had the address of the store was deleted with the instance.

    A PulsarCluster elsewhere that the instance would have had to allow proves nothing: any user may create it. The
    store that the brokers were given has the registered clusters.
    """
    meta, found = cluster["metadata"], referring(await deps.kube.list(CUSTOM[Kind.CLUSTER], None), key)
    others = [each for each in found if each["metadata"]["uid"] != meta["uid"]]
    staying = [
        pulsar_name(each)
        for each in others
        if each["metadata"]["namespace"] == key.namespace and "deletionTimestamp" not in each["metadata"]
    ]
    unknown = (
        "It is not known whether namespaces in Pulsar need this cluster, because PulsarInstance "
        f"{key.namespace}/{key.name} of the cluster no longer exists"
    )
    if staying:
        return (
            f"{unknown} and other clusters ({named(sorted(staying))}) may keep messages for the cluster. Create the "
            "instance again"
        )
    if (cluster.get("spec") or {}).get("mode") == ClusterMode.STANDALONE:
        return None  # nobody can reach its store
    live = await observe_children(deps, cluster)
    if live.stateful_set(Component.BROKER) is None and has_begun(cluster):
        return None
    store = store_of_brokers(live)
    if store is None:
        return f"{unknown} and the configuration of the brokers names no configuration store. Create the instance again"
    if await _went_with(deps, key, store):
        return None
    going = [each for each in others if "deletionTimestamp" in each["metadata"]]
    try:
        session = await deps.zookeeper.session(store.servers, store.chroot or None)
        apart = sorted(await Others([], going).apart(session, pulsar_name(cluster)))
    except PortError as error:
        if _is_its_own(cluster, store) and _silent_for_long(cluster, ConditionType.METADATA_READY, deps.clock.now()):
            return None
        return (
            f"{unknown} and the configuration store {store.url} of the cluster does not answer ({error}). Create the "
            "instance again"
        )
    if not apart:
        return None
    return (
        f"{unknown} and {len(apart)} other clusters are registered in the configuration store {store.url} of the "
        f"cluster: {named(apart)}. Create the instance again, so that the operator can remove the cluster from "
        "the shared data"
    )


async def _went_with(deps: Deps, instance: Key, store: StoreAddress) -> bool:
    """Whether the instance managed the store, and its servers are gone with it: then no cluster uses it any more."""
    name = workload_name(instance.name, Component.CONFIGURATION_STORE)
    if not store.servers.startswith(f"{name}.{instance.namespace}."):
        return False
    return await deps.kube.get(STATEFUL_SETS, instance.namespace, name) is None


def _is_its_own(cluster: Json, store: StoreAddress) -> bool:
    """Whether a configuration store is the cluster's own metadata store."""
    own = metadata_store(cluster)
    return own is not None and StoreAddress.of(*own) == store


async def _goes_with_all(deps: Deps, instance: Json) -> bool:
    """Whether the store may be deleted together with all clusters: its instance is being deleted, and its servers were
    stopped by another writer, since the operator keeps them for the clusters."""
    store = (instance.get("spec") or {}).get("configurationStore") or {}
    if "deletionTimestamp" not in instance["metadata"] or store.get("external") is not None:
        return False
    try:
        return not await can_be_kept(deps, instance, Component.CONFIGURATION_STORE)
    except RefusedError:
        return True  # its Kubernetes namespace goes, and rights in it first


async def _shared_apart(deps: Deps, others: Others, cluster: Json) -> str | None:
    """Returns why the cluster's metadata store must be kept, as a message: clusters of other instances are registered
    in it, or that is unknown. None if nothing needs it. A store that has not answered for long counts as unused."""
    if (cluster.get("spec") or {}).get("mode") == ClusterMode.STANDALONE:
        return None  # nobody can reach it
    own, unknown = (
        metadata_store(cluster),
        ("It is not known whether other clusters are registered in the metadata store of this cluster"),
    )
    if own is None:
        return f"{unknown}, because no status has the address of the store yet"
    try:
        found = sorted(await others.apart(await deps.zookeeper.session(*own), pulsar_name(cluster)))
    except PortError as error:
        silent = _silent_for_long(cluster, ConditionType.METADATA_READY, deps.clock.now())
        return None if silent else f"{unknown}: {error}"
    if not found:
        return None
    return (
        f"{len(found)} clusters of other instances are registered in the metadata store of this cluster: {named(found)}"
    )


async def registered_still(deps: Deps, instance: Json) -> str | None:
    """Returns why the managed store of an instance that is being deleted must be kept after its own clusters are
    removed from it, as a message: other clusters are registered in it, or that is unknown. None if nothing needs it."""
    store, who = configuration_store(instance), "clusters that do not belong to the instance"
    unknown = f"It is not known whether {who} are registered in the configuration store"
    if store is None:
        return f"{unknown}, because no status has the address of the store yet"
    try:
        session = await deps.zookeeper.session(*store)
        found = sorted(frozenset(await session.children(CLUSTERS_PATH) or ()) - {GLOBAL})
    except PortError as error:
        silent = _silent_for_long(instance, ConditionType.CONFIGURATION_STORE_READY, deps.clock.now())
        return None if silent else f"{unknown}: {error}"
    return f"{len(found)} {who} are registered in the configuration store: {named(found)}" if found else None


def _silent_for_long(owner: Json, kind: ConditionType, now: datetime) -> bool:
    """Whether a store has been unhealthy for a while, according to the status of its owner: servers that are replaced,
    or a failing network, recover within moments."""
    condition = condition_of(owner, kind)
    if condition is None or condition["status"] == "True":
        return False
    since = parse_time(str(condition["lastTransitionTime"]))
    return since is not None and seconds_since(since, now) >= SILENT_SECONDS


def named(found: Sequence[str]) -> str:
    """Returns the first of many, and the number of the others."""
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f"{', '.join(found[:NAMED])}{more}"


@dataclass(frozen=True)
class Others:
    """The other clusters of the instance of a cluster that is being deleted."""

    staying: Sequence[Json]
    """PulsarClusters that are not being deleted."""
    going: Sequence[Json]
    """PulsarClusters that are being deleted."""

    async def apart(self, store: ZooKeeperSession, name: str) -> frozenset[str]:
        """Returns the clusters in the configuration store, other than the one of that name, that continue and have no
        PulsarCluster here: a store may have clusters of several Kubernetes clusters.

        A PulsarCluster that is being deleted accounts for its name if it was registered, and not refused. Raises
        PortError.
        """
        here = {pulsar_name(each) for each in self.staying}
        found = frozenset(await store.children(CLUSTERS_PATH) or ()) - here - {name, GLOBAL}
        gone = [each for each in self.going if pulsar_name(each) in found]
        claims = await asyncio.gather(*(store.get(claim_path(pulsar_name(each))) for each in gone))
        return found - {
            pulsar_name(each)
            for each, claim in zip(gone, claims, strict=True)
            if claim is not None and is_claim_of(claim.data, owner_text(each))
        }


async def other_clusters(deps: Deps, instance: Json, cluster: Json) -> Others:
    """Reads them from the API server."""
    every = await DirectReader(deps).every(Kind.CLUSTER, allowed_by=instance)
    found = [each for each in members(every, instance) if each["metadata"]["uid"] != cluster["metadata"]["uid"]]
    return Others(
        [each for each in found if "deletionTimestamp" not in each["metadata"]],
        [each for each in found if "deletionTimestamp" in each["metadata"]],
    )


def has_own_store(instance: Json, cluster: Json) -> bool:
    """Whether the instance's shared data is in this cluster's own metadata store."""
    store, meta = (instance.get("spec") or {}).get("configurationStore") or {}, cluster["metadata"]
    named_by_it = (store.get("cluster") or {}).get("name") == meta["name"]
    here = instance["metadata"]["namespace"] == meta["namespace"]
    return (named_by_it and here) or (cluster.get("spec") or {}).get("mode") == ClusterMode.STANDALONE


async def _is_its_name(shared: ZooKeeperSession, cluster: Json) -> bool:
    """Whether the cluster was registered under its name when it was allowed to. Raises PortError."""
    claim = await shared.get(claim_path(pulsar_name(cluster)))
    return claim is not None and is_claimed_by(claim.data, _instance_id(cluster), owner_text(cluster))


def _instance_id(cluster: Json) -> str | None:
    found: str | None = (cluster.get("status") or {}).get("instanceId")
    return found


async def _lost(local: ZooKeeperSession, servers: str, instance_id: str | None) -> str | None:
    """Returns why a cluster's topics are not known, as a message: its own metadata store is empty, or another one. None
    if they are known."""
    node = await local.get(INSTANCE_ID_PATH)
    found = None if node is None else node.data.decode("utf-8", "replace").strip()
    if instance_id is None or found == instance_id:
        return None
    there = f"instance id {found}" if found else f"no {INSTANCE_ID_PATH}"
    return (
        f"It is not known whether namespaces in Pulsar need this cluster, because its metadata store {servers} "
        f"has {there} instead of instance id {instance_id}. The list of its topics is lost"
    )


async def topics_there(local: ZooKeeperSession) -> dict[str, list[str]]:
    """Returns the persistent topics of a cluster by tenant/namespace, from its own store, loaded or not; encoded names.
    Raises PortError, since a part of them is not known to be complete.
    """
    names = []
    for tenant in await local.children(MANAGED_LEDGERS) or []:
        names += [f"{tenant}/{name}" for name in await local.children(f"{MANAGED_LEDGERS}/{tenant}") or []]
    topics = await each_of(names, lambda name: local.children(f"{MANAGED_LEDGERS}/{name}/persistent"), AT_ONCE)
    return {name: each or [] for name, each in zip(names, topics, strict=True)}


async def left_behind(local: ZooKeeperSession) -> list[str]:
    """Returns the users' namespaces that still have topics in a cluster, with their number. Raises PortError."""
    found = {name: _users(topics) for name, topics in (await topics_there(local)).items()}
    return [
        f"{name} (topics: {count})"
        for name, count in sorted(found.items())
        if count and not name.startswith(f"{PULSARS_OWN}/")
    ]


async def with_cursor(local: ZooKeeperSession, cursor: str) -> list[str]:
    """Returns topics, as tenant/namespace/topic, that have a cursor of that name, loaded or not. Raises PortError."""
    topics = [f"{name}/persistent/{topic}" for name, each in (await topics_there(local)).items() for topic in each]
    cursors = await each_of(topics, lambda topic: local.children(f"{MANAGED_LEDGERS}/{topic}"), AT_ONCE)
    found = (topic for topic, names in zip(topics, cursors, strict=True) if cursor in (names or ()))
    return sorted(topic.replace("/persistent/", "/", 1) for topic in found)


async def _needing(policies: dict[str, Json], local: ZooKeeperSession, here: str) -> list[str]:
    """Returns namespaces that share the cluster with others, or have topics in it, with the reason."""
    found = []
    for name, each in sorted(policies.items()):
        holders = clusters_of(each)
        if name.startswith(f"{PULSARS_OWN}/") or (holders and here not in holders):
            continue  # what names nobody, or is not readable, may be of this cluster
        others = [holder for holder in holders if holder != here]
        if others:
            found.append(f"{name} (its clusters: {', '.join(holders)})")
        elif count := _users(await local.children(f"{MANAGED_LEDGERS}/{name}/persistent") or ()):
            found.append(f"{name} (topics in this cluster: {count})")
    return found


def naming(policies: Mapping[str, Json], cluster: str) -> list[str]:
    """Returns the users' namespaces that have a cluster in their lists, without public/default and those that are being
    deleted."""
    return [
        name
        for name, each in sorted(policies.items())
        if cluster in clusters_of(each)
        and name != DEFAULT_NAMESPACE
        and not (name.startswith(f"{PULSARS_OWN}/") or each.get("deleted"))
    ]


def _users(topics: Iterable[str]) -> int:
    return sum(not is_system_topic(topic) for topic in topics)
