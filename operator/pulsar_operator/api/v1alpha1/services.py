"""Services in front of brokers, proxies and standalone pods."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, validations

CIDR = r"^[0-9a-fA-F.:]+/[0-9]{1,3}$"


class ServiceType(StrEnum):
    """Kubernetes Service types a proxy can have."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class TrafficPolicy(StrEnum):
    """Where connections from outside are sent; as in a Service."""

    CLUSTER = "Cluster"
    LOCAL = "Local"


class ProxyNodePorts(ApiModel):
    """Fixed node ports; absent = Kubernetes chooses."""

    pulsar: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Node port of the binary protocol."""
    http: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Node port of the web service."""


ServiceAnnotations = Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=64)]


class BrokerService(ApiModel):
    """The Service in front of the brokers, inside Kubernetes."""

    annotations: ServiceAnnotations | None = None
    """Annotations of the Service."""


class ProxyService(ApiModel):
    """The Service in front of the proxies."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "self.type == 'LoadBalancer' || (!has(self.loadBalancerClass) && !has(self.loadBalancerSourceRanges))",
                "service.loadBalancerClass and service.loadBalancerSourceRanges need type LoadBalancer",
            ),
            (
                "self.type != 'ClusterIP' || !has(self.externalTrafficPolicy)",
                "service.externalTrafficPolicy needs type NodePort or LoadBalancer",
            ),
            (
                "self.type != 'LoadBalancer' || oldSelf.type != 'LoadBalancer' || "
                "(has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass) && "
                "(!has(self.loadBalancerClass) || self.loadBalancerClass == oldSelf.loadBalancerClass))",
                "service.loadBalancerClass is immutable while type is LoadBalancer: change the type to ClusterIP first",
            ),
        )
    )

    type: ServiceType = ServiceType.CLUSTER_IP
    """Kind of Service."""
    annotations: ServiceAnnotations | None = None
    """Annotations of the Service."""
    node_ports: ProxyNodePorts | None = None
    """Fixed node ports for types NodePort and LoadBalancer."""
    load_balancer_class: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Which implementation makes the load balancer; absent = the cloud's default."""
    load_balancer_source_ranges: (
        Annotated[list[Annotated[str, Field(max_length=64, pattern=CIDR)]], Field(max_length=64)] | None
    ) = None
    """Networks that may connect, such as 10.0.0.0/8, where the load balancer can tell; absent = all."""
    external_traffic_policy: TrafficPolicy | None = None
    """Local: connections stay on the node they come to, and keep the client's address. Absent = Cluster."""
