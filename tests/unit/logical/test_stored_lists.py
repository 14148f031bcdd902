"""Brokers whose session with the configuration store ended answer with lists of clusters of before: nothing is taken
out by what they say."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.logical.namespace import NamespaceController
from pulsar_operator.controllers.logical.tenant import TenantController
from pulsar_operator.controllers.logical.topic import TopicController
from pulsar_operator.domain.dataplane.registration.registration import POLICIES_PATH
from pulsar_operator.ports import CUSTOM
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_parts import FakeTopic
from tests.fakes.zookeeper import FakeEnsemble, FakeZooKeeper
from tests.support.logical.world import NS, LogicalWorld

SERVERS, NODE, X = "zk:2181", f"{POLICIES_PATH}/t/n", "persistent://t/n/x"
CONSENT = {"action": "RemoveCluster", "cluster": "b", "expiresTime": "2026-06-01T00:00:00Z"}


class Stale:
    """Clusters a and b with a namespace in both; what is written, but nothing else, is in the store too."""

    def __init__(self, w: LogicalWorld) -> None:
        self.w, self.zookeeper = w, FakeZooKeeper()
        self.ensemble = self.zookeeper.ensembles.setdefault(SERVERS, FakeEnsemble(SERVERS))
        w.kube.set_status(CUSTOM[Kind.INSTANCE], NS, "prod", {"configurationStoreServers": SERVERS})
        deps = replace(w.controllers[Kind.NAMESPACE].deps, zookeeper=self.zookeeper)
        w.controllers |= {Kind.TENANT: TenantController(deps), Kind.NAMESPACE: NamespaceController(deps)}
        w.admin.after.append(self.written)

    def written(self, call: AdminCall) -> None:
        """A broker that writes by an old version reads again, and changes that list alone."""
        live = self.w.pulsar.namespaces.get("t/n")
        if not call.is_write or live is None:
            return
        node = self.ensemble.nodes.get(NODE)
        stored = json.loads(node.data) if node is not None else {}
        names = {"replication": "replication_clusters", "allowedClusters": "allowed_clusters"}
        changed = names.values() if not stored else {names[call.path[-1]]} if call.path[-1] in names else ()
        stored |= {name: list(live.get(name) or []) for name in changed}
        self.put(stored["replication_clusters"], stored["allowed_clusters"])

    def put(self, replication: list[str], allowed: list[str]) -> None:
        """Another writer, of whom brokers are not told."""
        lists = {"replication_clusters": replication, "allowed_clusters": allowed}
        self.ensemble.put(NODE, json.dumps(lists).encode())

    def lists(self) -> tuple[list[str], list[str]]:
        live = self.w.pulsar.namespaces["t/n"]
        return sorted(live["replication_clusters"]), sorted(live.get("allowed_clusters") or [])


async def world(**spec: Any) -> Stale:
    w = LogicalWorld("a", "b")
    stale = Stale(w)
    w.tenant()
    w.namespace(**spec)
    await w.run()
    for cluster in ("a", "b"):
        w.pulsar.topics.setdefault(cluster, {})[X] = FakeTopic()
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"
    return stale


BOTH, A = {"replicationClusters": ["a", "b"]}, {"replicationClusters": ["a"]}


@pytest.mark.parametrize(
    ("before", "replication", "allowed", "after"),
    [
        pytest.param({**BOTH, "allowedClusters": ["a", "b"]}, ["a", "b"], [], A, id="the list was emptied"),
        pytest.param({**BOTH, "allowedClusters": ["a", "b"]}, ["a", "b"], ["a"], A, id="it was narrowed"),
        pytest.param({**A, "allowedClusters": ["a"]}, ["a"], ["a", "c"], {**A, "allowedClusters": ["a", "b"]}, id="c"),
        pytest.param(
            {**BOTH, "allowedClusters": ["a", "b"]},
            ["a"],
            ["a", "b", "c"],
            {**A, "allowedClusters": ["a"], "confirmations": [CONSENT]},
            id="the consent is for another one",
        ),
        pytest.param(BOTH, ["a", "b"], ["a", "b", "c"], A, id="c keeps what it has by the list that is widened"),
        pytest.param(
            {**BOTH, "allowedClusters": ["a", "b"]},
            ["a", "b", "c"],
            ["a", "b", "c"],
            A,
            id="nobody asked what waits for c",
        ),
    ],
)
async def test_what_brokers_do_not_know_of_is_not_taken_out(
    before: dict[str, Any], replication: list[str], allowed: list[str], after: dict[str, Any]
) -> None:
    stale = await world(**before)
    stale.put(replication, allowed)
    known, w = stale.ensemble.nodes[NODE].data, stale.w
    w.namespace(**after)
    await w.run()
    assert stale.ensemble.nodes[NODE].data == known
    assert {cluster for cluster, topics in w.pulsar.topics.items() if X in topics} == {"a", "b"}
    status, reason, text = w.condition(Kind.NAMESPACE, "n")
    assert (status, reason) == ("Unknown", "AdminUnreachable") and "which brokers do not report. In the store" in text
    here = [[each for each in names if each != "c"] for names in (replication, allowed)]
    w.pulsar.namespaces["t/n"].update(replication_clusters=here[0], allowed_clusters=here[1])
    stale.put(*stale.lists())  # they were restarted, and c is gone
    await w.run()
    assert w.condition(Kind.NAMESPACE, "n", "Accepted")[1] != "AdminUnreachable"
    assert stale.lists()[0] == ["a"]


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(A, id="widened"),
        pytest.param({**A, "allowedClusters": ["a"], "confirmations": [CONSENT]}, id="by consent"),
    ],
)
async def test_a_store_that_does_not_have_the_namespace_is_not_that_of_the_brokers(after: dict[str, Any]) -> None:
    """The instance was taken away by force and made again with another chroot: nobody knows what c is to lose."""
    stale = await world(**BOTH)
    stale.put(["a", "b"], ["a", "b", "c"])
    known, w = stale.ensemble.nodes[NODE].data, stale.w
    where = {"configurationStoreServers": SERVERS, "configurationStoreChroot": "/another"}
    w.kube.set_status(CUSTOM[Kind.INSTANCE], NS, "prod", where)
    w.namespace(**after, policies={"maxTopics": 3})
    await w.run()
    assert stale.ensemble.nodes[NODE].data == known and stale.lists() == (["a", "b"], [])
    status, reason, text = w.condition(Kind.NAMESPACE, "n")
    assert (status, reason) == ("Unknown", "AdminUnreachable") and "/admin/policies/t/n" in text
    stale.put(["a", "b"], [])
    w.kube.set_status(CUSTOM[Kind.INSTANCE], NS, "prod", {"configurationStoreServers": SERVERS})
    await w.run()
    assert stale.lists()[0] == ["a"] and w.condition(Kind.NAMESPACE, "n")[0] == "True"


async def test_a_cluster_leaves_as_before_where_brokers_know() -> None:
    stale = await world(**BOTH)
    stale.w.namespace(**A, allowedClusters=["a"], confirmations=[CONSENT])
    await stale.w.run()
    assert stale.lists() == (["a"], ["a"])
    assert stale.w.condition(Kind.NAMESPACE, "n")[0] == "True"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"replication_clusters": 7}', b"{}"])
async def test_what_cannot_be_read_holds_nothing(data: bytes) -> None:
    stale = await world(**BOTH)
    stale.w.admin.after.clear()
    stale.ensemble.put(NODE, data)
    stale.w.namespace(**A, allowedClusters=["a"], confirmations=[CONSENT])
    await stale.w.run()
    assert stale.lists() == (["a"], ["a"])


async def test_a_store_that_does_not_answer_is_waited_for_before_any_status_shows() -> None:
    stale = await world(**BOTH)
    stale.ensemble.reachable = False
    stale.w.namespace(**A, policies={"maxTopics": 3})
    await stale.w.run()
    assert stale.lists() == (["a", "b"], [])
    assert stale.w.condition(Kind.NAMESPACE, "n")[:2] == ("Unknown", "ConfigurationStoreUnavailable")
    stale.ensemble.reachable = True
    await stale.w.run()
    assert stale.lists() == (["a"], ["a", "b"])


@pytest.mark.parametrize("going", [False, True])
async def test_a_namespace_is_not_deleted_while_the_store_has_it_elsewhere(going: bool) -> None:
    """Unless all clusters go, and the store with them."""
    stale = await world(**A, allowedClusters=["a"], deletionPolicy="Delete")
    w = stale.w
    for topics in w.pulsar.topics.values():
        topics.pop(X, None)
    stale.put(["a", "b"], [])

    if going:
        stale.ensemble.reachable = False
        for name in ("a", "b"):
            w.kube.edit(CUSTOM[Kind.CLUSTER], NS, name, lambda obj: obj["metadata"].update(finalizers=["x/y"]))
            w.delete(Kind.CLUSTER, name)
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    assert ("t/n" not in w.pulsar.namespaces) is going
    if not going:
        assert "the configuration store also lists b" in w.condition(Kind.NAMESPACE, "n")[2]
        stale.put(["a"], ["a"])
        await w.run()
        assert "t/n" not in w.pulsar.namespaces


@pytest.mark.parametrize(("allowed", "held"), [([], True), (["a", "b"], False)])
async def test_the_global_list_of_a_topic_is_not_written_by_what_brokers_remember(
    allowed: list[str], held: bool
) -> None:
    stale = await world(**BOTH, allowedClusters=["a", "b"])
    w = stale.w
    deps = replace(w.controllers[Kind.TOPIC].deps, zookeeper=stale.zookeeper)
    w.controllers[Kind.TOPIC] = TopicController(deps)
    stale.put(["a", "b"], allowed)
    w.topic("x", policyScope="Global", replicationClusters=["a"])
    await w.run()
    status, reason, text = w.condition(Kind.TOPIC, "x")
    assert (reason == "AdminUnreachable" and "the configuration store also lists b" in text) is held, (
        status,
        reason,
        text,
    )
    written = [path for method, path in w.admin.writes if method == "POST" and "/x/replication" in path]
    assert bool(written) is not held


async def test_a_tenant_is_not_written_by_what_brokers_remember() -> None:
    """It is written whole: a role that was revoked meanwhile would be back."""
    w = LogicalWorld("a", "b")
    stale = Stale(w)
    deps = replace(w.controllers[Kind.TENANT].deps, zookeeper=stale.zookeeper)
    w.controllers[Kind.TENANT] = TenantController(deps)
    w.tenant()
    await w.run()
    live = w.pulsar.tenants["t"]
    live["adminRoles"] = ["theirs", "revoked"]
    path, clusters = f"{POLICIES_PATH}/t", list(live["allowedClusters"])
    stale.ensemble.put(path, json.dumps({"adminRoles": ["theirs"], "allowedClusters": clusters}).encode())
    w.tenant(adminRoles=["ours"])
    await w.run()
    status, reason, text = w.condition(Kind.TENANT, "t")
    assert (status, reason) == (
        "Unknown",
        "AdminUnreachable",
    ) and "has admin roles theirs and clusters a, b" in text
    assert w.pulsar.tenants["t"]["adminRoles"] == ["theirs", "revoked"]
    w.pulsar.tenants["t"]["adminRoles"] = ["theirs"]  # they were restarted
    await w.run()
    assert sorted(w.pulsar.tenants["t"]["adminRoles"]) == ["ours", "theirs"]
    assert w.condition(Kind.TENANT, "t")[0] == "True"
