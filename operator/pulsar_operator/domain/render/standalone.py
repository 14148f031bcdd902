"""Renders mode Standalone: metadata, bookie and broker in one pod, for development."""

from __future__ import annotations

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import Standalone
from pulsar_operator.domain.render.broker import GRACE_SECONDS, broker_probes, status_file
from pulsar_operator.domain.render.common import Claim, Manifest
from pulsar_operator.domain.render.inputs import ClusterInputs
from pulsar_operator.domain.render.lifetime import shutdown_seconds
from pulsar_operator.domain.render.security import broker_security
from pulsar_operator.domain.render.workloads import component_workload, manifests


def render_standalone(inputs: ClusterInputs, standalone: Standalone) -> list[Manifest]:
    """Returns the ConfigMap, Services and StatefulSet of the single pod.

    Its address is the pod's DNS name. Pulsar's default, the pod's IP, is stored in the cookie of the embedded bookie,
    which then refuses its volume in the next pod. 127.0.0.1 would be stable too, but lookups would redirect clients of
    the Service to themselves. Clients outside Kubernetes cannot resolve the name: for them a user sets
    advertisedAddress in spec.standalone.config, and connects to the pod by port-forward or node port. The bookie keeps
    the address in its cookie, so a later change is harmless (seen on 4.0.8: same name, other IP, data still readable).
    """
    owned = {
        "clusterName": inputs.cluster_name,
        "brokerShutdownTimeoutMs": str(shutdown_seconds(standalone.pod, GRACE_SECONDS) * 1000),
        "functionsWorkerEnabled": "false",
        **broker_security(inputs.security, inputs.owner, Component.STANDALONE),
    }
    storage = standalone.storage
    workload = component_workload(
        inputs,
        Component.STANDALONE,
        standalone,
        # The stock status file is a path of another machine.
        {"brokerDeleteInactiveTopicsEnabled": "false", "statusFilePath": ""}
        | status_file(inputs.security, "standalone.conf"),
        standalone.config,
        owned,
        advertise="advertisedAddress" not in (standalone.config or {}),
        replicas=1,
        probes=broker_probes(inputs.security),
        claims=(Claim("data", "/pulsar/data/standalone", str(storage.size), storage.storage_class_name),),
        grace_seconds=GRACE_SECONDS,
        token_audience=inputs.token_audience,
    )
    return manifests(workload, exposed=standalone.service, usual_budget=False)
