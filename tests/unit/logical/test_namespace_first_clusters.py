"""The clusters of a namespace that declares none do not depend on which cluster came up first."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from tests.support.logical.world import LogicalWorld


async def world(first: str, later: str, *, tenant: dict[str, Any] | None = None, **spec: Any) -> LogicalWorld:
    """Two clusters of which one is registered in Pulsar; a namespace is asked for."""
    w = LogicalWorld(first)
    w.cluster(later, ready=False)
    w.tenant(**(tenant or {}))
    w.namespace(**spec)
    await w.run()
    return w


async def registered(w: LogicalWorld, name: str) -> list[str]:
    """The other cluster comes up; where the namespace is then."""
    w.pulsar.clusters.append(name)
    w.cluster_status(name, ready=True)
    await w.run()
    found: list[str] = w.pulsar.namespaces["t/n"]["replication_clusters"]
    return found


@pytest.mark.parametrize(("first", "later"), [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("tenant", [{}, {"allowedClusters": ["a", "b"]}])
async def test_it_waits_for_all_that_its_tenant_may_use(first: str, later: str, tenant: dict[str, Any]) -> None:
    w = await world(first, later, tenant=tenant)
    assert "t/n" not in w.pulsar.namespaces
    state, reason, message = w.condition(Kind.NAMESPACE, "n")
    assert (state, reason) == ("False", "WaitingForClusters")
    assert f"does not let the tenant use {later} yet" in message and "set spec.replicationClusters" in message
    assert await registered(w, later) == ["a", "b"]
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"


@pytest.mark.parametrize(
    ("tenant", "spec"),
    [
        ({}, {"replicationClusters": ["a"]}),
        ({}, {"allowedClusters": ["a"]}),
        ({"allowedClusters": ["a"]}, {}),
    ],
)
async def test_a_list_that_is_declared_waits_for_no_other(tenant: dict[str, Any], spec: dict[str, Any]) -> None:
    w = await world("a", "b", tenant=tenant, **spec)
    assert w.pulsar.namespaces["t/n"]["replication_clusters"] == ["a"]
    assert await registered(w, "b") == ["a"]


async def test_a_cluster_that_is_being_deleted_is_not_waited_for_and_gets_no_namespace() -> None:
    w = LogicalWorld("a", "b")
    w.tenant()
    await w.run()
    obj = w.get(Kind.CLUSTER, "b")
    assert obj is not None
    obj["metadata"]["finalizers"] = ["pulsaroperator.io/cleanup"]
    w.kube.put(obj)
    w.delete(Kind.CLUSTER, "b")
    w.namespace()
    await w.run()
    assert w.pulsar.namespaces["t/n"]["replication_clusters"] == ["a"]
