"""Cluster west beside the quickstart's east, and a namespace that both replicate."""

from __future__ import annotations

import json
from typing import Any

from e2e.conftest import Deployed
from e2e.kind.kindconfig import SECOND_NODE_PORT
from e2e.support.admin import ask
from e2e.support.deploy import NAMESPACE, quickstart_documents
from e2e.support.eventually import eventually
from e2e.support.objects import condition, is_current

CLUSTERS = ["east", "west"]


def west() -> dict[str, Any]:
    """The quickstart's cluster once more, under another name and at the second door."""
    (found,) = [each for each in quickstart_documents() if each["kind"] == "PulsarCluster"]
    found["metadata"]["name"] = "west"
    found["spec"]["proxy"]["service"]["nodePorts"] = {"pulsar": SECOND_NODE_PORT}
    return dict(found)


def mirrored(**more: Any) -> dict[str, Any]:
    """PulsarNamespace mirrored, with more in its specification."""
    return {
        "apiVersion": "pulsaroperator.io/v1alpha1",
        "kind": "PulsarNamespace",
        "metadata": {"name": "mirrored", "namespace": NAMESPACE},
        "spec": {"tenantRef": {"name": "shop"}, "replicationClusters": CLUSTERS, **more},
    }


def leaves(deployed: Deployed, name: str) -> None:
    """A namespace is no more in cluster west: first without replication, then, with consent, without its data."""
    agreed = {"action": "RemoveCluster", "cluster": "west", "expiresTime": "2099-01-01T00:00:00Z"}
    for spec in ({"replicationClusters": ["east"]}, {"allowedClusters": ["east"], "confirmations": [agreed]}):
        deployed.kubectl.run(
            "patch", "pulsarnamespace", name, "-n", deployed.namespace, "--type=merge", "-p", json.dumps({"spec": spec})
        )

        def done() -> bool:
            found = deployed.kubectl.get("pulsarnamespace", deployed.namespace, name)
            assert found is not None and is_current(found)
            return bool(condition(found, "Accepted")["reason"] == "Valid")

        eventually(done, within=180, what=f"{name} is accepted", every=1.0)

    def gone() -> bool:
        live = ask(deployed.admin_url, "GET", f"namespaces/shop/{name}")
        assert live["replication_clusters"] == live["allowed_clusters"] == ["east"], live
        found = deployed.kubectl.get("pulsarnamespace", deployed.namespace, name)
        held = [each["name"] for each in (found or {})["status"]["clusters"] if each.get("exists")]
        assert held == ["east"], held
        return True

    eventually(gone, within=120, what=f"{name} has left west", every=1.0)
