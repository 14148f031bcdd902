"""Renders the brokers."""

from __future__ import annotations

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import Broker
from pulsar_operator.api.v1alpha1.load_balancing import LoadManager
from pulsar_operator.domain.render.addresses import StoreAddress
from pulsar_operator.domain.render.common import (
    RENDERED_FOLDER,
    Manifest,
    Probes,
)
from pulsar_operator.domain.render.external_listeners import listener_services
from pulsar_operator.domain.render.inputs import ClusterInputs
from pulsar_operator.domain.render.lifetime import shutdown_seconds
from pulsar_operator.domain.render.listeners import http_probe, tcp_probe
from pulsar_operator.domain.render.pod_racks import broker_racks
from pulsar_operator.domain.render.quorum import Quorum
from pulsar_operator.domain.render.security import Security, broker_security
from pulsar_operator.domain.render.workloads import component_workload, manifests

GRACE_SECONDS = 90
"""Termination grace period in seconds. A broker has two thirds of it to hand over its bundles."""

LOAD_MANAGER_KEY = "loadManagerClassName"
_BALANCE = "org.apache.pulsar.broker.loadbalance"


def balancer_config(manager: LoadManager) -> dict[str, str]:
    """Returns the class of the load manager. The extensible one needs its own shedder: otherwise Pulsar falls back to
    it with a warning if the configured one belongs to the modular manager."""
    if manager is LoadManager.EXTENSIBLE:
        return {
            LOAD_MANAGER_KEY: f"{_BALANCE}.extensions.ExtensibleLoadManagerImpl",
            "loadBalancerLoadSheddingStrategy": f"{_BALANCE}.extensions.scheduler.TransferShedder",
        }
    return {LOAD_MANAGER_KEY: f"{_BALANCE}.impl.ModularLoadManagerImpl"}


def recommended_config(manager: LoadManager) -> dict[str, str]:
    """Returns the settings that the operator recommends and that a user may override."""
    return {
        # Pulsar's default deletes an idle declared topic, and the operator would create it again for ever.
        "brokerDeleteInactiveTopicsEnabled": "false",
        **balancer_config(manager),
    }


STATUS_PAGE = "/status.html"
"""Page that answers 200 if the broker has started, no thread is deadlocked and the file of statusFilePath exists. It is
the one page of brokers that needs no token."""


def broker_probes(security: Security | None) -> Probes:
    """Returns the probes of brokers, or of a standalone pod. The kubelet has no token."""
    started = http_probe("/admin/v2/brokers/ready" if security is None else STATUS_PAGE)
    return Probes(readiness=started, liveness=tcp_probe(), startup=started, startup_seconds=600)


def status_file(security: Security | None, name: str) -> dict[str, str]:
    """Returns the setting without which the status page never answers 200: a file that every running pod has."""
    return {} if security is None else {"statusFilePath": f"{RENDERED_FOLDER}/{name}"}


def render_broker(
    inputs: ClusterInputs, broker: Broker, *, store: StoreAddress, configuration: StoreAddress, quorum: Quorum
) -> list[Manifest]:
    """Returns the ConfigMap, Services, PodDisruptionBudget and StatefulSet of the brokers.

    Liveness only checks the web port. Every health endpoint also requests the metadata store, and an outage of that
    store must not restart all brokers, since loaded topics continue to be served without it. A broker that loses its
    session for good ends without a probe.
    """
    spec = inputs.spec
    owned = {
        "clusterName": inputs.cluster_name,
        "metadataStoreUrl": store.url,
        "configurationMetadataStoreUrl": configuration.url,
        **quorum.settings(),
        **broker_racks(spec.bookkeeper),
        "brokerShutdownTimeoutMs": str(shutdown_seconds(broker.pod, GRACE_SECONDS) * 1000),
        "functionsWorkerEnabled": "false",
        **broker_security(inputs.security, inputs.owner),
    }
    if broker.max_message_size is not None:
        # Frames on the wire, to bookies too, follow from it inside the broker.
        owned["maxMessageSize"] = str(broker.max_message_size)
    workload = component_workload(
        inputs,
        Component.BROKER,
        broker,
        recommended_config(spec.load_balancing.manager) | status_file(inputs.security, "broker.conf"),
        broker.config,
        owned,
        replicas=broker.replicas,
        probes=broker_probes(inputs.security),
        grace_seconds=GRACE_SECONDS,
        token_audience=inputs.token_audience,
    )
    services = listener_services(workload.listeners, spec.platform, max(inputs.brokers, broker.replicas))
    return manifests(workload, exposed=broker.service, services=services)
