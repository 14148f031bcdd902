"""Resource groups, isolation policies and failure domains as objects of the running operator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from e2e.conftest import Deployed
from e2e.support.admin import ask, find
from e2e.support.changes import look_again
from e2e.support.deploy import QUICKSTART
from e2e.support.eventually import eventually
from e2e.support.kubectl import KubectlError
from e2e.support.objects import condition, is_ready

pytestmark = pytest.mark.kind

EXAMPLE = QUICKSTART.parent / "shared-limits-and-isolation.yaml"


@pytest.fixture
def example(deployed: Deployed) -> Iterator[list[dict[str, Any]]]:
    """The example's documents; its objects are deleted again, in Pulsar too."""
    documents = list(yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8")))
    yield documents
    order = ("PulsarNamespace", "PulsarIsolationPolicy", "PulsarResourceGroup")
    for document in sorted(documents, key=lambda each: order.index(each["kind"])):
        kind, name = document["kind"].lower(), document["metadata"]["name"]
        options = ("-n", deployed.namespace, "--ignore-not-found", "--timeout=90s")
        deployed.kubectl.run("delete", kind, name, *options, timeout=110)
    assert find(deployed.admin_url, "resourcegroups/gold") is None
    assert find(deployed.admin_url, "clusters/east/namespaceIsolationPolicies/billing") is None
    deployed.wait_ready(within=120)


def test_the_example(deployed: Deployed, example: list[dict[str, Any]]) -> None:
    """Namespaces come before their group and heal by its event; drift is repaired; the group's deletion waits."""
    kubectl, namespace = deployed.kubectl, deployed.namespace

    def ready(*kinds: str) -> None:
        def probe() -> bool:
            for document in example:
                if document["kind"] in kinds:
                    obj = kubectl.get(document["kind"].lower(), namespace, document["metadata"]["name"])
                    assert is_ready(obj), condition(obj, "Ready")
            return True

        # Far less than the operator's resync, which would heal anything.
        eventually(probe, within=60, what=f"{', '.join(kinds)} Ready")

    def apply(kind: str) -> None:
        for document in example:
            if document["kind"] == kind:
                kubectl.apply(json.dumps(document))

    apply("PulsarNamespace")

    def refused() -> bool:
        found = condition(kubectl.get("pulsarnamespace", namespace, "billing"), "Accepted")
        assert found.get("reason") == "RejectedByPulsar" and "ResourceGroup does not exist" in found["message"], found
        return True

    eventually(refused, within=60, what="the namespace waits for its group")
    apply("PulsarResourceGroup")
    apply("PulsarIsolationPolicy")
    ready("PulsarResourceGroup", "PulsarIsolationPolicy", "PulsarNamespace")
    group = {
        "publishRateInMsgs": 50000,
        "publishRateInBytes": 104857600,
        "dispatchRateInMsgs": 100000,
        "dispatchRateInBytes": -1,
    }
    policy = {
        "namespaces": ["shop/billing"],
        "primary": ["east-broker-1\\..*"],
        "secondary": ["east-broker-.*"],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
        "unload_scope": "changed",
    }
    assert find(deployed.admin_url, "resourcegroups/gold") == group
    assert find(deployed.admin_url, "clusters/east/namespaceIsolationPolicies/billing") == policy
    for name in ("billing", "invoices"):
        assert find(deployed.admin_url, f"namespaces/shop/{name}")["resource_group_name"] == "gold"
    status = (kubectl.get("pulsarisolationpolicy", namespace, "billing") or {})["status"]
    assert status["clusters"] == [{"name": "east", "exists": True, "brokers": 1}]

    ask(deployed.admin_url, "PUT", "resourcegroups/gold", {"publishRateInMsgs": 1})
    # A broker that is primary serves nobody else: the cluster's only one must not be.
    drifted = {**policy, "primary": ["east-broker-7.*"]}
    ask(deployed.admin_url, "POST", "clusters/east/namespaceIsolationPolicies/billing", drifted)
    look_again(kubectl, "pulsarresourcegroup", namespace, "gold")
    look_again(kubectl, "pulsarisolationpolicy", namespace, "billing")

    def repaired() -> bool:
        assert find(deployed.admin_url, "resourcegroups/gold") == group
        assert find(deployed.admin_url, "clusters/east/namespaceIsolationPolicies/billing") == policy
        return True

    eventually(repaired, within=60, what="the declared values are back")

    kubectl.run("delete", "pulsarresourcegroup", "gold", "-n", namespace, "--wait=false")

    def blocked() -> bool:
        found = condition(kubectl.get("pulsarresourcegroup", namespace, "gold"), "DeletionBlocked")
        assert found.get("reason") == "InUse" and "shop/billing" in found["message"], found
        return True

    eventually(blocked, within=60, what="the group's deletion waits for its namespaces")


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"namespaces": ["shop/(.*"]}, "must be a regular expression"),
        ({"primary": ["east-broker-0.*:8080"]}, "without a port"),
        ({"autoFailover": {"usageThresholdPercent": 101}}, "less than or equal to 100"),
    ],
    ids=["expression", "port", "percent"],
)
def test_bad_values_are_refused_at_admission(deployed: Deployed, patch: dict[str, Any], words: str) -> None:
    """With field, value and remedy."""
    (document,) = (
        each
        for each in yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8"))
        if each["kind"] == "PulsarIsolationPolicy"
    )
    document["spec"] |= patch
    with pytest.raises(KubectlError, match=words):
        deployed.kubectl.apply(json.dumps(document))
