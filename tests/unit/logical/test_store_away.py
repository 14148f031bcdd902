"""The logical plane while the configuration store is away: every kind is held, and no call is made."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM
from tests.support.logical.topic_sets import count
from tests.support.logical.world import NS, LogicalWorld


def store(w: LogicalWorld, status: str) -> None:
    found = {"type": "ConfigurationStoreReady", "status": status, "reason": "X", "message": "no answer"}
    w.kube.set_status(CUSTOM[Kind.INSTANCE], NS, "prod", {"conditions": [found]})


@pytest.mark.parametrize(("status", "held"), [("True", False), ("Unknown", False), ("False", True)])
async def test_what_nobody_could_look_at_holds_nothing(status: str, held: bool) -> None:
    w = LogicalWorld()
    store(w, status)
    w.tenant()
    await w.run()
    assert ("t" in w.pulsar.tenants) is not held
    assert w.condition(Kind.TENANT, "t")[1] == ("ConfigurationStoreUnavailable" if held else "Ready")


async def test_every_kind_is_held_and_makes_no_call() -> None:
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    await w.run()
    store(w, "False")
    w.topic()
    w.topics("s", **count(3))
    w.group()
    w.isolation(namespaces=["t/n"], primary=["a-broker-0.*"])
    calls = len(w.admin.calls)
    await w.run()
    assert len(w.admin.calls) == calls
    held = [(Kind.TOPIC, "x"), (Kind.TOPIC_SET, "s"), (Kind.RESOURCE_GROUP, "g"), (Kind.ISOLATION_POLICY, "i")]
    assert {w.condition(kind, name)[:2] for kind, name in held} == {("Unknown", "ConfigurationStoreUnavailable")}


async def test_a_compaction_by_schedule_is_checked_soon_after() -> None:
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    w.topic("plain")
    w.topic("timed", compaction={"schedule": "0 2 * * *"})
    await w.run()
    assert w.condition(Kind.TOPIC, "timed")[0] == "True"
    store(w, "False")
    assert (await w.reconcile(Kind.TOPIC, "timed")).requeue_after == 15
    assert (await w.reconcile(Kind.TOPIC, "plain")).requeue_after is None


async def test_where_all_clusters_go_too_it_is_asked_as_before_and_then_released() -> None:
    w = LogicalWorld()
    w.tenant(deletionPolicy="Delete")
    await w.run()
    store(w, "False")
    w.delete(Kind.TENANT, "t")
    await w.run()
    assert w.condition(Kind.TENANT, "t", "DeletionBlocked")[:2] == ("True", "ConfigurationStoreUnavailable")
    w.kube.edit(CUSTOM[Kind.CLUSTER], NS, "a", lambda obj: obj["metadata"].update(finalizers=["x/y"]))
    w.delete(Kind.CLUSTER, "a")
    w.admin.down.add("a")
    await w.run()
    assert w.get(Kind.TENANT, "t") is None
