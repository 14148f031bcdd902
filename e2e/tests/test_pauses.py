"""What producers feel while bundles move: pauses by operation, cut into stages (P13)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from e2e.conftest import Deployed
from e2e.support.changes import patch_cluster
from e2e.support.eventually import eventually
from e2e.support.killing import kill
from e2e.support.objects import condition, is_ready
from e2e.support.pauses import Publishing, Stages, percentile, stages, table
from e2e.support.podlog import NANOS, PodLog
from e2e.support.rolling import even
from e2e.support.skew import BUNDLES, NAMESPACE, Brokers, span

GOAL_P99, GOAL_LONGEST = 1.0, 2.0
"""Seconds; what is missed is said, not hidden."""


@dataclass
class Felt:
    """What the producers felt, by operation."""

    publishing: Publishing
    bundle_of: dict[str, str]
    rows: list[str] = field(default_factory=list)

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Pauses that begin in here are this operation's."""
        begin = time.time_ns()
        yield
        time.sleep(3)  # a pause that has begun ends
        found = self.since(begin)
        lengths = [each.pause.seconds for each in found]
        text = (
            f"{len(lengths)} pauses, p50 {percentile(lengths, 0.5):.2f} s, p99 {percentile(lengths, 0.99):.2f} s, "
            f"longest {max(lengths):.2f} s"
            if lengths
            else "no pause"
        )
        self.rows.append(f"{name:34} {(time.time_ns() - begin) / NANOS:6.1f} s  {text}")
        print(f"\n== {name}\n{table(found)}")
        for each in sorted(found, key=lambda stage: -stage.pause.seconds)[:5]:
            print(f"   {each}")

    def since(self, begin: int) -> list[Stages]:
        """Pauses from then on, cut up."""
        marks = self.publishing.marks
        return [
            stages(each, self.bundle_of[each.topic], marks) for each in self.publishing.pauses if each.began >= begin
        ]


@contextmanager
def followed(deployed: Deployed, brokers: Brokers, publishing: Publishing) -> Iterator[None]:
    """The brokers' logs are taken down too."""
    pods = [each.split(".", 1)[0] for each in brokers.ids]
    logs = [PodLog(deployed.kubectl, deployed.namespace, pod, publishing.note) for pod in pods]
    try:
        for log in logs:
            log.start()
        yield
    finally:
        for log in logs:
            log.stop()
    assert [log.error for log in logs if log.error] == []


def settled(deployed: Deployed, replicas: int) -> bool:
    """The cluster is as its specification says, and all drains and fills are done."""
    cluster = deployed.kubectl.get("pulsarcluster", deployed.namespace, "east")
    assert cluster is not None
    if not is_ready(cluster) or condition(cluster, "UpToDate").get("status") != "True":
        return False
    left = [
        each["metadata"]["name"]
        for each in deployed.kubectl.items("prb", deployed.namespace)
        if not (each.get("status") or {}).get("progress", {}).get("finishedTime")
    ]
    return not left and cluster["status"]["broker"]["ready"] == replicas


def move_each(deployed: Deployed, brokers: Brokers, ids: Sequence[str]) -> None:
    """Each bundle once, to the next broker."""
    owners = brokers.owners()
    for index in range(BUNDLES):
        owner = owners[f"{NAMESPACE}/{span(index)}"]
        target = ids[(list(ids).index(owner) + 1) % len(ids)]
        brokers.admin("PUT", f"namespaces/{NAMESPACE}/{span(index)}/unload?destinationBroker={target}")
        time.sleep(2)


@pytest.mark.rolls(7)
def test_what_producers_feel(deployed: Deployed, brokers: Brokers, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing fails and nothing waits for longer than a send may; the pauses are printed, with their causes."""
    operations: dict[str, Callable[[], None]] = {
        "bundles moved one by one": lambda: move_each(deployed, brokers, brokers.ids),
        "roll of three brokers": lambda: patch_cluster(
            deployed.kubectl, deployed.namespace, "east", {"broker": {"config": {"maxProducersPerTopic": "77"}}}
        ),
        "three brokers to two": lambda: patch_cluster(
            deployed.kubectl, deployed.namespace, "east", {"broker": {"replicas": 2}}
        ),
        "two brokers to three": lambda: patch_cluster(
            deployed.kubectl, deployed.namespace, "east", {"broker": {"replicas": 3}}
        ),
        "the leading broker killed": lambda: kill(deployed.kubectl, deployed.node, deployed.namespace, leader(brokers)),
    }
    with even(brokers, 2) as topics, capsys.disabled():
        bundle_of = {topic: f"{NAMESPACE}/{span(n // 2)}" for n, topic in enumerate(topics)}
        with Publishing(deployed.service_url, topics) as publishing, followed(deployed, brokers, publishing):
            felt = Felt(publishing, bundle_of)
            time.sleep(5)
            for name, begin in operations.items():
                replicas = 2 if name.endswith("to two") else 3
                with felt.operation(name):
                    begin()
                    time.sleep(5)
                    eventually(partial(settled, deployed, replicas), within=420, what=f"{name}: settled", every=1.0)
        print("\n".join(["", f"{len(topics)} topics, 20 messages/s each; {publishing.sent} sent", *felt.rows]))
    assert dict(publishing.failed) == {}
    assert publishing.sent > 0


def leader(brokers: Brokers) -> str:
    """Pod of the broker that leads."""
    return str(brokers.admin("GET", "brokers/leaderBroker")["brokerId"]).split(".", 1)[0]
