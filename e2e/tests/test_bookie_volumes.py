"""Three bookies under traffic: one loses its volume, one gets another; what was only on one is given up."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
import yaml

from e2e.conftest import Deployed
from e2e.support.admin import ask
from e2e.support.changes import answers, patch_cluster
from e2e.support.eventually import eventually
from e2e.support.objects import condition
from e2e.support.watched import uids
from pulsar_conformance.counting import simple
from pulsar_conformance.counting.client import CountingRun

PAYMENTS = "persistent://shop/orders/payments"
IDLE = "persistent://shop/orders/idle-while-a-volume-is-lost"
SINGLE = "shop/single"
POD = "east-bookie-2"
CLAIMS = (f"journal-0-{POD}", f"ledgers-0-{POD}")


def three(deployed: Deployed) -> None:
    """Three bookies, two copies."""
    copies = {"ensembleSize": 2, "writeQuorum": 2, "ackQuorum": 2}
    patch_cluster(deployed.kubectl, deployed.namespace, "east", {"bookkeeper": {"replicas": 3, "ensemble": copies}})
    answers(deployed.admin_url)


def volumes(deployed: Deployed) -> dict[str, str]:
    """UID by name of the bookie's claims."""
    found = [deployed.kubectl.get("pvc", deployed.namespace, claim) for claim in CLAIMS]
    return {claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in found if claim is not None}


def lose(deployed: Deployed) -> None:
    """The claims are deleted, and the pod, so that its volumes go."""
    kubectl, namespace = deployed.kubectl, deployed.namespace
    kubectl.run("delete", "pvc", "-n", namespace, *CLAIMS, "--wait=false")
    kubectl.run("delete", "pod", "-n", namespace, POD, "--grace-period=0", "--force", "--wait=false")


def back(deployed: Deployed, former: dict[str, str], steps: set[str]) -> bool:
    """Three bookies, all writable, and the third has new volumes; takes down the steps that are seen."""
    cluster = deployed.kubectl.get("pulsarcluster", deployed.namespace, "east")
    assert cluster is not None
    rows = cluster["status"].get("bookies", [])
    steps |= {row["step"] for row in rows if row.get("step")}
    there = [(row.get("ordinal"), row["state"], row.get("step")) for row in rows]
    now = volumes(deployed)
    renewed = len(now) == len(CLAIMS) and not set(now.values()) & set(former.values())
    return renewed and "Forgetting" in steps and there == [(n, "Writable", None) for n in range(3)]


def told(deployed: Deployed) -> str:
    """Events about the bookie, one a line."""
    events = [e["message"] for e in deployed.kubectl.items("events", deployed.namespace) if POD in e["message"]]
    return "\n".join(dict.fromkeys(events))


