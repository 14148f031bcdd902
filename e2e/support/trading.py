"""A cluster as people run it: 3 ZooKeeper servers, 3 bookies, 2 brokers, a configuration store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from e2e.conftest import Deployed
from e2e.kind.kindconfig import SECOND_NODE_PORT
from e2e.support.deleting import delete_childless
from pulsar_conformance.counting.client import CountingRun

COUNTED = "persistent://trade/fills/counted"


def manifest(kind: str, name: str, spec: dict[str, Any]) -> str:
    """One object in the quickstart's namespace, as JSON."""
    return json.dumps(
        {
            "apiVersion": "pulsaroperator.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "pulsar"},
            "spec": spec,
        }
    )


OBJECTS = [
    manifest(
        "PulsarInstance",
        "trading",
        {"preset": "Small", "configurationStore": {"managed": {"replicas": 1, "storage": {"size": "1Gi"}}}},
    ),
    manifest(
        "PulsarCluster",
        "big",
        {
            "instanceRef": {"name": "trading"},
            "preset": "Small",
            "reclaimPolicy": "Delete",
            "metadataStore": {"managed": {"replicas": 3, "storage": {"size": "1Gi"}}},
            "bookkeeper": {"replicas": 3, "journal": {"size": "1Gi"}, "ledgers": {"size": "1Gi", "count": 2}},
            "broker": {"replicas": 2},
            "proxy": {"replicas": 1, "service": {"type": "NodePort", "nodePorts": {"pulsar": SECOND_NODE_PORT}}},
        },
    ),
    manifest("PulsarTenant", "trade", {"instanceRef": {"name": "trading"}, "deletionPolicy": "Delete"}),
    manifest("PulsarNamespace", "fills", {"tenantRef": {"name": "trade"}, "deletionPolicy": "Delete"}),
    *(
        manifest("PulsarTopic", name, {"namespaceRef": {"name": "fills"}, "partitions": 3, "deletionPolicy": "Delete"})
        for name in ("europe", "counted")
    ),
]


@contextmanager
def trading_cluster(deployed: Deployed) -> Iterator[Deployed]:
    """The distributed cluster beside the quickstart, removed with its data afterwards."""
    for text in OBJECTS:
        deployed.kubectl.apply(text)
    deployed.wait_ready(within=600)
    yield deployed
    for text in reversed(OBJECTS):
        obj = json.loads(text)
        kind, name = obj["kind"].lower(), obj["metadata"]["name"]
        delete_childless(deployed.kubectl, kind, "pulsar", name, seconds=180)
    claims = deployed.kubectl.items("pvc", "pulsar", "pulsaroperator.io/owner-name=big")
    assert not [c for c in claims if "deletionTimestamp" not in c["metadata"]]


@contextmanager
def counting(deployed: Deployed, *, send_timeout: float = 30) -> Iterator[CountingRun]:
    """Counted messages from this machine, through a NodePort as users have it: a port-forward ends for good at the
    first connection that is reset."""
    with CountingRun(deployed.second_url, COUNTED, rate=50, keys=12, send_timeout=send_timeout) as run:
        yield run
