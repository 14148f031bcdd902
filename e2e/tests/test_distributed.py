"""A cluster as people run it: one of each is lost, and a change of bookies rolls them one at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.conftest import Deployed
from e2e.support.eventually import eventually
from e2e.support.trading import counting, trading_cluster
from e2e.support.watched import Watched, is_up
from pulsar_conformance.counting import simple

TOPIC = "persistent://trade/fills/europe"


@pytest.fixture(scope="module")
def trading(deployed: Deployed) -> Iterator[Deployed]:
    """See trading_cluster."""
    with trading_cluster(deployed) as found:
        yield found


def client(deployed: Deployed, *args: str) -> str:
    """Pulsar's own client, inside the second broker's pod, through the proxy's Service."""
    url = "pulsar://big-proxy.pulsar.svc.cluster.local:6650"
    return deployed.kubectl.run(
        "exec", "-n", "pulsar", "big-broker-1", "--",
        "env", "PULSAR_LOG_DIR=/tmp", "/pulsar/bin/pulsar-client", "--url", url, *args, timeout=180,
    )  # fmt: skip


def replace_pod(deployed: Deployed, name: str) -> None:
    """Delete a pod and wait until another one of that name is Ready."""
    before = deployed.kubectl.get("pod", "pulsar", name)
    assert before is not None
    deployed.kubectl.run("delete", "pod", name, "-n", "pulsar", timeout=150)

    def back() -> bool:
        now = deployed.kubectl.get("pod", "pulsar", name)
        assert now is not None and now["metadata"]["uid"] != before["metadata"]["uid"]
        return is_up(now)

    eventually(back, within=180, what=f"pod {name} again")


@pytest.mark.bookies(1)
def test_quorums_fit_the_bookies(trading: Deployed) -> None:
    brokers = trading.kubectl.get("statefulset", "pulsar", "big-broker")
    assert brokers is not None
    volumes = brokers["spec"]["template"]["spec"]["volumes"]
    name = next(v["configMap"]["name"] for v in volumes if v["name"] == "config")
    config = trading.kubectl.get("configmap", "pulsar", name)
    assert config is not None
    lines = config["data"]["overrides.conf"].splitlines()
    assert {"managedLedgerDefaultEnsembleSize=2", "managedLedgerDefaultWriteQuorum=2"} <= set(lines)
    cluster = trading.kubectl.get("pulsarcluster", "pulsar", "big")
    assert cluster is not None and cluster["status"]["bookkeeper"]["ready"] == 3


@pytest.mark.bookies(1)
def test_messages_survive_the_loss_of_one_of_each(trading: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    # A message that no subscription waits for is deleted when its ledger is closed, as when its topic moves.
    waiting = simple.client(trading.second_url)
    waiting.subscribe(TOPIC, "all").close()
    waiting.close()
    client(trading, "produce", TOPIC, "-m", "one,two,three")
    with counting(trading) as run:
        with run.operation("one ZooKeeper server, bookie and broker replaced"):
            for pod in ("big-zookeeper-2", "big-bookie-0", "big-broker-0"):
                replace_pod(trading, pod)
            trading.wait_ready(within=240)
        report = run.finish(drain_within=120)
    with capsys.disabled():
        print(f"\n{report.text()}")
    assert report.failures() == [], report.text()
    client(trading, "produce", TOPIC, "-m", "four")
    text = client(trading, "consume", TOPIC, "-s", "all", "-p", "Earliest", "-n", "4")
    assert all(word in text for word in ("one", "two", "three", "four"))


@pytest.mark.rolls(1)
def test_config_change_rolls_one_pod_at_a_time(trading: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    patch = json.dumps({"spec": {"bookkeeper": {"config": {"gcWaitTime": "600000"}}}})
    watched = Watched(trading.kubectl, "pulsar", "big")
    with counting(trading) as run:
        with run.operation("bookie roll"):
            trading.kubectl.run("patch", "pulsarcluster", "big", "-n", "pulsar", "--type=merge", "-p", patch)
            eventually(watched.rolled, within=420, what="three bookies rolled", every=0.3)
        report = run.finish(drain_within=120)
    with capsys.disabled():
        print(f"\n{report.text()}")
    assert report.failures() == [], report.text()
    assert watched.components == ["bookie"]
    assert watched.fewest["bookie"] == 2, "one bookie was seen down, never more"
