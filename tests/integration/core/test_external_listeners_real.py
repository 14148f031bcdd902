"""External listeners on a real API server: it chooses node ports, keeps them, and nothing is written at rest."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CONFIG_MAPS, PODS, SERVICES
from tests.support.cluster.outside import LOAD_BALANCER, NODE_PORT, Outside
from tests.support.cluster.real_world import RealServers, real_servers
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.zookeeper import RealZooKeeper, real_zookeeper

__all__ = ["real_zookeeper"]


@pytest.fixture
async def servers(apiserver: ApiServer, real_zookeeper: RealZooKeeper) -> AsyncIterator[RealServers]:
    async with real_servers(apiserver, real_zookeeper) as found:
        yield found


async def node_ports(found: Outside) -> dict[str, int]:
    """Node port by name of a listener's Service."""
    services = [await found.world.get(SERVICES, name) for name in sorted(await found.services())]
    return {each["metadata"]["name"]: int(each["spec"]["ports"][0].get("nodePort") or 0) for each in services}


async def test_node_ports_and_load_balancers(servers: RealServers) -> None:
    async with servers.world() as world:
        found = Outside(world)
        await found.applied(NODE_PORT, LOAD_BALANCER)
        await found.run()
        assert await world.all_ready() == {}
        ports = await node_ports(found)
        assert len(ports) == 6 and all(ports.values()) and found.waited == set()
        entries = (await world.get(CONFIG_MAPS, found.plan.addresses))["data"]
        assert entries.keys() == {"east-broker-0", "east-broker-1"}
        for name, entry in entries.items():
            assert f"external:pulsar://nodes.example.com:{ports[f'{name}-external']}" in entry
            assert "public:pulsar://192.0.2." in entry
        writes = len(world.journal.attempts)
        await world.round()
        assert len(world.journal.attempts) == writes, "nothing is written at rest"
        pods = await world.uids(PODS)
        await world.change(Kind.CLUSTER, "east", lambda spec: spec["listeners"][0].update(annotations={"a": "b"}))
        await found.run()
        assert await node_ports(found) == ports, "a Service that is applied again keeps its node port"
        assert await world.uids(PODS) == pods
