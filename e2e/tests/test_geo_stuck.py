"""A replicator that is connected and delivers nothing is found, and its topic loaded anew: nobody else feels it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from e2e.conftest import Deployed
from e2e.support.admin import ask
from e2e.support.eventually import eventually
from e2e.support.mirrored import mirrored, west
from e2e.support.objects import condition, is_current, is_ready
from pulsar_conformance.counting import simple
from pulsar_conformance.counting.client import CountingRun

STUCK = "persistent://shop/mirrored/stuck"
WELL = "persistent://shop/mirrored/well"
PERIOD_SECONDS = 36000
WAITING = 200


def rate(deployed: Deployed, declared: dict[str, int]) -> None:
    """Limit what each topic of the namespace replicates; nothing in it lifts the limit."""
    patch = json.dumps({"spec": {"policies": {"replicatorDispatchRate": declared or None}}})
    where = ("pulsarnamespace", "mirrored", "-n", deployed.namespace)
    deployed.kubectl.run("patch", *where, "--type=merge", "-p", patch)
    if not declared:
        # {} merged into the limit would leave it: it is taken out first.
        patch = json.dumps({"spec": {"policies": {"replicatorDispatchRate": {}}}})
        deployed.kubectl.run("patch", *where, "--type=merge", "-p", patch)

    def done() -> bool:
        found = deployed.kubectl.get("pulsarnamespace", deployed.namespace, "mirrored")
        assert found is not None
        return is_current(found) and is_ready(found)

    eventually(done, within=60, what="the rate is in Pulsar")
    live = ask(deployed.admin_url, "GET", "namespaces/shop/mirrored/replicatorDispatchRate")
    assert live["dispatchThrottlingRateInMsg"] == declared.get("messagesPerPeriod", -1), live


def waits(deployed: Deployed) -> int:
    """Messages of the topic that west has not got."""
    found = ask(deployed.admin_url, "GET", f"{STUCK.replace('://', '/', 1)}/stats")["replication"]["west"]
    assert found["connected"], found
    return int(found["replicationBacklog"])


def told(deployed: Deployed) -> dict[str, Any]:
    """Condition ReplicationHealthy."""
    found = deployed.kubectl.get("pulsarinstance", deployed.namespace, "demo")
    assert found is not None
    return condition(found, "ReplicationHealthy")


@pytest.mark.geo(6)
def test_a_stuck_replicator_is_made_to_deliver(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    """Brokers of 4.0.8 wait for the period of a rate to end although the rate was lifted: here for ten hours."""
    kubectl, namespace = deployed.kubectl, deployed.namespace
    kubectl.apply(yaml.safe_dump(west()))
    kubectl.apply(yaml.safe_dump(mirrored()))
    deployed.wait_ready()
    simple.subscribe(deployed.second_url, STUCK, "kept")
    first = simple.publish(deployed.service_url, STUCK, 5, prefix="first")
    assert simple.consume(deployed.second_url, STUCK, "kept", len(first)) == first
    rate(deployed, {"messagesPerPeriod": 1, "periodSeconds": PERIOD_SECONDS})
    published = simple.publish(deployed.service_url, STUCK, WAITING, prefix="waits")
    eventually(lambda: waits(deployed) in range(1, WAITING + 1), within=60, what="messages that wait")
    rate(deployed, {})
    with CountingRun(deployed.service_url, WELL, rate=20, read_url=deployed.second_url, start_within=120) as well:
        text = eventually(
            lambda: (found := told(deployed))["reason"] == "NotDelivering" and found["message"],
            within=480,
            what="NotDelivering",
            every=1.0,
        )
        got = simple.consume(deployed.second_url, STUCK, "kept", len(published))
        eventually(lambda: told(deployed)["reason"] == "Replicating", within=120, what="it moves", every=1.0)
        report = well.finish(drain_within=60)
    events = [e for e in kubectl.items("events", namespace) if e["reason"] == "NotDelivering"]
    with capsys.disabled():
        print(f"\n{text}\n{report.text()}")
    assert got == published, "in order, none lost, none twice"
    assert STUCK in text and WELL not in text, text
    unloaded = [each["message"] for each in events if each["message"].startswith("Unloaded ")]
    text = f"Unloaded {STUCK} in east, because none of their messages was replicated for 5 minutes"
    assert unloaded == [text], events
    assert report.failures() == [], report.text()
    assert report.unprovoked == report.redelivered == 0, "the other topic was left alone"
