"""Three bookies become four as their disks are fuller than they should be, and three again by the way every bookie
leaves: nobody who publishes or reads notices."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from e2e.conftest import Deployed
from e2e.support.bookies import COPIES, Bookies
from e2e.support.changes import answers, patch_cluster
from e2e.support.deploy import OPERATOR_NAMESPACE
from e2e.support.eventually import eventually
from e2e.support.watched import uids
from pulsar_conformance.counting import simple
from pulsar_conformance.counting.client import CountingRun

PAYMENTS = "persistent://shop/orders/payments"
BEFORE = "persistent://shop/orders/published-before-a-bookie-was-added"
LEAST = 5
"""Percent that the disk under all bookies must have in use: marks are set below that, which must be above 0 and differ
by more than the percent that a report may be off."""
MARGIN = 2


@pytest.fixture
def three(deployed: Deployed) -> Iterator[Bookies]:
    """Three bookies, two copies; whatever becomes of the test, three without autoscaling are left."""
    kubectl, namespace = deployed.kubectl, deployed.namespace
    keeper = {"replicas": 3, "ensemble": COPIES}
    patch_cluster(kubectl, namespace, "east", {"bookkeeper": keeper})
    answers(deployed.admin_url)
    bookies = Bookies(kubectl, namespace)
    eventually(lambda: bookies.are(3), within=120, what="three bookies")
    yield bookies
    patch_cluster(kubectl, namespace, "east", {"bookkeeper": {"autoscaling": None, "replicas": 3}})
    eventually(lambda: bookies.are(3), within=600, what="three bookies again", every=1.0)


def usage(bookies: Bookies) -> int:
    """Percent of the disk that the least full of the bookies reports: on kind all of them have the node's."""
    found = [each.get("usage") for each in bookies.rows()]
    assert len(found) == 3 and None not in found, found
    return min(int(each) for each in found if each is not None)


@pytest.mark.autoscaling(2)
def test_bookies_follow_their_disks(deployed: Deployed, three: Bookies, capsys: pytest.CaptureFixture[str]) -> None:
    """The disk is the node's, so that it is not filled here: the mark is lowered below what each bookie itself reports,
    as if it had filled up to there."""
    kubectl, namespace = deployed.kubectl, deployed.namespace
    used = eventually(lambda: usage(three), within=60, what="bookies that say how full they are")
    assert used >= LEAST, f"the node's disk is {used} % full: no marks fit below that"
    high = {"lowDiskPercent": 92, "diskPercent": 93, "fullDiskPercent": 94}
    scaling = {"minReplicas": 3, "maxReplicas": 4, "targets": high}
    simple.subscribe(deployed.service_url, BEFORE, "afterwards")
    published = simple.publish(deployed.service_url, BEFORE, 100, prefix="before")
    others, claims = uids(kubectl, namespace, "east"), three.claims()
    three.patch(autoscaling=scaling)
    calm = ("WithinTarget", "AtLimit", "Stabilizing")
    eventually(lambda: three.decided(3, *calm), within=120, what="three bookies are enough", every=2.0)
    with CountingRun(deployed.service_url, PAYMENTS, rate=50, keys=8, send_timeout=60) as run:
        with run.operation("a bookie more for full disks"):
            full = used - MARGIN
            low = {"lowDiskPercent": full - 2, "diskPercent": full - 1, "fullDiskPercent": full}
            three.patch(autoscaling={"targets": low})
            # The fourth has the same disk, so that more are asked for than may be.
            eventually(lambda: three.decided(4, "ScaledOut", "AtLimit"), within=420, what="four bookies", every=2.0)
            eventually(lambda: three.decided(4, "AtLimit"), within=240, what="never more than the maximum", every=2.0)
        grown = three.scaling()
        with run.operation("a bookie fewer, by hand"):
            three.patch(autoscaling=None)
            eventually(lambda: three.are(4), within=60, what="four bookies stay when autoscaling is removed")
            # The number of before is to count again: another one first.
            three.patch(replicas=4)
            eventually(lambda: not three.scaling(), within=60, what="nothing is remembered of autoscaling", every=1.0)
            three.patch(replicas=3)
            eventually(lambda: three.are(3), within=600, what="three bookies again", every=0.5)
        report = run.finish(drain_within=120)
    with capsys.disabled():
        print(f"\n{used} % used\n{json.dumps(grown)}\n{report.text()}")
    assert report.failures() == [], report.text()
    assert simple.consume(deployed.service_url, BEFORE, "afterwards", len(published)) == published
    said = [text for text in three.events("ScaledOut") if text.startswith("Scale bookies from 3 to 4")]
    assert said and "full" in said[0], three.events("ScaledOut")
    assert grown["limitedBy"] == "maxReplicas" and grown["replicas"] == 3, "spec was never written"
    inputs = {each["name"]: each for each in grown["inputs"]}
    assert {"diskPercent", "writable"} <= inputs.keys() and int(inputs["writable"]["value"]) >= 3, inputs
    assert {"ReadOnly", "Verifying", "Forgetting"} <= three.steps, "it left by the way every bookie leaves"
    assert uids(kubectl, namespace, "east") == others, "a change of the number replaces nobody"
    assert {name: uid for name, uid in three.claims().items() if name in claims} == claims
    assert three.told("Replicated")["status"] == "True"


