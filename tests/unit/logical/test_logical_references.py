"""References of the logical kinds: parents that are missing, not ready or elsewhere, and two objects for one thing."""

from __future__ import annotations

from pulsar_operator.api.constants import Kind
from tests.support.logical.world import NS, LogicalWorld


async def test_parents_are_waited_for_and_named() -> None:
    w = LogicalWorld()
    w.topic("x")
    outcome = await w.reconcile(Kind.TOPIC, "x")
    assert outcome.requeue_after == 15.0
    assert not outcome.backoff
    status, reason, message = w.condition(Kind.TOPIC, "x")
    assert (status, reason) == ("False", "ReferenceNotFound")
    assert "apps/n" in message
    w.namespace()
    await w.reconcile(Kind.NAMESPACE, "n")
    await w.reconcile(Kind.TOPIC, "x")
    assert w.condition(Kind.TOPIC, "x")[1] == "ParentNotReady"
    w.tenant()
    await w.run()
    assert w.condition(Kind.TOPIC, "x")[0] == "True"


async def test_no_ready_brokers_is_a_wait_and_not_an_error() -> None:
    w = LogicalWorld()
    w.cluster_status("a", ready=False)
    w.tenant()
    outcome = await w.reconcile(Kind.TENANT, "t")
    assert (outcome.requeue_after, outcome.backoff) == (15.0, False)
    assert w.condition(Kind.TENANT, "t")[:2] == ("Unknown", "ParentNotReady")
    assert w.admin.calls == []


async def test_another_kubernetes_namespace_needs_consent() -> None:
    w = LogicalWorld()
    w.put(Kind.TENANT, "t", {"instanceRef": {"name": "prod", "namespace": NS}}, ns="other")
    await w.run()
    assert w.condition(Kind.TENANT, "t", ns="other")[:2] == ("False", "ReferenceNotAllowed")
    assert w.pulsar.tenants == {}
    # Nor does a namespace under that tenant get anywhere.
    w.put(Kind.NAMESPACE, "n", {"tenantRef": {"name": "t"}}, ns="other")
    await w.run()
    assert w.pulsar.namespaces == {}


async def test_of_two_objects_for_one_tenant_one_manages() -> None:
    w = LogicalWorld()
    w.tenant("first", name="same", adminRoles=["one"])
    await w.run()
    w.tenant("second", name="same", adminRoles=["two"], deletionPolicy="Delete")
    await w.run()
    assert w.condition(Kind.TENANT, "second")[:2] == ("False", "Duplicate")
    assert "apps/first" in w.condition(Kind.TENANT, "second")[2]
    assert w.pulsar.tenants["same"]["adminRoles"] == ["one"]
    w.delete(Kind.TENANT, "second")
    await w.run()
    assert w.get(Kind.TENANT, "second") is None
    assert "same" in w.pulsar.tenants, "deleting the refused object deletes nothing"
    assert w.condition(Kind.TENANT, "first")[0] == "True"


async def test_of_two_new_objects_exactly_one_manages() -> None:
    w = LogicalWorld()
    w.tenant("x1", name="same", adminRoles=["one"])
    w.tenant("x2", name="same", adminRoles=["two"])
    await w.run()
    assert sorted(w.condition(Kind.TENANT, n)[1] for n in ("x1", "x2")) == ["Duplicate", "Ready"]
    assert len(w.pulsar.tenants["same"]["adminRoles"]) == 1
