"""Who manages what has no properties, in a real ZooKeeper: it is recorded, decides, is taken over and forgotten."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from pulsar_operator.adapters.kazoo_zookeeper import KazooZooKeeper
from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.logical.owners import owner_node
from pulsar_operator.ports import CUSTOM
from tests.support.logical.world import NS, LogicalWorld
from tests.support.processes.zookeeper import RealZooKeeper, real_zookeeper

__all__ = ["real_zookeeper"]


@pytest.fixture
async def kazoo() -> AsyncIterator[KazooZooKeeper]:
    port = KazooZooKeeper(deadline_seconds=30)
    yield port
    await port.close()


def world(kazoo: KazooZooKeeper, servers: str) -> LogicalWorld:
    """A world with that configuration store."""
    w = LogicalWorld()
    w.kube.set_status(CUSTOM[Kind.INSTANCE], NS, "prod", {"configurationStoreServers": servers})
    deps = replace(w.controllers[Kind.TENANT].deps, zookeeper=kazoo)
    w.controllers = {kind: type(each)(deps) for kind, each in w.controllers.items()}
    return w


async def test_the_record_of_a_tenant_survives_everything_but_the_store(
    real_zookeeper: RealZooKeeper, kazoo: KazooZooKeeper
) -> None:
    name = f"t-{uuid.uuid4().hex[:8]}"
    path, session = owner_node("PulsarTenant", name), await kazoo.session(real_zookeeper.servers)
    w = world(kazoo, real_zookeeper.servers)
    w.tenant("original", name=name, adminRoles=["team"])
    await w.run()
    node = await session.get(path)
    assert node is not None and node.data == b"PulsarTenant apps/original"
    restored = world(kazoo, real_zookeeper.servers)
    restored.pulsar.tenants.update(w.pulsar.tenants)
    restored.tenant("duplicate", name=name, adminRoles=["others"], deletionPolicy="Delete")
    restored.tenant("original", name=name, adminRoles=["team"])
    await restored.run()
    assert restored.condition(Kind.TENANT, "duplicate")[1] == "Duplicate"
    assert restored.pulsar.tenants[name]["adminRoles"] == ["team"]
    restored.delete(Kind.TENANT, "original")
    await restored.run()
    node = await session.get(path)
    assert node is not None and node.data == b"PulsarTenant apps/duplicate"
    assert restored.pulsar.tenants[name]["adminRoles"] == ["others", "team"]
    restored.delete(Kind.TENANT, "duplicate")
    await restored.run()
    assert name not in restored.pulsar.tenants
    assert await session.get(path) is None
