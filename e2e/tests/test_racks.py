"""Two zones on one node, which is relabelled between pods: every new ledger is on bookies of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.conftest import Deployed
from e2e.support.admin import ask
from e2e.support.bookies import ensembles
from e2e.support.changes import answers, patch_cluster
from e2e.support.eventually import eventually
from e2e.support.objects import condition
from pulsar_conformance.counting import simple

ZONE = "topology.kubernetes.io/zone"
NAMESPACE = "shop/racks"
TOPICS = 24
STRANGER = "stranger.example.com:3181"
IN = {0: "/a", 1: "/a", 2: "/b", 3: "/b"}


@pytest.fixture
def zones(deployed: Deployed) -> Iterator[None]:
    """The node has no zone afterwards."""
    yield
    deployed.kubectl.run("label", "node", deployed.node, f"{ZONE}-")


def label(deployed: Deployed, zone: str) -> None:
    deployed.kubectl.run("label", "node", deployed.node, f"{ZONE}={zone}", "--overwrite")


def status(deployed: Deployed) -> dict[str, Any]:
    cluster = deployed.kubectl.get("pulsarcluster", deployed.namespace, "east")
    assert cluster is not None
    found: dict[str, Any] = cluster
    return found


def placed(deployed: Deployed) -> bool:
    """Four bookies, writable, two in each zone for brokers."""
    rows = {row.get("ordinal"): (row["state"], row.get("rack")) for row in status(deployed)["status"]["bookies"]}
    assert rows == {ordinal: ("Writable", rack) for ordinal, rack in IN.items()}, rows
    return bool(condition(status(deployed), "RacksKnown").get("status") == "True")


@pytest.mark.bookies(3)
@pytest.mark.usefixtures("zones")
def test_every_new_ledger_is_in_both_zones(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl, namespace, admin = deployed.kubectl, deployed.namespace, deployed.admin_url
    ask(admin, "POST", f"bookies/racks-info/{STRANGER}?group=default", {"rack": "/x", "hostname": STRANGER})
    label(deployed, "a")
    copies = {"ensembleSize": 2, "writeQuorum": 2, "ackQuorum": 2}
    racks = {"topologyKey": ZONE}
    patch_cluster(kubectl, namespace, "east", {"bookkeeper": {"replicas": 4, "ensemble": copies, "racks": racks}})
    answers(admin)
    label(deployed, "b")
    for ordinal in (2, 3):
        kubectl.run("delete", "pod", "-n", namespace, f"east-bookie-{ordinal}")
    eventually(lambda: placed(deployed), within=300, what="two bookies in each zone", every=1.0)
    deployed.wait_ready()
    said = kubectl.run("logs", "-n", namespace, "east-bookie-3", "-c", "bookie")
    assert "bookie: in rack /b, after" in said, said[:2000]
    ask(admin, "PUT", f"namespaces/{NAMESPACE}")
    client = simple.client(deployed.service_url)
    seen = []
    for number in range(TOPICS):
        producer = client.create_producer(f"persistent://{NAMESPACE}/t{number}", send_timeout_millis=60_000)
        producer.send(b"one")
        seen += ensembles(admin, f"persistent://{NAMESPACE}/t{number}")
        producer.close()
    client.close()
    with capsys.disabled():
        print(f"\n{condition(status(deployed), 'RacksKnown')['message']}\nensembles: {seen}")
    assert len(seen) >= TOPICS and {ordinal for each in seen for ordinal in each} == set(IN), seen
    assert [each for each in seen if {IN[ordinal] for ordinal in each} != {"/a", "/b"}] == [], seen
    for number in range(TOPICS):
        ask(admin, "DELETE", f"persistent/{NAMESPACE}/t{number}?force=true")
    ask(admin, "DELETE", f"namespaces/{NAMESPACE}")
    patch_cluster(kubectl, namespace, "east", {"bookkeeper": {"racks": None}})
    answers(admin)

    def taken_out() -> bool:
        found = ask(admin, "GET", "bookies/racks-info")
        assert found == {"default": {STRANGER: {"rack": "/x", "hostname": STRANGER}}}, found
        return True

    eventually(taken_out, within=60, what="only the entry of somebody else is left")
    ask(admin, "DELETE", f"bookies/racks-info/{STRANGER}")
