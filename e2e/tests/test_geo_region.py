"""A second region joins, both replicate, all of it dies at once under traffic and comes back, and it leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from e2e.conftest import Deployed
from e2e.support.admin import ask
from e2e.support.deleting import delete_childless
from e2e.support.eventually import eventually
from e2e.support.mirrored import leaves, mirrored, west
from e2e.support.objects import condition
from e2e.support.watched import uids
from pulsar_conformance.counting.client import CountingRun

THERE, BACK = "persistent://shop/mirrored/orders", "persistent://shop/mirrored/answers"
AWAY = 240
"""Seconds that clients of the region wait for it."""
REGION = "pulsaroperator.io/owner-name=west"


@pytest.fixture
def region(deployed: Deployed) -> Iterator[None]:
    """Cluster west, and a namespace in both; neither is left behind."""
    kubectl, namespace = deployed.kubectl, deployed.namespace
    cluster = west()
    cluster["spec"]["reclaimPolicy"] = "Delete"
    kubectl.apply(yaml.safe_dump(cluster))
    kubectl.apply(yaml.safe_dump(mirrored(deletionPolicy="Delete")))
    try:
        deployed.wait_ready()
        yield
    finally:
        leaves(deployed, "mirrored")
        for topic in ask(deployed.admin_url, "GET", "persistent/shop/mirrored"):
            ask(deployed.admin_url, "DELETE", f"{topic.replace('://', '/', 1)}?force=true")
        kubectl.run("delete", "pulsarnamespace", "mirrored", "-n", namespace, "--wait=false")
        # A deletion that hangs in Pulsar is begun anew after its bundles are unloaded, which takes a minute or two.
        eventually(lambda: gone(deployed), within=300, what="namespace mirrored is gone", every=1.0)
        delete_childless(kubectl, "pulsarcluster", namespace, "west", seconds=240)


def gone(deployed: Deployed) -> bool:
    """Whether the namespace is; else what it says."""
    found = deployed.kubectl.get("pulsarnamespace", deployed.namespace, "mirrored")
    assert found is None, found["status"].get("conditions")
    return True


def test_a_region_dies_and_comes_back(deployed: Deployed, region: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Its clients and east's lose nothing, and east serves on: what waits for the region arrives once it is back."""
    kubectl, namespace = deployed.kubectl, deployed.namespace
    east, dead = uids(kubectl, namespace, "east"), uids(kubectl, namespace, "west")
    assert {"zookeeper", "bookie", "broker", "proxy"} <= set(dead)

    def again() -> bool:
        found = uids(kubectl, namespace, "west")
        old = [pod for part, pods in dead.items() for pod, uid in pods.items() if found.get(part, {}).get(pod) == uid]
        assert set(found) == set(dead) and not old, (sorted(found), old)
        # The operator may say Ready of before for a moment: only pods that are ready tell that the region is back.
        waiting = [
            pod["metadata"]["name"]
            for pod in kubectl.items("pods", namespace, REGION)
            if condition(pod, "Ready").get("status") != "True"
        ]
        assert not waiting, f"not ready: {waiting}"
        return True

    with (
        CountingRun(deployed.service_url, THERE, rate=50, read_url=deployed.second_url, start_within=120) as there,
        CountingRun(
            deployed.second_url, BACK, rate=20, read_url=deployed.service_url, start_within=120, send_timeout=AWAY
        ) as back,
    ):
        first = there.progress()
        eventually(lambda: there.progress().confirmed > first.confirmed + 100, within=60, what="messages across")
        with there.operation("west dies", settle_within=300), back.operation("west dies", settle_within=300):
            died = there.progress()
            kubectl.run("delete", "pod", "-n", namespace, "-l", REGION, "--grace-period=0", "--force", "--wait=false")
            eventually(again, within=240, what="other pods of west, all ready", every=1.0)
            deployed.wait_ready()
            alive = there.progress()
        reports = [there.finish(drain_within=180), back.finish(drain_within=180)]
    with capsys.disabled():
        print(f"\nconfirmed in east meanwhile: {alive.confirmed - died.confirmed}")
        print("\n".join(each.text() for each in reports))
    assert [each.failures() for each in reports] == [[], []], [each.text() for each in reports]
    assert alive.confirmed > died.confirmed, "east serves its clients meanwhile"
    assert uids(kubectl, namespace, "east") == east, "nobody in east was replaced"
