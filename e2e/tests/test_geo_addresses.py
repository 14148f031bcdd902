"""A cluster gets other addresses in the configuration store, by hand and back by its operator: the brokers of the other
cluster are replaced each time, and what is published meanwhile arrives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from e2e.conftest import Deployed
from e2e.support.admin import ask
from e2e.support.eventually import eventually
from e2e.support.mirrored import west
from e2e.support.trading import manifest
from e2e.support.watched import uids
from pulsar_conformance.counting.client import CountingRun

TOPIC = "persistent://shop/moved/counted"
BOTH = {"tenantRef": {"name": "shop"}, "replicationClusters": ["east", "west"], "deletionPolicy": "Delete"}
PAUSED = "pulsaroperator.io/pause"


def remembered(deployed: Deployed) -> dict[str, Any]:
    """What cluster east knows of the addresses of west."""
    found = deployed.kubectl.get("pulsarcluster", deployed.namespace, "east")
    assert found is not None
    rows = found["status"].get("remoteClusters") or []
    return next((row for row in rows if row["name"] == "west"), {})


def by_hand(deployed: Deployed) -> None:
    """West has another name for its brokers, which leads to the same ones; its operator looks away."""
    deployed.kubectl.run("annotate", "pulsarcluster", "west", "-n", deployed.namespace, f"{PAUSED}=true")
    found = ask(deployed.admin_url, "GET", "clusters/west")
    found["brokerServiceUrl"] = f"pulsar://west-broker.{deployed.namespace}:6650"
    ask(deployed.admin_url, "POST", "clusters/west", found)


def by_its_operator(deployed: Deployed) -> None:
    """Which looks again."""
    deployed.kubectl.run("annotate", "pulsarcluster", "west", "-n", deployed.namespace, f"{PAUSED}-")


def follows(deployed: Deployed, change: Callable[[Deployed], None], url: str) -> None:
    """Change the addresses, and wait until west has this one and the brokers of east are others, and nobody else is."""
    before = uids(deployed.kubectl, deployed.namespace, "east")
    there = uids(deployed.kubectl, deployed.namespace, "west")
    change(deployed)
    eventually(
        lambda: ask(deployed.admin_url, "GET", "clusters/west")["brokerServiceUrl"] == url,
        within=120,
        what=f"west is at {url}",
        every=1.0,
    )

    def replaced() -> bool:
        now = uids(deployed.kubectl, deployed.namespace, "east").get("broker", {})
        told = remembered(deployed)
        assert now.keys() == before["broker"].keys() and told.get("brokerServiceUrl") == url, (now, told)
        return all(now[name] != uid for name, uid in before["broker"].items())

    eventually(replaced, within=300, what="the brokers of east are replaced", every=1.0)
    eventually(lambda: connected(deployed), within=300, what="connected, and nothing waits", every=1.0)
    after = uids(deployed.kubectl, deployed.namespace, "east")
    assert {**after, "broker": {}} == {**before, "broker": {}}, "nothing else of east is"
    assert uids(deployed.kubectl, deployed.namespace, "west") == there, "nobody of west is"


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
    own = ask(deployed.admin_url, "GET", "clusters/west")["brokerServiceUrl"]
    with CountingRun(
        deployed.service_url, TOPIC, rate=50, read_url=deployed.second_url, start_within=120, send_timeout=180
    ) as run:
        eventually(lambda: connected(deployed), within=120, what="west is connected", every=1.0)
        with run.operation("other addresses by hand", settle_within=300):
            follows(deployed, by_hand, f"pulsar://west-broker.{namespace}:6650")
        with run.operation("its own ones again", settle_within=300):
            follows(deployed, by_its_operator, own)
        report = run.finish(drain_within=300)
    deployed.wait_ready()
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
