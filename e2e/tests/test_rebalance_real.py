"""Three brokers, all traffic on one of them: a PulsarRebalance evens it out, by the brokers' own rates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError

import pytest

from e2e.conftest import Deployed
from e2e.counting.client import CountingRun
from e2e.support.changes import answers, patch_cluster
from e2e.support.deploy import ROOT
from e2e.support.eventually import eventually
from e2e.support.objects import condition
from e2e.support.traffic import Traffic, topics_within
from e2e.tests.test_rolls import admin

SPACE = 1 << 32
NAMESPACE = "shop/skew"
BUNDLES = 12
BOUNDS = [n * SPACE // BUNDLES for n in range(BUNDLES)] + [SPACE - 1]
TOPICS = 20
STATS_SECONDS = 10


@pytest.fixture(scope="module")
def brokers(deployed: Deployed) -> Iterator[list[str]]:
    """Three brokers whose own balancer is off and whose rates are young."""
    config = {
        "statsUpdateFrequencyInSecs": str(STATS_SECONDS),
        "loadBalancerSheddingEnabled": "false",
        "loadBalancerAutoBundleSplitEnabled": "false",
    }
    patch_cluster(deployed.kubectl, deployed.namespace, "east", {"broker": {"replicas": 3, "config": config}})
    answers(deployed.admin_url)

    def ids() -> list[str]:
        found = sorted(admin(deployed, "GET", "brokers/east"))
        assert len(found) == 3, found
        return found

    yield eventually(ids, within=120, what="three registered brokers")
    patch_cluster(deployed.kubectl, deployed.namespace, "east", {"broker": {"replicas": 1, "config": None}})
    answers(deployed.admin_url)


def span(index: int) -> str:
    """Range of a bundle as Pulsar writes it."""
    return f"0x{BOUNDS[index]:08x}_0x{BOUNDS[index + 1]:08x}"


def owner_of(deployed: Deployed, broker: str) -> set[str]:
    """Bundles of the namespace a broker's pod says it owns."""
    pod = broker.split(".", 1)[0]
    path = (
        f"/api/v1/namespaces/{deployed.namespace}/pods/{pod}:8080/proxy/admin/v2/brokers/east/{broker}/ownedNamespaces"
    )
    return {name for name in json.loads(deployed.kubectl.run("get", "--raw", path)) if name.startswith(f"{NAMESPACE}/")}


