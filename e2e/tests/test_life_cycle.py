"""Deleting and coming back, the last chapter: what is lost is lost for the tests before too.

The order inside the file matters: parents that are refused, the cluster object, the release before the objects, the
Kubernetes namespace.
"""

from __future__ import annotations

import json

import pytest
import yaml

from e2e.conftest import Deployed
from e2e.support.deleting import dependents
from e2e.support.deploy import (
    NAMESPACE,
    OPERATOR_NAMESPACE,
    RELEASE,
    ensure_namespace,
    install_operator,
    quickstart,
    quickstart_documents,
)
from e2e.support.eventually import eventually
from e2e.support.kubectl import KubectlError
from e2e.support.objects import condition, is_ready
from e2e.support.writes import znode_versions
from pulsar_conformance.counting.simple import consume, publish, subscribe

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


def operator_pods(deployed: Deployed) -> list[tuple[str, int]]:
    """UID and container restarts of the operator's pods."""
    pods = deployed.kubectl.items("pods", OPERATOR_NAMESPACE, "app.kubernetes.io/name=pulsar-operator")
    return [
        (pod["metadata"]["uid"], sum(c["restartCount"] for c in pod["status"].get("containerStatuses") or []))
        for pod in pods
    ]


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
    """Although the operator is killed hard while bookies start: its successor finishes what it began."""
    subscribe(deployed.service_url, PAYMENTS, "survivor")
    sent = publish(deployed.service_url, PAYMENTS, 50, prefix="kept")
    pods, claims, identity = uids(deployed, "pods"), uids(deployed, "pvc"), instance_id(deployed)
    cookie = znode_versions(deployed.kubectl, deployed.namespace, "east-zookeeper-0", paths=("/ledgers/cookies",))
    live = deployed.kubectl.get("pulsarcluster", deployed.namespace, "east")
    assert live is not None
    replicas = live["spec"]["bookkeeper"]["replicas"]  # as the chapter before left them
    assert len(cookie) == 1 + replicas  # the folder and each bookie's cookie
    bookkeeper = {**CLUSTER["spec"]["bookkeeper"], "replicas": replicas}
    again_applied = {**CLUSTER, "spec": {**CLUSTER["spec"], "bookkeeper": bookkeeper}}

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

    operator = operator_pods(deployed)
    deployed.kubectl.apply(json.dumps(again_applied))
    eventually(lambda: "east-bookie" in uids(deployed, "statefulsets"), within=120, what="the bookies' StatefulSet")
    assert not is_ready(deployed.kubectl.get("pulsarcluster", deployed.namespace, "east")), "the kill comes too late"
    deployed.kubectl.run(
        "delete", "pod", "-n", OPERATOR_NAMESPACE, "-l", "app.kubernetes.io/name=pulsar-operator",
        "--grace-period=0", "--force",
    )  # fmt: skip
    deployed.wait_ready(within=300)
    assert not {uid for uid, _ in operator_pods(deployed)} & {uid for uid, _ in operator}
    again = uids(deployed, "pods")
    assert set(again) == set(pods) and not set(again.values()) & set(pods.values())
    assert uids(deployed, "pvc") == claims
    assert instance_id(deployed) == identity
    after = znode_versions(deployed.kubectl, deployed.namespace, "east-zookeeper-0", paths=("/ledgers/cookies",))
    assert after == cookie
    assert consume(deployed.service_url, PAYMENTS, "survivor", 50) == sent


def test_release_uninstalled_before_the_objects_and_installed_again(deployed: Deployed) -> None:
    """The data plane is not touched, neither by the uninstallation nor by the operator that takes over."""
    assert all(dependents(deployed.kubectl, kind, deployed.namespace, name) for kind, name in PARENTS.items())
    pods = uids(deployed, "pods")
    uninstall(deployed)
    objects = deployed.kubectl.items("pulsar", deployed.namespace)
    assert len(objects) == 6  # kept, with the definitions
    assert not [obj["metadata"]["name"] for obj in objects if obj["metadata"].get("finalizers")]
    assert len(deployed.kubectl.items("statefulsets", deployed.namespace)) == 5
    assert uids(deployed, "pods") == pods

    install_operator(deployed.helm, watch=[NAMESPACE])

    def taken_over() -> bool:
        found = deployed.kubectl.items("pulsar", deployed.namespace)
        guarded = [obj for obj in found if obj["metadata"].get("finalizers")]
        assert guarded, "no finalizer yet"
        return True

    eventually(taken_over, within=120, what="the operator guards the objects again")
    deployed.wait_ready(within=120)
    assert uids(deployed, "pods") == pods


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


def test_operator_outlives_the_namespace(deployed: Deployed) -> None:
    """Its rights went with the namespace, which the objects say; a helm upgrade brings them back, without a restart."""
    before = operator_pods(deployed)
    ensure_namespace(deployed.kubectl, deployed.namespace)
    deployed.kubectl.apply(quickstart())

    def says_what_is_missing() -> bool:
        told = condition(deployed.kubectl.get("pulsarcluster", deployed.namespace, "east"), "Ready")
        assert (told.get("reason"), told.get("status")) == ("Forbidden", "Unknown"), told
        return "helm upgrade" in str(told["message"])

    eventually(says_what_is_missing, within=120, what="the right that is missing")
    install_operator(deployed.helm, watch=[NAMESPACE])
    eventually(lambda: "east-zookeeper" in uids(deployed, "statefulsets"), within=120, what="ZooKeeper's StatefulSet")
    assert operator_pods(deployed) == before and all(restarts == 0 for _, restarts in before)


def test_without_the_release_nothing_guards_the_objects(deployed: Deployed) -> None:
    """Deleted in the middle of a bring-up, they go with their pods; volumes stay."""
    eventually(lambda: uids(deployed, "pvc"), within=120, what="a volume claim")
    claims = uids(deployed, "pvc")
    uninstall(deployed)
    deployed.kubectl.run("delete", "pulsar", "--all", "-n", deployed.namespace, "--timeout=60s", timeout=80)
    eventually(lambda: not deployed.kubectl.items("pods", deployed.namespace), within=120, what="pods collected")
    assert claims.items() <= uids(deployed, "pvc").items()
    deployed.kubectl.run("delete", "namespace", deployed.namespace, "--wait=false")


def uninstall(deployed: Deployed) -> None:
    """helm uninstall of the operator, as a user does it."""
    deployed.helm.run("uninstall", RELEASE, "-n", OPERATOR_NAMESPACE, "--wait", "--timeout", "3m")
