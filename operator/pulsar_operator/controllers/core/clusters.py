"""The clusters of an instance, their names in Pulsar, and their admin endpoints.

The caller provides lists: from the watch cache if the result is only shown, from the API server if something
irreversible depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from pulsar_operator.api.constants import Component, ConditionType, Kind
from pulsar_operator.api.v1alpha1.cluster import ClusterMode, PulsarClusterSpec
from pulsar_operator.controllers.core.index import SERVING_PARTS, allows_references, key_of, references
from pulsar_operator.controllers.core.status import is_true
from pulsar_operator.domain.render.child_names import headless_name, service_host, workload_name
from pulsar_operator.domain.render.security import own_audience
from pulsar_operator.ports import AdminAccess, AdminEndpoint, Json, Key


def pulsar_name(cluster: Json) -> str:
    """Returns the name of a PulsarCluster in Pulsar: spec.clusterName, or metadata.name if it is unset."""
    return str((cluster.get("spec") or {}).get("clusterName") or cluster["metadata"]["name"])


def owner_text(cluster: Json) -> str:
    """Returns the text that identifies a PulsarCluster in claims: namespace/name."""
    return f"{cluster['metadata']['namespace']}/{cluster['metadata']['name']}"


def instance_of(cluster: Json) -> Key | None:
    """Returns the instance that spec.instanceRef names; None if there is none."""
    return next(iter(references(Kind.CLUSTER, cluster)), None)


def referring(clusters: Iterable[Json], instance: Key) -> list[Json]:
    """Returns the clusters that refer to the instance, whether or not it allows them: one that was allowed before may
    still run."""
    return [each for each in clusters if instance_of(each) == instance]


def members(clusters: Iterable[Json], instance: Json) -> list[Json]:
    """Returns the clusters that refer to the instance and are allowed to."""
    key = key_of(Kind.INSTANCE, instance)
    return [each for each in referring(clusters, key) if allows(instance, each)]


def allows(target: Json, child: Json) -> bool:
    """Whether an object allows references from the Kubernetes namespace of another."""
    return allows_references(
        target, target_namespace=target["metadata"]["namespace"], from_namespace=child["metadata"]["namespace"]
    )


def published_endpoint(cluster: Json) -> AdminEndpoint | None:
    """Returns the web service of the brokers from the status of the cluster; None until the status has it."""
    known = (cluster.get("status") or {}).get("endpoints") or {}
    url, secured = known.get("brokerWebServiceUrl"), known.get("tokenAudience") is not None
    return brokers_endpoint(cluster, str(url), secured=secured) if url else None


def brokers_endpoint(cluster: Json, url: str, *, secured: bool) -> AdminEndpoint:
    """Returns the endpoint of the brokers' Service. Requests to ``secured`` brokers carry the operator's token for the
    instance, to that Service and to single brokers, which are names below its headless Service.

    Audience and hosts follow from the specification. If they followed from the status, a user who may write the
    status could choose who receives the operator's token, and what it opens.
    """
    instance = instance_of(cluster)
    if not secured or instance is None:
        return AdminEndpoint(pulsar_name(cluster), url)
    meta, spec = cluster["metadata"], cluster["spec"]
    standalone = spec.get("mode") == ClusterMode.STANDALONE.value
    service = workload_name(meta["name"], Component.STANDALONE if standalone else Component.BROKER)
    domain = spec.get("clusterDomain") or PulsarClusterSpec.model_fields["cluster_domain"].default
    host, below = (service_host(each, meta["namespace"], domain) for each in (service, headless_name(service)))
    access = AdminAccess((host, f".{below}"), audience=own_audience(instance.namespace, instance.name))
    return AdminEndpoint(pulsar_name(cluster), url, access)


def serving_endpoint(cluster: Json) -> AdminEndpoint | None:
    """Returns the endpoint at which the cluster's admin REST answers now; None while it has no ready broker.

    One ready broker suffices: a rollout of many brokers must not make every tenant, namespace and topic Unknown.
    """
    status = cluster.get("status") or {}
    serving = any(((status.get(part) or {}).get("ready") or 0) > 0 for part in SERVING_PARTS)
    return published_endpoint(cluster) if serving or is_true(cluster, ConditionType.BROKERS_READY.value) else None


def by_name(clusters: Iterable[Json]) -> dict[str, Json]:
    """Returns one PulsarCluster for each name in Pulsar. If several claim a name, this is one with ready brokers, if
    any; the others are refused."""
    found: dict[str, Json] = {}
    for each in clusters:
        known = found.setdefault(pulsar_name(each), each)
        if serving_endpoint(known) is None and serving_endpoint(each) is not None:
            found[pulsar_name(each)] = each
    return found


def broker_endpoint(cluster: AdminEndpoint, broker: str) -> AdminEndpoint:
    """Returns the endpoint of a single broker, by its id (host:webPort), with the scheme of the cluster's endpoint."""
    return AdminEndpoint(cluster.cluster, f"{urlsplit(cluster.url).scheme}://{broker}", cluster.access)
