"""Remedies for obstacles of the logical plane: the blocking object, who may change it, and the command."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.clusters import pulsar_name
from pulsar_operator.controllers.core.objects import described, patch_spec
from pulsar_operator.ports import Json

_NOT_OF_THE_TENANT = re.compile(r"Cluster \[([^\]]+)\] is not in the list of allowed clusters list for tenant")
"""Pulsar's answer with HTTP 403 (class PulsarWebResource, validateClusterForTenant; seen on 4.0.8)."""


def explained(message: str, chain: Sequence[Json]) -> str:
    """Returns Pulsar's refusal, with a remedy if the message is known. ``chain`` contains the parents."""
    found = _NOT_OF_THE_TENANT.search(message)
    tenant = next((each for each in chain if each["kind"] == Kind.TENANT.value), None)
    if found is None or tenant is None or "kubectl" in message:
        return message
    cluster, text = found[1], object_text(tenant)
    declared = (tenant.get("spec") or {}).get("allowedClusters")
    if declared is None:
        return (
            f"{message}. {text} declares no allowedClusters, so the tenant is allowed to use {cluster} once "
            f"{cluster} is registered in Pulsar. To see its state, run: {described(tenant)}"
        )
    command = patch_spec(tenant, {"allowedClusters": sorted({*declared, cluster})})
    return f"{message}. The owner of {text} can allow {cluster} with: {command}"


def object_text(obj: Json) -> str:
    """Returns the kind, namespace and name of an object, for messages."""
    meta = obj["metadata"]
    return f"{obj['kind']} {meta['namespace']}/{meta['name']}"


def no_member(cluster: str, instance: Json, members: Collection[str]) -> str:
    """Returns the message that a cluster is not part of the instance, and who can add it."""
    known, who = ", ".join(sorted(members)) or "none", object_text(instance)
    return (
        f"{cluster} is not one of the clusters of {who} ({known}). The owner of {who} can add {cluster} with a "
        f"PulsarCluster whose spec.clusterName is {cluster}. Otherwise remove {cluster} from the list of clusters"
    )


def no_brokers(cluster: Json) -> str:
    """Returns the message that a PulsarCluster has no ready brokers, with the command that shows why."""
    return f"Cluster {pulsar_name(cluster)} has no ready brokers. To see its state, run: {described(cluster)}"
