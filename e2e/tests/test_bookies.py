"""Three bookies: rolled one after another under traffic, the operator killed in the middle."""

from __future__ import annotations

import json

import pytest

from e2e.conftest import Deployed
from e2e.support.changes import answers, patch_cluster
from e2e.support.deploy import OPERATOR_NAMESPACE
from e2e.support.eventually import eventually
from e2e.support.objects import condition
from e2e.support.watched import Watched, evicted, uids
from pulsar_conformance.counting.client import CountingRun

PAYMENTS = "persistent://shop/orders/payments"
CHANGED = {"bookkeeper": {"config": {"gcWaitTime": "600000"}}}
"""A setting of bookies that nobody else reads."""


def kill_the_operator(deployed: Deployed) -> None:
    """Its pod goes without a chance to end anything."""
    deployed.kubectl.run(
        "delete", "pod", "-n", OPERATOR_NAMESPACE, "-l", "app.kubernetes.io/name=pulsar-operator",
        "--grace-period=0", "--force", "--wait=false",
    )  # fmt: skip


def test_three_bookies_are_rolled_and_no_message_is_lost(
    deployed: Deployed, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every step asks the storage first, by a process that knows nothing of the step before."""
    kubectl, namespace = deployed.kubectl, deployed.namespace
    # One bookie was brought up with one copy, and three have no more until somebody asks for it.
    copies = {"ensembleSize": 2, "writeQuorum": 2, "ackQuorum": 2}
    patch_cluster(kubectl, namespace, "east", {"bookkeeper": {"replicas": 3, "ensemble": copies}})
    answers(deployed.admin_url)
    cluster = kubectl.get("pulsarcluster", namespace, "east")
    assert cluster is not None
    assert [row["state"] for row in cluster["status"]["bookies"]] == ["Writable"] * 3
    assert condition(cluster, "Replicated")["status"] == "True"
    told = set(evicted(kubectl, namespace, "east"))
    before, watched = uids(kubectl, namespace, "east"), Watched(kubectl, namespace, "east")
    with CountingRun(deployed.service_url, PAYMENTS, rate=50, keys=8) as run:
        with run.operation("roll of three bookies, the operator killed after the first"):
            kubectl.run(
                "patch", "pulsarcluster", "east", "-n", namespace, "--type=merge", "-p", json.dumps({"spec": CHANGED})
            )
            eventually(
                watched.rolled_with(1, lambda: kill_the_operator(deployed)),
                within=420,
                what="three bookies rolled",
                every=0.3,
            )
        report = run.finish(drain_within=120)
    with capsys.disabled():
        print(f"\nlostBookieRecoveryDelay: {watched.raised}; not replicated: {watched.replicated or 'never'}")
        print(report.text())
    assert report.failures() == [], report.text()
    after = uids(kubectl, namespace, "east")
    assert not set(before["bookie"].values()) & set(after["bookie"].values())
    assert {**after, "bookie": None} == {**before, "bookie": None}, "nobody else is rolled"
    assert watched.components == ["bookie"] and watched.fewest["bookie"] == 2, "one was seen down, never more"
    said = set(evicted(kubectl, namespace, "east")) - told
    assert sorted(each.split()[2] for each in said) == [f"east-bookie-{n}:" for n in range(3)]
    assert watched.raised, "the auditor was told to wait"
    assert watched.replicated == set(), "no restart was taken for a loss"
    settled = eventually(
        lambda: (found := kubectl.get("pulsarcluster", namespace, "east")) and not found["status"].get("recoveryDelay"),
        within=120,
        what="lostBookieRecoveryDelay given back",
    )
    assert settled
