"""A set of topics on a real API server: its status is stored, and nothing is written at rest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from pulsar_operator.api.constants import FINALIZER, Kind
from tests.support.cluster.real_world import RealServers, real_servers
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.zookeeper import RealZooKeeper, real_zookeeper

__all__ = ["real_zookeeper"]
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "topic-set.yaml"


@pytest.fixture
async def servers(apiserver: ApiServer, real_zookeeper: RealZooKeeper) -> AsyncIterator[RealServers]:
    async with real_servers(apiserver, real_zookeeper) as found:
        yield found


async def test_the_example(servers: RealServers) -> None:
    async with servers.world() as world:
        await world.bring_up()
        document = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
        document["metadata"]["namespace"] = world.namespace
        document["spec"]["deletionPolicy"] = "Delete"
        await world.apply(document)
        await world.run()
        assert await world.all_ready() == {}
        status = await world.status(Kind.TOPIC_SET, "devices")
        assert (status["desired"], status["ready"], status["owned"]) == (100, 100, {"number": 100})
        obj = await world.get(Kind.TOPIC_SET, "devices")
        assert FINALIZER in obj["metadata"]["finalizers"]
        writes = len(world.journal.attempts)
        await world.round()
        assert len(world.journal.attempts) == writes
        await world.delete(Kind.TOPIC_SET, "devices")
        await world.run()
        assert await world.live(Kind.TOPIC_SET, "devices") is None
        assert not any("/device-" in name for topics in world.pulsar.topics.values() for name in topics)
