"""The configuration store of two clusters is lost for a minute, and for twelve: what goes on, what is held, what comes
back by itself."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from e2e.conftest import Deployed
from e2e.kind.kindconfig import SECOND_NODE_PORT
from e2e.support.deleting import delete_childless
from e2e.support.eventually import eventually
from e2e.support.objects import condition, is_current
from e2e.support.trading import manifest
from e2e.support.watched import uids
from e2e.support.writes import port_forward
from pulsar_conformance.counting.client import CountingRun

TOPIC = "persistent://world/both/counted"
STORE = "world-configuration-store"
LESS, MORE = 3600, 7200


def cluster(name: str, **service: Any) -> str:
    """A small cluster of the instance."""
    return manifest(
        "PulsarCluster",
        name,
        {
            "instanceRef": {"name": "world"},
            "preset": "Small",
            "reclaimPolicy": "Delete",
            "metadataStore": {"managed": {"replicas": 1, "storage": {"size": "1Gi"}}},
            "bookkeeper": {"replicas": 1, "journal": {"size": "1Gi"}, "ledgers": {"size": "1Gi"}},
            "broker": {"replicas": 1},
            "proxy": {"replicas": 1, **({"service": service} if service else {})},
        },
    )


def both(retention: int) -> str:
    """The namespace that both clusters replicate."""
    return manifest(
        "PulsarNamespace",
        "both",
        {
            "tenantRef": {"name": "world"},
            "replicationClusters": ["left", "right"],
            "policies": {"messageTTLSeconds": retention},
            "deletionPolicy": "ForceDelete",
        },
    )


OBJECTS = [
    manifest(
        "PulsarInstance",
        "world",
        {"preset": "Small", "configurationStore": {"managed": {"replicas": 1, "storage": {"size": "1Gi"}}}},
    ),
    cluster("left", type="NodePort", nodePorts={"pulsar": SECOND_NODE_PORT}),
    cluster("right"),
    manifest("PulsarTenant", "world", {"instanceRef": {"name": "world"}, "deletionPolicy": "Delete"}),
    both(LESS),
]


@pytest.fixture(scope="module")
def world(deployed: Deployed) -> Iterator[Deployed]:
    """Two clusters and a configuration store of neither, beside the quickstart; removed with their data."""
    for text in OBJECTS:
        deployed.kubectl.apply(text)
    deployed.wait_ready(within=600)
    yield deployed
    for text in reversed(OBJECTS):
        obj = json.loads(text)
        delete_childless(deployed.kubectl, obj["kind"].lower(), "pulsar", obj["metadata"]["name"], seconds=240)


@contextmanager
def lost(deployed: Deployed) -> Iterator[None]:
    """The store has no server, and the operator leaves it so."""
    where = ("pulsarinstance", "world", "-n", "pulsar")
    deployed.kubectl.run("annotate", *where, "pulsaroperator.io/pause=true")
    deployed.kubectl.run("scale", "statefulset", STORE, "-n", "pulsar", "--replicas=0")
    try:
        yield
    finally:
        deployed.kubectl.run("scale", "statefulset", STORE, "-n", "pulsar", "--replicas=1")
        deployed.kubectl.run("annotate", *where, "pulsaroperator.io/pause-")


def told(deployed: Deployed, kind: str, name: str, what: str) -> tuple[str, str]:
    """Status and reason of a condition, of an object that was looked at since its last change."""
    found = deployed.kubectl.get(kind, "pulsar", name)
    assert found is not None
    row = condition(found, what)
    return (row.get("status", ""), row.get("reason", "")) if is_current(found) else ("", "")


def pair(deployed: Deployed) -> dict[str, Any]:
    """What right replicates to left."""
    found = deployed.kubectl.get("pulsarinstance", "pulsar", "world")
    assert found is not None
    rows = found["status"].get("replication") or []
    return next((row for row in rows if (row["from"], row["to"]) == ("right", "left")), {})


def outage(deployed: Deployed, seconds: float) -> list[str]:
    """The store away for so long under traffic from right to left; what was seen, in words."""
    kubectl, lines, begin = deployed.kubectl, list[str](), 0.0

    def seen(what: str) -> None:
        lines.append(f"{time.monotonic() - begin:6.1f} s  {what}")

    before = uids(kubectl, "pulsar", "left")
    with (
        port_forward(kubectl, "pulsar", "service/right-proxy", 6650) as port,
        CountingRun(
            f"pulsar://127.0.0.1:{port}", TOPIC, rate=50, read_url=deployed.second_url, start_within=120
        ) as run,
    ):
        eventually(lambda: pair(deployed).get("connected"), within=180, what="right to left", every=1.0)
        with run.operation(f"the configuration store away for {seconds:.0f} s", settle_within=300):
            begin = time.monotonic()
            with lost(deployed):
                away = ("False", "ConfigurationStoreAway")
                eventually(
                    lambda: told(deployed, "pulsarinstance", "world", "ConfigurationStoreReady") == away,
                    within=120, what="the store is told to be away", every=0.5,
                )  # fmt: skip
                seen("ConfigurationStoreReady is False")
                kubectl.apply(both(MORE))
                body = json.dumps({"spec": {"proxy": {"config": {"proxyLogLevel": "1"}}}})
                kubectl.run("patch", "pulsarcluster", "left", "-n", "pulsar", "--type=merge", "-p", body)
                eventually(
                    lambda: told(deployed, "pulsarnamespace", "both", "Ready") == ("Unknown", away[1])
                    and told(deployed, "pulsarcluster", "left", "Progressing")[1] == away[1],
                    within=120, what="the policy and the roll are held", every=0.5,
                )  # fmt: skip
                seen("a policy and a roll are held")
                first = run.progress()
                eventually(
                    lambda: time.monotonic() - begin >= seconds, within=seconds + 30, what="the outage's end", every=1.0
                )
                last, row = run.progress(), pair(deployed)
                seen(f"{last.confirmed - first.confirmed} messages confirmed meanwhile, right to left: {row}")
                assert last.confirmed > first.confirmed and last.received > first.received, "replication goes on"
                assert uids(kubectl, "pulsar", "left") == before, "nobody's pods were replaced"
            back = time.monotonic()
            eventually(
                lambda: told(deployed, "pulsarnamespace", "both", "Ready")[0] == "True",
                within=300, what="the policy is applied", every=0.5,
            )  # fmt: skip
            seen(f"the policy is applied, {time.monotonic() - back:.1f} s after the store was started again")
            eventually(
                lambda: before["proxy"].items().isdisjoint(uids(kubectl, "pulsar", "left").get("proxy", {}).items()),
                within=300, what="the roll goes on", every=0.5,
            )  # fmt: skip
            seen(f"the roll goes on, {time.monotonic() - back:.1f} s after")
            deployed.wait_ready(within=300)
            seen("all is Ready")
        report = run.finish(drain_within=180)
    lines.append(report.text())
    assert report.failures() == [], report.text()
    after = uids(kubectl, "pulsar", "left")
    assert {**after, "proxy": None} == {**before, "proxy": None}, "and nothing else was replaced"
    kubectl.apply(both(LESS))
    body = json.dumps({"spec": {"proxy": {"config": {"proxyLogLevel": None}}}})
    kubectl.run("patch", "pulsarcluster", "left", "-n", "pulsar", "--type=merge", "-p", body)
    deployed.wait_ready(within=300)
    return lines


@pytest.mark.geo(3)
def test_a_minute_without_the_configuration_store(world: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    lines = outage(world, 60)
    with capsys.disabled():
        print("\n" + "\n".join(lines))


@pytest.mark.geo(4)
def test_twelve_minutes_without_the_configuration_store(world: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    """Longer than brokers keep what they read of policies (10 minutes)."""
    lines = outage(world, 720)
    with capsys.disabled():
        print("\n" + "\n".join(lines))
