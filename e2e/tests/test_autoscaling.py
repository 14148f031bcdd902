"""Two brokers become three under load, and two again without it: nobody who publishes or reads notices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.conftest import Deployed
from e2e.support.changes import patch_cluster
from e2e.support.eventually import eventually
from e2e.support.objects import condition
from e2e.support.rolling import even
from e2e.support.skew import COUNTED, Brokers
from e2e.support.traffic import Traffic
from pulsar_conformance.counting.client import CountingRun

QUIET, BUSY = 2.0, 15.0
"""Messages a second of each topic."""
TARGET = 300
"""Messages a second that one broker should carry, in and out."""
SCALING = {
    "minReplicas": 2,
    "maxReplicas": 3,
    "targets": {"messagesPerSecond": TARGET},
    "behavior": {
        "scaleUp": {"stabilizationWindowSeconds": 0, "cooldownSeconds": 30},
        "scaleDown": {"stabilizationWindowSeconds": 120, "cooldownSeconds": 60},
    },
}


def cluster(deployed: Deployed) -> dict[str, Any]:
    found = deployed.kubectl.get("pulsarcluster", deployed.namespace, "east")
    assert found is not None
    return dict(found)


def there(deployed: Deployed, number: int) -> bool:
    """So many brokers, ready, and no other."""
    found = cluster(deployed)["status"]["broker"]
    assert (found["desired"], found["ready"]) == (number, number), found
    return True


def scaled(deployed: Deployed, number: int) -> bool:
    """So many brokers, decided, there and ready, nobody under way."""
    status = cluster(deployed)["status"]
    row = (status.get("autoscaling") or {}).get("broker") or {}
    assert (row.get("desired"), row.get("current")) == (number, number), json.dumps(row)
    assert "drain" not in status, status["drain"]
    return there(deployed, number)


def at_rest(deployed: Deployed) -> bool:
    """Nothing is asked for that is not there; at the minimum there is less load than it could carry."""
    found = condition(cluster(deployed), "ScalingActive")
    assert found["reason"] in ("WithinTarget", "ScaledIn", "AtLimit"), found
    return True


def first_two(deployed: Deployed) -> dict[str, str]:
    """UIDs of the pods of the brokers that stay."""
    pods = deployed.kubectl.items("pods", deployed.namespace, "app.kubernetes.io/component=broker")
    found = {each["metadata"]["name"]: each["metadata"]["uid"] for each in pods}
    return {name: uid for name, uid in found.items() if name in ("east-broker-0", "east-broker-1")}


@pytest.fixture(autouse=True)
def three_again(deployed: Deployed) -> Iterator[None]:
    """Whatever became of the test, three brokers without autoscaling are left."""
    yield
    patch_cluster(deployed.kubectl, deployed.namespace, "east", {"broker": {"autoscaling": None, "replicas": 3}})
    eventually(lambda: there(deployed, 3), within=300, what="three brokers", every=1.0)


@pytest.mark.autoscaling(1)
def test_brokers_follow_the_load(deployed: Deployed, brokers: Brokers, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl, namespace = deployed.kubectl, deployed.namespace
    with even(brokers) as topics:
        patch_cluster(kubectl, namespace, "east", {"broker": {"replicas": 2}})
        eventually(lambda: there(deployed, 2), within=300, what="two brokers", every=1.0)
        patch_cluster(kubectl, namespace, "east", {"broker": {"autoscaling": SCALING}})
        stay = first_two(deployed)
        counted, rates = topics[-1], dict.fromkeys(topics[:-1], QUIET)
        traffic = Traffic(deployed.service_url, rates)
        with traffic, CountingRun(deployed.service_url, counted, rate=COUNTED) as run:
            eventually(lambda: scaled(deployed, 2), within=240, what="two brokers are enough", every=2.0)
            with run.operation("scale out"):
                traffic.change(dict.fromkeys(rates, BUSY))
                eventually(lambda: scaled(deployed, 3), within=420, what="three brokers", every=2.0)
                eventually(lambda: shared(brokers), within=300, what="the new broker has its share", every=2.0)
            grown = cluster(deployed)["status"]["autoscaling"]["broker"]
            with run.operation("scale in"):
                traffic.change(dict.fromkeys(rates, QUIET))
                eventually(lambda: scaled(deployed, 2), within=600, what="two brokers again", every=2.0)
            report = run.finish()
        events = kubectl.items("events", namespace)
        with capsys.disabled():
            print(f"\n{json.dumps(grown)}\n{json.dumps(cluster(deployed)['status']['autoscaling']['broker'])}")
            print(report.text())
        assert report.failures() == [], report.text()
        assert traffic.failures() == []
        reasons = [each["reason"] for each in events]
        assert "ScaledOut" in reasons and "ScaledIn" in reasons
        assert "DrainIncomplete" not in reasons, "it left with bundles"
        assert cluster(deployed)["spec"]["broker"]["replicas"] == 2, "spec is never written"
        assert first_two(deployed) == stay, "a change of the number rolls nothing"
        eventually(lambda: at_rest(deployed), within=150, what="nothing is asked for", every=2.0)


def shared(brokers: Brokers) -> bool:
    """Whether the third broker has bundles of the tests' namespace."""
    third = next(each for each in brokers.ids if each.startswith("east-broker-2."))
    owned = brokers.owned(third)
    assert len(owned) >= 2, owned
    return True
