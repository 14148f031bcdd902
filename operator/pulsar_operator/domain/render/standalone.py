"""Mode Standalone: metadata, bookie and broker in one pod, for development."""

from __future__ import annotations

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import Standalone
from pulsar_operator.domain.render.broker import GRACE_SECONDS, PORTS
from pulsar_operator.domain.render.common import (
    Claim,
    Manifest,
    Probes,
    Workload,
    conf_value,
    config_map,
    http_get,
    own_account,
    stateful_set,
    tcp,
)
from pulsar_operator.domain.render.config import layered
from pulsar_operator.domain.render.inputs import ClusterInputs
from pulsar_operator.domain.render.lifetime import shutdown_seconds
from pulsar_operator.domain.render.presets import container_resources, jvm_arguments, preset_values
from pulsar_operator.domain.render.services import client_service, disruption_budget, headless_service


def render_standalone(inputs: ClusterInputs, standalone: Standalone) -> list[Manifest]:
    """ConfigMap, Services and StatefulSet of the one pod.

    Its address is the pod's DNS name. Pulsar's default, the pod's IP, goes into the cookie of the embedded bookie,
    which then refuses its volume in the next pod; 127.0.0.1 would be stable too, but look-ups would send clients of the
    Service to themselves. Clients outside Kubernetes cannot resolve the name: for them a user sets advertisedAddress in
    spec.standalone.config, and reaches the pod by port-forward or node port. The bookie keeps the address in its
    cookie, so changing it later is harmless (seen on 4.0.8: same name, other IP, data still readable).
    """
    spec, preset = inputs.spec, inputs.spec.preset
    owned = {
        "clusterName": inputs.cluster_name,
        "brokerServicePort": str(PORTS["pulsar"]),
        "webServicePort": str(PORTS["http"]),
        "brokerShutdownTimeoutMs": str(shutdown_seconds(standalone.pod, GRACE_SECONDS) * 1000),
        "functionsWorkerEnabled": "false",
    }
    base = Workload(
        owner=inputs.owner,
        component=Component.STANDALONE,
        cluster_domain=spec.cluster_domain,
        platform=spec.platform,
        replicas=1,
        image=inputs.image(Component.STANDALONE),
        pull_policy=spec.image.pull_policy.value,
        pull_secrets=spec.image.pull_secrets,
        config=layered(
            preset_values(preset).config.get(Component.STANDALONE),
            # The stock status file is a path of another machine.
            {"brokerDeleteInactiveTopicsEnabled": "false", "statusFilePath": ""},
            standalone.config,
            owned,
        ),
        jvm=jvm_arguments(Component.STANDALONE, preset, standalone.jvm),
        resources=container_resources(Component.STANDALONE, preset, standalone.jvm, standalone.resources),
        ports=PORTS,
        probes=Probes(
            readiness=http_get("/admin/v2/brokers/ready", "http"),
            liveness=tcp("http"),
            startup=http_get("/admin/v2/brokers/ready", "http"),
            startup_seconds=600,
        ),
        pod=standalone.pod,
        claims=(
            Claim(
                "data",
                "/pulsar/data/standalone",
                str(standalone.storage.size),
                standalone.storage.storage_class_name,
            ),
        ),
        grace_seconds=GRACE_SECONDS,
    )
    if "advertisedAddress" in (standalone.config or {}):
        workload = base
    else:
        workload = base.with_env(conf_value("advertisedAddress", base.pod_host_template))
    settings = config_map(workload)
    return [
        *own_account(workload),
        settings,
        headless_service(workload),
        client_service(workload, ("pulsar", "http"), standalone.service),
        *disruption_budget(workload, evict_unhealthy=True, usual=False),
        stateful_set(workload, settings["data"]),
    ]
