"""Two instances with one configuration store are one in Pulsar: what is declared by way of both is a duplicate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.stores import share_store
from pulsar_operator.ports import CUSTOM, Json
from tests.fakes.zookeeper import FakeEnsemble, FakeZooKeeper
from tests.support.logical.world import NS, LogicalWorld

KINDS: dict[Kind, tuple[str, dict[str, Any]]] = {
    Kind.TENANT: ("tenant", {}),
    Kind.RESOURCE_GROUP: ("group", {"limits": {"publishRate": {"messagesPerSecond": 5}}}),
}
APART = {Kind.ISOLATION_POLICY: ("isolation", {"namespaces": ["t/n"], "primary": [".*"]})}


def store(w: LogicalWorld, instance: str, servers: str, chroot: str | None = None) -> None:
    status = {"configurationStoreServers": servers} | ({"configurationStoreChroot": chroot} if chroot else {})
    w.kube.set_status(CUSTOM[Kind.INSTANCE], NS, instance, status)


def two(servers: str = "zk-1:2181,zk-2:2181", chroot: str | None = None) -> LogicalWorld:
    """Instances prod, of cluster a, and twin, of cluster b."""
    w = LogicalWorld("a", "b")
    store(w, "prod", "zk-1:2181,zk-2:2181")
    w.put(Kind.INSTANCE, "twin", {"configurationStore": {"external": {"servers": "zk:2181"}}})
    store(w, "twin", servers, chroot)
    w.put(Kind.CLUSTER, "b", {"instanceRef": {"name": "twin"}})
    w.cluster_status("b", ready=True)
    zookeeper = FakeZooKeeper()
    for each in {servers, "zk-1:2181,zk-2:2181"}:
        zookeeper.ensembles[each] = FakeEnsemble(each)
    for controller in w.controllers.values():
        controller.deps = replace(controller.deps, zookeeper=zookeeper)
    return w


def declare(w: LogicalWorld, kind: Kind, name: str, instance: str) -> None:
    make, spec = (KINDS | APART)[kind]
    getattr(w, make)(name, name="same", deletionPolicy="Delete", instanceRef={"name": instance}, **spec)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_second_is_a_duplicate_and_names_the_first(kind: Kind) -> None:
    w = two()
    declare(w, kind, "first", "prod")
    await w.run()
    before = w.pulsar.snapshot()
    declare(w, kind, "second", "twin")
    await w.run()
    status, reason, text = w.condition(kind, "second")
    assert (status, reason) == ("False", "Duplicate") and f"{kind.value} {NS}/first already manages same" in text
    assert w.condition(kind, "first")[0] == "True" and w.pulsar.snapshot() == before
    w.delete(kind, "first")
    await w.run()
    assert w.get(kind, "first") is None and "HandedOver" in w.reasons(kind)
    assert w.condition(kind, "second")[0] == "True"


async def test_what_is_in_a_tenant_of_both_is_managed_by_one_and_survives_its_deletion() -> None:
    w = two()
    for tenant, instance in (("first", "prod"), ("second", "twin")):
        declare(w, Kind.TENANT, tenant, instance)
        w.namespace(f"of-{tenant}", name="n", tenant=tenant, deletionPolicy="Delete", policies={"maxTopics": 3})
        await w.run()
    assert w.condition(Kind.NAMESPACE, "of-second")[:2] == ("False", "ParentNotReady")
    w.delete(Kind.NAMESPACE, "of-first")
    await w.run()
    assert w.get(Kind.NAMESPACE, "of-first") is None and "same/n" in w.pulsar.namespaces


async def test_each_instance_has_isolation_policies_of_its_own_in_its_clusters() -> None:
    w = two()
    for name, instance in (("first", "prod"), ("second", "twin")):
        declare(w, Kind.ISOLATION_POLICY, name, instance)
    await w.run()
    assert all("Duplicate" not in w.condition(Kind.ISOLATION_POLICY, name) for name in ("first", "second"))
    w.delete(Kind.ISOLATION_POLICY, "first")
    await w.run()
    assert "HandedOver" not in w.reasons()


@pytest.mark.parametrize("other", [("zk-3:2181", None), ("zk-1:2181", "/another"), ("", None)])
async def test_another_store_is_another_pulsar(other: tuple[str, str | None]) -> None:
    w = two(*other)
    declare(w, Kind.TENANT, "first", "prod")
    declare(w, Kind.TENANT, "second", "twin")
    await w.run()
    assert w.condition(Kind.TENANT, "second")[0] == w.condition(Kind.TENANT, "first")[0] == "True"


def instance(servers: str | None, chroot: str | None = None) -> Json:
    return {"status": {"configurationStoreServers": servers, "configurationStoreChroot": chroot}}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("a:1,b:1", None), ("b:1, C:1", ""), True),
        (("a:1", "/x"), ("A:1", "x/"), True),
        (("a", None), ("b,a:2181", None), True),
        (("a:1", "/x"), ("a:1", None), False),
        (("a:1", None), ("a:2", None), False),
        ((None, None), (None, None), False),
    ],
)
def test_which_stores_are_one(one: tuple[Any, Any], other: tuple[Any, Any], same: bool) -> None:
    assert share_store(instance(*one), instance(*other)) is same is share_store(instance(*other), instance(*one))
    assert not share_store({}, instance(*one))


def test_where_the_store_of_a_new_instance_is() -> None:
    external = {"servers": "B,c:2181", "chroot": "/x"}
    new = {"spec": {"configurationStore": {"external": external}}}
    assert share_store(new, instance("b:2181", "x")) and not share_store(new, instance("b:2181"))
    assert not share_store({"spec": {"configurationStore": {"managed": {}}}}, {"spec": {}})
    assert share_store(new | instance("d"), instance("d")), "what the status says counts"


@pytest.mark.parametrize("policy", ["Delete", "ForceDelete"])
async def test_an_instance_that_is_new_counts_at_a_deletion(policy: str) -> None:
    """All is applied at once under another instance, and the old objects are deleted before its status is written."""
    w = two()
    w.put(Kind.INSTANCE, "new", {"configurationStore": {"external": {"servers": "zk-2"}}})
    declare(w, Kind.TENANT, "first", "prod")
    w.namespace("of-first", name="n", tenant="first")
    w.topic("x-first", name="x", namespace="of-first", deletionPolicy=policy)
    await w.run()
    declare(w, Kind.TENANT, "second", "new")
    w.namespace("of-second", name="n", tenant="second")
    w.topic("x-second", name="x", namespace="of-second")
    w.delete(Kind.TOPIC, "x-first")
    await w.reconcile(Kind.TOPIC, "x-first")
    assert w.get(Kind.TOPIC, "x-first") is None and "HandedOver" in w.reasons(Kind.TOPIC)
    assert "persistent://same/n/x" in w.pulsar.topics["a"]