def under_traffic(deployed: Deployed, name: str, act: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    """Counted messages, and a topic that is idle meanwhile: nothing is lost of either."""
    kubectl, namespace, steps, former = deployed.kubectl, deployed.namespace, set[str](), volumes(deployed)
    client = simple.client(deployed.service_url)
    topic = f"{IDLE}-{name.replace(' ', '-')}"
    producer, texts = client.create_producer(topic, send_timeout_millis=60_000), [f"idle-{n}" for n in range(20)]
    consumer = client.subscribe(topic, "idle")
    for text in texts[:10]:
        producer.send(text.encode())
    before = uids(kubectl, namespace, "east")
    with CountingRun(deployed.service_url, PAYMENTS, rate=50, keys=8, send_timeout=60) as run:
        with run.operation(name):
            act()
            eventually(lambda: back(deployed, former, steps), within=600, what="a new volume", every=0.5)
        for text in texts[10:]:
            producer.send(text.encode())
        read = [consumer.receive(timeout_millis=60_000).data().decode() for _ in texts]
        report = run.finish(drain_within=120)
    client.close()
    with capsys.disabled():
        print(f"\nsteps seen: {sorted(steps)}\n{told(deployed)}\n{report.text()}")
    assert report.failures() == [], report.text()
    assert read == texts
    after = uids(kubectl, namespace, "east")
    assert {pod for pod, uid in before["bookie"].items() if after["bookie"].get(pod) != uid} == {POD}
    assert {**after, "bookie": None} == {**before, "bookie": None}, "nobody else is replaced"
    eventually(lambda: replicated(deployed), within=120, what="every ledger has its copies")


def replicated(deployed: Deployed) -> bool:
    cluster = deployed.kubectl.get("pulsarcluster", deployed.namespace, "east")
    return cluster is not None and condition(cluster, "Replicated")["status"] == "True"


@pytest.mark.bookies(2)
def test_a_lost_volume_has_other_copies(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    three(deployed)
    under_traffic(deployed, "a volume lost", lambda: lose(deployed), capsys)
    assert "its volume is lost: PersistentVolumeClaim" in told(deployed)


@pytest.mark.bookies(2)
def test_another_volume_is_asked_for(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    three(deployed)

    def annotate() -> None:
        note = "pulsaroperator.io/replace-volume=a test"
        deployed.kubectl.run("annotate", "pod", "-n", deployed.namespace, POD, note)

    under_traffic(deployed, "a volume replaced", annotate, capsys)
    assert re.search(rf"Bookie {POD}\.\S+ gets a new volume, as requested: a test", told(deployed))


@pytest.mark.bookies(2)
def test_what_was_only_there_is_given_up_by_a_confirmation(
    deployed: Deployed, capsys: pytest.CaptureFixture[str]
) -> None:
    """Topics with one copy: those of the lost volume open again once somebody confirmed it, the others have all."""
    three(deployed)
    ask(deployed.admin_url, "PUT", f"namespaces/{SINGLE}")
    one = {"bookkeeperEnsemble": 1, "bookkeeperWriteQuorum": 1, "bookkeeperAckQuorum": 1}
    ask(deployed.admin_url, "POST", f"namespaces/{SINGLE}/persistence", {**one, "managedLedgerMaxMarkDeleteRate": 0})
    client = simple.client(deployed.service_url)
    hit: list[str] = []
    made = 0
    for number in range(40):
        made = number + 1
        topic = f"persistent://{SINGLE}/t{number}"
        producer = client.create_producer(topic, send_timeout_millis=60_000)
        producer.send(b"one")
        producer.close()
        stats = ask(deployed.admin_url, "GET", f"persistent/{SINGLE}/t{number}/internalStats?metadata=true")
        hit += [topic] if POD in json.dumps(stats) else []
        if len(hit) == 2 and number >= 3:
            break
    assert hit, "no ledger came to the bookie"
    former, steps = volumes(deployed), set[str]()
    lose(deployed)

    def refused() -> str:
        cluster = deployed.kubectl.get("pulsarcluster", deployed.namespace, "east")
        assert cluster is not None
        found = condition(cluster, "Progressing")
        return found["message"] if found["reason"] == "VolumeLost" else ""

    text = eventually(refused, within=600, what="VolumeLost")
    assert all(topic in text for topic in hit), text
    entry = re.search(r"add this entry to spec\.confirmations: (\{.*?\})", text)
    assert entry is not None, text
    body = json.dumps({"spec": {"confirmations": [yaml.safe_load(entry[1])]}})
    deployed.kubectl.run("patch", "pulsarcluster", "east", "-n", deployed.namespace, "--type=merge", "-p", body)
    eventually(lambda: back(deployed, former, steps), within=600, what="a new volume", every=0.5)
    for topic in hit:
        producer = client.create_producer(topic, send_timeout_millis=60_000)
        producer.send(b"two")
        producer.close()
    client.close()
    for number in range(made):
        ask(deployed.admin_url, "DELETE", f"persistent/{SINGLE}/t{number}?force=true")
    ask(deployed.admin_url, "DELETE", f"namespaces/{SINGLE}")
    with capsys.disabled():
        print(f"\n{text}\nsteps seen: {sorted(steps)}\n{told(deployed)}")
