"""The clusters of an instance as its status lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pulsar_operator.api.constants import ConditionType
from pulsar_operator.api.v1alpha1.base import MAX_CLUSTERS
from pulsar_operator.api.v1alpha1.instance import InstanceClusterStatus
from pulsar_operator.controllers.core.clusters import pulsar_name
from pulsar_operator.controllers.core.status import is_true
from pulsar_operator.domain.dataplane.reach import Sight
from pulsar_operator.ports import Json


def rows(clusters: Iterable[Json], sights: Mapping[str, Sight]) -> list[InstanceClusterStatus]:
    """A row for each PulsarCluster; ``sights`` say whether it answers, by name inside Pulsar."""
    return [_row(each, sights.get(pulsar_name(each), Sight())) for each in clusters]


def unique(found: list[InstanceClusterStatus]) -> list[InstanceClusterStatus]:
    """The list is a map by name: two objects that claim one Pulsar name (one of them is refused) show once."""
    return list({c.name: c for c in reversed(found)}.values())[::-1][:MAX_CLUSTERS]


def _row(cluster: Json, sight: Sight) -> InstanceClusterStatus:
    return InstanceClusterStatus(
        name=pulsar_name(cluster),
        object_name=cluster["metadata"]["name"],
        object_namespace=cluster["metadata"]["namespace"],
        ready=is_true(cluster, ConditionType.READY),
        version=(cluster.get("status") or {}).get("version"),
        reachable=sight.reachable,
        since=sight.since,
        last_seen=sight.last_seen,
    )
