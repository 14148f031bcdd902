"""Deleting and coming back, last in the session: what is lost is lost for the tests before too.

The order inside the file matters: parents that are refused, the cluster object, then the namespace, then the release
before the objects.
"""

from __future__ import annotations

import json

import pytest
import yaml

from e2e.conftest import Deployed
from e2e.counting.simple import consume, publish, subscribe
from e2e.support.deleting import dependents
from e2e.support.deploy import NAMESPACE, OPERATOR_NAMESPACE, QUICKSTART, install_operator, quickstart_documents
from e2e.support.eventually import eventually
from e2e.support.kubectl import KubectlError
from e2e.support.objects import is_ready
from e2e.support.writes import znode_versions

PAYMENTS = "persistent://shop/orders/payments"
CLUSTER = next(doc for doc in quickstart_documents() if doc["kind"] == "PulsarCluster")
TENANT = next(doc for doc in quickstart_documents() if doc["kind"] == "PulsarTenant")
PARENTS = {"pulsarinstance": "demo", "pulsartenant": "shop", "pulsarnamespace": "orders"}
CONFIRM = "pulsaroperator.io/confirm-delete"


def uids(deployed: Deployed, kind: str) -> dict[str, str]:
    """UID by name of the objects of a kind in the quickstart's namespace."""
    found = deployed.kubectl.items(kind, deployed.namespace)
    return {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in found}


def instance_id(deployed: Deployed) -> str:
    """INSTANCEID as the record in Kubernetes has it."""
    record = deployed.kubectl.get("configmap", deployed.namespace, "east-instance-id")
    assert record is not None
    return str(record["data"]["instanceId"])


def refused(deployed: Deployed, kind: str, name: str) -> None:
    """The deletion is refused, with the command that would confirm it, and has not begun."""
    before = deployed.kubectl.get(kind, deployed.namespace, name)
    command = f"kubectl -n {deployed.namespace} annotate --overwrite {kind}/{name} {CONFIRM}={name}"
    with pytest.raises(KubectlError, match=command):
        deployed.kubectl.run("delete", kind, name, "-n", deployed.namespace)
    after = deployed.kubectl.get(kind, deployed.namespace, name)
    assert before is not None and after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "deletionTimestamp" not in after["metadata"]


def test_parent_with_dependents_is_deleted_only_when_confirmed(deployed: Deployed) -> None:
    """As the operator counts them; what is deleted with policy Retain comes back with what is in it."""
    subscribe(deployed.service_url, PAYMENTS, "orphan")
    sent = publish(deployed.service_url, PAYMENTS, 50, prefix="orphaned")
    for kind, name in PARENTS.items():
        refused(deployed, kind, name)
    annotate = ("annotate", "--overwrite", "pulsartenant/shop", "-n", deployed.namespace)
    deployed.kubectl.run(*annotate, f"{CONFIRM}=orders")
    refused(deployed, "pulsartenant", "shop")

    deployed.kubectl.run(*annotate, f"{CONFIRM}=shop")
    deployed.kubectl.run("delete", "pulsartenant", "shop", "-n", deployed.namespace, "--timeout=60s", timeout=80)
    deployed.kubectl.apply(json.dumps(TENANT))
    deployed.wait_ready(within=120)
    assert consume(deployed.service_url, PAYMENTS, "orphan", 50) == sent


def test_cluster_deleted_and_applied_again_brings_the_data_back(deployed: Deployed) -> None:
    subscribe(deployed.service_url, PAYMENTS, "survivor")
    sent = publish(deployed.service_url, PAYMENTS, 50, prefix="kept")
    pods, claims, identity = uids(deployed, "pods"), uids(deployed, "pvc"), instance_id(deployed)
    cookie = znode_versions(deployed.kubectl, deployed.namespace, "east-zookeeper-0", paths=("/ledgers/cookies",))
    assert len(cookie) == 2  # the folder and the only bookie's cookie

    deletion = ("delete", "pulsarcluster", "east", "-n", deployed.namespace, "--timeout=180s")
    with pytest.raises(KubectlError, match=r"PulsarCluster .*/east has dependents"):
        deployed.kubectl.run(*deletion, timeout=200)
    deployed.kubectl.run(
        "annotate", "pulsarcluster", "east", "-n", deployed.namespace, "pulsaroperator.io/confirm-delete=east"
    )
    deployed.kubectl.run(*deletion, timeout=200)
    eventually(lambda: not uids(deployed, "statefulsets"), within=60, what="no StatefulSet left")
    assert uids(deployed, "pvc") == claims
    assert instance_id(deployed) == identity

    deployed.kubectl.apply(json.dumps(CLUSTER))
    deployed.wait_ready(within=300)
    again = uids(deployed, "pods")
    assert set(again) == set(pods) and not set(again.values()) & set(pods.values())
    assert uids(deployed, "pvc") == claims
    assert instance_id(deployed) == identity
    after = znode_versions(deployed.kubectl, deployed.namespace, "east-zookeeper-0", paths=("/ledgers/cookies",))
    assert after == cookie
    assert consume(deployed.service_url, PAYMENTS, "survivor", 50) == sent


