"""Auto-recovery: auditor and replication workers. They run apart from the bookies so that repair does not compete with
them."""

from __future__ import annotations

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import BookKeeper
from pulsar_operator.domain.render.addresses import StoreAddress
from pulsar_operator.domain.render.bookie import bookkeeper_config
from pulsar_operator.domain.render.common import (
    Manifest,
    Probes,
)
from pulsar_operator.domain.render.config import for_autorecovery
from pulsar_operator.domain.render.inputs import ClusterInputs
from pulsar_operator.domain.render.listeners import http_probe
from pulsar_operator.domain.render.pod_racks import copying_racks
from pulsar_operator.domain.render.workloads import component_workload, manifests


def render_autorecovery(inputs: ClusterInputs, bookkeeper: BookKeeper, store: StoreAddress) -> list[Manifest]:
    """Returns the ConfigMap, headless Service and StatefulSet. There is no PodDisruptionBudget by default, because
    every pod can do all the work alone.

    Of spec.bookkeeper.config it gets the keys that only auto-recovery reads.
    """
    spec, desired = inputs.spec, bookkeeper.auto_recovery
    workload = component_workload(
        inputs,
        Component.AUTORECOVERY,
        desired,
        for_autorecovery(bookkeeper.config),
        copying_racks(bookkeeper),
        bookkeeper_config(store, spec.broker.max_message_size if spec.broker else None),
        replicas=desired.replicas,
        probes=Probes(
            readiness=http_probe("/heartbeat"),
            liveness=http_probe("/heartbeat"),
            startup=http_probe("/heartbeat"),
        ),
        grace_seconds=30,
    )
    return manifests(workload, usual_budget=False)
