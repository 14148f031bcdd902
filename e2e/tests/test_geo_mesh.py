"""A third cluster joins two that replicate, and leaves them: held while messages wait for it, or as confirmed. The
operator is killed in each phase."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from e2e.conftest import Deployed
from e2e.support.admin import ask
from e2e.support.deploy import quickstart_documents
from e2e.support.eventually import eventually
from e2e.support.killing import kill_the_operator
from e2e.support.mirrored import west
from e2e.support.objects import condition, is_current
from e2e.support.trading import manifest
from e2e.support.writes import port_forward
from pulsar_conformance.counting import simple
from pulsar_conformance.counting.client import CountingRun

TWO, THREE = ["east", "west"], ["east", "west", "north"]
TOPIC = "persistent://shop/meshed/counted"
FROM = {name: f"persistent://shop/meshed/from-{name}" for name in THREE}
AGREED = {"action": "AbandonBacklog", "cluster": "north", "expiresTime": "2099-01-01T00:00:00Z"}


def north() -> dict[str, Any]:
    """The quickstart's cluster once more, without a door to this machine."""
    (found,) = [each for each in quickstart_documents() if each["kind"] == "PulsarCluster"]
    found["metadata"]["name"] = "north"
    found["spec"]["proxy"].pop("service", None)
    return dict(found)


def meshed(clusters: list[str], **more: Any) -> str:
    return manifest(
        "PulsarNamespace", "meshed", {"tenantRef": {"name": "shop"}, "replicationClusters": clusters, **more}
    )


def accepted(deployed: Deployed) -> tuple[str, str]:
    """Reason and message of the namespace's condition Accepted, for its newest specification."""
    found = deployed.kubectl.get("pulsarnamespace", deployed.namespace, "meshed")
    assert found is not None
    told = condition(found, "Accepted")
    return (told.get("reason", ""), told.get("message", "")) if is_current(found) else ("", "")


def settled(deployed: Deployed, clusters: list[str]) -> None:
    """The namespace is as declared, and Pulsar says so."""
    eventually(lambda: accepted(deployed)[0] == "Valid", within=300, what=f"replicated by {clusters}", every=1.0)
    live = ask(deployed.admin_url, "GET", "namespaces/shop/meshed")
    assert sorted(live["replication_clusters"]) == sorted(clusters)


@contextmanager
def away(deployed: Deployed) -> Iterator[None]:
    """Cluster north has no brokers, and the operator leaves it so."""
    where = ("pulsarcluster", "north", "-n", deployed.namespace)
    deployed.kubectl.run("annotate", *where, "pulsaroperator.io/pause=true")
    deployed.kubectl.run("scale", "statefulset", "north-broker", "-n", deployed.namespace, "--replicas=0")
    try:
        yield
    finally:
        deployed.kubectl.run("scale", "statefulset", "north-broker", "-n", deployed.namespace, "--replicas=1")
        deployed.kubectl.run("annotate", *where, "pulsaroperator.io/pause-")


@pytest.mark.geo(5)
def test_a_third_cluster_joins_and_leaves(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl, namespace = deployed.kubectl, deployed.namespace
    for each in (west(), north()):
        kubectl.apply(yaml.safe_dump(each))
    kubectl.apply(meshed(TWO))
    deployed.wait_ready(within=600)
    with (
        port_forward(kubectl, namespace, "service/north-proxy", 6650) as port,
        CountingRun(deployed.service_url, TOPIC, rate=50, read_url=deployed.second_url, start_within=120) as run,
    ):
        doors = {"east": deployed.service_url, "west": deployed.second_url, "north": f"pulsar://127.0.0.1:{port}"}
        with run.operation("north joins, the operator killed", settle_within=120):
            kubectl.apply(meshed(THREE))
            kill_the_operator(kubectl)
            settled(deployed, THREE)
        for source, topic in FROM.items():
            others = [name for name in THREE if name != source]
            for name in others:
                simple.subscribe(doors[name], topic, f"in-{name}")
            published = simple.publish(doors[source], topic, 20, prefix=source)
            for name in others:
                assert simple.consume(doors[name], topic, f"in-{name}", 20) == published, f"{source} to {name}"
        simple.subscribe(doors["north"], TOPIC, "kept")
        with run.operation("north leaves while messages wait for it, the operator killed", settle_within=300):
            with away(deployed):
                before = simple.publish(deployed.service_url, FROM["east"], 30, prefix="waits")
                kubectl.apply(meshed(TWO))
                held = eventually(
                    lambda: (told := accepted(deployed)) and told[0] == "WaitingForReplication" and told[1],
                    within=180, what="WaitingForReplication", every=1.0,
                )  # fmt: skip
                kill_the_operator(kubectl)
                live = ask(deployed.admin_url, "GET", "namespaces/shop/meshed")
                assert sorted(live["replication_clusters"]) == sorted(THREE), "nothing is given up"
            settled(deployed, TWO)
        report = run.finish(drain_within=180)
    with capsys.disabled():
        print(f"\n{held}\n{report.text()}")
    assert report.failures() == [], report.text()
    with port_forward(kubectl, namespace, "service/north-proxy", 6650) as port:
        door = f"pulsar://127.0.0.1:{port}"
        assert simple.consume(door, FROM["east"], "in-north", 30) == before, "what waited has arrived"

    kubectl.apply(meshed(THREE))
    settled(deployed, THREE)
    with away(deployed):
        simple.publish(deployed.service_url, FROM["east"], 5, prefix="given-up")
        kubectl.apply(meshed(TWO, confirmations=[AGREED]))
        kill_the_operator(kubectl)
        settled(deployed, TWO)
    deployed.wait_ready(within=420)
    told = json.dumps([event["reason"] for event in kubectl.items("events", namespace)])
    assert "MetadataConflict" not in told
