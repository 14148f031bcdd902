"""A small cluster of another instance beside the pair of geopair.py: one pod, in a Kubernetes namespace of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from e2e.support.apiproxy import through_api_server
from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl
from e2e.support.objects import all_not_ready
from e2e.support.writes import port_forward
from pulsar_conformance.context import Remote

NAMESPACE = "pulsar-north"
NAME = "north"
ADDRESS = "127.0.0.2"
"""Where clients on this machine find it: Pulsar's own port on a loopback address that no other test uses."""
PORT = 6650


def documents() -> list[dict[str, Any]]:
    """The instance and its only cluster, whose look-ups send clients to this machine."""
    spec = {
        "instanceRef": {"name": NAME},
        "mode": "Standalone",
        "preset": "Small",
        "reclaimPolicy": "Delete",
        "standalone": {"storage": {"size": "1Gi"}, "config": {"advertisedAddress": ADDRESS}},
    }
    return [
        _object("PulsarInstance", {"configurationStore": {"cluster": {"name": NAME}}}),
        _object("PulsarCluster", spec),
    ]


def _object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": NAME, "namespace": NAMESPACE}
    return {"apiVersion": "pulsaroperator.io/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}


@contextmanager
def foreign_cluster(kubectl: Kubectl) -> Iterator[Remote]:
    """The cluster, Ready and reachable; removed with its namespace. The operator watches the namespace already."""
    for document in documents():
        kubectl.apply(json.dumps(document))

    def probe() -> bool:
        lines = all_not_ready(kubectl, NAMESPACE)
        assert not lines, "; ".join(lines)
        return True

    eventually(probe, within=300, what="the cluster of another instance is Ready", every=1.0)
    service = f"{NAME}-standalone"
    with (
        through_api_server(kubectl, NAMESPACE, service, 8080) as admin_url,
        port_forward(kubectl, NAMESPACE, f"service/{service}", PORT, address=ADDRESS, local=PORT),
    ):
        yield Remote(f"pulsar://{ADDRESS}:{PORT}", admin_url)
    kubectl.run("delete", "namespace", NAMESPACE, "--wait=true", "--timeout=240s", timeout=250)
