"""Two proxies replaced one after another under traffic: no send fails, no new connection meets a closed door."""

from __future__ import annotations

import pytest

from e2e.conftest import Deployed
from e2e.support.changes import patch_cluster
from e2e.support.doors import Doors
from e2e.support.traffic import Traffic
from pulsar_conformance.counting.client import CountingRun

COUNTED = "persistent://shop/orders/payments"
RATES = {f"persistent://shop/orders/roll-{n}": 10.0 for n in range(8)}
LEAVES = {"preStopSleepSeconds": 15}
"""As examples and docs/clusters.md say for production."""


def uids(deployed: Deployed) -> dict[str, str]:
    """Name by UID of the proxies' pods."""
    found = deployed.kubectl.items("pods", deployed.namespace, "app.kubernetes.io/component=proxy")
    return {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in found}


@pytest.mark.rolls(2)
def test_proxies_are_replaced_and_clients_do_not_notice(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    proxy = {"replicas": 2, "pod": LEAVES}
    patch_cluster(deployed.kubectl, deployed.namespace, "east", {"proxy": proxy})
    before = uids(deployed)
    assert len(before) == 2
    with (
        Traffic(deployed.service_url, RATES) as traffic,
        CountingRun(deployed.service_url, COUNTED, rate=50, keys=8) as run,
        Doors(deployed.admin_url) as doors,
    ):
        with run.operation("roll of two proxies"):
            changed = {**LEAVES, "annotations": {"example.com/reason": "roll"}}
            patch_cluster(deployed.kubectl, deployed.namespace, "east", {"proxy": {"pod": changed}})
        report = run.finish()
    with capsys.disabled():
        print(f"\n{doors.answered} new connections answered, failed: {doors.failures() or 'none'}\n{report.text()}")
    assert not before.keys() & uids(deployed).keys(), "both were replaced"
    assert report.failures() == [], report.text()
    assert traffic.failures() == []
    assert doors.failures() == []
