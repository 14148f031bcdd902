"""Three bookies: rolled one after another under traffic, the operator killed in the middle."""

from __future__ import annotations

import json

import pulsar
import pytest

from e2e.conftest import Deployed
from e2e.support.bookies import Bookies
from e2e.support.changes import answers, patch_cluster
from e2e.support.eventually import eventually
from e2e.support.killing import kill_the_operator
from e2e.support.objects import condition
from e2e.support.watched import Watched, evicted, uids
from pulsar_conformance.counting import simple
from pulsar_conformance.counting.client import CountingRun

PAYMENTS = "persistent://shop/orders/payments"
IDLE = "persistent://shop/orders/idle-while-bookies-leave"
CHANGED = {"bookkeeper": {"config": {"gcWaitTime": "600000"}}}
"""A setting of bookies that nobody else reads."""


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
                watched.rolled_with(1, lambda: kill_the_operator(kubectl)),
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
    assert sorted(each.split()[2] for each in said) == [f"east-bookie-{n}," for n in range(3)]
    assert watched.raised, "the auditor was told to wait"
    assert watched.replicated == set(), "no restart was taken for a loss"
    settled = eventually(
        lambda: (found := kubectl.get("pulsarcluster", namespace, "east")) and not found["status"].get("recoveryDelay"),
        within=120,
        what="lostBookieRecoveryDelay given back",
    )
    assert settled


def test_a_bookie_leaves_and_one_comes_back_in_its_place(
    deployed: Deployed, capsys: pytest.CaptureFixture[str]
) -> None:
    """3 -> 2 -> 3, the operator killed on the way out. A producer and a subscription that are idle all the time hold
    ledgers that name the bookie; what they do afterwards must not be lost (apache/bookkeeper#4812)."""
    kubectl, namespace = deployed.kubectl, deployed.namespace
    bookies = Bookies(kubectl, namespace)
    client = simple.client(deployed.service_url)
    producer, texts = client.create_producer(IDLE, send_timeout_millis=30_000), [f"idle-{n}" for n in range(20)]
    consumer = client.subscribe(IDLE, "idle")
    for text in texts[:10]:
        producer.send(text.encode())
    read = [consumer.receive(timeout_millis=30_000) for _ in range(5)]
    for message in read:
        consumer.acknowledge(message)
    before = uids(kubectl, namespace, "east")
    with CountingRun(deployed.service_url, PAYMENTS, rate=50, keys=8) as run:
        with run.operation("three bookies to two, the operator killed meanwhile"):
            bookies.patch(replicas=2)
            eventually(lambda: any(row.get("step") for row in bookies.rows()), within=120, what="a bookie leaves")
            kill_the_operator(kubectl)
            eventually(lambda: bookies.are(2), within=600, what="two bookies", every=0.3)
        with run.operation("two bookies to three"):
            bookies.patch(replicas=3)
            eventually(lambda: bookies.are(3), within=300, what="three bookies", every=0.3)
        for text in texts[10:]:
            producer.send(text.encode())
        read += [consumer.receive(timeout_millis=30_000) for _ in range(15)]
        for message in read[5:]:
            consumer.acknowledge(message)
        report = run.finish(drain_within=120)
    client.close()
    events = [e["message"] for e in kubectl.items("events", namespace) if "east-bookie-2" in e["message"]]
    with capsys.disabled():
        print(f"\nsteps seen: {sorted(bookies.steps)}")
        print("\n".join(dict.fromkeys(events)))
        print(report.text())
    assert report.failures() == [], report.text()
    assert [message.data().decode() for message in read] == texts
    assert everything(deployed, len(texts)) == texts, "what was written before and after is read from the bookies"
    assert {"Unloading", "Copying"} & bookies.steps
    after = uids(kubectl, namespace, "east")
    assert {name for name, uid in before["bookie"].items() if after["bookie"].get(name) != uid} == {"east-bookie-2"}
    assert {**after, "bookie": None} == {**before, "bookie": None}, "nobody else is replaced"
    with capsys.disabled():
        print(f"afterwards: {bookies.told('Replicated')}")
    eventually(lambda: bookies.told("Replicated")["status"] == "True", within=120, what="every copy is there")


def everything(deployed: Deployed, count: int) -> list[str]:
    """All messages of the idle topic, by a reader that begins at the first."""
    client = simple.client(deployed.service_url)
    try:
        reader = client.create_reader(IDLE, pulsar.MessageId.earliest)
        return [reader.read_next(timeout_millis=30_000).data().decode() for _ in range(count)]
    finally:
        client.close()