@pytest.fixture
def skewed(deployed: Deployed, brokers: list[str]) -> Iterator[list[str]]:
    """A namespace of twelve bundles, four at each broker; yields topics of the first broker's bundles."""
    boundaries = [f"0x{b:08x}" for b in BOUNDS]
    admin(
        deployed,
        "PUT",
        NAMESPACE.join(["namespaces/", ""]),
        {"bundles": {"boundaries": boundaries, "numBundles": BUNDLES}},
    )
    for index in range(BUNDLES):
        wanted = brokers[index * 3 // BUNDLES]

        def placed(index: int = index, wanted: str = wanted) -> bool:
            if f"{NAMESPACE}/{span(index)}" in owner_of(deployed, wanted):
                return True
            (topic,) = topics_within(NAMESPACE, [(BOUNDS[index], BOUNDS[index + 1])], 1, prefix="probe")
            name = topic.removeprefix("persistent://")
            lookup(deployed, name)
            admin(deployed, "PUT", f"namespaces/{NAMESPACE}/{span(index)}/unload?destinationBroker={wanted}")
            lookup(deployed, name)
            return f"{NAMESPACE}/{span(index)}" in owner_of(deployed, wanted)

        eventually(placed, within=90, what=f"bundle {index} at {wanted}")
    yield topics_within(NAMESPACE, [(BOUNDS[n], BOUNDS[n + 1]) for n in range(4)], TOPICS)

    def removed() -> bool:
        try:
            admin(deployed, "DELETE", f"namespaces/{NAMESPACE}?force=true")
        except HTTPError as error:
            return error.code == 404
        return False

    deployed.kubectl.run("delete", "prb", "--all", "-n", deployed.namespace)
    admin(deployed, "POST", "brokers/configuration/forceDeleteNamespaceAllowed/true")
    eventually(removed, within=90, what="the namespace is gone")
    admin(deployed, "DELETE", "brokers/configuration/forceDeleteNamespaceAllowed")


def lookup(deployed: Deployed, name: str) -> None:
    """Assign a topic's bundle, as a client does."""
    import urllib.request

    with urllib.request.urlopen(f"{deployed.admin_url}/lookup/v2/topic/persistent/{name}", timeout=30) as answer:
        answer.read()


def rebalance(deployed: Deployed, name: str, **spec: Any) -> None:
    """Apply a PulsarRebalance."""
    body = {"clusterRef": {"name": "east"}, "namespaces": [NAMESPACE], **spec}
    meta = {"name": name, "namespace": deployed.namespace}
    deployed.kubectl.apply(
        json.dumps(
            {"apiVersion": "pulsaroperator.io/v1alpha1", "kind": "PulsarRebalance", "metadata": meta, "spec": body}
        )
    )


def wait_for(deployed: Deployed, name: str, kind: str, *, within: float) -> dict[str, Any]:
    """The object once a condition is True."""

    def there() -> dict[str, Any]:
        found = deployed.kubectl.get("pulsarrebalance", deployed.namespace, name)
        assert found is not None and condition(found, kind).get("status") == "True", (found or {}).get("status")
        return found

    return eventually(there, within=within, what=f"{kind} of PulsarRebalance {name}")


def test_moves_and_splits_even_out_a_hot_broker(
    deployed: Deployed, skewed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rates = {topic: 20.0 + 4 * n for n, topic in enumerate(skewed[:-1])}
    with (
        Traffic(deployed.service_url, rates) as traffic,
        CountingRun(deployed.service_url, skewed[-1], rate=50) as run,
    ):

        def proposed() -> dict[str, Any]:
            rebalance(deployed, "even", budget={"maxTrafficMovedPercent": 100, "movesPerMinute": 60})
            deployed.kubectl.run(
                "annotate",
                "prb",
                "even",
                "-n",
                deployed.namespace,
                "pulsaroperator.io/rebalance=refresh",
                "--overwrite",
            )
            found = wait_for(deployed, "even", "ProposalReady", within=15)
            before = found["status"]["proposal"]["before"]
            assert float(before["busiestOverMean"]) > 2.5, before
            return found

        proposal = eventually(proposed, within=120, what="a proposal that sees the hot broker")["status"]["proposal"]
        with run.operation("rebalance"):
            deployed.kubectl.run(
                "annotate",
                "prb",
                "even",
                "-n",
                deployed.namespace,
                "pulsaroperator.io/rebalance=approve",
                "--overwrite",
            )
            done = wait_for(deployed, "even", "Completed", within=240)
        report = run.finish()
    status = done["status"]
    with capsys.disabled():
        print(f"\n{deployed.kubectl.run('get', 'prb', '-n', deployed.namespace)}")
        print(f"before {proposal['before']}, promised {proposal['after']}, measured {status['measured']}")
        print(f"{proposal['splits']} splits, {proposal['moves']} moves, {traffic.sent} sent, {traffic.failed} failed")
        print(report.text())
    assert status["progress"]["done"] == status["progress"]["total"] > 0
    assert float(status["measured"]["busiestOverMean"]) < float(proposal["before"]["busiestOverMean"]) / 1.8
    assert report.violations() == []
    values = admin(deployed, "GET", "brokers/configuration/values")
    assert "loadBalancerSheddingEnabled" not in values


@pytest.fixture
def recorded(deployed: Deployed) -> Iterator[None]:
    """The chart's collector and Spark job beside the quickstart's cluster."""
    values = {
        "instance.create": "false",
        "instance.name": "demo",
        "cluster.name": "east",
        "sizing.enabled": "true",
        "sizing.image.tag": "dev",
        "sizing.collector.intervalSeconds": str(STATS_SECONDS),
        "sizing.storage.size": "1Gi",
        "sizing.job.growth": "1",
        "sizing.job.resources.requests.cpu": "100m",
    }
    settings = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
    rendered = deployed.helm.run(
        *("template", "east", str(ROOT / "helm/pulsar"), "-n", deployed.namespace, "--kube-version", "1.35.0"),
        *("--show-only", "templates/sizing.yaml", *settings),
    )
    deployed.kubectl.apply(rendered)
    yield
    deployed.kubectl.run("delete", "-n", deployed.namespace, "-f", "-", "--ignore-not-found", stdin=rendered)


def test_a_proposal_from_the_files_of_the_collector(
    deployed: Deployed, skewed: list[str], recorded: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recorded from these brokers, sized by Spark, proposed, executed; nothing else knows the traffic."""
    kubectl, namespace = deployed.kubectl, deployed.namespace
    with Traffic(deployed.service_url, {topic: 20.0 + 4 * n for n, topic in enumerate(skewed)}):
        kubectl.run("rollout", "status", "deployment/demo-sizing", "-n", namespace, "--timeout=180s", timeout=200)

        def sampled() -> bool:
            path = f"/api/v1/namespaces/{namespace}/services/demo-sizing:8080/proxy/metrics"
            rows = re.search(r"^pulsar_sizing_rows_total\S* (\S+)$", kubectl.run("get", "--raw", path), re.M)
            return rows is not None and float(rows[1]) > 6 * len(skewed)

        eventually(sampled, within=240, what="six rounds of the collector")
        sized: list[str] = []

        def proposed() -> dict[str, Any]:
            # The first samples may be from before the rates were there: the job runs until it saw the hot broker.
            name = f"size-{len(sized)}"
            sized.append(name)
            kubectl.run("create", "job", name, "--from=cronjob/demo-sizing", "-n", namespace)
            kubectl.run("wait", "job", name, "-n", namespace, "--for=condition=Complete", "--timeout=240s", timeout=250)
            budget = {"maxTrafficMovedPercent": 100, "movesPerMinute": 60}
            rebalance(deployed, "sized", source="Sizing", budget=budget)
            kubectl.run(
                *("annotate", "prb", "sized", "-n", namespace, "pulsaroperator.io/rebalance=refresh", "--overwrite")
            )
            found = wait_for(deployed, "sized", "ProposalReady", within=30)
            assert float(found["status"]["proposal"]["before"]["busiestOverMean"]) > 2.2, found["status"]["proposal"]
            return found

        proposal = eventually(proposed, within=420, what="a proposal from the sizing result")["status"]["proposal"]
        kubectl.run(
            *("annotate", "prb", "sized", "-n", namespace, "pulsaroperator.io/rebalance=approve", "--overwrite")
        )
        done = wait_for(deployed, "sized", "Completed", within=240)
        log = kubectl.run("logs", f"job/{sized[-1]}", "-n", namespace)
    with capsys.disabled():
        print(f"\n{log[-3000:]}\n{kubectl.run('get', 'prb', '-n', namespace)}")
        print(f"before {proposal['before']}, promised {proposal['after']}, measured {done['status']['measured']}")
    before = float(proposal["before"]["busiestOverMean"])
    assert float(done["status"]["measured"]["busiestOverMean"]) < before / 1.6
