"""A cluster gets other addresses, for its proxies go and come back: brokers of the other one are replaced each time,
and what is published meanwhile arrives."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from e2e.conftest import Deployed
from e2e.support.admin import ask
from e2e.support.eventually import eventually
from e2e.support.trading import manifest
from e2e.support.watched import uids
from e2e.tests.test_geo import west
from pulsar_conformance.counting.client import CountingRun

TOPIC = "persistent://shop/moved/counted"
BOTH = {"tenantRef": {"name": "shop"}, "replicationClusters": ["east", "west"], "deletionPolicy": "Delete"}


def published(deployed: Deployed) -> dict[str, str]:
    """The addresses of cluster west in the configuration store, as Pulsar reads them."""
    found = ask(deployed.admin_url, "GET", "clusters/west")
    return {name: url for name, url in found.items() if name in ("serviceUrl", "brokerServiceUrl") and url}


def proxies(deployed: Deployed, proxy: dict[str, Any] | None) -> None:
    """Whether cluster west has proxies."""
    body = json.dumps({"spec": {"proxy": proxy}})
    deployed.kubectl.run("patch", "pulsarcluster", "west", "-n", deployed.namespace, "--type=merge", "-p", body)


def follows(deployed: Deployed, proxy: dict[str, Any] | None, word: str) -> dict[str, dict[str, str]]:
    """Change the proxies, and wait until the addresses have a word and the brokers of east are others; pods of west."""
    before = uids(deployed.kubectl, deployed.namespace, "east")
    proxies(deployed, proxy)
    eventually(
        lambda: all(word in url for url in published(deployed).values()),
        within=300,
        what=f"the addresses of west are those of its {word}",
        every=1.0,
    )
    eventually(
        lambda: (
            uids(deployed.kubectl, deployed.namespace, "east")["broker"].items().isdisjoint(before["broker"].items())
        ),
        within=300,
        what="the brokers of east are replaced",
        every=1.0,
    )
    deployed.wait_ready()
    after = uids(deployed.kubectl, deployed.namespace, "east")
    assert {**after, "broker": {}} == {**before, "broker": {}}, "nothing else of east is"
    eventually(lambda: connected(deployed), within=300, what="connected, and nothing waits", every=1.0)
    return uids(deployed.kubectl, deployed.namespace, "west")


def connected(deployed: Deployed) -> bool:
    """Whether the topic's replicator to west is, and what waits for it is less than a second's messages."""
    stats = ask(deployed.admin_url, "GET", f"persistent/{TOPIC.removeprefix('persistent://')}/stats")
    found = stats["replication"]["west"]
    assert found["connected"] and found["replicationBacklog"] < 50, found
    return True


@pytest.mark.geo(5)
def test_brokers_follow_a_cluster_to_other_addresses(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl, namespace = deployed.kubectl, deployed.namespace
    kubectl.apply(yaml.safe_dump(west()))
    kubectl.apply(manifest("PulsarNamespace", "moved", BOTH))
    deployed.wait_ready()
    with CountingRun(
        deployed.service_url, TOPIC, rate=50, read_url=deployed.second_url, start_within=120, send_timeout=180
    ) as run:
        eventually(lambda: connected(deployed), within=120, what="west is connected", every=1.0)
        pods = uids(kubectl, namespace, "west")
        with run.operation("west without proxies"):
            there = follows(deployed, None, "west-broker")
        assert there["broker"] == pods["broker"] and "proxy" not in there, "nobody of west is replaced"
        with run.operation("west with proxies again", settle_within=300):
            back = follows(deployed, west()["spec"]["proxy"], "west-proxy")
        assert back["broker"] == pods["broker"]
        report = run.finish(drain_within=300)
    told = [
        event["message"]
        for event in kubectl.items("events", namespace)
        if event["reason"] == "PodReplaced" and "URLs of cluster west changed" in event["message"]
    ]
    with capsys.disabled():
        print("\n" + "\n".join([*told, report.text()]))
    assert told
    assert report.failures() == [], report.text()
    counters = ("lost", "unconfirmed", "foreign")
    assert {name: getattr(report, name) for name in counters} == dict.fromkeys(counters, 0)
