"""Three bookies become four as their disks fill for real, each with a small one of its own, and the operator is killed
meanwhile; and three again by themselves. Nobody who publishes or reads notices, and all that was written is read.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from e2e.conftest import CLUSTER, Deployed
from e2e.support.bookies import Bookies
from e2e.support.deploy import NAMESPACE, OPERATOR_NAMESPACE, Helm, install_operator
from e2e.support.eventually import eventually
from e2e.support.filling import Filling
from e2e.support.idletopic import kept_for_ever, names_any, on_bookies
from e2e.support.killing import kill_the_operator
from e2e.support.kubectl import Kubectl
from e2e.support.smalldisks import FULL, LOW, MEBIBYTES, WANTED, SmallDisks, manifest, small_disks
from e2e.support.watched import uids
from pulsar_conformance.counting import simple
from pulsar_conformance.counting.client import CountingRun

PAYMENTS = "persistent://shop/orders/payments"
MOST = MEBIBYTES * 1024**2 // 2
"""Bytes that are written, each to two of three bookies: with what is in use from the start, more than FULL on average,
and 80 % of a disk where one bookie has a copy of all."""
NEVER = 85
"""Percent that no disk may reach: from 95 on a bookie takes no more writes."""
BEFORE = "persistent://shop/orders/published-before-a-bookie-left"
CALM = ("WithinTarget", "AtLimit", "Stabilizing")
COUNTERS = ("lost", "unconfirmed", "duplicated", "unprovoked", "redelivered", "out_of_order", "foreign")


@dataclass(frozen=True)
class Small:
    """A cluster whose bookies have small disks."""

    deployed: Deployed
    disks: SmallDisks

    @property
    def bookies(self) -> Bookies:
        return Bookies(self.deployed.kubectl, self.deployed.namespace)

    def placed(self) -> dict[str, str]:
        """Which disk each bookie has, by pod."""
        found = self.deployed.kubectl.items("pvc", self.deployed.namespace, "app.kubernetes.io/component=bookie")
        claims = {each["metadata"]["name"]: each["spec"].get("volumeName", "") for each in found}
        prefix = "ledgers-0-"
        return {name.removeprefix(prefix): disk for name, disk in claims.items() if name.startswith(prefix)}


@pytest.fixture(scope="module")
def small(kubectl: Kubectl, helm: Helm, clean: None) -> Iterator[Small]:
    """That cluster alone, every object Ready; removed with its Kubernetes namespace, and then its disks."""
    node = f"{CLUSTER}-control-plane"
    with small_disks(kubectl, node) as disks:
        install_operator(helm, watch=[NAMESPACE])
        kubectl.apply(manifest())
        found = Small(Deployed(kubectl, helm, node), disks)
        found.deployed.wait_ready(within=600)
        yield found
        kubectl.run("delete", "namespace", NAMESPACE, "--wait=true", "--timeout=240s", timeout=250)


@pytest.mark.autoscaling(3)
def test_a_bookie_more_as_disks_fill(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    deployed, bookies, admin = small.deployed, small.bookies, small.deployed.admin_url
    kubectl, namespace = deployed.kubectl, deployed.namespace
    eventually(lambda: bookies.decided(3, *CALM), within=180, what="three bookies are enough", every=2.0)
    others, placed, empty = uids(kubectl, namespace, "east"), small.placed(), small.disks.used()
    assert max(empty.values()) < FULL, empty
    with (
        kept_for_ever(admin, "shop/filled") as prefix,
        Filling(deployed.service_url, prefix, most=MOST) as filling,
        CountingRun(deployed.service_url, PAYMENTS, rate=50, keys=8, send_timeout=60) as run,
    ):

        def asked() -> bool:
            filling.more()
            return bookies.scaling().get("desired") == 4

        def there() -> bool:
            filling.more()
            return bookies.decided(4, "ScaledOut", "AtLimit")

        with run.operation("a bookie more as disks fill, the operator killed"):
            eventually(asked, within=420, what="a fourth bookie is asked for")
            first, written = bookies.scaling(), filling.bytes
            kill_the_operator(kubectl)
            eventually(there, within=420, what="four bookies")
            while filling.more():
                pass
            eventually(lambda: bookies.decided(4, "AtLimit"), within=240, what="never more than the maximum", every=2.0)
        grown = bookies.scaling()
        # New ledgers come to it, and it keeps what they have.
        client = simple.client(deployed.service_url)
        (late,) = on_bookies(client, admin, f"{prefix}/late", names_any({3}), 1)
        late.use()
        late.check(deployed.service_url, admin)
        client.close()
        report = run.finish(drain_within=120)
        filled, different = small.disks.used(), filling.different(admin)
    said = [text for text in bookies.events("ScaledOut") if text.startswith("Scale bookies from 3 to 4")]
    with capsys.disabled():
        print(f"\n{json.dumps(first)}\n{json.dumps(grown)}\n{said}\nempty: {empty}\nfilled: {filled}")
        print(f"{written} bytes were written when it was asked for, {filling.bytes} in all\n{report.text()}")
    assert report.failures() == [], report.text()
    assert {name: getattr(report, name) for name in COUNTERS} == dict.fromkeys(COUNTERS, 0), report.text()
    assert different == [] and filling.bytes == MOST, different
    # Decided once, and carried out by another operator.
    full = f"[123] bookies are {FULL}% full, and no bookie is less than {LOW}% full"
    assert len(said) == 1 and re.search(full, said[0]), said
    assert first["lastScaleTime"] == grown["lastScaleTime"], (first, grown)
    usage = rf"^The bookies are \d+% full on average and the target is {WANTED}%.*\. maxReplicas is 4\.$"
    assert re.search(usage, grown["message"]), grown
    assert grown["limitedBy"] == "maxReplicas" and grown["replicas"] == 3, "spec was never written"
    now, fourth = small.placed(), bookies.name(3)
    assert {pod: disk for pod, disk in now.items() if pod != fourth} == placed, "the others keep their disks"
    assert set(now.values()) == set(small.disks.names), now
    assert max(filled.values()) < NEVER and filled[now[fourth]] < min(filled[disk] for disk in placed.values()), filled
    assert sum(filled[disk] >= FULL for disk in placed.values()) >= 1, filled
    after = uids(kubectl, namespace, "east")
    assert after["bookie"].pop(fourth) and after == others, "nobody is replaced"
    assert bookies.told("Replicated")["status"] == "True"


def with_history(bookies: Bookies, used: int) -> None:
    """As if this much had been stored for hours: written to the status while no operator runs, as a backup would."""
    kubectl, hour = bookies.kubectl, 3600
    operator = ("deployment", "-n", OPERATOR_NAMESPACE, "-l", "app.kubernetes.io/name=pulsar-operator")
    kubectl.run("scale", *operator, "--replicas=0")
    try:
        label = "app.kubernetes.io/name=pulsar-operator"
        eventually(lambda: not kubectl.items("pods", OPERATOR_NAMESPACE, label), within=60, what="no operator")
        now = int(time.time())
        stored = [{"time": now - ago * hour, "usedBytes": used} for ago in range(6, 0, -1)]
        patch = {"status": {"autoscaling": {"bookkeeper": {"history": {"stored": stored}}}}}
        where = (bookies.cluster, "-n", bookies.namespace, "--subresource=status", "--type=merge")
        kubectl.run("patch", "pulsarcluster", *where, "-p", json.dumps(patch))
    finally:
        kubectl.run("scale", *operator, "--replicas=1")


@pytest.mark.autoscaling(3)
def test_a_bookie_fewer_once_growth_is_known(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody asks: four hold what three could, but none leaves before it is known how fast that grows."""
    deployed, bookies = small.deployed, small.bookies
    kubectl, namespace = deployed.kubectl, deployed.namespace
    simple.subscribe(deployed.service_url, BEFORE, "kept")
    published = simple.publish(deployed.service_url, BEFORE, 100, prefix="kept")
    others, placed = uids(kubectl, namespace, "east"), small.placed()
    high = {"lowDiskPercent": 92, "diskPercent": 93, "fullDiskPercent": 94}
    rules = {"stabilizationWindowSeconds": 60, "cooldownSeconds": 60}
    bookies.patch(autoscaling={"targets": high, "behavior": {"scaleDown": rules}})
    with CountingRun(deployed.service_url, PAYMENTS, rate=50, keys=8, send_timeout=60) as run:

        def held() -> str:
            bookies.decided(4, "Stabilizing")
            text = str(bookies.scaling()["message"])
            assert "the growth of stored data is not known yet" in text, text
            return text

        text = eventually(held, within=240, what="it is said why none leaves", every=2.0)
        used = sum(small.disks.used()[disk] for disk in placed.values()) / 100 * MEBIBYTES * 1024**2
        with run.operation("a bookie fewer"):
            with_history(bookies, int(used))

            def gone() -> bool:
                bookies.rows()
                return bookies.decided(3, "ScaledIn", *CALM)

            eventually(gone, within=600, what="three bookies", every=0.5)
        shrunk = bookies.scaling()
        report = run.finish(drain_within=120)
    with capsys.disabled():
        print(f"\n{text}\n{json.dumps(shrunk)}\n{report.text()}")
    assert report.failures() == [], report.text()
    # Its topics are unloaded, so that some of what was read is read again.
    wrong = [name for name in COUNTERS if name != "duplicated" and getattr(report, name)]
    assert wrong == [], report.text()
    assert simple.consume(deployed.service_url, BEFORE, "kept", len(published)) == published
    assert len([each for each in bookies.events("ScaledIn") if each.startswith("Scale bookies from 4 to 3")]) == 1
    assert shrunk["replicas"] == 3, "spec was never written"
    assert {"ReadOnly", "Verifying", "Forgetting"} <= bookies.steps, "it left by the way every bookie leaves"
    fourth = bookies.name(3)
    assert {pod: disk for pod, disk in small.placed().items() if pod != fourth} == {
        pod: disk for pod, disk in placed.items() if pod != fourth
    }
    assert others["bookie"].pop(fourth) and uids(kubectl, namespace, "east") == others, "nobody is replaced"
    assert bookies.told("Replicated")["status"] == "True"
