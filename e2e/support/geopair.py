"""The two clusters of examples/geo.yaml in the size of one machine: nine processes instead of twenty-one.

They are in two Kubernetes namespaces, and the instance's configuration store is of neither cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from e2e.kind.kindconfig import PULSAR_NODE_PORT, SECOND_NODE_PORT, WEB_NODE_PORT
from e2e.support.deploy import NAMESPACE, ROOT, Helm, install_operator
from e2e.support.eventually import eventually
from e2e.support.faults_command import Owner
from e2e.support.kubectl import Kubectl
from e2e.support.objects import all_not_ready
from e2e.support.watched import uids

EXAMPLE = ROOT / "examples/geo.yaml"
INSTANCE = "demo"
WEST_NAMESPACE = "pulsar-west"
NAMESPACES = (NAMESPACE, WEST_NAMESPACE)
DOORS: dict[str, dict[str, int]] = {
    "east": {"pulsar": PULSAR_NODE_PORT, "http": WEB_NODE_PORT},
    "west": {"pulsar": SECOND_NODE_PORT},
}
"""NodePorts of the proxies, by cluster."""
_STORE = {"managed": {"replicas": 1, "storage": {"size": "1Gi"}}}


EAST, WEST = Owner(NAMESPACE, "east"), Owner(WEST_NAMESPACE, "west")


def documents() -> list[dict[str, Any]]:
    """The objects of the example, one of each process, with ports of kind's node at the proxies."""
    return [_small(each) for each in yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8"))]


def manifest() -> str:
    """The same as YAML."""
    return yaml.safe_dump_all(documents(), sort_keys=False)


def _small(found: dict[str, Any]) -> dict[str, Any]:
    spec = found.get("spec") or {}
    if found["kind"] == "PulsarInstance":
        spec |= {"preset": "Small", "configurationStore": _STORE}
    elif found["kind"] == "PulsarCluster":
        service = {"type": "NodePort", "nodePorts": DOORS[found["metadata"]["name"]]}
        spec |= {
            "preset": "Small",
            "reclaimPolicy": "Delete",
            "metadataStore": _STORE,
            "bookkeeper": {"replicas": 1, "journal": {"size": "1Gi"}, "ledgers": {"size": "1Gi"}},
            "broker": {"replicas": 1},
            "proxy": {"replicas": 1, "service": service},
        }
    return found


def ready(kubectl: Kubectl, within: float = 420) -> None:
    """Until every object of both namespaces is Ready for its newest specification."""

    def probe() -> bool:
        lines = all_not_ready(kubectl, *NAMESPACES)
        assert not lines, "; ".join(lines)
        return True

    eventually(probe, within=within, what="every object of the pair is Ready", every=1.0)


@contextmanager
def deployed(kubectl: Kubectl, helm: Helm, *also: str) -> Iterator[None]:
    """Both clusters alone on a clean cluster, Ready; removed with their namespaces.

    The operator watches the namespaces ``also`` too, which are empty.
    """
    install_operator(helm, watch=[*NAMESPACES, *also])
    kubectl.apply(manifest())
    ready(kubectl, within=600)
    yield
    for namespace in reversed(NAMESPACES):
        kubectl.run("delete", "namespace", namespace, "--wait=true", "--timeout=240s", timeout=250)


def brokers(kubectl: Kubectl) -> set[str]:
    """UIDs of the brokers of both clusters."""
    return {uid for each in (EAST, WEST) for uid in uids(kubectl, each.namespace, each.name).get("broker", {}).values()}


def others(kubectl: Kubectl) -> dict[str, dict[str, str]]:
    """UIDs by name of all pods of both clusters that are no brokers, by cluster and component."""
    return {
        f"{each.name} {component}": pods
        for each in (EAST, WEST)
        for component, pods in uids(kubectl, each.namespace, each.name).items()
        if component != "broker"
    }
