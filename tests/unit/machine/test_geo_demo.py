"""The demo of two clusters: its picture, the pair that it brings up, and what it ends with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.demo.ending import PAIR_TOPIC, pair_ending
from e2e.demo.geo import CLUSTER, PORTS, URLS, connected, reachable, store
from e2e.demo.picture import picture
from e2e.support.geopair import EAST, EXAMPLE, INSTANCE, NAMESPACES, WEST, documents, manifest

ROOT = Path(__file__).resolve().parents[3]


def instance(**status: Any) -> dict[str, Any]:
    """A PulsarInstance with a status."""
    return {"metadata": {"generation": 1}, "status": status}


WELL = instance(
    conditions=[
        {"type": "ConfigurationStoreReady", "status": "True", "reason": "Ready", "message": "1 server"},
        {"type": "ReplicationHealthy", "status": "True", "reason": "Replicating", "message": "fine"},
    ],
    clusters=[
        {"name": "east", "reachable": True, "since": "2026-11-26T10:00:00Z"},
        {"name": "west", "reachable": True, "since": "2026-11-26T10:00:00Z"},
    ],
    replication=[
        {"from": "east", "to": "west", "connected": True, "backlog": 0, "rateOut": 50},
        {"from": "west", "to": "east", "connected": True, "backlog": 0},
    ],
)
LOST = instance(
    conditions=[
        {
            "type": "ConfigurationStoreReady",
            "status": "False",
            "reason": "ConfigurationStoreUnavailable",
            "message": "silent",
        },
        {
            "type": "ReplicationHealthy",
            "status": "False",
            "reason": "NotConnected",
            "message": "east to west: 120 wait",
        },
    ],
    clusters=[
        {"name": "east", "reachable": True, "since": "2026-11-26T10:00:00Z"},
        {"name": "west", "reachable": False, "since": "2026-11-26T10:05:07Z"},
        {"name": "north"},
    ],
    replication=[
        {"from": "east", "to": "west", "connected": False, "backlog": 120, "delaySeconds": 31},
        {"from": "west", "to": "east"},
    ],
)


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (
            WELL,
            [
                "configuration store: Ready",
                "[ east: answers ]   [ west: answers ]",
                "east =====> west   0 wait, 50/s",
                "west =====> east   0 wait",
                "replication: Replicating",
            ],
        ),
        (
            LOST,
            [
                "configuration store: ConfigurationStoreUnavailable, silent",
                "[ east: answers                  ]   [ west: no answer since 10:05:07 ]   [ north: no brokers"
                "              ]",
                "east ==  => west   120 wait, the oldest for 31 s",
                "west ==??=> east   not known",
                "replication: NotConnected, east to west: 120 wait",
            ],
        ),
        ({}, ["configuration store: ?", "nothing is replicated yet", "replication: ?"]),
    ],
    ids=["well", "lost", "new"],
)
def test_the_picture_tells_what_the_instance_tells(found: dict[str, Any], lines: list[str]) -> None:
    assert picture(found).splitlines() == [f"   {line}" for line in lines]


def test_moments_are_read_from_the_same_status() -> None:
    assert (reachable(WELL, "west"), reachable(LOST, "west"), reachable(LOST, "north")) == (True, False, False)
    assert (connected(WELL, "east", "west"), connected(LOST, "east", "west"), connected(LOST, "west", "east")) == (
        True,
        False,
        False,
    )
    assert (store(WELL), store(LOST)) == ("True", "False")


def test_the_pair_is_the_example_in_small() -> None:
    """The same objects by the same names, so that what the example says of them holds."""
    found, example = documents(), list(yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8")))
    assert [(each["kind"], each["metadata"]) for each in found] == [(e["kind"], e["metadata"]) for e in example]
    assert [each for each in found if each["kind"].startswith("PulsarN")] == [
        each for each in example if each["kind"].startswith("PulsarN")
    ]
    assert list(yaml.safe_load_all(manifest())) == found
    names = {(each["metadata"]["name"], each["metadata"].get("namespace")) for each in found}
    assert {(EAST.name, EAST.namespace), (WEST.name, WEST.namespace), (INSTANCE, NAMESPACES[0])} <= names


def test_the_pair_takes_nine_processes_of_java() -> None:
    clusters = [each["spec"] for each in documents() if each["kind"] == "PulsarCluster"]
    parts = [[spec["metadataStore"]["managed"], spec["bookkeeper"], spec["broker"], spec["proxy"]] for spec in clusters]
    (of_all,) = [each["spec"]["configurationStore"] for each in documents() if each["kind"] == "PulsarInstance"]
    assert sum(part["replicas"] for some in parts for part in some) + of_all["managed"]["replicas"] == 9


def test_each_cluster_has_a_door_to_this_machine() -> None:
    assert [url.rpartition(":")[2] for url in URLS.values()] == [PORTS[1], PORTS[3]]
    doors = {
        each["metadata"]["name"]: set(each["spec"]["proxy"]["service"]["nodePorts"])
        for each in documents()
        if each["kind"] == "PulsarCluster"
    }
    assert doors == {"east": {"pulsar", "http"}, "west": {"pulsar"}}


def test_it_ends_with_both_service_urls_and_commands() -> None:
    text = pair_ending("kubectl --kubeconfig mine", "pulsar-broker:4.0.8", URLS)
    for name, url in URLS.items():
        assert f"service URL of {name}, from here: {url}" in text
    commands = re.findall(r"^  kubectl --kubeconfig mine (.*)", text, re.MULTILINE)
    assert len(commands) == 7
    tenant, namespace, _topic = PAIR_TOPIC.removeprefix("persistent://").split("/")
    made = {(each["kind"], each["metadata"]["name"]) for each in documents()}
    assert {("PulsarTenant", tenant), ("PulsarNamespace", namespace), ("PulsarInstance", INSTANCE)} <= made
    for each in (EAST, WEST):
        assert f"pulsar://{each.name}-proxy.{each.namespace}:6650" in text


def test_its_cluster_is_the_one_that_is_removed() -> None:
    assert f"e2e.kind down {CLUSTER}\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
