"""Kills with a real API server, a real ZooKeeper and admin REST over HTTP: a seeded sample, and all of them as slow.

PULSAR_OPERATOR_KILL_SEED chooses another sample; the seed is printed.
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Callable

import pytest

from tests.support.apiserver import ApiServer
from tests.support.endstate import differences
from tests.support.killing import BRING_UP, SCENARIOS, Scenario, begin, finish, listing, matrix
from tests.support.real_world import RealServers, real_servers
from tests.support.world import World
from tests.support.zookeeper import RealZooKeeper, real_zookeeper

__all__ = ["real_zookeeper"]
SAMPLE = {"bring-up": 10, "update": 4}
"""Kills in the sample; the short deletions get two each."""
Kills = list[tuple[int, str]]


@pytest.fixture
async def servers(apiserver: ApiServer, real_zookeeper: RealZooKeeper) -> AsyncIterator[RealServers]:
    async with real_servers(apiserver, real_zookeeper) as found:
        yield found


def sample(scenario: Scenario) -> Callable[[Kills], Kills]:
    """Some kills, spread over the whole run: one at random in each of equal parts."""
    seed = int(os.environ.get("PULSAR_OPERATOR_KILL_SEED", "1"))
    print(f"{scenario.name}: PULSAR_OPERATOR_KILL_SEED={seed}")

    def choose(kills: Kills) -> Kills:
        size = min(SAMPLE.get(scenario.name, 2), len(kills))
        rng = random.Random(f"{seed} {scenario.name}")
        parts = [kills[len(kills) * n // size : len(kills) * (n + 1) // size] for n in range(size)]
        return [rng.choice(part) for part in parts]

    return choose


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
async def test_a_sample_of_kills(servers: RealServers, scenario: Scenario) -> None:
    calm, wrong = await matrix(servers.world, scenario, choose=sample(scenario))
    print(listing(calm))
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
async def test_every_kill(servers: RealServers, scenario: Scenario) -> None:
    calm, wrong = await matrix(servers.world, scenario)
    print(listing(calm))
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
async def test_fakes_and_real_servers_come_to_the_same(servers: RealServers, scenario: Scenario) -> None:
    """The same writes in the same order, and the same stores and Pulsar at the end."""
    fake = await finish(await begin(World.fakes(), scenario), None)
    async with servers.world() as world:
        real = await finish(await begin(world, scenario), None)
        namespace = world.namespace

    def words(text: str) -> str:
        return text.replace(namespace, "pulsar")

    assert [words(str(c)) for c in real.writes] == [str(c) for c in fake.writes]
    assert differences(fake.state["pulsar"], real.state["pulsar"]) == []
    assert differences(fake.state["zookeeper"], real.state["zookeeper"]) == []
    assert sorted(real.state["kubernetes"]) == sorted(fake.state["kubernetes"])
    for name, obj in fake.state["kubernetes"].items():
        found = real.state["kubernetes"][name]
        if name.startswith("Pulsar"):
            assert differences(obj.get("status"), found.get("status")) == [], name
        assert found["metadata"].get("ownerReferences") == obj["metadata"].get("ownerReferences")


async def test_a_real_bring_up_ends_ready(servers: RealServers) -> None:
    async with servers.world() as world:
        await BRING_UP.trigger(world)
        await world.run()
        assert await world.all_ready() == {}
