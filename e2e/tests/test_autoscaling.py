"""Two brokers become three under load, and two again without it: nobody who publishes or reads notices."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.conftest import Deployed
from e2e.support.eventually import eventually
from e2e.support.rolling import even
from e2e.support.scaling import Scaling, shared
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


@pytest.fixture
def scaling(deployed: Deployed) -> Iterator[Scaling]:
    """The number of brokers, three in the end."""
    found = Scaling(deployed.kubectl, deployed.namespace)
    with found.given_back():
        yield found


@pytest.mark.autoscaling(1)
def test_brokers_follow_the_load(
    deployed: Deployed, scaling: Scaling, brokers: Brokers, capsys: pytest.CaptureFixture[str]
) -> None:
    with even(brokers) as topics:
        scaling.patch({"replicas": 2})
        eventually(lambda: scaling.there(2), within=300, what="two brokers", every=1.0)
        scaling.patch({"autoscaling": SCALING})
        stay = scaling.first_two()
        counted, rates = topics[-1], dict.fromkeys(topics[:-1], QUIET)
        traffic = Traffic(deployed.service_url, rates)
        with traffic, CountingRun(deployed.service_url, counted, rate=COUNTED) as run:
            eventually(lambda: scaling.scaled(2), within=240, what="two brokers are enough", every=2.0)
            with run.operation("scale out"):
                traffic.change(dict.fromkeys(rates, BUSY))
                eventually(lambda: scaling.scaled(3), within=420, what="three brokers", every=2.0)
                eventually(lambda: shared(brokers), within=300, what="the new broker has its share", every=2.0)
            grown = scaling.row()
            with run.operation("scale in"):
                traffic.change(dict.fromkeys(rates, QUIET))
                eventually(lambda: scaling.scaled(2), within=600, what="two brokers again", every=2.0)
            report = run.finish()
        events = deployed.kubectl.items("events", deployed.namespace)
        with capsys.disabled():
            print(f"\n{json.dumps(grown)}\n{json.dumps(scaling.row())}")
            print(report.text())
        assert report.failures() == [], report.text()
        assert traffic.failures() == []
        reasons = [each["reason"] for each in events]
        assert "ScaledOut" in reasons and "ScaledIn" in reasons
        assert "DrainIncomplete" not in reasons, "it left with bundles"
        assert scaling.obj()["spec"]["broker"]["replicas"] == 2, "spec is never written"
        assert scaling.first_two() == stay, "a change of the number rolls nothing"
        eventually(scaling.at_rest, within=150, what="nothing is asked for", every=2.0)
