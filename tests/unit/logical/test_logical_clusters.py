"""The logical kinds over several clusters: which have them, join, leave, or do not answer."""

from __future__ import annotations

from pulsar_operator.api.constants import Kind
from tests.support.logical.world import LogicalWorld


async def test_a_cluster_joins_and_leaves_without_its_data() -> None:
    w = LogicalWorld("a", "b")
    w.tenant()
    w.namespace(replicationClusters=["a"])
    await w.run()
    assert w.pulsar.namespaces["t/n"]["replication_clusters"] == ["a"]
    w.namespace(replicationClusters=["a", "b"])
    await w.run()
    assert w.pulsar.namespaces["t/n"]["replication_clusters"] == ["a", "b"]
    w.namespace(replicationClusters=["a"], policies={"messageTTLSeconds": 3})
    await w.run()
    live = w.pulsar.namespaces["t/n"]
    assert (live["replication_clusters"], live["allowed_clusters"]) == (["a"], ["a", "b"]), "b may still hold it"
    assert live["message_ttl_in_seconds"] == 3
    assert w.condition(Kind.NAMESPACE, "n", "Accepted")[0] == "True"


async def test_plain_topics_are_made_in_every_cluster() -> None:
    w = LogicalWorld("a", "b")
    w.tenant()
    w.namespace()
    w.topic("x")
    await w.run()
    assert all("persistent://t/n/x" in w.pulsar.topics[c] for c in ("a", "b"))
    assert [c["name"] for c in w.status(Kind.TOPIC, "x")["clusters"]] == ["a", "b"]


async def test_a_tenant_without_clusters_follows_the_instance() -> None:
    w = LogicalWorld("a")
    w.tenant()
    await w.run()
    w.pulsar.clusters.append("b")
    w.cluster("b")
    await w.run()
    assert sorted(w.pulsar.tenants["t"]["allowedClusters"]) == ["a", "b"]
    w.namespace(replicationClusters=["b"])
    await w.run()
    w.delete(Kind.CLUSTER, "b")
    w.pulsar.clusters.remove("b")
    await w.run()
    assert sorted(w.pulsar.tenants["t"]["allowedClusters"]) == ["a", "b"], "t/n still uses b"
    assert "t/n" in w.condition(Kind.TENANT, "t", "Accepted")[2]
    del w.pulsar.namespaces["t/n"]
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    assert w.pulsar.tenants["t"]["allowedClusters"] == ["a"]


async def test_the_next_cluster_answers_when_the_first_is_away() -> None:
    w = LogicalWorld("a", "b")
    w.admin.down = {"a"}
    w.tenant()
    w.namespace(policies={"messageTTLSeconds": 60})
    w.topic("p", partitions=2)
    await w.run()
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"
    assert w.condition(Kind.TOPIC, "p")[0] == "True"


async def test_a_plain_topic_is_not_ready_while_one_of_its_clusters_is_silent() -> None:
    w = LogicalWorld("a", "b")
    w.tenant()
    w.namespace()
    await w.run()
    w.admin.down = {"b"}
    w.topic("x")
    await w.run()
    status, reason, message = w.condition(Kind.TOPIC, "x")
    assert (status, reason) == (
        "Unknown",
        "AdminUnreachable",
    ) and "its state in the other clusters is unknown (b: " in message
    assert (await w.reconcile(Kind.TOPIC, "x")).requeue_after == 15
    w.admin.down = set()
    await w.run()
    assert w.condition(Kind.TOPIC, "x")[0] == "True"
    assert "persistent://t/n/x" in w.pulsar.topics["b"]
