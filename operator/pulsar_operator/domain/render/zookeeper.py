"""Renders ZooKeeper: metadata stores of clusters and configuration stores of instances."""

from __future__ import annotations

from dataclasses import replace

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import Preset
from pulsar_operator.api.v1alpha1.images import Pulling
from pulsar_operator.api.v1alpha1.instance import ManagedZooKeeper
from pulsar_operator.api.v1alpha1.platform import Platform
from pulsar_operator.domain.render.addresses import StoreAddress
from pulsar_operator.domain.render.child_names import Owner, workload_name
from pulsar_operator.domain.render.common import (
    START,
    Claim,
    Manifest,
    Probes,
    Workload,
    env_value,
)
from pulsar_operator.domain.render.config import layered
from pulsar_operator.domain.render.listeners import HTTP, METRICS_PORTS, ListenerPlan, tcp_probe
from pulsar_operator.domain.render.presets import container_resources, jvm_arguments, preset_values
from pulsar_operator.domain.render.volumes import store_limits
from pulsar_operator.domain.render.workloads import manifests

SUPER_DIGEST_KEY = "digest"
"""Key in the superuser Secret, whose value has ZooKeeper's format: ``super:<base64 of SHA-1>``."""
FOUNDED_KEY = "founded"
"""Key in the ConfigMap that records that an ensemble was initialized."""
METRICS = {
    "metricsProvider.className": "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
    "metricsProvider.httpPort": str(METRICS_PORTS[HTTP]),
}
"""Settings without which a server exposes no metrics (ZooKeeper Monitor Guide, "New Metrics System")."""


def render_zookeeper(
    owner: Owner,
    component: Component,
    store: ManagedZooKeeper,
    *,
    image: str,
    images: Pulling,
    preset: Preset,
    cluster_domain: str,
    super_digest_secret: str | None,
    platform: Platform,
) -> list[Manifest]:
    """Returns the ConfigMap, Services, PodDisruptionBudget and StatefulSet of an ensemble.

    Readiness checks whether the server serves (a quorum exists), liveness only whether the process listens: a server
    without a quorum must stay up, or no quorum could form.
    """
    workload = Workload(
        listeners=ListenerPlan(owner, component, cluster_domain, metrics=store.metrics),
        run_as="zookeeper",
        platform=platform,
        replicas=store.replicas,
        image=image,
        pull_policy=images.pull_policy.value,
        pull_secrets=images.pull_secrets,
        config=layered(preset_values(preset).config.get(component), store_limits(store), store.config, _metrics(store)),
        jvm=jvm_arguments(component, preset, store.jvm),
        resources=container_resources(component, preset, store.jvm, store.resources),
        probes=Probes(
            readiness={"exec": {"command": [*START, "probe", "zookeeper"]}},
            liveness=tcp_probe("client"),
            startup=tcp_probe("client"),
        ),
        pod=store.pod,
        claims=(Claim("data", "/pulsar/data/zookeeper", str(store.storage.size), store.storage.storage_class_name),),
        grace_seconds=30,
    )
    env = [
        env_value("ZOO_REPLICAS", str(store.replicas)),
        env_value("ZOO_DOMAIN", workload.listeners.headless_host),
        env_value("ZOO_STS_NAME", workload.name),
        *_super_digest(super_digest_secret),
        # Read at each start of a container: what it says may change without another revision of the pods.
        {
            "name": "ZOO_FOUNDED",
            "valueFrom": {
                "configMapKeyRef": {"name": founded_name(owner.name, component), "key": FOUNDED_KEY, "optional": True}
            },
        },
    ]
    # Not ready is not dead: evicting an unready server could take the quorum's last log.
    return manifests(replace(workload, env=env), evict_unhealthy=False)


def founded_name(owner: str, component: Component) -> str:
    """Returns the name of the ConfigMap that records that an ensemble was initialized. ``owner`` is the metadata.name
    of its object."""
    return f"{workload_name(owner, component)}-founded"


def store_address(owner: Owner, component: Component, cluster_domain: str) -> StoreAddress:
    """Returns the address of the client Service. The Service is never called just ``zk``, which Pulsar would parse as
    the scheme."""
    return StoreAddress(ListenerPlan(owner, component, cluster_domain).store_servers)


def _metrics(store: ManagedZooKeeper) -> dict[str, str]:
    return METRICS if store.metrics else {}


def _super_digest(secret: str | None) -> list[Manifest]:
    if secret is None:
        return []
    reference = {"name": secret, "key": SUPER_DIGEST_KEY}
    return [{"name": "ZOO_SUPER_DIGEST", "valueFrom": {"secretKeyRef": reference}}]
