"""The largest declared ensemble of topics in a cluster, and its source: the brokers' default, namespaces or declared
topics; and which namespaces are bound to groups of bookies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.controllers.core.bounded import each_of
from pulsar_operator.controllers.core.clusters import instance_of, pulsar_name
from pulsar_operator.controllers.core.parent_resolution import ParentResolver, ResolvedLocation, location_of
from pulsar_operator.controllers.core.watch_cache import reader_of
from pulsar_operator.controllers.dataplane.observed.namespace_inventory import AT_ONCE, namespace_policies
from pulsar_operator.domain.bookkeeper.affinity import (
    LOCAL_POLICIES,
    NO_GROUPS,
    PRIMARY_KEY,
    SECONDARY_KEY,
    Bound,
    Groups,
    Widest,
    bound,
    groups_of,
    local_groups,
)
from pulsar_operator.domain.bookkeeper.protobuf import UndecodableError
from pulsar_operator.domain.bookkeeper.rack_entries import RACKS_PATH, parse_entries
from pulsar_operator.domain.logical.clusters import clusters_of
from pulsar_operator.ports import Deps, Json, ZooKeeperSession


def broker_groups(spec: PulsarClusterSpec) -> Groups:
    """Returns the groups of bookies in the brokers' configuration, which apply to all namespaces without their own
    groups."""
    config = (spec.broker.config if spec.broker is not None else None) or {}
    return groups_of(config.get(PRIMARY_KEY), config.get(SECONDARY_KEY))


async def widest_ensemble(
    deps: Deps,
    store: ZooKeeperSession,
    default: int,
    cluster: Json,
    *,
    local: ZooKeeperSession | None = None,
    groups: Groups = NO_GROUPS,
) -> Widest:
    """Returns the largest ensemble in a PulsarCluster and its source; ``default`` is that of its brokers. Raises
    PortError, since a part is not known to be complete.

    Namespaces are read in the configuration store, ``/admin/policies/<tenant>/<namespace>``, member persistence (class
    Policies), declared or not; those that name clusters, and not this one, have no topic in it. Policies of topics are
    in topics themselves, which cannot be listed together: those that PulsarTopics and the sets of its instance declare
    count. Other policies of topics in Pulsar show only in their ledgers (domain/dataplane/decommission/decommission.py,
    before).

    ``local`` is the cluster's own store: with it, namespaces that are bound to groups of bookies are found too;
    ``groups`` are those that the brokers' configuration names for all others.
    """
    found = [Widest(default, "the default of managed ledgers")]
    policies, here = await namespace_policies(store), pulsar_name(cluster)
    spaces = {
        name: Widest(_number((each.get("persistence") or {}).get("bookkeeperEnsemble")), f"namespace {name}")
        for name, each in policies.items()
        if _used_in(each, here)
    }
    found += spaces.values()
    # In a namespace that asks for less than the default a topic may ask for more than it.
    least = min([default, *(each.size for each in spaces.values() if each.size)]) if local is not None else default
    resolver = ParentResolver(deps)
    topics: list[tuple[str | None, Widest]] = []
    for kind in (Kind.TOPIC, Kind.TOPIC_SET):
        for each in await reader_of(deps).every(kind):
            meta, size = each["metadata"], _declared(each)
            if size <= least:
                continue  # most: no parent is looked up for them
            place = await resolver.resolve(location_of(kind, each))
            if _in_it(each, place, policies, cluster):
                topics.append((place.path, Widest(size, f"{kind.value} {meta['namespace']}/{meta['name']}")))
    found += [each for _, each in topics]
    widest = max(found, key=lambda each: each.size)
    if local is None:
        return widest
    asked = {name: of if of.size else Widest(default, of.whose) for name, of in spaces.items()}
    for path, of in topics:
        if path in asked and of.size > asked[path].size:
            asked[path] = of
    try:
        return replace(widest, bound=await _bound(local, asked, groups))
    except UndecodableError as error:
        return replace(widest, problem=f"The affinity groups of the bookies cannot be read: {error}")


async def _bound(store: ZooKeeperSession, asked: Mapping[str, Widest], groups: Groups) -> tuple[Bound, ...]:
    """Returns namespaces that are bound to groups, with the number of bookies that each needs. Raises PortError, and
    UndecodableError if the groups cannot be read."""
    nodes = await each_of(asked, lambda name: store.get(f"{LOCAL_POLICIES}/{name}"), AT_ONCE)
    every = ((local_groups(node.data) if node is not None else None) or groups for node in nodes)
    of = {name: each for name, each in zip(asked, every, strict=True) if each.bind}
    if not of:
        return ()
    node = await store.get(RACKS_PATH)
    entries = parse_entries(node.data) if node is not None else {}
    return tuple(bound(asked[name].whose, asked[name].size, each, entries) for name, each in of.items())


def _in_it(topic: Json, place: ResolvedLocation, policies: Mapping[str, Json], cluster: Json) -> bool:
    """Whether a PulsarTopic, or a set of them, may be in a cluster."""
    status, here = topic.get("status") or {}, pulsar_name(cluster)
    if place.instance is None:
        return bool(status.get("pulsarName"))  # nobody can tell where, but it was in Pulsar
    if place.instance != instance_of(cluster):
        return False
    declared = _spec(topic).get("replicationClusters") or ()
    if here in declared:
        return True
    if not _used_in(policies.get(place.path or "") or {}, here):
        return False
    # One that is left out keeps the topic with what it has, where it had it.
    existing = {
        each.get("name") for each in status.get("clusters") or () if isinstance(each, dict) and each.get("exists")
    }
    return not declared or here in existing


def _used_in(policies: Json, cluster: str) -> bool:
    """Whether a namespace may have topics in a cluster."""
    holders = clusters_of(policies)
    return not holders or cluster in holders


def _spec(topic: Json) -> Json:
    spec = topic.get("spec") or {}
    template = spec.get("template") or spec
    return dict(template)


def _declared(topic: Json) -> int:
    return _number(((_spec(topic).get("policies") or {}).get("persistence") or {}).get("ensembleSize"))


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
