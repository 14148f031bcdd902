"""Two clusters of one instance: messages both ways, one cluster away under traffic and back, and what is told of it."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError

import pytest
import yaml

from e2e.conftest import Deployed
from e2e.support.admin import ask
from e2e.support.deleting import delete_childless
from e2e.support.eventually import eventually
from e2e.support.mirrored import CLUSTERS, leaves, mirrored, west
from e2e.support.objects import condition, is_current, is_ready
from e2e.support.trading import manifest
from e2e.support.writes import changed, znode_versions
from pulsar_conformance.counting import simple
from pulsar_conformance.counting.client import CountingRun

TOPIC = "persistent://shop/mirrored/orders"
BACK = "persistent://shop/mirrored/answers"
LEFT = "persistent://shop/mirrored/left"
SERVED = "persistent://shop/mirrored/served"
REGISTERED = ("/admin/clusters", "/pulsar-operator/clusters")
"""In the configuration store, which is the metadata store of cluster east."""


class Seen:
    """What the instance says of replication, each change of it once."""

    def __init__(self, deployed: Deployed) -> None:
        self._deployed, self.lines = deployed, list[str]()

    def instance(self) -> dict[str, Any]:
        found = self._deployed.kubectl.get("pulsarinstance", self._deployed.namespace, "demo")
        assert found is not None
        rows = found["status"].get("replication") or []
        told = condition(found, "ReplicationHealthy")
        line = f"{told.get('status')} {told.get('reason')} {[row for row in rows]}"
        if self.lines[-1:] != [line]:
            self.lines.append(line)
        return found

    def pair(self, source: str, target: str) -> dict[str, Any]:
        rows = self.instance()["status"].get("replication") or []
        return next((row for row in rows if (row["from"], row["to"]) == (source, target)), {})

    def healthy(self) -> tuple[str | None, str | None]:
        told = condition(self.instance(), "ReplicationHealthy")
        return told.get("status"), told.get("reason")


def away(deployed: Deployed, *, begin: bool) -> None:
    """Cluster west has no brokers, and the operator leaves it so; or it has them again."""
    where, replicas = ("pulsarcluster", "west", "-n", deployed.namespace), 0 if begin else 1
    if begin:
        deployed.kubectl.run("annotate", *where, "pulsaroperator.io/pause=true")
    deployed.kubectl.run("scale", "statefulset", "west-broker", "-n", deployed.namespace, f"--replicas={replicas}")
    if not begin:
        deployed.kubectl.run("annotate", *where, "pulsaroperator.io/pause-")


def mirrored_in(deployed: Deployed, clusters: list[str], **more: Any) -> None:
    """The namespace is to be replicated by these clusters."""
    patch = json.dumps({"spec": {"replicationClusters": clusters, **more}})
    deployed.kubectl.run("patch", "pulsarnamespace", "mirrored", "-n", deployed.namespace, "--type=merge", "-p", patch)


def accepted(deployed: Deployed) -> tuple[str, str]:
    """Reason and message of the namespace's condition Accepted, for its newest specification."""
    found = deployed.kubectl.get("pulsarnamespace", deployed.namespace, "mirrored")
    assert found is not None and is_current(found)
    told = condition(found, "Accepted")
    return told["reason"], told["message"]


