"""An upgrade of the operator with objects of every kind: no pod is replaced, and Pulsar gets owner records alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import CLUSTER, Deployed
from e2e.support import before
from e2e.support.changes import answers, look_again
from e2e.support.deploy import NAMESPACE, install_operator
from e2e.support.objects import pulsar_objects
from e2e.support.writes import (
    admin_log_position,
    admin_writes,
    changed,
    sees_admin_writes,
    znode_versions,
)
from pulsar_operator.api.constants import Kind

FIRST = "quickstart.yaml"
OTHERS = ("lists-and-defaults.yaml", "shared-limits-and-isolation.yaml", "topic-set.yaml", "rebalance.yaml")
STANDALONE: list[dict[str, Any]] = [
    {
        "apiVersion": "pulsaroperator.io/v1alpha1",
        "kind": "PulsarInstance",
        "metadata": {"name": "dev", "namespace": NAMESPACE},
        "spec": {"preset": "Small", "configurationStore": {"managed": {"replicas": 1, "storage": {"size": "1Gi"}}}},
    },
    {
        "apiVersion": "pulsaroperator.io/v1alpha1",
        "kind": "PulsarCluster",
        "metadata": {"name": "small", "namespace": NAMESPACE},
        "spec": {
            "instanceRef": {"name": "dev"},
            "preset": "Small",
            "metadataStore": {"managed": {"replicas": 1, "storage": {"size": "1Gi"}}},
            "bookkeeper": {"replicas": 2, "journal": {"size": "1Gi"}, "ledgers": {"size": "1Gi"}},
            "broker": {"replicas": 1},
        },
    },
]
"""A managed configuration store, and a cluster without proxies."""
PARTS = ("statefulsets", "services", "persistentvolumeclaims", "pods")


def uids(deployed: Deployed) -> dict[str, str]:
    """UID by kind and name of what runs, or holds data."""
    return {
        f"{kind}/{each['metadata']['name']}": each["metadata"]["uid"]
        for kind in PARTS
        for each in deployed.kubectl.items(kind, NAMESPACE)
    }


OWNER_RECORD = re.compile(r"PUT /admin/v2/(namespaces|persistent)/.+/properties")
"""What the first pass of a version that records owners writes for a namespace or topic without a record."""


def templates(deployed: Deployed) -> dict[str, Any]:
    """Pod template by StatefulSet."""
    found = deployed.kubectl.items("statefulsets", NAMESPACE)
    return {each["metadata"]["name"]: each["spec"]["template"] for each in found}


@pytest.mark.rolls(3)
def test_an_upgrade_touches_no_pod_and_records_owners_once(
    kubectl: Any, helm: Any, clean: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = before.recorded_commit()
    before.unpack(commit, tmp_path)
    before.build(tmp_path, CLUSTER)
    before.install(helm, tmp_path, watch=[NAMESPACE])
    deployed = Deployed(kubectl, helm, f"{CLUSTER}-control-plane")
    kubectl.apply((tmp_path / "examples" / FIRST).read_text(encoding="utf-8"))
    kubectl.apply("\n---\n".join(json.dumps(each) for each in STANDALONE))
    deployed.wait_ready(within=600)
    for name in OTHERS:
        kubectl.apply((tmp_path / "examples" / name).read_text(encoding="utf-8"))
    deployed.wait_ready(within=300)
    objects = pulsar_objects(kubectl, NAMESPACE)
    assert {each["kind"] for each in objects} == {kind.value for kind in Kind}, "objects of every kind"
    answers(deployed.admin_url)

    pods, shapes = uids(deployed), templates(deployed)
    znodes = {pod: znode_versions(kubectl, NAMESPACE, pod) for pod in ("east-zookeeper-0", "small-zookeeper-0")}
    seen = {pod: admin_log_position(kubectl, NAMESPACE, pod) for pod in ("east-broker-0", "small-broker-0")}

    install_operator(helm, watch=[NAMESPACE])
    deployed.wait_ready(within=300)
    for each in objects:
        look_again(kubectl, each["kind"].lower(), NAMESPACE, each["metadata"]["name"])
    deployed.wait_ready(within=120)

    after, now = uids(deployed), templates(deployed)
    with capsys.disabled():
        print(f"\nfrom {commit}: {len(objects)} objects, {len(pods)} parts, {sum(map(len, znodes.values()))} znodes")
    assert {name: uid for name, uid in pods.items() if after.get(name) != uid} == {}, "pods, volumes, Services stay"
    assert [name for name in shapes if now[name] != shapes[name]] == [], "no pod template changed"
    recorded = admin_writes(kubectl, NAMESPACE, "east-broker-0", seen["east-broker-0"])
    assert len(recorded) == len(set(recorded)), "each record of who manages it is written once"
    assert [each for each in recorded if not OWNER_RECORD.fullmatch(each)] == [], "nothing else is written"
    names = {each["metadata"]["name"] for each in objects if each["kind"] == Kind.NAMESPACE.value}
    assert names <= {each.split("/")[-2] for each in recorded if "/namespaces/" in each}, "every namespace has one"

    # Now nothing is left to be recorded: what is written from here on would be written again and again.
    znodes = {pod: znode_versions(kubectl, NAMESPACE, pod) for pod in znodes}
    seen["east-broker-0"] = admin_log_position(kubectl, NAMESPACE, "east-broker-0")
    for each in objects:
        look_again(kubectl, each["kind"].lower(), NAMESPACE, each["metadata"]["name"])
    deployed.wait_ready(within=120)
    assert admin_writes(kubectl, NAMESPACE, "small-broker-0", seen["small-broker-0"]) == []
    with sees_admin_writes(
        kubectl, NAMESPACE, "east-broker-0", seen["east-broker-0"], deployed.admin_url, "shop/orders"
    ):
        for pod, versions in znodes.items():
            found = changed(versions, znode_versions(kubectl, NAMESPACE, pod))
            expected = {"/admin/policies/shop/orders"} if pod == "east-zookeeper-0" else set()
            assert found == expected, "the test's own write is seen, and no other"
