"""Auto-recovery: auditor and replication workers, apart from the bookies so that repair does not compete with them."""

from __future__ import annotations

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import BookKeeper
from pulsar_operator.domain.render.addresses import StoreAddress
from pulsar_operator.domain.render.bookie import bookkeeper_config
from pulsar_operator.domain.render.common import (
    Manifest,
    Probes,
    Workload,
    conf_value,
    config_map,
    http_get,
    own_account,
    stateful_set,
)
from pulsar_operator.domain.render.config import for_autorecovery, layered
from pulsar_operator.domain.render.inputs import ClusterInputs
from pulsar_operator.domain.render.presets import container_resources, jvm_arguments, preset_values
from pulsar_operator.domain.render.racks import copying_racks
from pulsar_operator.domain.render.services import disruption_budget, headless_service

PORTS = {"http": 8000}


def render_autorecovery(inputs: ClusterInputs, bookkeeper: BookKeeper, store: StoreAddress) -> list[Manifest]:
    """ConfigMap, headless Service and StatefulSet; no PDB of itself, because every pod can do all the work
    alone.

    Of spec.bookkeeper.config it gets the keys only auto-recovery reads.
    """
    spec, preset, wanted = inputs.spec, inputs.spec.preset, bookkeeper.auto_recovery
    base = Workload(
        owner=inputs.owner,
        component=Component.AUTORECOVERY,
        cluster_domain=spec.cluster_domain,
        platform=spec.platform,
        replicas=wanted.replicas,
        image=inputs.image(Component.AUTORECOVERY),
        pull_policy=spec.image.pull_policy.value,
        pull_secrets=spec.image.pull_secrets,
        config=layered(
            preset_values(preset).config.get(Component.AUTORECOVERY),
            for_autorecovery(bookkeeper.config),
            copying_racks(bookkeeper),
            bookkeeper_config(store, spec.broker.max_message_size if spec.broker else None),
        ),
        jvm=jvm_arguments(Component.AUTORECOVERY, preset, wanted.jvm),
        resources=container_resources(Component.AUTORECOVERY, preset, wanted.jvm, wanted.resources),
        ports=PORTS,
        probes=Probes(
            readiness=http_get("/heartbeat", "http"),
            liveness=http_get("/heartbeat", "http"),
            startup=http_get("/heartbeat", "http"),
        ),
        pod=wanted.pod,
        grace_seconds=30,
    )
    # The auditor is elected under this name.
    workload = base.with_env(conf_value("advertisedAddress", base.pod_host_template))
    settings = config_map(workload)
    return [
        *own_account(workload),
        settings,
        headless_service(workload),
        *disruption_budget(workload, evict_unhealthy=True, usual=False),
        stateful_set(workload, settings["data"]),
    ]
