"""Three bookies become four as their disks are fuller than they should be, and three again by the way every bookie
leaves: nobody who publishes or reads notices."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.conftest import Deployed
from e2e.support.bookies import COPIES, Bookies
from e2e.support.changes import answers, patch_cluster
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
