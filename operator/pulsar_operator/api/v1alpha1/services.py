"""Services in front of brokers, proxies and standalone pods."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, validations

CIDR = r"^[0-9a-fA-F.:]+/[0-9]{1,3}$"


class ServiceType(StrEnum):
    """Type of a Service."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class TrafficPolicy(StrEnum):
    """Routing of connections from outside the Kubernetes cluster, as in a Service."""

    CLUSTER = "Cluster"
    LOCAL = "Local"


class ProxyNodePorts(ApiModel):
    """Fixed node ports."""

    pulsar: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Node port of the binary protocol. If unset, Kubernetes chooses the port."""
    http: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Node port of the web service. If unset, Kubernetes chooses the port."""
    tls_pulsar: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Node port of the binary protocol with TLS. If unset, Kubernetes chooses the port. Standalone pods have no TLS."""
    https: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Node port of the web service with TLS. If unset, Kubernetes chooses the port. Standalone pods have no TLS."""


ServiceAnnotations = Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=64)]


class BrokerService(ApiModel):
    """The Service of the brokers, which is reachable only inside Kubernetes."""

    annotations: ServiceAnnotations | None = None
    """Annotations of the Service. If unset, the Service has only those of the operator."""


class ProxyService(ApiModel):
    """The Service that clients connect to."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "self.type == 'LoadBalancer' || (!has(self.loadBalancerClass) && !has(self.loadBalancerSourceRanges))",
                "service.loadBalancerClass and service.loadBalancerSourceRanges require type LoadBalancer",
            ),
            (
                "self.type != 'ClusterIP' || !has(self.externalTrafficPolicy)",
                "service.externalTrafficPolicy requires type NodePort or LoadBalancer",
            ),
            (
                "self.type != 'LoadBalancer' || oldSelf.type != 'LoadBalancer' || "
                "(has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass) && "
                "(!has(self.loadBalancerClass) || self.loadBalancerClass == oldSelf.loadBalancerClass))",
                "service.loadBalancerClass is immutable while type is LoadBalancer. Change the type to ClusterIP first",
            ),
        )
    )

    type: ServiceType = ServiceType.CLUSTER_IP
    """Type of the Service."""
    annotations: ServiceAnnotations | None = None
    """Annotations of the Service. If unset, the Service has only those of the operator."""
    node_ports: ProxyNodePorts | None = None
    """Fixed node ports, which types NodePort and LoadBalancer use. If unset, Kubernetes chooses the node ports."""
    load_balancer_class: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Implementation of the load balancer that type LoadBalancer uses. If unset, the default of the cloud is used."""
    load_balancer_source_ranges: (
        Annotated[list[Annotated[str, Field(max_length=64, pattern=CIDR)]], Field(max_length=64)] | None
    ) = None
    """Networks that may connect through type LoadBalancer, such as 10.0.0.0/8, if the load balancer supports it. If
    unset, all networks may connect."""
    external_traffic_policy: TrafficPolicy | None = None
    """With Local, a connection stays on the node that receives it and keeps the address of the client. With Cluster,
    any pod may serve it. If unset, Kubernetes uses Cluster."""