def test_deleted_namespace_ends(deployed: Deployed) -> None:
    """Also with a topic that has to be deleted in Pulsar (its cluster is going as well), and with guarded parents."""
    topic = {
        "apiVersion": "pulsaroperator.io/v1alpha1",
        "kind": "PulsarTopic",
        "metadata": {"name": "doomed", "namespace": deployed.namespace},
        "spec": {"namespaceRef": {"name": "orders"}, "deletionPolicy": "Delete"},
    }
    deployed.kubectl.apply(yaml.safe_dump(topic))
    eventually(
        lambda: is_ready(deployed.kubectl.get("pulsartopic", deployed.namespace, "doomed")),
        within=60,
        what="topic Ready",
    )
    assert all(dependents(deployed.kubectl, kind, deployed.namespace, name) for kind, name in PARENTS.items())
    deployed.kubectl.run("delete", "namespace", deployed.namespace, "--timeout=180s", timeout=200)
    assert deployed.kubectl.get("namespace", "", deployed.namespace) is None


def operator_pods(deployed: Deployed) -> list[tuple[str, int]]:
    """UID and container restarts of the operator's pods."""
    pods = deployed.kubectl.items("pods", OPERATOR_NAMESPACE, "app.kubernetes.io/name=pulsar-operator")
    return [
        (pod["metadata"]["uid"], sum(c["restartCount"] for c in pod["status"].get("containerStatuses") or []))
        for pod in pods
    ]


def test_operator_outlives_the_namespace_and_a_kill_in_the_middle_of_bring_up(deployed: Deployed) -> None:
    """The namespace comes back with its rights by a helm upgrade; the operator takes up its work without a restart.

    Killed hard while bookies start, its successor finishes what it began, with the same INSTANCEID.
    """
    before = operator_pods(deployed)
    install_operator(deployed.helm, watch=[NAMESPACE])
    deployed.kubectl.apply(QUICKSTART.read_text())
    eventually(lambda: "east-bookie" in uids(deployed, "statefulsets"), within=120, what="the bookies' StatefulSet")
    identity = instance_id(deployed)
    assert operator_pods(deployed) == before and all(restarts == 0 for _, restarts in before)
    deployed.kubectl.run(
        "delete", "pod", "-n", OPERATOR_NAMESPACE, "-l", "app.kubernetes.io/name=pulsar-operator",
        "--grace-period=0", "--force",
    )  # fmt: skip
    deployed.wait_ready(within=300)
    assert operator_pods(deployed) != before
    assert instance_id(deployed) == identity


def test_release_uninstalled_before_the_objects(deployed: Deployed) -> None:
    assert all(dependents(deployed.kubectl, kind, deployed.namespace, name) for kind, name in PARENTS.items())
    deployed.helm.run("uninstall", "pulsar-operator", "-n", OPERATOR_NAMESPACE, "--wait", "--timeout", "3m")
    objects = deployed.kubectl.items("pulsar", deployed.namespace)
    assert len(objects) == 6  # kept, with the definitions
    assert not [obj["metadata"]["name"] for obj in objects if obj["metadata"].get("finalizers")]
    running = deployed.kubectl.items("statefulsets", deployed.namespace)
    assert len(running) == 5  # the data plane is not touched
    # The deletion guard has gone with the release.
    deployed.kubectl.run("delete", "pulsar", "--all", "-n", deployed.namespace, "--timeout=60s", timeout=80)
    eventually(lambda: not deployed.kubectl.items("pods", deployed.namespace), within=120, what="pods collected")
    assert len(deployed.kubectl.items("pvc", deployed.namespace)) == 3
    deployed.kubectl.run("delete", "namespace", deployed.namespace, "--timeout=120s", timeout=140)
