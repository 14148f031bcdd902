"""Two proxies replaced one after another, or one killed, under traffic: clients go on through the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.conftest import Deployed
from e2e.support.changes import patch_cluster
from e2e.support.doors import Doors
from e2e.support.faults_command import command
from e2e.support.promises import run_failures
from e2e.support.traffic import Traffic
from pulsar_conformance.counting.client import CountingRun
from pulsar_conformance.model import Status

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


@pytest.mark.rolls(2)
def test_promise_while_a_proxy_fails(deployed: Deployed, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the suite's own check, through the Service of both; the pod that is killed is not replaced."""
    patch_cluster(deployed.kubectl, deployed.namespace, "east", {"proxy": {"replicas": 2}})
    before = uids(deployed)
    fault = command(deployed.kubectl, deployed.node, deployed.namespace, "east")
    with capsys.disabled():
        (outcome,) = run_failures(
            deployed.service_url, deployed.admin_url, fault, tmp_path / "client.log", only="proxy_killed"
        )
    assert outcome.status is Status.PASSED, outcome.text
    deployed.wait_ready(within=120)
    assert len(before) == 2 and uids(deployed) == before
