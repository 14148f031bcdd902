"""Protocols for everything that controllers use outside of this process. Adapters implement them; tests use fakes.

Rules for every implementation: no call blocks the event loop, every call has a deadline, errors are the ones declared
here, and results are plain data. The same contract tests run against each fake and the real implementation.
"""

from pulsar_operator.ports.admin import AdminAccess, AdminEndpoint, PulsarAdminPort
from pulsar_operator.ports.bookies import BookiePort, DiskInfo
from pulsar_operator.ports.counters import CountersPort, Scrape
from pulsar_operator.ports.deps import Deps, OperatorImages
from pulsar_operator.ports.errors import (
    AccessError,
    AuthenticationError,
    AuthorizationError,
    ConflictError,
    DeadlineError,
    ForbiddenError,
    NotFoundError,
    NotServedError,
    PortError,
    RefusedError,
    ServerError,
    UnavailableError,
    UnownedError,
)
from pulsar_operator.ports.kube import (
    CONFIG_MAPS,
    CUSTOM,
    EVENTS,
    NAMESPACES,
    NODES,
    OPTIONAL,
    PDBS,
    PODS,
    PVCS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Json,
    Key,
    KubePort,
    ReaderPort,
    ResourceType,
)
from pulsar_operator.ports.process import Clock, Entropy, MetricsPort
from pulsar_operator.ports.sizing import SizingPort
from pulsar_operator.ports.zookeeper import Node, ZooKeeperPort, ZooKeeperSession

__all__ = [
    "CONFIG_MAPS",
    "CUSTOM",
    "EVENTS",
    "NAMESPACES",
    "NODES",
    "OPTIONAL",
    "PDBS",
    "PODS",
    "PVCS",
    "SECRETS",
    "SERVICES",
    "SERVICE_ACCOUNTS",
    "STATEFUL_SETS",
    "AccessError",
    "AdminAccess",
    "AdminEndpoint",
    "AuthenticationError",
    "AuthorizationError",
    "BookiePort",
    "Clock",
    "ConflictError",
    "CountersPort",
    "DeadlineError",
    "Deps",
    "DiskInfo",
    "Entropy",
    "ForbiddenError",
    "Json",
    "Key",
    "KubePort",
    "MetricsPort",
    "Node",
    "NotFoundError",
    "NotServedError",
    "OperatorImages",
    "PortError",
    "PulsarAdminPort",
    "ReaderPort",
    "RefusedError",
    "ResourceType",
    "Scrape",
    "ServerError",
    "SizingPort",
    "UnavailableError",
    "UnownedError",
    "ZooKeeperPort",
    "ZooKeeperSession",
]
