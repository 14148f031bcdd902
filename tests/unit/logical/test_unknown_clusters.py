"""A name in a list of clusters that no PulsarCluster has: the list is refused as a whole, and what is live stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import AdminEndpoint, Json
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.isolation import PIP, SHOP, B, domain
from tests.support.logical.world import LogicalWorld

X = "persistent://t/n/x"
TYPO = ["a", "c", "typo"]
"""Takes b out, lets c in, and has a name nobody knows."""


async def refused(w: LogicalWorld, kind: Kind, name: str, field: str) -> None:
    """The condition names the field, the name, what is known and the remedy, and a second pass writes nothing."""
    status, reason, message = w.condition(kind, name, "Accepted")
    assert (status, reason) == ("False", "InvalidSpec")
    assert f"spec.{field} names 'typo', which is no cluster of the instance (the instance has: a, b, c)" in message
    assert "Correct the name, or create a PulsarCluster with that clusterName" in message
    assert "The operator refuses the complete list, and Pulsar keeps the last valid list" in message
    assert w.condition(kind, name)[0] == "False"
    assert w.condition(kind, name, "Drifted")[2] == "The state in Pulsar matches the accepted part of the spec"
    assert await w.second_pass_writes() == ([], [])


async def world() -> LogicalWorld:
    """Three clusters, tenant t and namespace n in a and b with topic x."""
    w = LogicalWorld("a", "b", "c")
    w.tenant()
    w.namespace(replicationClusters=["a", "b"], allowedClusters=["a", "b"])
    await w.run()
    for cluster in ("a", "b"):
        w.pulsar.topics.setdefault(cluster, {})[X] = FakeTopic()
    return w


@pytest.mark.parametrize("policy", ["Repair", "Report"])
async def test_of_a_namespace(policy: str) -> None:
    w = await world()
    w.namespace(replicationClusters=TYPO, allowedClusters=TYPO, policies={"messageTTLSeconds": 3}, driftPolicy=policy)
    await w.run()
    live = w.pulsar.namespaces["t/n"]
    assert (live["replication_clusters"], live["allowed_clusters"]) == (["a", "b"], ["a", "b"])
    assert live["message_ttl_in_seconds"] == 3, "the rest is applied"
    await refused(w, Kind.NAMESPACE, "n", "replicationClusters")
    await refused(w, Kind.NAMESPACE, "n", "allowedClusters")
    assert set(w.status(Kind.NAMESPACE, "n")["managedFields"]) >= {"replicationClusters", "allowedClusters"}
    w.pulsar.clusters.append("typo")
    w.cluster("typo")
    w.tenant()
    await w.run()
    assert live["replication_clusters"] == ["a", "c", "typo"], "no drift: it was not applied before"
    assert live["allowed_clusters"] == ["a", "b", "c", "typo"], "b leaves with its data by a confirmation alone"


async def test_of_a_new_namespace() -> None:
    w = LogicalWorld("a", "b", "c")
    w.tenant()
    w.namespace(replicationClusters=["a", "typo"])
    w.namespace("m", allowedClusters=["a", "typo"])
    w.namespace("o", replicationClusters=["a"], allowedClusters=["a", "typo"])
    await w.run()
    assert set(w.pulsar.namespaces) == {"t/o"}, "it is not made in other clusters than it is declared for"
    assert w.condition(Kind.NAMESPACE, "n", "Accepted")[:2] == ("False", "InvalidSpec")
    assert w.condition(Kind.NAMESPACE, "m", "Accepted")[:2] == ("False", "InvalidSpec")
    await refused(w, Kind.NAMESPACE, "o", "allowedClusters")


async def test_all_names_of_a_list_unknown() -> None:
    w = await world()
    w.namespace(replicationClusters=["typo", "wset"], allowedClusters=["typo", "wset"])
    await w.run()
    live = w.pulsar.namespaces["t/n"]
    assert (live["replication_clusters"], live["allowed_clusters"]) == (["a", "b"], ["a", "b"])
    message = w.condition(Kind.NAMESPACE, "n", "Accepted")[2]
    assert "spec.replicationClusters names 'typo', 'wset', which are no clusters of the instance" in message
    assert await w.second_pass_writes() == ([], [])


@pytest.mark.parametrize("policy", ["Repair", "Report"])
async def test_of_a_tenant(policy: str) -> None:
    w = LogicalWorld("a", "b", "c")
    w.tenant(allowedClusters=["a", "b"], driftPolicy=policy)
    await w.run()
    w.tenant(allowedClusters=TYPO, adminRoles=["r"], driftPolicy=policy)
    await w.run()
    assert w.pulsar.tenants["t"] == {"adminRoles": ["r"], "allowedClusters": ["a", "b"]}
    await refused(w, Kind.TENANT, "t", "allowedClusters")
    w.pulsar.clusters.append("typo")
    w.cluster("typo")
    await w.run()
    assert w.pulsar.tenants["t"]["allowedClusters"] == ["a", "c", "typo"], "no drift: it was not applied before"
    assert w.condition(Kind.TENANT, "t")[0] == "True"


async def test_of_a_new_tenant() -> None:
    w = LogicalWorld("a", "b", "c")
    w.tenant(allowedClusters=["a", "typo"])
    await w.run()
    assert w.pulsar.tenants == {}
    assert w.condition(Kind.TENANT, "t", "Accepted")[:2] == ("False", "InvalidSpec")


async def test_of_an_isolation_policy() -> None:
    w = LogicalWorld("a", "b", "c")
    w.isolation(clusters=["a", "b"], failureDomains=[domain("d", B[0])], **SHOP)
    await w.run()
    w.isolation(clusters=TYPO, failureDomains=[domain("d", B[0], B[1])], **{**SHOP, "primary": ["x.*"]})
    await w.run()
    assert {cluster: list(found) for cluster, found in w.pulsar.isolation.items()} == {"a": ["i"], "b": ["i"]}
    assert {cluster: found["i"]["primary"] for cluster, found in w.pulsar.isolation.items()} == {
        "a": ["x.*"],
        "b": ["x.*"],
    }, "the rest is applied where the policy is"
    assert {name: sorted(d["d"]) for name, d in w.pulsar.domains.items()} == {"a": B[:2], "b": B[:2]}
    await refused(w, PIP, "i", "clusters")
    managed = w.status(PIP, "i")["managedFields"]
    assert {"clusters[a]", "clusters[b]"} <= set(managed) and "clusters[c]" not in managed
    w.pulsar.clusters.append("typo")
    w.cluster("typo")
    await w.run()
    assert {cluster for cluster, found in w.pulsar.isolation.items() if found} == {"a", "c", "typo"}


async def test_of_a_new_isolation_policy() -> None:
    w = LogicalWorld("a", "b", "c")
    w.isolation(clusters=["a", "typo"], **SHOP)
    await w.run()
    assert not any(w.pulsar.isolation.values())
    assert w.condition(PIP, "i", "Accepted")[:2] == ("False", "InvalidSpec")
    w.isolation(clusters=["a"], **SHOP)
    await w.run()
    assert w.condition(PIP, "i")[0] == "True"


@pytest.mark.parametrize("scope", ["Local", "Global"])
async def test_of_a_topic_under_report(scope: str) -> None:
    """Once every name is known the list is applied: it was never, so that the difference is no drift."""
    w = await world()
    w.namespace(replicationClusters=["a", "b"], allowedClusters=["a", "b", "c"])
    w.topic(replicationClusters=["a", "b"], policyScope=scope)
    await w.run()
    w.topic(replicationClusters=["a", "b", "typo"], policyScope=scope, driftPolicy="Report")
    await w.run()
    await refused(w, Kind.TOPIC, "x", "replicationClusters")
    w.pulsar.clusters.append("typo")
    w.cluster("typo")
    w.namespace(replicationClusters=["a", "b"], allowedClusters=["a", "b", "c", "typo"])
    await w.run()
    assert w.condition(Kind.TOPIC, "x")[0] == "True"
    found = w.pulsar.topic_policies["a" if scope == "Local" else "*", X]
    assert "typo" in str(found)


OBJECTS: dict[Kind, Json] = {
    Kind.TENANT: {"allowedClusters": ["a"]},
    Kind.NAMESPACE: {"replicationClusters": ["a"], "allowedClusters": ["a"]},
    PIP: {"clusters": ["a"], **SHOP},
}


@pytest.mark.parametrize("kind", OBJECTS)
async def test_a_cluster_that_left_the_list_of_the_instance_is_unknown_and_not_absent(kind: Kind) -> None:
    """Its PulsarCluster is not seen any more: deleted by force, or the instance no longer allows it."""
    w = await world()
    put = {Kind.TENANT: w.tenant, Kind.NAMESPACE: w.namespace, PIP: w.isolation}[kind]
    lists = {field: ["a", "b"] for field in OBJECTS[kind] if field.lower().endswith("clusters")}
    put(**{**OBJECTS[kind], **lists})
    await w.run()
    w.delete(Kind.CLUSTER, "b")
    put(**{**OBJECTS[kind], **{field: ["a", "b", "c"] for field in lists}})
    with w.admin.recording() as written:
        await w.run()
    assert written == []
    assert w.condition(kind, {Kind.TENANT: "t", Kind.NAMESPACE: "n", PIP: "i"}[kind], "Accepted")[0] == "False"


@pytest.mark.parametrize("answer", [None, {}, {"a": 1}, "a", [1]])
async def test_an_answer_without_the_list_of_clusters_takes_nothing_away(
    answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = await world()
    w.isolation(clusters=["a", "b"], **SHOP)
    w.tenant(allowedClusters=["a", "b"])
    await w.run()
    call = w.admin.call

    async def without_list(endpoint: AdminEndpoint, method: str, path: Sequence[str], **more: Any) -> Any:
        return answer if (method, tuple(path)) == ("GET", ("clusters",)) else await call(endpoint, method, path, **more)

    monkeypatch.setattr(w.admin, "call", without_list)
    w.tenant(allowedClusters=["a"])
    w.isolation(clusters=["a"], **SHOP)
    with w.admin.recording() as written:
        await w.run()
    assert written == []
    for kind, name in ((Kind.TENANT, "t"), (PIP, "i")):
        status, reason, message = w.condition(kind, name)
        assert (status, reason) == ("Unknown", "AdminUnreachable")
        assert "answers GET /clusters without a list of names" in message


async def test_a_tenant_of_all_clusters_keeps_one_that_pulsar_still_has() -> None:
    w = LogicalWorld("a", "b")
    w.tenant()
    await w.run()
    w.delete(Kind.CLUSTER, "b")
    await w.run()
    assert w.pulsar.tenants["t"]["allowedClusters"] == ["a", "b"]
    w.pulsar.clusters.remove("b")
    await w.run()
    assert w.pulsar.tenants["t"]["allowedClusters"] == ["a"]
