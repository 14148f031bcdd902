"""Changes of a running cluster: rolled one pod at a time for a reason, and what idle topics survive."""

from __future__ import annotations

import json
from urllib.error import HTTPError

import pytest

from e2e.conftest import Deployed
from e2e.counting.client import CountingRun
from e2e.support.admin import ask
from e2e.support.changes import answers, look_again, patch_cluster
from e2e.support.eventually import eventually
from e2e.support.objects import is_ready

PAYMENTS = "persistent://shop/orders/payments"


def set_broker_config(deployed: Deployed, config: dict[str, str] | None) -> None:
    """Change spec.broker.config and wait until every pod is of the new revision and Ready."""
    patch_cluster(deployed.kubectl, deployed.namespace, "east", {"broker": {"config": config}})
    answers(deployed.admin_url)


def uids(deployed: Deployed) -> dict[str, str]:
    """UID by pod name."""
    return {p["metadata"]["name"]: p["metadata"]["uid"] for p in deployed.kubectl.items("pods", deployed.namespace)}


def topics(deployed: Deployed) -> set[str]:
    """Persistent topics of the quickstart's namespace, without partitions and system topics."""
    found = {name.rsplit("/", 1)[-1] for name in ask(deployed.admin_url, "GET", "persistent/shop/orders")}
    return {name for name in found if "-partition-" not in name and not name.startswith("__")}


def test_scale_subresource_adds_and_removes_a_broker(deployed: Deployed) -> None:
    def scale(replicas: int) -> None:
        deployed.kubectl.run("scale", "pulsarcluster", "east", "-n", deployed.namespace, f"--replicas={replicas}")

        def scaled() -> bool:
            cluster = deployed.kubectl.get("pulsarcluster", deployed.namespace, "east")
            assert cluster is not None and is_ready(cluster), cluster
            return bool(
                cluster["status"]["broker"]["ready"] == replicas == len(ask(deployed.admin_url, "GET", "brokers/east"))
            )

        eventually(scaled, within=120, what=f"{replicas} brokers, in Pulsar too")

    before = uids(deployed)
    scale(2)
    scale(1)
    eventually(lambda: uids(deployed) == before, within=60, what="the same pods as before")


def test_declared_topics_outlive_inactive_topic_deletion(
    deployed: Deployed, capsys: pytest.CaptureFixture[str]
) -> None:
    """With Pulsar's collector at its fastest an idle declared topic stays: the operator renders it switched off.

    The first roll is counted: the only broker is replaced, and messages wait for it instead of getting lost.

    Switched on by the user it does collect (so the first half proves something), and the declared topic is made again.
    """
    fast = {
        "brokerDeleteInactiveTopicsFrequencySeconds": "2",
        "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": "2",
    }
    before = uids(deployed)
    declared = {
        "apiVersion": "pulsaroperator.io/v1alpha1",
        "kind": "PulsarTopic",
        "metadata": {"name": "idle", "namespace": deployed.namespace},
        "spec": {"namespaceRef": {"name": "orders"}},
    }
    deployed.kubectl.apply(json.dumps(declared))
    try:
        with CountingRun(deployed.service_url, PAYMENTS, rate=50, keys=8) as run:
            with run.operation("broker roll"):
                set_broker_config(deployed, fast)
                deployed.wait_ready(within=60)
            report = run.finish(drain_within=120)
        with capsys.disabled():
            print(f"\n{report.text()}")
        assert report.violations() == [], report.text()
        rolled = {name for name, uid in uids(deployed).items() if before.get(name) != uid}
        assert rolled == {"east-broker-0"}, "only the component whose configuration changed"
        ask(deployed.admin_url, "PUT", "persistent/shop/orders/marker")
        collections(deployed, 5)
        assert {"idle", "marker"} <= topics(deployed)

        set_broker_config(deployed, {**fast, "brokerDeleteInactiveTopicsEnabled": "true"})
        ask(deployed.admin_url, "GET", "persistent/shop/orders/marker/stats")  # only a loaded topic is looked at
        eventually(lambda: "marker" not in topics(deployed), within=60, what="the undeclared idle topic collected")
        set_broker_config(deployed, None)
        look_again(deployed.kubectl, "pulsartopic", deployed.namespace, "idle")
        eventually(lambda: "idle" in topics(deployed), within=60, what="the declared topic made again")
    finally:
        set_broker_config(deployed, None)
        deployed.kubectl.run("delete", "pulsartopic", "idle", "-n", deployed.namespace)
        try:
            ask(deployed.admin_url, "DELETE", "persistent/shop/orders/idle?force=true")
        except HTTPError as error:
            assert error.code == 404


def collections(deployed: Deployed, rounds: int) -> None:
    """Let at least ``rounds`` intervals of the collector pass, told by the broker's own clock: its log keeps growing.

    Each admin call is logged with a time stamp; 2 s is the collector's interval.
    """
    start = now(deployed)
    eventually(lambda: now(deployed) - start > 2 * rounds, within=60, what=f"{rounds} intervals of the collector")


def now(deployed: Deployed) -> float:
    """The broker pod's clock, in seconds."""
    text = deployed.kubectl.run(
        "exec", "-n", deployed.namespace, "east-broker-0", "--", "python3", "-c", "import time; print(time.time())"
    )
    return float(text)
