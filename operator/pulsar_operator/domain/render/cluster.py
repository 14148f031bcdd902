"""Renders a cluster from its components."""

from __future__ import annotations

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import Preset
from pulsar_operator.api.v1alpha1.cluster import BookKeeper, Broker, Standalone
from pulsar_operator.api.v1alpha1.images import Pulling
from pulsar_operator.api.v1alpha1.instance import ManagedZooKeeper
from pulsar_operator.api.v1alpha1.platform import Platform
from pulsar_operator.domain.render.addresses import StoreAddress
from pulsar_operator.domain.render.autorecovery import render_autorecovery
from pulsar_operator.domain.render.bookie import render_bookie
from pulsar_operator.domain.render.broker import render_broker
from pulsar_operator.domain.render.child_names import Owner
from pulsar_operator.domain.render.common import Manifest, metadata, service_account
from pulsar_operator.domain.render.inputs import ClusterEndpoints, ClusterInputs, RenderedCluster, RenderedStore
from pulsar_operator.domain.render.proxy import render_proxy
from pulsar_operator.domain.render.quorum import resolve_quorum
from pulsar_operator.domain.render.standalone import render_standalone
from pulsar_operator.domain.render.zookeeper import render_zookeeper, store_address


def render_cluster(inputs: ClusterInputs) -> RenderedCluster:
    """Returns every manifest of a cluster. The same inputs give the same manifests.

    Raises ValueError if the spec cannot be rendered; spec_problems returns all of its problems.
    """
    if inputs.standalone:
        return RenderedCluster(
            shared=[service_account(inputs.owner)],
            components={Component.STANDALONE: render_standalone(inputs, inputs.spec.standalone or Standalone())},
            endpoints=_endpoints(inputs, Component.STANDALONE, Component.STANDALONE),
        )
    spec, owner = inputs.spec, inputs.owner
    keeper, broker = spec.bookkeeper or BookKeeper(), spec.broker or Broker()
    store = local_store(inputs)
    configuration = inputs.configuration_store or store
    quorum = resolve_quorum(keeper.ensemble, keeper.replicas, inputs.quorum)
    components: dict[Component, list[Manifest]] = {}
    if spec.metadata_store and spec.metadata_store.managed:
        components[Component.ZOOKEEPER] = render_zookeeper(
            owner,
            Component.ZOOKEEPER,
            spec.metadata_store.managed,
            image=inputs.image(Component.ZOOKEEPER),
            images=spec.image,
            preset=spec.preset,
            cluster_domain=spec.cluster_domain,
            super_digest_secret=inputs.super_digest_secret,
            platform=spec.platform,
        )
    components[Component.BOOKIE] = render_bookie(inputs, keeper, store)
    components[Component.AUTORECOVERY] = render_autorecovery(inputs, keeper, store)
    components[Component.BROKER] = render_broker(
        inputs, broker, store=store, configuration=configuration, quorum=quorum
    )
    if inputs.capacities:
        components[Component.BROKER].insert(0, render_capacities(owner, inputs.capacities))
    if spec.proxy:
        components[Component.PROXY] = render_proxy(inputs, spec.proxy, store=store, configuration=configuration)
    front = Component.PROXY if spec.proxy and spec.proxy.replicas else Component.BROKER
    bookies = inputs.listeners(Component.BOOKIE)
    return RenderedCluster(
        shared=[service_account(owner)],
        components=components,
        endpoints=_endpoints(inputs, front, Component.BROKER),
        metadata_store=store,
        configuration_store=configuration,
        quorum=quorum,
        bookie_ids=tuple(bookies.bookie_id(ordinal) for ordinal in range(keeper.replicas)),
    )


def render_configuration_store(
    owner: Owner,
    store: ManagedZooKeeper,
    *,
    image: str,
    super_digest_secret: str | None,
    images: Pulling | None = None,
    preset: Preset = Preset.PRODUCTION,
    cluster_domain: str = "cluster.local",
    platform: Platform | None = None,
) -> RenderedStore:
    """Returns the ensemble of PulsarInstance.spec.configurationStore.managed, called <instance>-configuration-store."""
    component = Component.CONFIGURATION_STORE
    manifests = render_zookeeper(
        owner,
        component,
        store,
        image=image,
        images=images or Pulling(),
        preset=preset,
        cluster_domain=cluster_domain,
        super_digest_secret=super_digest_secret,
        platform=platform or Platform(),
    )
    account = [] if manifests[0]["kind"] == "ServiceAccount" else [service_account(owner)]
    return RenderedStore([*account, *manifests], store_address(owner, component, cluster_domain))


def local_store(inputs: ClusterInputs) -> StoreAddress:
    """Returns the cluster's own metadata store. Raises ValueError if the spec names none."""
    metadata = inputs.spec.metadata_store
    if metadata and metadata.managed:
        return store_address(inputs.owner, Component.ZOOKEEPER, inputs.spec.cluster_domain)
    if metadata and metadata.external:
        return StoreAddress.of(metadata.external.servers, metadata.external.chroot)
    raise ValueError("spec.metadataStore is not set. Set spec.metadataStore.managed or spec.metadataStore.external")


def _endpoints(inputs: ClusterInputs, front: Component, broker: Component) -> ClusterEndpoints:
    clients, brokers = inputs.listeners(front), inputs.listeners(broker)
    return ClusterEndpoints(
        service_url=clients.service_url,
        web_service_url=clients.web_service_url,
        broker_service_url=brokers.service_url,
        broker_web_service_url=brokers.web_service_url,
        token_audience=inputs.token_audience,
        service_url_tls=clients.service_url_tls,
        web_service_url_tls=clients.web_service_url_tls,
    )


CAPACITIES_KEY = "capacities"
"""Key whose value has the format of option --capacities of the sizing job: NAME=CPU,..., by pod name."""


def capacities_name(cluster: str) -> str:
    """Returns the name of the ConfigMap with the capacities. ``cluster`` is the PulsarCluster's metadata.name."""
    return f"{cluster}-capacities"


def render_capacities(owner: Owner, text: str) -> Manifest:
    """Returns the ConfigMap with the capacities."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, capacities_name(owner.name), Component.BROKER),
        "data": {CAPACITIES_KEY: text},
    }
