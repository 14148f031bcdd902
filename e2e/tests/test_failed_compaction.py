"""A topic whose compaction failed while its bookies were away: Pulsar does not delete it, the operator does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import HTTPError

import pulsar
import pytest

from e2e.conftest import Deployed
from e2e.support.admin import ask, find
from e2e.support.eventually import eventually
from e2e.support.objects import is_ready

pytestmark = pytest.mark.storage(1)

TOPIC = "persistent/shop/orders/compacted"
BOOKIE = "org.apache.bookkeeper.server.Main"
MESSAGES = 200


@contextmanager
def bookies_stopped(node: str) -> Iterator[None]:
    """The processes of all bookies of the test cluster stand still."""

    def signal(name: str) -> None:
        subprocess.run(["docker", "exec", node, "pkill", f"-{name}", "-f", BOOKIE], check=True)

    signal("STOP")
    try:
        yield
    finally:
        signal("CONT")


def test_a_topic_whose_compaction_failed_is_deleted(deployed: Deployed) -> None:
    kubectl, namespace, url = deployed.kubectl, deployed.namespace, deployed.admin_url
    document = {
        "apiVersion": "pulsaroperator.io/v1alpha1",
        "kind": "PulsarTopic",
        "metadata": {"name": "compacted", "namespace": namespace},
        # The namespace keeps messages for a day, which is content.
        "spec": {"namespaceRef": {"name": "orders"}, "deletionPolicy": "ForceDelete"},
    }
    kubectl.apply(json.dumps(document))
    eventually(lambda: is_ready(kubectl.get("pulsartopic", namespace, "compacted")), within=60, what="topic Ready")
    client = pulsar.Client(deployed.service_url)
    producer = client.create_producer("persistent://shop/orders/compacted")
    for i in range(MESSAGES):
        producer.send(b"x" * 100, partition_key=str(i % 10))
    client.close()

    def status() -> str:
        return str(ask(url, "GET", f"{TOPIC}/compaction")["status"])

    with bookies_stopped(deployed.node):
        ask(url, "PUT", f"{TOPIC}/compaction")
        eventually(lambda: status() == "ERROR", within=120, what="compaction without bookies fails")
    eventually(lambda: not find(url, f"{TOPIC}/stats").get("publishers"), within=60, what="no producer")
    with pytest.raises(HTTPError, match=r"50[04]"):
        ask(url, "DELETE", TOPIC)
    assert status() == "ERROR"
    kubectl.run("delete", "pulsartopic", "compacted", "-n", namespace, "--timeout=120s", timeout=140)
    assert find(url, f"{TOPIC}/stats") is None
