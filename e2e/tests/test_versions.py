"""Another version of Pulsar and back, the first pod of each component watched; and an image that never starts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from e2e.conftest import CLUSTER, Deployed
from e2e.support.changes import answers, patch_cluster
from e2e.support.deploy import ROOT
from e2e.support.eventually import eventually
from e2e.support.objects import condition
from e2e.support.watched import Watched, uids
from pulsar_conformance.counting.client import CountingRun

PAYMENTS = "persistent://shop/orders/payments"
NEWER, OLDER = "4.0.8", "4.0.6"
PATIENCE = 180.0
"""Seconds after which the client gives a send up: longer than the only one of any component is away."""
OF_OLDER = [f"pulsar-{component}:{OLDER}-dev" for component in ("broker", "bookie", "proxy")]
TIERS = ["zookeeper", "bookie", "autorecovery", "broker", "proxy"]
BESIDE = "autorecovery"
"""Nobody waits for it: it goes with those that wait for what it waits for."""
MISSING = "pulsar-proxy:never-built"


@pytest.fixture(scope="module")
def older(deployed: Deployed) -> None:
    """The images of the older version, in the cluster."""
    for command in (["older-images"], ["load", CLUSTER, *OF_OLDER]):
        subprocess.run([sys.executable, "-m", "e2e.kind", *command], cwd=ROOT, check=True, timeout=900)


def patch(deployed: Deployed, spec: dict[str, Any]) -> None:
    """Change the cluster's specification and wait for nothing."""
    body = json.dumps({"spec": spec})
    deployed.kubectl.run("patch", "pulsarcluster", "east", "-n", deployed.namespace, "--type=merge", "-p", body)


def status(deployed: Deployed) -> dict[str, Any]:
    """Status of the cluster."""
    cluster = deployed.kubectl.get("pulsarcluster", deployed.namespace, "east")
    assert cluster is not None
    return dict(cluster["status"])


def running(deployed: Deployed) -> set[str]:
    """Versions that pods run, as the status tells them by component."""
    found = status(deployed)
    return {
        row["version"]
        for key in ("zookeeper", "bookkeeper", "autorecovery", "broker", "proxy")
        for row in (found.get(key) or {}).get("versions") or ()
    }


@pytest.mark.rolls(4)
def test_to_the_older_version_and_back_with_a_canary(
    deployed: Deployed, older: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of each component: clients wait while the only one is away, and lose nothing."""
    for version, order, more in (
        (OLDER, TIERS[::-1], {}),
        (NEWER, TIERS, {"upgrade": {"canary": {"minutes": 1}}}),
    ):
        before, watched = (
            uids(deployed.kubectl, deployed.namespace, "east"),
            Watched(deployed.kubectl, deployed.namespace, "east"),
        )
        with CountingRun(deployed.service_url, PAYMENTS, rate=20, keys=8, send_timeout=PATIENCE) as run:
            with run.operation(f"to {version}"):
                patch(deployed, {"version": version, **more})
                eventually(watched.rolled, within=540, what=f"every pod of {version}", every=0.3)
                answers(deployed.admin_url)
            report = run.finish(drain_within=PATIENCE)
        with capsys.disabled():
            print(f"\nto {version}: {' > '.join(watched.components)}\n{report.text()}")
        assert report.failures() == [], report.text()
        after = uids(deployed.kubectl, deployed.namespace, "east")
        assert not {uid for pods in before.values() for uid in pods.values()} & {
            uid for pods in after.values() for uid in pods.values()
        }, "every pod was replaced"
        assert sorted(watched.components) == sorted(order)
        assert [each for each in watched.components if each != BESIDE] == [each for each in order if each != BESIDE]
        assert running(deployed) == {version}
        canary = [each for each in watched.waits if "spec.upgrade.canary" in each]
        assert bool(canary) is bool(more), watched.waits


@pytest.mark.rolls(4)
def test_a_jump_that_nobody_tested_is_refused(deployed: Deployed) -> None:
    """With the versions that it may go to, and nothing is touched."""
    before = uids(deployed.kubectl, deployed.namespace, "east")
    patch(deployed, {"version": "4.0.1"})
    found = eventually(
        lambda: next(
            (c for c in status(deployed)["conditions"] if c["reason"] == "VersionRefused"),
            None,
        ),
        within=60,
        what="VersionRefused",
    )
    assert OLDER in found["message"], found
    patch_cluster(deployed.kubectl, deployed.namespace, "east", {"version": NEWER})
    assert uids(deployed.kubectl, deployed.namespace, "east") == before


@pytest.mark.rolls(4)
def test_an_image_that_never_starts_stops_the_roll_and_goes_back(
    deployed: Deployed, capsys: pytest.CaptureFixture[str]
) -> None:
    """The proxy that was not touched serves on; the other comes back as it was, and a correction goes on."""
    kubectl, namespace = deployed.kubectl, deployed.namespace
    patch_cluster(kubectl, namespace, "east", {"proxy": {"replicas": 2}, "progressDeadlineSeconds": 60})
    before = uids(kubectl, namespace, "east")
    with CountingRun(deployed.service_url, PAYMENTS, rate=20, keys=8) as run:
        with run.operation("an image of the proxies that is nowhere"):
            patch(deployed, {"image": {"proxy": MISSING}})

            def stopped() -> dict[str, Any]:
                cluster = kubectl.get("pulsarcluster", namespace, "east")
                found = condition(cluster, "Progressing")
                assert found["reason"] == "RolloutFailed", found
                proxies = (cluster or {})["status"]["proxy"]
                assert proxies["ready"] == 2, proxies
                return found

            found = eventually(stopped, within=240, what="RolloutFailed, and both proxies ready again")
        report = run.finish()
    with capsys.disabled():
        print(f"\n{found['message']}\n{report.text()}")
    assert report.failures() == [], report.text()
    assert MISSING in found["message"] or "pull" in found["message"].lower(), found
    cluster = kubectl.get("pulsarcluster", namespace, "east")
    assert condition(cluster, "Stalled")["status"] == "True"
    after = uids(kubectl, namespace, "east")
    assert {**after, "proxy": None} == {**before, "proxy": None}, "nothing else is touched"
    assert after["proxy"]["east-proxy-0"] == before["proxy"]["east-proxy-0"]
    patch_cluster(kubectl, namespace, "east", {"image": {"proxy": None}})
    assert condition(kubectl.get("pulsarcluster", namespace, "east"), "Stalled") == {}