def with_history(three: Bookies, used: int) -> None:
    """As if this much had been stored for hours: written to the status while no operator runs, as a backup would."""
    kubectl, hour = three.kubectl, 3600
    operator = ("deployment", "-n", OPERATOR_NAMESPACE, "-l", "app.kubernetes.io/name=pulsar-operator")
    kubectl.run("scale", *operator, "--replicas=0")
    try:
        label = "app.kubernetes.io/name=pulsar-operator"
        eventually(lambda: not kubectl.items("pods", OPERATOR_NAMESPACE, label), within=60, what="no operator")
        now = int(time.time())
        stored = [{"time": now - ago * hour, "usedBytes": used} for ago in range(6, 0, -1)]
        patch = {"status": {"autoscaling": {"bookkeeper": {"history": {"stored": stored}}}}}
        where = (three.cluster, "-n", three.namespace, "--subresource=status", "--type=merge")
        kubectl.run("patch", "pulsarcluster", *where, "-p", json.dumps(patch))
    finally:
        kubectl.run("scale", *operator, "--replicas=1")


@pytest.mark.autoscaling(2)
def test_bookies_become_fewer_once_growth_is_known(
    deployed: Deployed, three: Bookies, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody asks: four hold what three could, but none leaves before it is known how fast that grows."""
    simple.subscribe(deployed.service_url, BEFORE, "kept")
    published = simple.publish(deployed.service_url, BEFORE, 100, prefix="kept")
    three.patch(replicas=4)
    eventually(lambda: three.are(4), within=300, what="four bookies", every=1.0)
    claims = three.claims()
    rules = {"stabilizationWindowSeconds": 60, "cooldownSeconds": 60}
    high = {"lowDiskPercent": 92, "diskPercent": 93, "fullDiskPercent": 94}
    three.patch(autoscaling={"minReplicas": 3, "maxReplicas": 4, "targets": high, "behavior": {"scaleDown": rules}})
    with CountingRun(deployed.service_url, PAYMENTS, rate=50, keys=8, send_timeout=60) as run:

        def held() -> str:
            assert three.decided(4, "Stabilizing")
            assert "how fast what is stored grows is not known yet" in three.scaling()["message"], three.scaling()
            return str(three.scaling()["message"])

        text = eventually(held, within=180, what="it is said why none leaves", every=2.0)
        used = next(each["value"] for each in three.scaling()["inputs"] if each["name"] == "diskPercent")
        with run.operation("a bookie fewer"):
            with_history(three, int(float(used)))
            eventually(lambda: three.decided(3, "ScaledIn", "AtLimit"), within=600, what="three bookies", every=0.5)
        shrunk = three.scaling()
        report = run.finish(drain_within=120)
    with capsys.disabled():
        print(f"\n{text}\n{json.dumps(shrunk)}\n{report.text()}")
    assert report.failures() == [], report.text()
    assert simple.consume(deployed.service_url, BEFORE, "kept", len(published)) == published
    assert [each for each in three.events("ScaledIn") if each.startswith("Scale bookies from 4 to 3")]
    assert shrunk["replicas"] == 4, "spec was never written"
    assert {"ReadOnly", "Verifying", "Forgetting"} <= three.steps, "it left by the way every bookie leaves"
    left = {name for name in claims if name.endswith("-bookie-3")}
    assert {name: uid for name, uid in three.claims().items() if name not in left} == {
        name: uid for name, uid in claims.items() if name not in left
    }
    assert three.told("Replicated")["status"] == "True"
