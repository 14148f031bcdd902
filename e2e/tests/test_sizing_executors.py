"""The sizing job at scale, area ``balance``: executors on two nodes, and every table in an object store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.conftest import CLUSTER, Deployed
from e2e.support.evening import rebalance, refreshed
from e2e.support.eventually import eventually
from e2e.support.objectstorage import IMAGE, ObjectStorage, build_image, object_storage
from e2e.support.recording import SERVICE, recording
from e2e.support.secondnode import SecondNode, second_node
from e2e.support.skew import NAMESPACE, Brokers, rates_of, skew
from e2e.support.traffic import Traffic

SIZING = "pulsar-sizing:dev"
EXECUTOR = "app.kubernetes.io/component=sizing-executor"
SIZED = "size-on-two-nodes"
EXECUTORS = {
    "sizing.job.master": "k8s://https://kubernetes.default.svc",
    "sizing.job.executors.memory": "512m",
    "sizing.job.executors.memoryOverhead": "512m",
    "sizing.job.executors.whenUneven": "DoNotSchedule",
    "sizing.job.eventLog": "s3://traffic/events",
    "sizing.job.conf.spark\\.kubernetes\\.executor\\.request\\.cores": "100m",
    # Tasks begin when both are there, and are dealt to both.
    "sizing.job.conf.spark\\.scheduler\\.minRegisteredResourcesRatio": "1.0",
    # Pods stay when the job has ended, to be looked at; they go with the job.
    "sizing.job.conf.spark\\.kubernetes\\.executor\\.deleteOnTermination": "false",
}
"""Two executors, the chart's number, small enough for a machine that runs everything else as well."""


@pytest.fixture
def skewed(brokers: Brokers) -> Iterator[list[str]]:
    """Topics of a namespace whose traffic will all be on one broker."""
    with skew(brokers) as topics:
        yield topics


@pytest.fixture
def worker(deployed: Deployed) -> Iterator[SecondNode]:
    """A second node, with the images that the job needs."""
    build_image(CLUSTER)
    with second_node(deployed.kubectl, deployed.node, [SIZING, IMAGE]) as found:
        yield found


@pytest.fixture
def storage(deployed: Deployed, worker: SecondNode) -> Iterator[ObjectStorage]:
    """A bucket."""
    with object_storage(deployed.kubectl, deployed.namespace, SIZING) as found:
        yield found


@pytest.mark.balance(11)
def test_executors_on_two_nodes_with_every_table_in_a_bucket(
    deployed: Deployed,
    skewed: list[str],
    worker: SecondNode,
    storage: ObjectStorage,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Recorded, sized and proposed: collector, driver and executors mount no volume claim."""
    kubectl, namespace = deployed.kubectl, deployed.namespace
    with (
        recording(kubectl, deployed.helm, namespace, EXECUTORS | storage.values) as collector,
        Traffic(deployed.service_url, rates_of(skewed)) as traffic,
    ):
        collector.sampled(6 * len(skewed))
        collector.size(SIZED)
        executors = kubectl.items("pods", namespace, EXECUTOR)
        pods = [*executors, *kubectl.items("pods", namespace, f"job-name={SIZED}")]
        pods += kubectl.items("pods", namespace, "app.kubernetes.io/component=sizing")
        logs = {
            each["metadata"]["name"]: kubectl.run("logs", each["metadata"]["name"], "-n", namespace) for each in pods
        }
        result = collector.result()
        rebalance(kubectl, namespace, "sized", trafficSource="Recorded")
        proposal = refreshed(kubectl, namespace, "sized", within=60)["status"]["proposal"]
        kubectl.run("delete", "prb/sized", f"job/{SIZED}", "-n", namespace, "--timeout=60s")
        # Before the second node is taken away under them.
        eventually(lambda: not kubectl.items("pods", namespace, EXECUTOR), within=120, what="executors are gone")
    placed = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in executors}
    tasks = {name: logs[name].count("Running task") for name in placed}
    driver = next(log for name, log in logs.items() if SIZED in name and name not in placed)
    with capsys.disabled():
        print(f"\nexecutors on {placed}, tasks {tasks}\n{driver}")
    assert traffic.failures() == []
    assert sorted(placed.values()) == sorted([deployed.node, worker.name])
    assert len(pods) == len(executors) + 2, [each["metadata"]["name"] for each in pods]
    assert [claims(each) for each in pods] == [[]] * len(pods)
    assert kubectl.get("pvc", namespace, SERVICE) is None, "the chart makes no claim beside an object store"
    assert sum(tasks.values()), tasks
    assert NAMESPACE in {each["namespace"] for each in result["namespaces"]}
    assert proposal["before"], proposal


def claims(pod: dict[str, Any]) -> list[str]:
    """Names of the volume claims that a pod mounts."""
    volumes = pod["spec"].get("volumes", [])
    return [each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each]
