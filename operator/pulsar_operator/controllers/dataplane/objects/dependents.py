"""What keeps a PulsarCluster, or the configuration store of a PulsarInstance, from being removed.

The chart's admission policy refuses the deletion of a parent by status.dependents. This is the second line of defense:
components keep running while something still needs them. Used by cluster/cluster_controller.py and
instance/instance_controller.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_DELETE, ConditionType, Kind, Reason
from pulsar_operator.controllers.core.clusters import allows, instance_of, members, pulsar_name, referring
from pulsar_operator.controllers.core.index import key_of, references
from pulsar_operator.controllers.core.status import condition_of
from pulsar_operator.controllers.core.watch_cache import DirectReader, reader_of
from pulsar_operator.domain.conditions import parse_time, seconds_since
from pulsar_operator.ports import Deps, Json, Key, ReaderPort

OF_THE_INSTANCE = (Kind.TENANT, Kind.RESOURCE_GROUP, Kind.ISOLATION_POLICY)
"""Kinds, besides clusters, that refer to an instance."""
BLOCKED_GRACE = timedelta(seconds=30)
"""How long to wait for a dependent whose deletion is blocked: what blocks it may be deleted too."""
SHOWN = 5
REMOVE_FROM_LISTS = "Remove the cluster from the lists of clusters of these namespaces, or delete the namespaces"
"""The remedy for namespaces in Pulsar that keep a cluster."""

_PAUSE_REASONS = frozenset({Reason.PAUSED.value, Reason.DRY_RUN.value})
"""Reasons of a deletion that a person suspended: nothing is removed without that person's knowledge."""
_CLUSTERS_FIELDS = {
    Kind.TENANT: ("allowedClusters",),
    Kind.NAMESPACE: ("replicationClusters", "allowedClusters"),
    Kind.ISOLATION_POLICY: ("clusters",),
}


async def dependents_of_cluster(deps: Deps, cluster: Json, *, live: bool = False) -> list[Json]:
    """Returns tenants, namespaces, resource groups and isolation policies that need the cluster.

    They name it in their spec, or are in it according to their status; all of them for the last cluster of an instance.
    Topics are counted by their namespace, and a PulsarRebalance is deleted with its cluster. ``live`` asks the API
    server: an object that the watch cache does not have yet would lose its data with the cluster.
    """
    instance = instance_of(cluster)
    if instance is None:
        return []
    reader = _reader(deps, live=live)
    name = pulsar_name(cluster)
    target = await reader.get(Kind.INSTANCE, instance.namespace, instance.name)
    clusters = await reader.every(Kind.CLUSTER, allowed_by=target)
    others = [
        each
        for each in (members(clusters, target) if target is not None else referring(clusters, instance))
        if pulsar_name(each) != name and "deletionTimestamp" not in each["metadata"]
    ]
    found: list[Json] = []
    tenants: dict[Key, Json] = {}
    for kind in OF_THE_INSTANCE:
        for each in await reader.every(kind, allowed_by=target):
            if instance not in references(kind, each) or not (target is None or allows(target, each)):
                continue
            if kind is Kind.TENANT:
                tenants[key_of(kind, each)] = each
            if not others or name in _named(kind, each):
                found.append({**each, "kind": kind.value})
    for each in await _namespaces_of(reader, tenants.values()):
        in_it = name in _named(Kind.NAMESPACE, each) or name in _present(each)
        if references(Kind.NAMESPACE, each) & tenants.keys() and (in_it or not others):
            found.append({**each, "kind": Kind.NAMESPACE.value})
    return found


async def _namespaces_of(reader: ReaderPort, tenants: Iterable[Json]) -> list[Json]:
    """Returns namespaces from wherever one of the tenants allows them. Tenants that allow the same share one
    request."""
    alike = {
        (t["metadata"]["namespace"], repr((t.get("spec") or {}).get("allowedKubernetesNamespaces"))): t for t in tenants
    }
    found: dict[Key, Json] = {}
    for tenant in alike.values():
        for each in await reader.every(Kind.NAMESPACE, allowed_by=tenant):
            found[key_of(Kind.NAMESPACE, each)] = each
    return list(found.values())


async def dependents_of_instance(deps: Deps, instance: Json, *, live: bool = False) -> list[Json]:
    """Returns tenants, resource groups and isolation policies that refer to the instance and are allowed to; ``live``
    as above."""
    key = key_of(Kind.INSTANCE, instance)
    reader = _reader(deps, live=live)
    return [
        {**each, "kind": kind.value}
        for kind in OF_THE_INSTANCE
        for each in await reader.every(kind, allowed_by=instance)
        if key in references(kind, each) and allows(instance, each)
    ]


def _reader(deps: Deps, *, live: bool) -> ReaderPort:
    return DirectReader(deps) if live else reader_of(deps)


def waited_for(owner: Json, dependents: Iterable[Json], now: datetime) -> list[Json]:
    """Returns the dependents that keep an owner that is being deleted; none once the deletion is confirmed by
    annotation.

    A dependent whose own deletion is blocked would keep the owner without end if its remedy is the deletion of the
    owner.
    """
    if confirmed_deletion(owner):
        return []
    return [each for each in dependents if not _stuck(each, now)]


def confirmed_deletion(owner: Json) -> bool:
    """Whether the owner's name is in its annotation, which confirms a deletion of what other objects need."""
    meta = owner["metadata"]
    return bool((meta.get("annotations") or {}).get(ANNOTATION_CONFIRM_DELETE) == meta["name"])


def explain(owner: Json, waiting: Sequence[Json]) -> str:
    """Returns the message on which objects keep an owner, and what to do about it."""
    names = [f"{e['kind']} {e['metadata']['namespace']}/{e['metadata']['name']}" for e in waiting]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{len(names)} objects still need this object: {', '.join(names[:SHOWN])}{more}. {remedy(owner)}"


def remedy(
    owner: Json, first: str = ("Delete these objects first"), instead: str = "delete this object before them"
) -> str:
    """Returns what to do about the objects that keep an owner that is being deleted."""
    meta = owner["metadata"]
    return (
        f"{first}. To {instead} instead, run: kubectl -n {meta['namespace']} annotate --overwrite "
        f"{owner['kind'].lower()}/{meta['name']} {ANNOTATION_CONFIRM_DELETE}={meta['name']}"
    )


def _named(kind: Kind, obj: Json) -> frozenset[str]:
    """Returns the clusters that an object names in its spec, by their name inside Pulsar."""
    spec = obj.get("spec") or {}
    lists = [spec.get(name) for name in _CLUSTERS_FIELDS.get(kind, ())]
    return frozenset(str(each) for given in lists if isinstance(given, list) for each in given)


def _present(namespace: Json) -> frozenset[str]:
    """Returns the clusters in which a namespace was observed."""
    clusters = (namespace.get("status") or {}).get("clusters") or ()
    return frozenset(str(each.get("name")) for each in clusters if each.get("exists"))


def _stuck(obj: Json, now: datetime) -> bool:
    if "deletionTimestamp" not in obj["metadata"]:
        return False
    blocked = condition_of(obj, ConditionType.DELETION_BLOCKED.value)
    if blocked is None or blocked.get("status") != "True" or blocked.get("reason") in _PAUSE_REASONS:
        return False
    since = parse_time(str(blocked["lastTransitionTime"]))
    return since is not None and seconds_since(since, now) >= BLOCKED_GRACE.total_seconds()
