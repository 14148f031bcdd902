"""The quickstart as a user sees it: Ready, messages, no needless write, repair, restart."""

from __future__ import annotations

import json

from e2e.conftest import Deployed
from e2e.demo.client import exchange
from e2e.support.deploy import OPERATOR_NAMESPACE, quickstart
from e2e.support.eventually import eventually
from e2e.support.objects import condition, is_ready, pulsar_objects
from e2e.support.writes import (
    admin_log_position,
    admin_writes,
    audit_lines,
    changed,
    operator_writes,
    sees_admin_writes,
    sees_operator_writes,
    znode_versions,
)
from pulsar_conformance.counting.simple import consume, publish, subscribe

PAYMENTS = "persistent://shop/orders/payments"
CLICKS = "persistent://shop/orders/clicks"


def test_every_object_is_ready_with_its_columns(deployed: Deployed) -> None:
    table = deployed.kubectl.run("get", "pulsar", "-A")
    kinds = {obj["kind"] for obj in pulsar_objects(deployed.kubectl, deployed.namespace)}
    assert kinds == {"PulsarInstance", "PulsarCluster", "PulsarTenant", "PulsarNamespace", "PulsarTopic"}
    assert all(is_ready(obj) for obj in pulsar_objects(deployed.kubectl, deployed.namespace)), table
    assert "READY" in table and "REASON" in table and "AGE" in table


def test_messages_through_the_proxy_on_both_topics(deployed: Deployed) -> None:
    plain = exchange(deployed.service_url, PAYMENTS, messages=200, subscription="e2e", run="plain")
    assert plain.received == 200 and set(plain.partitions) == {"payments"}
    parted = exchange(deployed.service_url, CLICKS, messages=200, subscription="e2e", run="parted")
    assert parted.received == 200
    assert set(parted.partitions) == {f"clicks-partition-{i}" for i in range(4)}


def test_pods_run_under_the_restricted_standard(deployed: Deployed) -> None:
    namespace = deployed.kubectl.json("get", "namespace", deployed.namespace)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pods = deployed.kubectl.items("pods", deployed.namespace)
    components = {pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods}
    assert components == {"zookeeper", "bookie", "autorecovery", "broker", "proxy"}


def test_second_apply_makes_no_write(deployed: Deployed) -> None:
    """Counted in the API server's audit log, the broker's request log and by znode versions, with a forced pass over
    every object; then one write of each kind is made and must be all that was counted in the same time."""
    before = znode_versions(deployed.kubectl, deployed.namespace, "east-zookeeper-0")
    assert "/admin/policies/shop/orders" in before
    log_start = admin_log_position(deployed.kubectl, deployed.namespace, "east-broker-0")
    since = audit_lines(deployed.node)
    output = deployed.kubectl.apply(quickstart())
    assert "configured" not in output and "created" not in output, output
    # An annotation on every object is a watch event, so each is reconciled once more, which the operator must see.
    passes = reconciles(deployed)
    deployed.kubectl.run(
        "annotate", "pulsar", "--all", "-n", deployed.namespace, "pulsaroperator.io/pause=false", "--overwrite"
    )
    eventually(lambda: reconciles(deployed) >= passes + 6, within=60, what="six more passes")
    # Taken away again: a page that pauses an object as a reader would meets it.
    deployed.kubectl.run("annotate", "pulsar", "--all", "-n", deployed.namespace, "pulsaroperator.io/pause-")
    eventually(lambda: reconciles(deployed) >= passes + 12, within=60, what="six passes more")
    assert operator_writes(deployed.node, since) == []
    assert admin_writes(deployed.kubectl, deployed.namespace, "east-broker-0", log_start) == []
    assert znode_versions(deployed.kubectl, deployed.namespace, "east-zookeeper-0") == before

    sees_operator_writes(deployed.kubectl, deployed.node, since, deployed.namespace, "payments")
    with sees_admin_writes(
        deployed.kubectl, deployed.namespace, "east-broker-0", log_start, deployed.admin_url, "shop/orders"
    ):
        after = znode_versions(deployed.kubectl, deployed.namespace, "east-zookeeper-0")
    assert changed(before, after) == {"/admin/policies/shop/orders"}


