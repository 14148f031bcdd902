"""External listeners: how clients outside of the cluster's network reach brokers without a proxy."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, validations
from pulsar_operator.api.v1alpha1.services import CIDR, ServiceAnnotations, TrafficPolicy

INTERNAL = "internal"
"""Name of the listener of brokers, proxies and other clusters, which every broker has."""
ORDINAL = "{ordinal}"
"""Part of an address template that stands for the ordinal of the broker."""
TAKEN_NAMES = (INTERNAL, "pulsar", "http", "headless")
TAKEN_PORTS = "6650, 6651, 8080, 8443"
_NAME = r"[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?"
_HOST = rf"({_NAME}|\[[0-9a-fA-F:.]+\])"
_PORT = r":[1-9][0-9]{0,4}"
HOST = rf"^{_HOST}$"
ADDRESS = rf"^{_HOST}{_PORT}$"
TEMPLATE = rf"^[-a-zA-Z0-9.]*\{{ordinal\}}[-a-zA-Z0-9.]*{_PORT}$"

LISTENER_RULES = (
    (
        "!has(self.listeners) || self.mode != 'Standalone'",
        "spec.listeners is allowed only in mode Distributed. In mode Standalone, set advertisedAddress in "
        "spec.standalone.config",
    ),
    (
        "!has(self.listeners) || self.listeners.all(l, !has(l.port) || "
        "self.listeners.exists_one(m, has(m.port) && m.port == l.port))",
        "spec.listeners has two listeners with the same port. Choose another port for one of them",
    ),
    (
        "!has(self.listeners) || !has(self.broker) || self.listeners.all(l, !has(l.addresses) || "
        "l.addresses.size() >= (has(self.broker.autoscaling) ? self.broker.autoscaling.maxReplicas : "
        "self.broker.replicas))",
        "spec.listeners[].addresses has fewer addresses than the cluster may have brokers (spec.broker.replicas, or "
        "spec.broker.autoscaling.maxReplicas). Add addresses, or set addressTemplate instead",
    ),
)
"""CEL rules of the cluster's specification."""


class ListenerType(StrEnum):
    """How the addresses of a listener are determined."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"
    GIVEN = "Given"


Host = Annotated[str, Field(min_length=1, max_length=253, pattern=HOST)]
Address = Annotated[str, Field(min_length=3, max_length=259, pattern=ADDRESS)]


class Listener(ApiModel):
    """An external listener of the brokers. Each broker has its own Service and address, and the bootstrap Service leads
    to all brokers."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                f"!(self.name in {list(TAKEN_NAMES)!r})",
                f"spec.listeners[].name must not be one of {', '.join(TAKEN_NAMES)}, which name other ports or "
                "Services of the brokers. Choose another name",
            ),
            (
                f"!(self.port in [{TAKEN_PORTS}])",
                f"spec.listeners[].port must not be one of {TAKEN_PORTS}, which other listeners of brokers use. Choose "
                "another port",
            ),
            (
                "(self.type == 'NodePort') == has(self.host)",
                "spec.listeners[].host is required with type NodePort and must not be set with other types. With type "
                "NodePort, set it to a name or address by which clients reach the nodes",
            ),
            (
                "self.type == 'Given' ? has(self.addresses) != has(self.addressTemplate) : "
                "(!has(self.addresses) && !has(self.addressTemplate))",
                "Type Given in spec.listeners[] requires exactly one of addresses and addressTemplate, and other types "
                "allow neither. Set or remove these fields, or change the type",
            ),
            (
                "self.type == 'LoadBalancer' || (!has(self.loadBalancerClass) && !has(self.loadBalancerSourceRanges) "
                "&& !has(self.externalTrafficPolicy))",
                "loadBalancerClass, loadBalancerSourceRanges and externalTrafficPolicy in spec.listeners[] require "
                "type LoadBalancer. Remove them, or change the type",
            ),
            (
                "(has(self.tls) && self.tls) == (has(oldSelf.tls) && oldSelf.tls) && (!has(self.port) || "
                "!has(oldSelf.port) || self.port == oldSelf.port) && (!has(self.type) || !has(oldSelf.type) || "
                "self.type == oldSelf.type)",
                "spec.listeners[].type, port and tls are immutable, because the clients of the listener would be "
                "refused. Add another listener with the other values, and remove this one once no client uses it",
            ),
        )
    )

    name: Annotated[str, Field(min_length=1, max_length=10, pattern=r"^[a-z][a-z0-9]*$")]
    """Name of the listener in Pulsar (advertisedListeners), of the port, and the last part of the Services' names."""
    type: ListenerType
    """How clients reach the brokers. With ClusterIP, NodePort and LoadBalancer, the operator creates Services of that
    type. Clients must be able to resolve the names of ClusterIP Services. With Given, the operator creates ClusterIP
    Services, and a gateway outside of the operator forwards the addresses in addresses or addressTemplate to them."""
    port: Annotated[int, Field(ge=1024, le=65535)]
    """Port that the brokers and the Services use for the listener."""
    tls: bool = False
    """Whether the listener accepts connections with TLS only, with the certificate of spec.tls.edge. If false, it
    accepts connections without TLS only."""
    host: Host | None = None
    """Name or address of the nodes, which brokers advertise with their node ports. Required with type NodePort."""
    addresses: (
        Annotated[
            list[Address],
            Field(min_length=1, max_length=1024, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Address of each broker as host:port, in the order of their ordinals, with type Given. If unset, addressTemplate
    determines the addresses."""
    address_template: Annotated[str, Field(min_length=3, max_length=259, pattern=TEMPLATE)] | None = None
    """Address of each broker as host:port, in which {ordinal} stands for the ordinal of the broker, with type Given. If
    unset, addresses determines the addresses."""
    annotations: ServiceAnnotations | None = None
    """Annotations of the Services. If unset, the Services have only those of the operator."""
    load_balancer_class: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Implementation of the load balancers. If unset, the default of the cloud is used."""
    load_balancer_source_ranges: (
        Annotated[list[Annotated[str, Field(max_length=64, pattern=CIDR)]], Field(max_length=64)] | None
    ) = None
    """Networks that may connect through the load balancers, such as 10.0.0.0/8, if the load balancers support it. If
    unset, all networks may connect."""
    external_traffic_policy: TrafficPolicy | None = None
    """With Local, a connection stays on the node that receives it and keeps the address of the client. If unset,
    Kubernetes uses Cluster."""


Listeners = Annotated[
    list[Listener],
    Field(
        min_length=1,
        max_length=8,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    ),
]
