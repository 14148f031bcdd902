"""Bad input on a real cluster: each says field, value and remedy, and the rest of the namespace stays Ready."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.conftest import Deployed
from e2e.support.deleting import delete_childless
from e2e.support.eventually import eventually
from e2e.support.kubectl import KubectlError
from e2e.support.objects import condition, is_ready, pulsar_objects

GROUP = "pulsaroperator.io/v1alpha1"


def manifest(kind: str, name: str, spec: dict[str, Any]) -> str:
    """One object in the quickstart's namespace, as JSON."""
    return json.dumps(
        {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name, "namespace": "pulsar"}, "spec": spec}
    )


@pytest.fixture
def scratch(deployed: Deployed) -> Iterator[Deployed]:
    """The deployment; what the test adds is deleted again, and everything else is Ready then."""
    before = {(o["kind"], o["metadata"]["name"]) for o in pulsar_objects(deployed.kubectl, deployed.namespace)}
    yield deployed
    for obj in pulsar_objects(deployed.kubectl, deployed.namespace):
        name = (obj["kind"], obj["metadata"]["name"])
        if name not in before:
            delete_childless(deployed.kubectl, obj["kind"].lower(), deployed.namespace, name[1], seconds=60)
    deployed.wait_ready(within=120)


def message(deployed: Deployed, kind: str, name: str, condition_type: str, reason: str, *, within: float = 60) -> str:
    """The message of a condition once it is False or Unknown for this reason."""

    def probe() -> str | None:
        found = condition(deployed.kubectl.get(kind, deployed.namespace, name), condition_type)
        assert found.get("status") in ("False", "Unknown") and found["reason"] == reason, found
        return str(found["message"])

    text = eventually(probe, within=within, what=f"{kind} {name}: {condition_type} with reason {reason}")
    assert text is not None
    return text


def test_unknown_field_is_refused_by_kubectl(deployed: Deployed) -> None:
    topic = manifest("PulsarTopic", "typo", {"namespaceRef": {"name": "orders"}, "partitons": 4})
    with pytest.raises(KubectlError, match="partitons"):
        deployed.kubectl.apply(topic)


def test_quorum_larger_than_bookies_is_refused(deployed: Deployed) -> None:
    patch = json.dumps({"spec": {"bookkeeper": {"ensemble": {"ensembleSize": 3}}}})
    with pytest.raises(KubectlError, match="ensembleSize must not exceed"):
        deployed.kubectl.run("patch", "pulsarcluster", "east", "-n", "pulsar", "--type=merge", "-p", patch)


@pytest.mark.parametrize(
    ("kind", "name", "patch"),
    [
        ("pulsartopic", "payments", {"partitions": 3}),
        ("pulsartopic", "payments", {"name": "other"}),
        ("pulsartenant", "shop", {"instanceRef": {"name": "other"}}),
        ("pulsarnamespace", "orders", {"bundles": None}),
        ("pulsarcluster", "east", {"mode": "Standalone"}),
    ],
    ids=["added", "set", "changed", "removed", "mode"],
)
def test_immutable_fields(deployed: Deployed, kind: str, name: str, patch: dict[str, Any]) -> None:
    text = json.dumps({"spec": patch})
    with pytest.raises(KubectlError, match=r"immutable|cannot become|required"):
        deployed.kubectl.run("patch", kind, name, "-n", deployed.namespace, "--type=merge", "-p", text)


def test_reference_to_nothing(scratch: Deployed) -> None:
    scratch.kubectl.apply(manifest("PulsarTopic", "orphan", {"namespaceRef": {"name": "nowhere"}}))
    assert "nowhere" in message(scratch, "pulsartopic", "orphan", "Ready", "ReferenceNotFound")


def test_name_pulsar_forbids(deployed: Deployed) -> None:
    with pytest.raises(KubectlError, match="-partition-"):
        deployed.kubectl.apply(
            manifest("PulsarTopic", "bad", {"namespaceRef": {"name": "orders"}, "name": "clicks-partition-1"})
        )


