"""A cluster as people run it: 3 ZooKeeper servers, 3 bookies, 2 brokers, a configuration store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from e2e.conftest import Deployed
from e2e.support.deleting import delete_childless
from e2e.support.eventually import eventually
from e2e.support.objects import condition, is_ready
from pulsar_conformance.counting.client import CountingRun

TOPIC = "persistent://trade/fills/europe"
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
            "proxy": {"replicas": 1},
        },
    ),
    manifest("PulsarTenant", "trade", {"instanceRef": {"name": "trading"}, "deletionPolicy": "Delete"}),
    manifest("PulsarNamespace", "fills", {"tenantRef": {"name": "trade"}, "deletionPolicy": "Delete"}),
    *(
        manifest("PulsarTopic", name, {"namespaceRef": {"name": "fills"}, "partitions": 3, "deletionPolicy": "Delete"})
        for name in ("europe", "counted")
    ),
]


@pytest.fixture(scope="module")
def trading(deployed: Deployed) -> Iterator[Deployed]:
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


def client(deployed: Deployed, *args: str) -> str:
    """Pulsar's own client, inside the second broker's pod, through the proxy's Service."""
    url = "pulsar://big-proxy.pulsar.svc.cluster.local:6650"
    return deployed.kubectl.run(
        "exec", "-n", "pulsar", "big-broker-1", "--",
        "env", "PULSAR_LOG_DIR=/tmp", "/pulsar/bin/pulsar-client", "--url", url, *args, timeout=180,
    )  # fmt: skip


@contextmanager
def counting(deployed: Deployed) -> Iterator[CountingRun]:
    """Counted messages from this machine, through a port-forward: it ends with the proxy's pod, which stays here."""
    forward = deployed.kubectl.popen("-n", "pulsar", "port-forward", "service/big-proxy", ":6650")
    try:
        assert forward.stdout is not None
        line = forward.stdout.readline()
        port = re.search(r":(\d+) -> ", line)
        assert port, f"port-forward to big-proxy: {line.strip()}"
        with CountingRun(f"pulsar://127.0.0.1:{port[1]}", COUNTED, rate=50, keys=12) as run:
            yield run
    finally:
        forward.terminate()
        forward.wait(timeout=10)


def replace_pod(deployed: Deployed, name: str) -> None:
    """Delete a pod and wait until another one of that name is Ready."""
    before = deployed.kubectl.get("pod", "pulsar", name)
    assert before is not None
    deployed.kubectl.run("delete", "pod", name, "-n", "pulsar", timeout=150)

    def back() -> bool:
        now = deployed.kubectl.get("pod", "pulsar", name)
        assert now is not None and now["metadata"]["uid"] != before["metadata"]["uid"]
        return [c["status"] for c in now["status"].get("conditions", []) if c["type"] == "Ready"] == ["True"]

    eventually(back, within=180, what=f"pod {name} again")


@pytest.mark.bookies(1)
def test_quorums_fit_the_bookies(trading: Deployed) -> None:
    brokers = trading.kubectl.get("statefulset", "pulsar", "big-broker")
    assert brokers is not None
    volumes = brokers["spec"]["template"]["spec"]["volumes"]
    name = next(v["configMap"]["name"] for v in volumes if v["name"] == "config")
    config = trading.kubectl.get("configmap", "pulsar", name)
    assert config is not None
    lines = config["data"]["overrides.conf"].splitlines()
    assert {"managedLedgerDefaultEnsembleSize=2", "managedLedgerDefaultWriteQuorum=2"} <= set(lines)
    cluster = trading.kubectl.get("pulsarcluster", "pulsar", "big")
    assert cluster is not None and cluster["status"]["bookkeeper"]["ready"] == 3


@pytest.mark.bookies(1)
def test_messages_survive_the_loss_of_one_of_each(trading: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    client(trading, "produce", TOPIC, "-m", "one,two,three")
    with counting(trading) as run:
        with run.operation("one ZooKeeper server, bookie and broker replaced"):
            for pod in ("big-zookeeper-2", "big-bookie-0", "big-broker-0"):
                replace_pod(trading, pod)
            trading.wait_ready(within=240)
        report = run.finish(drain_within=120)
    with capsys.disabled():
        print(f"\n{report.text()}")
    assert report.failures() == [], report.text()
    client(trading, "produce", TOPIC, "-m", "four")
    text = client(trading, "consume", TOPIC, "-s", "all", "-p", "Earliest", "-n", "4")
    assert all(word in text for word in ("one", "two", "three", "four"))


@pytest.mark.rolls(1)
def test_config_change_rolls_one_pod_at_a_time(trading: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    patch = json.dumps({"spec": {"bookkeeper": {"config": {"gcWaitTime": "600000"}}}})
    seen: set[tuple[str, int]] = set()
    fewest = [3]

    def rolled() -> bool:
        cluster = trading.kubectl.get("pulsarcluster", "pulsar", "big")
        assert cluster is not None
        pods = trading.kubectl.items("pods", "pulsar", "pulsaroperator.io/owner-name=big")
        ready = [
            pod
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"]
            and [c["status"] for c in pod["status"].get("conditions", []) if c["type"] == "Ready"] == ["True"]
        ]
        bookies = [p for p in ready if p["metadata"]["labels"]["app.kubernetes.io/component"] == "bookie"]
        fewest[0] = min(fewest[0], len(bookies))
        rollout = cluster["status"].get("rollout") or {}
        if rollout:
            seen.add((rollout["component"], rollout["podsDone"]))
        current = cluster["status"]["observedGeneration"] == cluster["metadata"]["generation"]
        return current and condition(cluster, "UpToDate")["status"] == "True" and is_ready(cluster)

    with counting(trading) as run:
        with run.operation("bookie roll"):
            trading.kubectl.run("patch", "pulsarcluster", "big", "-n", "pulsar", "--type=merge", "-p", patch)
            eventually(rolled, within=300, what="three bookies rolled", every=0.3)
        report = run.finish(drain_within=120)
    with capsys.disabled():
        print(f"\n{report.text()}")
    assert report.failures() == [], report.text()
    assert {component for component, _ in seen} == {"bookie"}
    assert fewest[0] == 2, "one bookie was seen down, never more"
