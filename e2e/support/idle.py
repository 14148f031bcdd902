"""Topics without producers, consumers or subscriptions, and Pulsar's collector of them at its fastest."""

from __future__ import annotations

import json
from collections.abc import Mapping

from e2e.support.admin import ask
from e2e.support.eventually import eventually
from e2e.support.kubectl import Kubectl

FAST: Mapping[str, str] = {
    "brokerDeleteInactiveTopicsFrequencySeconds": "2",
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": "2",
}
SWITCHED_ON: Mapping[str, str] = {"brokerDeleteInactiveTopicsEnabled": "true"}
"""The operator renders it as false unless the user says otherwise."""
NAMESPACE = "shop/orders"
DECLARED, MARKER = "idle", "marker"


def declare(kubectl: Kubectl, namespace: str) -> None:
    """A PulsarTopic that nobody uses."""
    kubectl.apply(
        json.dumps(
            {
                "apiVersion": "pulsaroperator.io/v1alpha1",
                "kind": "PulsarTopic",
                "metadata": {"name": DECLARED, "namespace": namespace},
                "spec": {"namespaceRef": {"name": "orders"}},
            }
        )
    )


def topics(admin_url: str) -> set[str]:
    """Persistent topics of the quickstart's namespace, without partitions and system topics."""
    found = {name.rsplit("/", 1)[-1] for name in ask(admin_url, "GET", f"persistent/{NAMESPACE}")}
    return {name for name in found if "-partition-" not in name and not name.startswith("__")}


def intervals(kubectl: Kubectl, namespace: str, pod: str, rounds: int) -> None:
    """Let so many intervals of the collector, 2 s each, pass by the broker pod's own clock."""

    def now() -> float:
        command = ("python3", "-c", "import time; print(time.time())")
        return float(kubectl.run("exec", "-n", namespace, pod, "--", *command))

    start = now()
    eventually(lambda: now() - start > 2 * rounds, within=60, what=f"{rounds} intervals of the collector")
