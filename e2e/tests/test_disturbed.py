"""A cluster with three of each, disturbed: an election, a node drain, processes killed, stores away."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Deployed
from e2e.support.apiproxy import through_api_server
from e2e.support.eventually import eventually
from e2e.support.faults_command import SRVR, command
from e2e.support.killing import kill
from e2e.support.promises import run_failures
from e2e.support.trading import counting, trading_cluster
from e2e.support.watched import Watched, evicted, uids
from pulsar_conformance.model import Status

SERVERS = [f"big-zookeeper-{n}" for n in range(3)]


@pytest.fixture(scope="module")
def trading(deployed: Deployed) -> Iterator[Deployed]:
    """See trading_cluster."""
    with trading_cluster(deployed) as found:
        yield found


def patch(deployed: Deployed, spec: dict[str, Any]) -> None:
    """Change the cluster's specification and wait for nothing."""
    body = json.dumps({"spec": spec})
    deployed.kubectl.run("patch", "pulsarcluster", "big", "-n", "pulsar", "--type=merge", "-p", body)


def leader(deployed: Deployed) -> str:
    """Pod of the ZooKeeper server that leads, by its own word."""
    found = [pod for pod in SERVERS if "Mode: leader" in
             deployed.kubectl.run("exec", "-n", "pulsar", pod, "--", "bash", "-c", SRVR)]  # fmt: skip
    assert len(found) == 1, found
    return found[0]