def test_reserved_config_key_changes_nothing_that_runs(deployed: Deployed) -> None:
    pods = {p["metadata"]["name"]: p["metadata"]["uid"] for p in deployed.kubectl.items("pods", deployed.namespace)}
    patch = json.dumps({"spec": {"broker": {"config": {"metadataStoreUrl": "zk:elsewhere:2181"}}}})
    deployed.kubectl.run("patch", "pulsarcluster", "east", "-n", "pulsar", "--type=merge", "-p", patch)
    try:
        text = message(deployed, "pulsarcluster", "east", "Accepted", "InvalidSpec")
        assert "metadataStoreUrl" in text and "spec.metadataStore" in text
    finally:
        undo = json.dumps({"spec": {"broker": {"config": None}}})
        deployed.kubectl.run("patch", "pulsarcluster", "east", "-n", "pulsar", "--type=merge", "-p", undo)
    deployed.wait_ready(within=60)
    assert {
        p["metadata"]["name"]: p["metadata"]["uid"] for p in deployed.kubectl.items("pods", deployed.namespace)
    } == pods


def test_unreachable_external_zookeeper(scratch: Deployed) -> None:
    spec = {
        "instanceRef": {"name": "demo"},
        "metadataStore": {"external": {"servers": "zookeeper.invalid:2181"}},
        "bookkeeper": {"replicas": 1},
        "broker": {"replicas": 1},
    }
    scratch.kubectl.apply(manifest("PulsarCluster", "west", spec))
    assert "zookeeper.invalid:2181" in message(scratch, "pulsarcluster", "west", "MetadataReady", "MetadataUnreachable")
    assert not scratch.kubectl.items("statefulsets", "pulsar", "pulsaroperator.io/owner-name=west")
    assert is_ready(scratch.kubectl.get("pulsarcluster", scratch.namespace, "east"))


def test_standalone_is_repaired_and_keeps_messages(scratch: Deployed) -> None:
    """Its first image cannot be pulled."""
    instance = {"configurationStore": {"cluster": {"name": "solo"}}}
    cluster = {
        "instanceRef": {"name": "dev"},
        "mode": "Standalone",
        "preset": "Small",
        "standalone": {"storage": {"size": "1Gi"}},
        "image": {"broker": "pulsar-broker:no-such-tag", "pullPolicy": "Never"},
    }
    scratch.kubectl.apply(manifest("PulsarInstance", "dev", instance))
    scratch.kubectl.apply(manifest("PulsarCluster", "solo", cluster))
    text = message(scratch, "pulsarcluster", "solo", "BrokersReady", "ImagePullFailed", within=90)
    assert "pulsar-broker:no-such-tag" in text
    assert is_ready(scratch.kubectl.get("pulsarcluster", scratch.namespace, "east"))

    # A broken revision is repairable: with the right image the pod is replaced although it was never ready.
    patch = json.dumps({"spec": {"image": {"broker": "pulsar-broker:4.0.8-dev", "pullPolicy": "IfNotPresent"}}})
    scratch.kubectl.run("patch", "pulsarcluster", "solo", "-n", "pulsar", "--type=merge", "-p", patch)
    eventually(
        lambda: is_ready(scratch.kubectl.get("pulsarcluster", scratch.namespace, "solo")),
        within=180,
        what="the repaired standalone cluster",
    )
    standalone_keeps_messages(scratch)


def standalone_keeps_messages(deployed: Deployed) -> None:
    """A message published before the pod is replaced is consumed after; by Pulsar's own client inside the pod."""
    tool, topic = "/pulsar/bin/pulsar-client", "persistent://public/default/kept"
    pod = ("exec", "-n", deployed.namespace, "solo-standalone-0", "--", "env", "PULSAR_LOG_DIR=/tmp", tool)
    deployed.kubectl.run(*pod, "produce", topic, "-m", "still-here", timeout=120)
    before = deployed.kubectl.get("pod", deployed.namespace, "solo-standalone-0")
    assert before is not None
    deployed.kubectl.run("delete", "pod", "solo-standalone-0", "-n", deployed.namespace, timeout=150)

    def back() -> bool:
        now = deployed.kubectl.get("pod", deployed.namespace, "solo-standalone-0")
        assert now is not None
        ready = [c["status"] for c in now["status"].get("conditions", []) if c["type"] == "Ready"]
        return now["metadata"]["uid"] != before["metadata"]["uid"] and ready == ["True"]

    eventually(back, within=180, what="the standalone pod again")
    text = deployed.kubectl.run(*pod, "consume", topic, "-s", "late", "-p", "Earliest", "-n", "1", timeout=120)
    assert "still-here" in text
