"""TLS at the edge on a real API server: the copy of the Secret is written, kept up to date, and deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import PODS, SECRETS, Json
from tests.support.certificates import authority, contents, issue, secret
from tests.support.cluster.real_world import RealServers, real_servers
from tests.support.cluster.world import quickstart
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.zookeeper import RealZooKeeper, real_zookeeper

__all__ = ["real_zookeeper"]


@pytest.fixture
async def servers(apiserver: ApiServer, real_zookeeper: RealZooKeeper) -> AsyncIterator[RealServers]:
    async with real_servers(apiserver, real_zookeeper) as found:
        yield found


async def test_the_copy_of_a_secret(servers: RealServers) -> None:
    async with servers.world() as world:
        begin = world.clock.now() - timedelta(days=1)
        root = authority(begin=begin)
        leaf = issue("east", issuer=root, names=[f"*.{world.namespace}.svc.cluster.local"], begin=begin)
        data = secret("edge", world.namespace, contents(leaf, root))
        manifests = quickstart(world.namespace)[:2]
        manifests[1]["spec"]["tls"] = {"edge": {"mode": "PlainAndTLS", "secretName": "edge"}}
        await world.apply(data, *manifests)
        await world.run()
        assert await world.all_ready() == {}
        copy = await world.get(SECRETS, "east-edge-tls")
        assert (copy["type"], copy["data"]) == ("kubernetes.io/tls", data["data"])
        writes, pods = len(world.journal.attempts), await world.uids(PODS)
        await world.round()
        assert len(world.journal.attempts) == writes, "nothing is written at rest"
        renewed = issue("east", issuer=root, names=[f"*.{world.namespace}.svc.cluster.local"], begin=begin)
        await world.apply(secret("edge", world.namespace, contents(renewed)))
        await world.run()
        copy = await world.get(SECRETS, "east-edge-tls")
        assert copy["data"].keys() == {"tls.crt", "tls.key"} and copy["data"]["tls.crt"] != data["data"]["tls.crt"]
        assert await world.uids(PODS) == pods

        def plain(spec: Json) -> None:
            del spec["tls"]

        await world.change(Kind.CLUSTER, "east", plain)
        await world.run()
        assert await world.all_ready() == {}
        assert await world.live(SECRETS, "east-edge-tls") is None
        assert await world.live(SECRETS, "edge") is not None