@pytest.mark.geo(1)
def test_a_cluster_is_away_and_comes_back(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl, namespace, seen = deployed.kubectl, deployed.namespace, Seen(deployed)
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in kubectl.items("pods", namespace)}
    kubectl.apply(yaml.safe_dump(west()))
    kubectl.apply(yaml.safe_dump(mirrored()))
    deployed.wait_ready()
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in kubectl.items("pods", namespace)}
    assert {name: after.get(name) for name in before} == before, "a cluster that joins replaces nobody's pods"
    with (
        CountingRun(deployed.service_url, TOPIC, rate=50, read_url=deployed.second_url, start_within=120) as there,
        CountingRun(deployed.second_url, BACK, rate=20, read_url=deployed.service_url, start_within=120) as back,
    ):
        eventually(lambda: seen.pair("east", "west").get("connected"), within=120, what="east to west", every=1.0)
        eventually(lambda: seen.pair("west", "east").get("connected"), within=120, what="west to east", every=1.0)
        eventually(lambda: seen.healthy() == ("True", "Replicating"), within=60, what="healthy", every=1.0)
        answers = back.finish(drain_within=120)
        with there.operation("west has no brokers", settle_within=300):
            first = there.progress()
            away(deployed, begin=True)

            def told() -> str:
                found = condition(seen.instance(), "ReplicationHealthy")
                return str(found["message"]) if found.get("reason") == "NotConnected" else ""

            text = eventually(told, within=240, what="NotConnected", every=1.0)
            last = there.progress()
            waiting = seen.pair("east", "west")
            assert waiting["connected"] is False and waiting["backlog"] > 0, waiting
            assert "east to west" in text, text
            away(deployed, begin=False)
            eventually(
                lambda: seen.healthy() == ("True", "Replicating") and seen.pair("east", "west").get("connected"),
                within=300,
                what="connected again",
                every=1.0,
            )
        report = there.finish(drain_within=180)
    with capsys.disabled():
        print("\n" + "\n".join(seen.lines))
        print(f"confirmed while west was away: {last.confirmed - first.confirmed}")
        print(f"{text}\n{answers.text()}\n{report.text()}")
    assert answers.failures() == [], answers.text()
    assert report.failures() == [], report.text()
    assert last.confirmed > first.confirmed, "east serves its clients meanwhile"
    told_events = [
        event["message"]
        for event in kubectl.items("events", namespace)
        if event["reason"] == "NotConnected" and event["involvedObject"]["kind"] == "PulsarInstance"
    ]
    assert len(told_events) == 1, told_events


@pytest.mark.geo(1)
def test_what_was_published_before_a_cluster_was_asked_for_stays_where_it_is(deployed: Deployed) -> None:
    """Replication begins where it is switched on: what a namespace had before is no message for the new cluster."""
    kubectl, namespace = deployed.kubectl, deployed.namespace
    alone = {**mirrored(), "metadata": {"name": "late", "namespace": namespace}}
    alone["spec"] = {"tenantRef": {"name": "shop"}, "replicationClusters": ["east"]}
    kubectl.apply(yaml.safe_dump(alone))
    late = "persistent://shop/late/orders"
    eventually(lambda: is_ready(kubectl.get("pulsarnamespace", namespace, "late")), within=60, what="late is Ready")
    simple.subscribe(deployed.service_url, late, "kept")
    old = simple.publish(deployed.service_url, late, 10, prefix="old")
    kubectl.run(
        "patch", "pulsarnamespace", "late", "-n", namespace, "--type=merge", "-p",
        json.dumps({"spec": {"replicationClusters": CLUSTERS}}),
    )  # fmt: skip
    eventually(lambda: is_ready(kubectl.get("pulsarnamespace", namespace, "late")), within=60, what="both have it")
    simple.subscribe(deployed.second_url, late, "new")
    new = simple.publish(deployed.service_url, late, 10, prefix="new")
    assert simple.consume(deployed.second_url, late, "new", len(new)) == new
    assert simple.consume(deployed.service_url, late, "kept", len(old) + len(new)) == old + new


def topics_of(deployed: Deployed, cluster: str, prefix: str) -> list[str]:
    """Topics of the namespace that a cluster's broker has, partitions too, whose local name begins so."""
    path = (
        f"/api/v1/namespaces/{deployed.namespace}/pods/{cluster}-broker-0:8080/proxy/admin/v2/persistent/shop/mirrored"
    )
    found = json.loads(deployed.kubectl.run("get", "--raw", path))
    return sorted(each for each in found if each.rpartition("/")[2].startswith(prefix))


