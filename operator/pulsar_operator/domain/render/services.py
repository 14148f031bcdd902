"""Services and the PodDisruptionBudget of a component."""

from __future__ import annotations

from collections.abc import Mapping

from pulsar_operator.api.v1alpha1.platform import Platform
from pulsar_operator.api.v1alpha1.services import BrokerService, ProxyService, ServiceType
from pulsar_operator.domain.render.child_names import selector_labels
from pulsar_operator.domain.render.common import Manifest, Workload, metadata

Exposed = BrokerService | ProxyService


def headless_service(workload: Workload) -> Manifest:
    """Returns the Service with one DNS name per pod, also before it is ready: servers of an ensemble connect to each
    other while starting."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(workload.owner, workload.listeners.headless, workload.component),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            **ip_versions(workload.platform),
            "selector": selector_labels(workload.owner, workload.component),
            "ports": _service_ports(workload.listeners.ports),
        },
    }


def client_service(workload: Workload, exposed: Exposed | None = None) -> Manifest:
    """Returns the Service for all ready pods. ``exposed`` sets annotations and, for a Service that may be reached from
    outside, its type and ports."""
    outer = exposed if isinstance(exposed, ProxyService) else ProxyService()
    kind = outer.type
    fixed = outer.node_ports if kind is not ServiceType.CLUSTER_IP else None
    entries = _service_ports(workload.listeners.client_ports)
    for entry in entries:
        node_port = getattr(fixed, entry["name"].replace("-", "_"), None) if fixed else None
        if node_port:
            entry["nodePort"] = node_port
    annotations = dict(exposed.annotations or {}) if exposed else None
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(workload.owner, workload.name, workload.component, annotations),
        "spec": {
            "type": kind.value,
            "selector": selector_labels(workload.owner, workload.component),
            "ports": entries,
            **ip_versions(workload.platform),
            **_from_outside(outer),
        },
    }


def disruption_budget(workload: Workload, *, evict_unhealthy: bool, usual: bool = True) -> list[Manifest]:
    """Returns a PodDisruptionBudget that allows the eviction of one pod at a time, or of as many as the user sets; none
    if the user disables it.

    maxUnavailable is 1 also for a single pod: a budget of 0 would block every node drain without an error, and a user
    with one replica has accepted its outage. With ``evict_unhealthy`` False, unready pods that hold data are not
    evicted (source: unhealthyPodEvictionPolicy of policy/v1). With ``usual`` False there is a budget only if a user
    enables it.
    """
    desired = workload.pod.pod_disruption_budget if workload.pod else None
    if not (desired.enabled if desired else usual):
        return []
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata(workload.owner, workload.name, workload.component),
            "spec": {
                "maxUnavailable": (desired.max_unavailable if desired else None) or 1,
                "unhealthyPodEvictionPolicy": "AlwaysAllow" if evict_unhealthy else "IfHealthyBudget",
                "selector": {"matchLabels": selector_labels(workload.owner, workload.component)},
            },
        }
    ]


def _from_outside(service: ProxyService) -> Manifest:
    """Returns the fields for access from outside. Fields that the type of the Service does not have are left out."""
    out: Manifest = {}
    if service.type is not ServiceType.CLUSTER_IP and service.external_traffic_policy:
        out["externalTrafficPolicy"] = service.external_traffic_policy.value
    if service.type is ServiceType.LOAD_BALANCER:
        if service.load_balancer_class:
            out["loadBalancerClass"] = service.load_balancer_class
        if service.load_balancer_source_ranges:
            out["loadBalancerSourceRanges"] = list(service.load_balancer_source_ranges)
    return out


def ip_versions(platform: Platform) -> Manifest:
    """Returns the fields of a Service for the IP versions of a platform."""
    out: Manifest = {}
    if platform.ip_family_policy:
        out["ipFamilyPolicy"] = platform.ip_family_policy.value
    if platform.ip_families:
        out["ipFamilies"] = [family.value for family in platform.ip_families]
    return out


def _service_ports(ports: Mapping[str, int]) -> list[Manifest]:
    return [{"name": name, "port": port, "targetPort": name, "protocol": "TCP"} for name, port in ports.items()]
