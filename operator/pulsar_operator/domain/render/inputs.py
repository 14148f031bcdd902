"""What rendering starts from, and what comes out. The controllers build the first and apply the second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import ClusterMode, PulsarClusterSpec
from pulsar_operator.api.v1alpha1.images import Images
from pulsar_operator.domain.render.addresses import StoreAddress
from pulsar_operator.domain.render.child_names import Owner
from pulsar_operator.domain.render.common import Manifest
from pulsar_operator.domain.render.quorum import Quorum

BRING_UP_ORDER = (
    Component.ZOOKEEPER,
    Component.BOOKIE,
    Component.AUTORECOVERY,
    Component.BROKER,
    Component.PROXY,
    Component.STANDALONE,
)
"""Order in which components are started, and rolled."""


@dataclass(frozen=True)
class ImageTemplates:
    """Default images; ``{version}`` is replaced by the Pulsar version."""

    broker: str
    """Brokers and standalone pods."""
    bookie: str
    """Bookies, auto-recovery and ZooKeeper."""
    proxy: str

    def resolve(self, component: Component, version: str, overrides: Images | None = None) -> str:
        """Image of a component: the override as it is, or the default with the version put in."""
        if component is Component.PROXY:
            override, default = overrides.proxy if overrides else None, self.proxy
        elif component in (Component.BROKER, Component.STANDALONE):
            override, default = overrides.broker if overrides else None, self.broker
        else:
            override, default = overrides.bookie if overrides else None, self.bookie
        return override or default.replace("{version}", version)


@dataclass(frozen=True)
class ClusterInputs:
    """A PulsarCluster and what rendering it needs from elsewhere."""

    owner: Owner
    spec: PulsarClusterSpec
    images: ImageTemplates
    configuration_store: StoreAddress | None = None
    """The instance's configuration store; None if this cluster's own metadata store."""
    super_digest_secret: str | None = None
    """Secret with the superuser of a managed ZooKeeper, under SUPER_DIGEST_KEY; None if no superuser."""
    capacities: str = ""
    """CPU of the brokers where they differ, as option --capacities of the sizing job takes it."""
    quorum: Quorum | None = None
    """Quorums that ledgers have had so far; None if the cluster is brought up for the first time."""

    @property
    def cluster_name(self) -> str:
        """Name of the cluster inside Pulsar."""
        return self.spec.cluster_name or self.owner.name

    @property
    def standalone(self) -> bool:
        """Whether the cluster is one pod."""
        return self.spec.mode is ClusterMode.STANDALONE

    def image(self, component: Component) -> str:
        """Image of a component."""
        return self.images.resolve(component, self.spec.version, self.spec.image)


@dataclass(frozen=True)
class ClusterEndpoints:
    """URLs inside Kubernetes, all with full host names."""

    service_url: str
    """Binary protocol for clients: the proxies where there are any, else the brokers."""
    web_service_url: str
    """Admin REST for clients: the proxies where there are any, else the brokers."""
    broker_service_url: str
    """Binary protocol of the brokers; goes into ClusterData."""
    broker_web_service_url: str
    """Admin REST of the brokers; goes into ClusterData and is what the operator calls."""


@dataclass(frozen=True)
class RenderedCluster:
    """Manifests by component, in bring-up order; within a component the StatefulSet comes last."""

    shared: list[Manifest]
    """Applied first: the ServiceAccount."""
    components: Mapping[Component, list[Manifest]]
    """Only components the cluster has; iterate with :meth:`ordered`."""
    endpoints: ClusterEndpoints
    metadata_store: StoreAddress | None = None
    """The local store, for sessions of the operator and as a configuration store of others; None in mode Standalone."""
    configuration_store: StoreAddress | None = None
    """The store the brokers were given; None in mode Standalone."""
    bookie_ids: tuple[str, ...] = ()
    """Ids the bookies register with, by ordinal."""
    quorum: Quorum | None = None
    """Quorums that the brokers are given; None in mode Standalone."""

    def ordered(self) -> list[tuple[Component, list[Manifest]]]:
        """Components in bring-up order with their manifests."""
        return [(component, self.components[component]) for component in BRING_UP_ORDER if component in self.components]

    def of(self, component: Component) -> list[Manifest]:
        """Manifests of one component; empty when the cluster has none."""
        return self.components.get(component, [])

    def all(self) -> list[Manifest]:
        """Every manifest in the order of application."""
        return [*self.shared, *(manifest for _, manifests in self.ordered() for manifest in manifests)]


@dataclass(frozen=True)
class RenderedStore:
    """A managed configuration store."""

    manifests: list[Manifest]
    """In the order of application."""
    address: StoreAddress
    """Where clients of the store connect."""