def test_deleted_broker_pod_comes_back_and_serves(deployed: Deployed) -> None:
    subscribe(deployed.service_url, PAYMENTS, "broker-loss")
    sent = publish(deployed.service_url, PAYMENTS, 20, prefix="before")
    pod = deployed.kubectl.get("pod", deployed.namespace, "east-broker-0")
    assert pod is not None
    deployed.kubectl.run("delete", "pod", "east-broker-0", "-n", deployed.namespace)

    def replaced() -> bool:
        now = deployed.kubectl.get("pod", deployed.namespace, "east-broker-0")
        return now is not None and now["metadata"]["uid"] != pod["metadata"]["uid"]

    eventually(replaced, within=120, what="another broker pod")
    deployed.wait_ready(within=180)
    sent += publish(deployed.service_url, PAYMENTS, 20, prefix="after")
    assert sorted(consume(deployed.service_url, PAYMENTS, "broker-loss", 40)) == sorted(sent)


def test_child_changed_by_hand_is_repaired(deployed: Deployed) -> None:
    changed = json.dumps({"spec": {"ports": [{"name": "http", "port": 8080, "targetPort": 9999}]}})
    service = deployed.kubectl.get("service", deployed.namespace, "east-broker")
    assert service is not None
    wanted = [(p["name"], p["targetPort"]) for p in service["spec"]["ports"]]
    deployed.kubectl.run("patch", "service", "east-broker", "-n", deployed.namespace, "--type=merge", "-p", changed)
    deployed.kubectl.run(
        "annotate", "pcl", "east", "-n", deployed.namespace, "pulsaroperator.io/dry-run=false", "--overwrite"
    )

    def repaired() -> bool:
        now = deployed.kubectl.get("service", deployed.namespace, "east-broker")
        return now is not None and [(p["name"], p["targetPort"]) for p in now["spec"]["ports"]] == wanted

    eventually(repaired, within=60, what="the Service as rendered")


def test_partitions_grow(deployed: Deployed) -> None:
    deployed.kubectl.run(
        "patch", "pt", "clicks", "-n", deployed.namespace, "--type=merge", "-p", '{"spec":{"partitions":6}}'
    )
    deployed.wait_ready(within=60)
    topic = deployed.kubectl.get("pt", deployed.namespace, "clicks")
    assert topic is not None and topic["status"]["partitions"] == 6
    result = exchange(deployed.service_url, CLICKS, messages=300, subscription="grown", run="grown")
    assert len(result.partitions) == 6


def test_operator_restart_loses_nothing(deployed: Deployed) -> None:
    deployed.kubectl.run("delete", "pod", "-n", OPERATOR_NAMESPACE, "-l", "app.kubernetes.io/name=pulsar-operator")
    deployed.kubectl.run(
        "patch",
        "pns",
        "orders",
        "-n",
        deployed.namespace,
        "--type=merge",
        "-p",
        '{"spec":{"policies":{"messageTTLSeconds":7200}}}',
    )
    deployed.wait_ready(within=120)
    namespace = deployed.kubectl.get("pns", deployed.namespace, "orders")
    assert condition(namespace, "Drifted")["status"] == "False"
    deployed.kubectl.apply(quickstart().replace("partitions: 4", "partitions: 6"))
    deployed.wait_ready(within=60)


def annotate(deployed: Deployed, kind: str, name: str, mark: str) -> None:
    """Put an annotation of the operator's group on an object: it is reconciled, its generation stays."""
    deployed.kubectl.run("annotate", kind, name, mark, "-n", deployed.namespace, "--overwrite")


def patch(deployed: Deployed, kind: str, name: str, spec: dict[str, object]) -> None:
    """Change part of an object's specification."""
    text = json.dumps({"spec": spec})
    deployed.kubectl.run("patch", kind, name, "-n", deployed.namespace, "--type=merge", "-p", text)


def reconciles(deployed: Deployed) -> int:
    """Passes the operator has made, from its own metrics."""
    text = deployed.kubectl.run(
        "get", "--raw", f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/services/pulsar-operator-metrics:9090/proxy/metrics"
    )
    total = 0.0
    for line in text.splitlines():
        if line.startswith("pulsar_operator_reconciles_total{"):
            total += float(line.rsplit(" ", 1)[1])
    return int(total)
