"""What must not be lost and must not get stuck: a rename, a deletion of what retention keeps, two clusters at once."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.conftest import Deployed
from e2e.support.admin import ask, find
from e2e.support.deploy import NAMESPACE, ensure_namespace, install_operator, quickstart_documents
from e2e.support.eventually import eventually
from e2e.support.objects import condition, is_ready, not_ready, pulsar_objects
from pulsar_conformance.counting.simple import consume, publish

pytestmark = pytest.mark.safety(1)

API = "pulsaroperator.io/v1alpha1"
MESH = "mesh"
MESSAGES = 20


def topic(name: str, pulsar_name: str, **spec: Any) -> dict[str, Any]:
    """A PulsarTopic that is deleted with its object."""
    return {
        "apiVersion": API,
        "kind": "PulsarTopic",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"namespaceRef": {"name": "orders"}, "name": pulsar_name, "deletionPolicy": "Delete", **spec},
    }


def apply_ready(deployed: Deployed, document: dict[str, Any]) -> None:
    deployed.kubectl.apply(json.dumps(document))
    name = document["metadata"]["name"]
    eventually(lambda: is_ready(deployed.kubectl.get("pulsartopic", NAMESPACE, name)), within=60, what=f"{name} Ready")


def told(deployed: Deployed, name: str, kind: str) -> dict[str, Any]:
    return condition(deployed.kubectl.get("pulsartopic", NAMESPACE, name), kind)


def delete_by_force(deployed: Deployed, name: str, pulsar_name: str) -> None:
    patch = json.dumps({"spec": {"deletionPolicy": "ForceDelete"}})
    deployed.kubectl.run("patch", "pulsartopic", name, "-n", NAMESPACE, "--type=merge", "-p", patch)
    # Where the deletion was waiting for this, the object may be gone already.
    deployed.kubectl.run(
        *("delete", "pulsartopic", name, "-n", NAMESPACE, "--ignore-not-found", "--timeout=120s"), timeout=140
    )
    assert find(deployed.admin_url, f"persistent/shop/orders/{pulsar_name}/stats") is None


def test_a_rename_keeps_topic_and_messages(deployed: Deployed) -> None:
    """The new object is applied first and told that the topic is another's; then the old one is deleted."""
    apply_ready(deployed, topic("old-name", "renamed"))
    texts = publish(deployed.service_url, "persistent://shop/orders/renamed", MESSAGES, prefix="kept")
    deployed.kubectl.apply(json.dumps(topic("new-name", "renamed")))
    eventually(
        lambda: told(deployed, "new-name", "Ready").get("reason") == "Duplicate", within=60, what="a second declaration"
    )
    deployed.kubectl.run("delete", "pulsartopic", "old-name", "-n", NAMESPACE, "--timeout=60s", timeout=70)
    eventually(lambda: is_ready(deployed.kubectl.get("pulsartopic", NAMESPACE, "new-name")), within=60, what="Ready")
    events = deployed.kubectl.items("events", NAMESPACE)
    assert any(e["reason"] == "HandedOver" and "new-name" in e["message"] for e in events)
    got = consume(deployed.service_url, "persistent://shop/orders/renamed", "after", MESSAGES)
    assert got == texts
    ask(deployed.admin_url, "DELETE", "persistent/shop/orders/renamed/subscription/after")
    # The namespace of the quickstart keeps messages for a day.
    delete_by_force(deployed, "new-name", "renamed")


def test_a_topic_with_retained_messages_is_kept_until_that_is_confirmed(deployed: Deployed) -> None:
    """The namespace of the quickstart keeps messages for a day."""
    apply_ready(deployed, topic("retained", "retained"))
    texts = publish(deployed.service_url, "persistent://shop/orders/retained", MESSAGES, prefix="kept")
    deployed.kubectl.run("delete", "pulsartopic", "retained", "-n", NAMESPACE, "--wait=false")
    eventually(
        lambda: told(deployed, "retained", "DeletionBlocked").get("status") == "True",
        within=90,
        what="a blocked deletion",
    )
    blocked = told(deployed, "retained", "DeletionBlocked")
    assert blocked["reason"] == "NotEmpty" and f"{MESSAGES} entries" in blocked["message"], blocked
    assert consume(deployed.service_url, "persistent://shop/orders/retained", "look", MESSAGES) == texts
    ask(deployed.admin_url, "DELETE", "persistent/shop/orders/retained/subscription/look")
    delete_by_force(deployed, "retained", "retained")


def mesh() -> list[dict[str, Any]]:
    """An instance of two clusters, a tenant in both and a replicated namespace with a topic, as one file."""
    documents = [d for d in quickstart_documents() if d["kind"] in ("PulsarInstance", "PulsarCluster")]
    instance, first = documents
    instance["spec"]["configurationStore"] = {"cluster": {"name": "one"}}
    clusters = []
    for name in ("one", "two"):
        cluster = json.loads(json.dumps(first))
        cluster["metadata"]["name"] = name
        cluster["spec"].pop("proxy", None)
        clusters.append(cluster)
    reference = {"instanceRef": {"name": instance["metadata"]["name"]}}
    tenant = {
        "kind": "PulsarTenant",
        "metadata": {"name": "world"},
        "spec": {**reference, "allowedClusters": ["one", "two"]},
    }
    namespace = {
        "kind": "PulsarNamespace",
        "metadata": {"name": "everywhere"},
        "spec": {"tenantRef": {"name": "world"}, "replicationClusters": ["one", "two"]},
    }
    news = {"kind": "PulsarTopic", "metadata": {"name": "news"}, "spec": {"namespaceRef": {"name": "everywhere"}}}
    found = [instance, *clusters, tenant, namespace, news]
    return [{**d, "apiVersion": API, "metadata": {"name": d["metadata"]["name"], "namespace": MESH}} for d in found]


@pytest.fixture
def watched(deployed: Deployed) -> Iterator[None]:
    """A second Kubernetes namespace that the operator watches."""
    ensure_namespace(deployed.kubectl, MESH)
    install_operator(deployed.helm, watch=[NAMESPACE, MESH])
    yield
    deployed.kubectl.run("delete", "namespace", MESH, "--timeout=240s", timeout=250)
    install_operator(deployed.helm, watch=[NAMESPACE])


def test_two_clusters_and_what_is_in_both_in_one_apply(deployed: Deployed, watched: None) -> None:
    """In any order, and without a nudge: no annotation, no second apply, no wait for the resync."""
    documents = mesh()
    random.Random(documents[0]["metadata"]["name"]).shuffle(documents)
    deployed.kubectl.apply("\n---\n".join(json.dumps(each) for each in documents))

    def ready() -> bool:
        objects = pulsar_objects(deployed.kubectl, MESH)
        waiting = not_ready(objects)
        assert not waiting and len(objects) == len(documents), "; ".join(waiting)
        return True

    # The bring-up of two clusters takes most of it; the resync comes after ten minutes.
    eventually(ready, within=480, what="every object is Ready", every=2.0)
    status = (deployed.kubectl.get("pulsarnamespace", MESH, "everywhere") or {})["status"]
    assert {each["name"] for each in status["clusters"] if each["exists"]} == {"one", "two"}
