"""The only broker is rolled once, with every setting that a later chapter needs; what clients and idle topics feel."""

from __future__ import annotations

import pytest

from e2e.conftest import Deployed
from e2e.support.admin import ask
from e2e.support.changes import answers, patch_cluster
from e2e.support.eventually import eventually
from e2e.support.idle import DECLARED, FAST, MARKER, declare, intervals, topics
from e2e.support.objects import is_ready
from e2e.support.threebrokers import YOUNG
from pulsar_conformance.counting.client import CountingRun
from pulsar_conformance.settings import MAX_MESSAGE_SIZE, SETTINGS

PAYMENTS = "persistent://shop/orders/payments"
PATIENCE = 120.0
"""Seconds after which the client gives a send up: longer than the only broker, and then the only bookie, is away."""


def pods(deployed: Deployed) -> dict[str, str]:
    """Component by the UID of its pod."""
    found = deployed.kubectl.items("pods", deployed.namespace)
    return {p["metadata"]["uid"]: p["metadata"]["labels"]["app.kubernetes.io/component"] for p in found}


def test_all_settings_are_changed_in_one_roll(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    """Those components are replaced whose configuration changed, each once; messages wait and none gets lost."""
    before = pods(deployed)
    declare(deployed.kubectl, deployed.namespace)
    eventually(
        lambda: is_ready(deployed.kubectl.get("pulsartopic", deployed.namespace, DECLARED)),
        within=60,
        what="the idle topic is Ready",
    )
    url = deployed.service_url
    with CountingRun(url, PAYMENTS, rate=50, keys=8, send_timeout=PATIENCE) as run:
        with run.operation("roll of a cluster of one each"):
            broker = {"config": {**SETTINGS, **YOUNG, **FAST}, "maxMessageSize": MAX_MESSAGE_SIZE}
            patch_cluster(deployed.kubectl, deployed.namespace, "east", {"broker": broker})
            answers(deployed.admin_url)
            deployed.wait_ready(within=60)
        report = run.finish(drain_within=PATIENCE)
    with capsys.disabled():
        print(f"\n{report.text()}")
    assert report.failures() == [], report.text()
    after = pods(deployed)
    replaced = sorted(component for uid, component in before.items() if uid not in after)
    # A larger message is a larger entry for whoever stores and copies it; proxies pass on what they get.
    assert replaced == ["autorecovery", "bookie", "broker"]
    assert sorted(after.values()) == sorted(before.values())


def test_idle_topics_outlive_the_fastest_collection(deployed: Deployed) -> None:
    """The operator renders Pulsar's collector switched off; test_brokers switches it on and sees it collect."""
    ask(deployed.admin_url, "PUT", f"persistent/shop/orders/{MARKER}")
    for name in (DECLARED, MARKER):
        ask(deployed.admin_url, "GET", f"persistent/shop/orders/{name}/stats")  # only a loaded topic is looked at
    intervals(deployed.kubectl, deployed.namespace, "east-broker-0", rounds=5)
    assert {DECLARED, MARKER} <= topics(deployed.admin_url)