@pytest.mark.geo(1)
@pytest.mark.parametrize(("name", "parts"), [("ends", {}), ("ends-in-parts", {"partitions": 2})])
def test_a_replicated_topic_is_deleted_once_it_is_read_everywhere(
    deployed: Deployed, name: str, parts: dict[str, int]
) -> None:
    """Pulsar refuses to delete it without force, and with force asks nobody."""
    kubectl, namespace, topic = deployed.kubectl, deployed.namespace, f"persistent://shop/mirrored/{name}"
    where = ("pulsartopic", namespace, name)
    spec = {"namespaceRef": {"name": "mirrored"}, "deletionPolicy": "Delete", **parts}
    kubectl.apply(manifest("PulsarTopic", name, spec))
    eventually(lambda: is_ready(kubectl.get(*where)), what=f"{name} is Ready")
    simple.subscribe(deployed.second_url, topic, "there")
    published = simple.publish(deployed.service_url, topic, 10, prefix=name)
    if not parts:
        with pytest.raises(HTTPError, match="replicated"):
            ask(deployed.admin_url, "DELETE", topic.replace("://", "/", 1))
    kubectl.run("delete", "pulsartopic", name, "-n", namespace, "--wait=false")

    def blocked() -> bool:
        told = condition(kubectl.get(*where), "DeletionBlocked")
        assert "unread messages" in str(told.get("message")), told
        return True

    eventually(blocked, within=60, what="west has not read them", every=1.0)
    assert sorted(simple.consume(deployed.second_url, topic, "there", len(published))) == sorted(published)
    eventually(lambda: kubectl.get(*where) is None, within=180, what=f"{name} is gone", every=1.0)
    for cluster in CLUSTERS:
        assert topics_of(deployed, cluster, name) == [] != topics_of(deployed, cluster, "orders"), cluster


@pytest.mark.geo(1)
@pytest.mark.parametrize(("name", "parts"), [("fleeting", {}), ("fleeting-in-parts", {"partitions": 2})])
def test_a_topic_that_keeps_no_message_is_deleted_while_it_is_replicated(
    deployed: Deployed, name: str, parts: dict[str, int]
) -> None:
    """It has no list of clusters of its own, and replicators are producers of it like any."""
    kubectl, namespace, topic = deployed.kubectl, deployed.namespace, f"non-persistent://shop/mirrored/{name}"
    where = ("pulsartopic", namespace, name)
    spec = {"namespaceRef": {"name": "mirrored"}, "persistent": False, "deletionPolicy": "Delete", **parts}
    kubectl.apply(manifest("PulsarTopic", name, spec))
    eventually(lambda: is_ready(kubectl.get(*where)), what=f"{name} is Ready")
    simple.publish(deployed.second_url, topic, 3, prefix=name)
    simple.publish(deployed.service_url, topic, 3, prefix=name)  # each cluster has it open, with replicators
    if not parts:
        path = topic.replace("://", "/", 1)

        def inbound() -> Any:
            return ask(deployed.admin_url, "GET", f"{path}/stats")["replication"]["west"].get("inboundConnection")

        eventually(inbound, within=60, what="the replicator of west has it open in east", every=1.0)
        with pytest.raises(HTTPError, match=r"412.*connected producers"):
            ask(deployed.admin_url, "DELETE", path)
    kubectl.run("delete", "pulsartopic", name, "-n", namespace, "--wait=false")

    def gone() -> bool:
        live = kubectl.get(*where)
        assert live is None, condition(live, "DeletionBlocked")
        return True

    eventually(gone, within=180, what=f"{name} is gone", every=1.0)


