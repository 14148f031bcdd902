"""Inputs and results of rendering. The controllers build the inputs and apply the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import ClusterMode, PulsarClusterSpec
from pulsar_operator.api.v1alpha1.images import Images
from pulsar_operator.api.v1alpha1.tls import EdgeMode
from pulsar_operator.domain.render.addresses import StoreAddress
from pulsar_operator.domain.render.child_names import Owner
from pulsar_operator.domain.render.common import Manifest
from pulsar_operator.domain.render.listeners import ListenerPlan
from pulsar_operator.domain.render.quorum import Quorum
from pulsar_operator.domain.render.security import Security

BRING_UP_ORDER = (
    Component.ZOOKEEPER,
    Component.BOOKIE,
    Component.AUTORECOVERY,
    Component.BROKER,
    Component.PROXY,
    Component.STANDALONE,
)
"""Order in which components are started and rolled out."""


@dataclass(frozen=True)
class ImageTemplates:
    """Default images, in which ``{version}`` is replaced by the Pulsar version."""

    broker: str
    """Image of brokers and standalone pods."""
    bookie: str
    """Image of bookies, auto-recovery and ZooKeeper."""
    proxy: str

    def resolve(self, component: Component, version: str, overrides: Images | None = None) -> str:
        """Returns the image of a component: the override unchanged, or the default with the version."""
        if component is Component.PROXY:
            override, default = overrides.proxy if overrides else None, self.proxy
        elif component in (Component.BROKER, Component.STANDALONE):
            override, default = overrides.broker if overrides else None, self.broker
        else:
            override, default = overrides.bookie if overrides else None, self.bookie
        return override or default.replace("{version}", version)


def declared_edge(spec: PulsarClusterSpec) -> EdgeMode:
    """Returns which connections proxies accept by the specification."""
    return spec.tls.edge.mode if spec.tls is not None and spec.tls.edge is not None else EdgeMode.PLAIN


@dataclass(frozen=True)
class ClusterInputs:
    """A PulsarCluster, and the facts outside of it that rendering needs."""

    owner: Owner
    spec: PulsarClusterSpec
    images: ImageTemplates
    configuration_store: StoreAddress | None = None
    """The instance's configuration store; None if it is this cluster's own metadata store."""
    super_digest_secret: str | None = None
    """Secret with the superuser of a managed ZooKeeper, under SUPER_DIGEST_KEY; None for no superuser."""
    capacities: str = ""
    """CPU of the brokers if they differ, in the format of option --capacities of the sizing job."""
    brokers: int = 0
    """Number of brokers that have or had a pod: they keep the Services of external listeners."""
    quorum: Quorum | None = None
    """Quorums of existing ledgers; None if the cluster starts for the first time."""
    security: Security | None = None
    """Authentication and authorization of the instance; None if it has none."""
    edge: EdgeMode | None = None
    """Which connections proxies accept while they change to the mode of the specification; None for that mode."""

    @property
    def token_audience(self) -> str | None:
        """Returns the audience of the tokens of clients; None without authentication."""
        return self.security.audience if self.security is not None else None

    @property
    def cluster_name(self) -> str:
        """Returns the name of the cluster in Pulsar."""
        return self.spec.cluster_name or self.owner.name

    @property
    def standalone(self) -> bool:
        """Whether the cluster has mode Standalone, with a single pod."""
        return self.spec.mode is ClusterMode.STANDALONE

    def listeners(self, component: Component) -> ListenerPlan:
        """Returns the listener plan of a component."""
        external = tuple(self.spec.listeners or ()) if component is Component.BROKER else ()
        edge, declared = self.edge or declared_edge(self.spec), self.spec.tls.edge if self.spec.tls else None
        host = declared.host if declared is not None and component is Component.PROXY else None
        domain = self.spec.cluster_domain
        return ListenerPlan(self.owner, component, domain, external=external, edge=edge, edge_host=host)

    def image(self, component: Component) -> str:
        """Returns the image of a component."""
        return self.images.resolve(component, self.spec.version, self.spec.image)


@dataclass(frozen=True)
class ClusterEndpoints:
    """URLs for use inside Kubernetes, all with full host names."""

    service_url: str
    """Binary protocol for clients: the proxies if there are any, otherwise the brokers."""
    web_service_url: str
    """Admin REST for clients: the proxies if there are any, otherwise the brokers."""
    broker_service_url: str
    """Binary protocol of the brokers, for ClusterData."""
    broker_web_service_url: str
    """Admin REST of the brokers, for ClusterData and for the operator's calls."""
    token_audience: str | None = None
    """Audience of the tokens of ServiceAccounts that all of them accept; None without authentication."""
    service_url_tls: str | None = None
    """Binary protocol with TLS for clients; None if there are no proxies with TLS."""
    web_service_url_tls: str | None = None
    """Admin REST with TLS for clients; None if there are no proxies with TLS."""


@dataclass(frozen=True)
class RenderedCluster:
    """Manifests by component, in start order. Within a component the StatefulSet is last."""

    shared: list[Manifest]
    """Manifests that are applied first: the ServiceAccount."""
    components: Mapping[Component, list[Manifest]]
    """Manifests of the components that the cluster has; iterate with :meth:`ordered`."""
    endpoints: ClusterEndpoints
    metadata_store: StoreAddress | None = None
    """The cluster's metadata store, for sessions of the operator and as a configuration store of others; None in mode
    Standalone."""
    configuration_store: StoreAddress | None = None
    """The configuration store of the brokers; None in mode Standalone."""
    bookie_ids: tuple[str, ...] = ()
    """Ids with which the bookies register, by ordinal."""
    quorum: Quorum | None = None
    """Quorums of the brokers; None in mode Standalone."""

    def ordered(self) -> list[tuple[Component, list[Manifest]]]:
        """Returns the components in start order with their manifests."""
        return [(component, self.components[component]) for component in BRING_UP_ORDER if component in self.components]

    def of(self, component: Component) -> list[Manifest]:
        """Returns the manifests of one component; empty if the cluster does not have it."""
        return self.components.get(component, [])

    def all(self) -> list[Manifest]:
        """Returns every manifest in the order of application."""
        return [*self.shared, *(manifest for _, manifests in self.ordered() for manifest in manifests)]


@dataclass(frozen=True)
class RenderedStore:
    """A managed configuration store."""

    manifests: list[Manifest]
    """Manifests in the order of application."""
    address: StoreAddress
    """Address for clients of the store."""