@pytest.mark.rolls(5)
def test_the_leader_of_zookeeper_goes_last(trading: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    first, watched = leader(trading), Watched(trading.kubectl, "pulsar", "big")
    with counting(trading) as run:
        with run.operation("roll of three ZooKeeper servers"):
            patch(trading, {"metadataStore": {"managed": {"config": {"snapCount": "50000"}}}})
            eventually(watched.rolled, within=420, what="three servers rolled", every=0.3)
        report = run.finish(drain_within=120)
    with capsys.disabled():
        print(f"\nleader {first}; replaced {' > '.join(watched.replaced)}\n{report.text()}")
    assert report.failures() == [], report.text()
    assert sorted(watched.replaced) == SERVERS
    assert watched.replaced[-1] == first and watched.fewest["zookeeper"] == 2
    assert watched.components == ["zookeeper"]


@contextmanager
def drained(deployed: Deployed, selector: str) -> Iterator[list[str]]:
    """A node drain of some pods, tried for a while and given up; yields what it said."""
    words: list[str] = []

    def drain() -> None:
        done = subprocess.run(
            [deployed.kubectl.binary, "--kubeconfig", str(deployed.kubectl.kubeconfig), "drain", deployed.node,
             "--ignore-daemonsets", "--delete-emptydir-data", f"--pod-selector={selector}", "--timeout=25s"],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        words.append(done.stdout + done.stderr)

    thread = threading.Thread(target=drain)
    thread.start()
    # What drain does first would keep every new pod away from the only node.
    try:
        eventually(lambda: uncordoned(deployed), within=30, what="the node takes pods again", every=0.2)
        yield words
    finally:
        thread.join(timeout=90)
        deployed.kubectl.run("uncordon", deployed.node)


def uncordoned(deployed: Deployed) -> bool:
    """Whether the node was cordoned, and is not any more."""
    node = deployed.kubectl.get("node", "", deployed.node)
    assert node is not None
    if not node["spec"].get("unschedulable"):
        return False
    deployed.kubectl.run("uncordon", deployed.node)
    return True


@pytest.mark.rolls(5)
def test_a_roll_and_a_node_drain_never_take_two(trading: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    before, watched = uids(trading.kubectl, "pulsar", "big"), Watched(trading.kubectl, "pulsar", "big")
    selector = "pulsaroperator.io/owner-name=big,app.kubernetes.io/component=bookie"
    with counting(trading) as run:
        with run.operation("bookie roll and node drain at once"):
            patch(trading, {"bookkeeper": {"config": {"gcWaitTime": "600000"}}})
            eventually(lambda: watched.look() and watched.fewest["bookie"] < 3, within=120, what="a bookie down")
            with drained(trading, selector) as words:
                eventually(lambda: watched.look() and words, within=60, what="the drain's end", every=0.3)
            eventually(watched.rolled, within=420, what="three bookies rolled", every=0.3)
        report = run.finish(drain_within=120)
    with capsys.disabled():
        print(f"\n{words[0]}\n{report.text()}")
    assert report.failures() == [], report.text()
    assert "violate the pod's disruption budget" in words[0], "the drain met the budget"
    assert watched.fewest["bookie"] == 2, "one bookie was seen down, never more"
    after = uids(trading.kubectl, "pulsar", "big")
    assert not set(before["bookie"].values()) & set(after["bookie"].values())
    assert evicted(trading.kubectl, "pulsar", "big"), "the operator's own pods left by eviction"


@pytest.mark.rolls(5)
def test_processes_killed_one_after_another(trading: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    """kill -9 of a bookie, a broker and ZooKeeper's leader: nothing is lost, and no pod is replaced for it.

    A broker that was killed is missed once its session ended (metadataStoreSessionTimeoutMillis, 30 s), and only then
    are its bundles served again: a client that gives a send up after as long as that does so.
    """
    before = uids(trading.kubectl, "pulsar", "big")
    with counting(trading, send_timeout=120) as run:
        for pod in ("big-bookie-0", "big-broker-0", leader(trading)):
            with run.operation(f"kill -9 of {pod}"):
                kill(trading.kubectl, trading.node, "pulsar", pod)
                trading.wait_ready(within=240)
        report = run.finish(drain_within=120)
    with capsys.disabled():
        print(f"\n{report.text()}")
    assert report.failures() == [], report.text()
    assert uids(trading.kubectl, "pulsar", "big") == before


@pytest.mark.rolls(5)
def test_no_step_is_taken_while_the_configuration_store_is_away(
    trading: Deployed, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its server stands still: the roll is held before its first step, and goes on when it answers again."""
    store = next(
        pod["metadata"]["name"]
        for pod in trading.kubectl.items("pods", "pulsar", "pulsaroperator.io/owner-name=trading")
    )
    before = uids(trading.kubectl, "pulsar", "big")
    with counting(trading) as run:
        with run.operation("broker roll while the configuration store is away"):
            with frozen(trading, store):
                patch(trading, {"broker": {"config": {"brokerDeduplicationMaxNumberOfProducers": "9999"}}})
                held = eventually(lambda: waiting(trading, "configuration store"), within=120, what="the roll is held")
                assert uids(trading.kubectl, "pulsar", "big") == before
            watched = Watched(trading.kubectl, "pulsar", "big")
            eventually(watched.rolled, within=420, what="two brokers rolled", every=0.3)
        report = run.finish(drain_within=120)
    with capsys.disabled():
        print(f"\nheld: {held}\n{report.text()}")
    assert report.failures() == [], report.text()
    after = uids(trading.kubectl, "pulsar", "big")
    assert not set(before["broker"].values()) & set(after["broker"].values())
    assert {**after, "broker": None} == {**before, "broker": None}


def waiting(deployed: Deployed, word: str) -> str:
    """What the roll of the cluster waits for, if it has a word in it; else empty."""
    cluster = deployed.kubectl.get("pulsarcluster", "pulsar", "big")
    words = str((((cluster or {}).get("status") or {}).get("rollout") or {}).get("message") or "")
    return words if word in words else ""


@contextmanager
def frozen(deployed: Deployed, pod: str) -> Iterator[None]:
    """The processes of a pod stand still."""
    found = deployed.kubectl.get("pod", "pulsar", pod)
    assert found is not None
    name = found["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    task = ["docker", "exec", deployed.node, "ctr", "-n", "k8s.io", "task"]
    subprocess.run([*task, "pause", name], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run([*task, "resume", name], check=True, capture_output=True)


@pytest.mark.rolls(6)
def test_promises_while_processes_fail(trading: Deployed, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What Pulsar promises of bookies, brokers and ZooKeeper that fail, by the suite's own checks; no pod is replaced.

    The check of proxies needs two: test_proxies has them.
    """
    before = uids(trading.kubectl, "pulsar", "big")
    fault = command(trading.kubectl, trading.node, "pulsar", "big")
    with through_api_server(trading.kubectl, "pulsar", "big-proxy", 8080) as admin_url, capsys.disabled():
        outcomes = run_failures(trading.second_url, admin_url, fault, tmp_path / "client.log", but="proxy_killed")
    assert [(o.check.id, o.text) for o in outcomes if o.status is not Status.PASSED] == []
    assert len(outcomes) == 5
    trading.wait_ready(within=240)
    assert uids(trading.kubectl, "pulsar", "big") == before