@pytest.mark.geo(1)
def test_a_cluster_leaves_once_what_waits_is_delivered(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    """Pulsar alone would drop what waits, at once; and nobody asks, where it is confirmed."""
    simple.subscribe(deployed.second_url, LEFT, "there")
    simple.publish(deployed.service_url, LEFT, 1, prefix="first")
    assert simple.consume(deployed.second_url, LEFT, "there", 1) == ["first-0"]
    away(deployed, begin=True)
    published = simple.publish(deployed.service_url, LEFT, 50, prefix="waits")
    mirrored_in(deployed, ["east"])
    text = eventually(
        lambda: (told := accepted(deployed)) and told[0] == "WaitingForReplication" and told[1],
        within=120,
        what="WaitingForReplication",
        every=1.0,
    )
    live = ask(deployed.admin_url, "GET", "namespaces/shop/mirrored")
    assert live["replication_clusters"] == CLUSTERS
    away(deployed, begin=False)
    eventually(lambda: accepted(deployed)[0] == "Valid", within=300, what="west is out", every=1.0)
    live = ask(deployed.admin_url, "GET", "namespaces/shop/mirrored")
    assert (live["replication_clusters"], live["allowed_clusters"]) == (["east"], CLUSTERS), "its data stays"
    with capsys.disabled():
        print(f"\n{text}")
    assert simple.consume(deployed.second_url, LEFT, "there", len(published)) == published
    late = simple.publish(deployed.service_url, LEFT, 1, prefix="late")
    assert late and simple.publish(deployed.second_url, LEFT, 1, prefix="alone") == ["alone-0"]
    assert simple.consume(deployed.second_url, LEFT, "there", 1) == ["alone-0"], "nothing comes from east any more"

    mirrored_in(deployed, CLUSTERS)
    eventually(lambda: accepted(deployed)[0] == "Valid", within=60, what="west is in again", every=1.0)
    simple.publish(deployed.service_url, LEFT, 1, prefix="again")
    assert simple.consume(deployed.second_url, LEFT, "there", 1) == ["again-0"]
    away(deployed, begin=True)
    simple.publish(deployed.service_url, LEFT, 5, prefix="abandoned")
    agreed = {"action": "AbandonBacklog", "cluster": "west", "expiresTime": "2099-01-01T00:00:00Z"}
    mirrored_in(deployed, ["east"], confirmations=[agreed])
    eventually(lambda: accepted(deployed)[0] == "Valid", within=120, what="west is out by consent", every=1.0)
    away(deployed, begin=False)
    deployed.wait_ready()


def registered(deployed: Deployed) -> dict[str, tuple[int, int]]:
    """Which clusters the configuration store has, entries and claims."""
    return znode_versions(deployed.kubectl, deployed.namespace, "east-zookeeper-0", paths=REGISTERED)


@pytest.mark.geo(1)
def test_a_cluster_leaves_the_instance_and_comes_back(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in the store of the others names it any more, they serve on, and its name and data are its own again."""
    kubectl, namespace = deployed.kubectl, deployed.namespace
    for name in ("mirrored", "late"):
        leaves(deployed, name)
    before = registered(deployed)
    assert {f"{path}/west" for path in REGISTERED} <= set(before)
    record = kubectl.get("configmap", namespace, "west-instance-id")
    assert record is not None and record["data"]["registered"] == "true"
    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in kubectl.items("pods", namespace)}
    with CountingRun(deployed.service_url, SERVED, rate=50, start_within=120) as there:
        with there.operation("west leaves", settle_within=120):
            delete_childless(kubectl, "pulsarcluster", namespace, "west", seconds=300)
        report = there.finish(drain_within=120)
    after = registered(deployed)
    with capsys.disabled():
        print(f"\n{report.text()}")
        for event in kubectl.items("events", namespace):
            if event["involvedObject"].get("name") == "west" and event["involvedObject"]["kind"] == "PulsarCluster":
                print(f"{event['reason']}: {event['message']}")
    assert report.failures() == [], report.text()
    counters = ("lost", "unconfirmed", "duplicated", "unprovoked", "redelivered", "out_of_order", "foreign")
    assert {name: getattr(report, name) for name in counters} == dict.fromkeys(counters, 0)
    gone = {path for path in before if "/west" in path}
    assert changed(before, after) == gone, "what is east's is as it was"
    assert not gone & set(after)
    assert ask(deployed.admin_url, "GET", "clusters") == ["east"]
    for tenant in ask(deployed.admin_url, "GET", "tenants"):
        assert "west" not in ask(deployed.admin_url, "GET", f"tenants/{tenant}")["allowedClusters"], tenant
    system = ask(deployed.admin_url, "GET", "namespaces/pulsar/system")
    assert "west" not in [*system["replication_clusters"], *system["allowed_clusters"]], system
    left = kubectl.get("configmap", namespace, "west-instance-id")
    assert left is not None and left["data"] == {**record["data"], "registered": "false"}
    others = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in kubectl.items("pods", namespace)}
    assert others == {name: uid for name, uid in pods.items() if not name.startswith("west-")}, "nobody else's pods"

    kubectl.apply(yaml.safe_dump(west()))
    deployed.wait_ready()
    assert set(registered(deployed)) == set(before)
    back = kubectl.get("configmap", namespace, "west-instance-id")
    assert back is not None and back["data"] == record["data"]
    mirrored_in(deployed, CLUSTERS, allowedClusters=CLUSTERS)
    eventually(lambda: accepted(deployed)[0] == "Valid", within=120, what="west has the namespace again", every=1.0)
    simple.subscribe(deployed.second_url, SERVED, "again")
    sent = simple.publish(deployed.service_url, SERVED, 10, prefix="again")
    assert simple.consume(deployed.second_url, SERVED, "again", len(sent)) == sent
