"""The chart pulsar uninstalled while objects refer to what it made: Helm ends, and the next release finds the data."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from e2e.conftest import CLUSTER, Deployed
from e2e.kind.kindconfig import PULSAR_NODE_PORT, WEB_NODE_PORT
from e2e.support.deleting import dependents
from e2e.support.deploy import NAMESPACE, ROOT, install_operator
from e2e.support.eventually import eventually
from e2e.support.objects import condition
from pulsar_conformance.counting.simple import consume, publish, subscribe

pytestmark = pytest.mark.safety(2)

RELEASE = "shop"
"""Also the name of the PulsarInstance and of the PulsarCluster."""
TOPIC = "persistent://shop/orders/payments"
RETURN_SECONDS = 300
"""Within which helm ends, and everything is gone that goes."""
MESSAGES = 50
VALUES: dict[str, Any] = {
    "cluster": {
        "spec": {
            "proxy": {
                "replicas": 1,
                "service": {"type": "NodePort", "nodePorts": {"pulsar": PULSAR_NODE_PORT, "http": WEB_NODE_PORT}},
            }
        }
    },
    "tenants": [{"name": "shop"}],
    "namespaces": [{"name": "orders", "tenant": "shop"}],
    "topics": [{"name": "payments", "namespace": "orders", "spec": {"deletionPolicy": "Delete"}}],
    "conformance": {"enabled": False},
}
BANK = {
    "apiVersion": "pulsaroperator.io/v1alpha1",
    "kind": "PulsarTenant",
    "metadata": {"name": "bank", "namespace": NAMESPACE},
    "spec": {"instanceRef": {"name": RELEASE}},
}
"""Of another team, which no release knows."""


@pytest.fixture(scope="module")
def operated(kubectl: Any, helm: Any, clean: None) -> Deployed:
    """The operator alone."""
    install_operator(helm, watch=[NAMESPACE])
    return Deployed(kubectl, helm, f"{CLUSTER}-control-plane")


def install(deployed: Deployed, tmp_path: Any) -> None:
    """The release, every object Ready."""
    file = tmp_path / "values.json"
    file.write_text(json.dumps(VALUES), encoding="utf-8")
    deployed.helm.run("install", RELEASE, str(ROOT / "helm/pulsar"), "-n", NAMESPACE, "--values", str(file))
    deployed.wait_ready()


def claims(deployed: Deployed) -> dict[str, str]:
    """UID by name of the volume claims."""
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in deployed.kubectl.items("pvc", NAMESPACE)}


def test_a_release_with_live_tenants_and_unread_messages_ends_and_its_data_is_found_again(
    operated: Deployed, tmp_path: Any
) -> None:
    install(operated, tmp_path)
    subscribe(operated.service_url, TOPIC, "reader")
    sent = publish(operated.service_url, TOPIC, MESSAGES, prefix="unread")
    kept = claims(operated)
    assert kept
    for kind, name in (("pulsarcluster", RELEASE), ("pulsartenant", "shop"), ("pulsarnamespace", "orders")):
        assert dependents(operated.kubectl, kind, NAMESPACE, name), f"the operator counts what needs {kind} {name}"

    begun = time.monotonic()
    timeout = f"{RETURN_SECONDS}s"
    operated.helm.run(
        "uninstall", RELEASE, "-n", NAMESPACE, "--wait", "--timeout", timeout, timeout=RETURN_SECONDS + 30
    )
    print(f"helm uninstall --wait: {time.monotonic() - begun:.0f} s")
    assert json.loads(operated.helm.run("list", "--all", "-n", NAMESPACE, "-o", "json")) == []
    assert operated.kubectl.items("pulsar", NAMESPACE) == []
    assert claims(operated) == kept

    install(operated, tmp_path)
    assert claims(operated) == kept
    assert consume(operated.service_url, TOPIC, "reader", MESSAGES) == sent


def test_a_cluster_that_another_team_uses_serves_on_and_names_what_needs_it(operated: Deployed) -> None:
    """Begins where the test before ended."""
    operated.kubectl.apply(json.dumps(BANK))
    operated.wait_ready(within=120)
    operated.helm.run("uninstall", RELEASE, "-n", NAMESPACE, timeout=RETURN_SECONDS)
    assert json.loads(operated.helm.run("list", "--all", "-n", NAMESPACE, "-o", "json")) == []

    def blocked() -> bool:
        told = condition(operated.kubectl.get("pulsarcluster", NAMESPACE, RELEASE), "DeletionBlocked")
        assert told.get("status") == "True" and f"PulsarTenant {NAMESPACE}/bank" in told["message"], told
        return True

    eventually(blocked, within=60, what="a condition that names the tenant")
    subscribe(operated.service_url, TOPIC, "later")
    sent = publish(operated.service_url, TOPIC, MESSAGES, prefix="served")
    assert consume(operated.service_url, TOPIC, "later", MESSAGES) == sent

    operated.kubectl.run("delete", "pulsartenant", "bank", "-n", NAMESPACE, "--timeout=60s", timeout=80)
    eventually(
        lambda: operated.kubectl.get("pulsarcluster", NAMESPACE, RELEASE) is None,
        within=RETURN_SECONDS,
        what="the cluster to go",
        every=2.0,
    )
    assert claims(operated)
