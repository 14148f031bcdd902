"""Kills with a real API server, a real ZooKeeper and admin REST over HTTP: a seeded sample, and all of them as slow."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from tests.support.cluster.end_state import differences, without_hashes
from tests.support.cluster.real_world import RealServers, real_servers
from tests.support.cluster.world import ClusterWorld
from tests.support.faults.killing import (
    BRING_UP,
    SCENARIOS,
    Kill,
    Run,
    Scenario,
    begin,
    disturbed,
    finish,
    kills,
    listing,
    sample,
    words,
)
from tests.support.faults.summary import Summary, Tally
from tests.support.processes.apiserver import ApiServer
from tests.support.processes.zookeeper import RealZooKeeper, real_zookeeper

__all__ = ["real_zookeeper"]
SAMPLE = {"bring-up": 4, "update": 2}
"""Kills in the sample; the short deletions get one each."""


@pytest.fixture
async def servers(apiserver: ApiServer, real_zookeeper: RealZooKeeper) -> AsyncIterator[RealServers]:
    async with real_servers(apiserver, real_zookeeper) as found:
        yield found


@dataclass(frozen=True)
class Calm:
    """An undisturbed run on the servers."""

    run: Run
    namespace: str
    unready: dict[str, str]
    """Objects that are not Ready in the end, with the message."""


@pytest.fixture(scope="module")
def known() -> dict[str, Calm]:
    """Undisturbed runs by scenario, each made when the first test asks for it."""
    return {}


Undisturbed = Callable[[Scenario], Awaitable[Calm]]


@pytest.fixture
def undisturbed(servers: RealServers, known: dict[str, Calm]) -> Undisturbed:
    async def calm(scenario: Scenario) -> Calm:
        if scenario.name not in known:
            async with servers.world() as world:
                run = await finish(await begin(world, scenario), None)
                known[scenario.name] = Calm(run, world.namespace, await world.all_ready())
        return known[scenario.name]

    return calm


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
async def test_a_sample_of_kills(
    servers: RealServers, undisturbed: Undisturbed, scenario: Scenario, faults_summary: Summary
) -> None:
    calm = (await undisturbed(scenario)).run
    chosen = sample(f"kills {scenario.name}", kills(calm), SAMPLE.get(scenario.name, 1))
    title = f"kills on real servers, {scenario.name}, sample"
    await _all(servers, scenario, calm, chosen, faults_summary.begin(title, len(chosen), len(kills(calm))))


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
async def test_every_kill(
    servers: RealServers, undisturbed: Undisturbed, scenario: Scenario, faults_summary: Summary
) -> None:
    calm = (await undisturbed(scenario)).run
    title = f"kills on real servers, {scenario.name}"
    await _all(servers, scenario, calm, kills(calm), faults_summary.begin(title, len(kills(calm)), every=10))


async def _all(servers: RealServers, scenario: Scenario, calm: Run, chosen: list[Kill], tally: Tally) -> None:
    print(listing(calm))
    for kill in chosen:
        tally.add(words(calm, kill), await disturbed(servers.world, scenario, calm, kill))
    tally.check()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
async def test_fakes_and_real_servers_come_to_the_same(undisturbed: Undisturbed, scenario: Scenario) -> None:
    """The same writes in the same order, and the same stores and Pulsar at the end."""
    fake = await finish(await begin(ClusterWorld.fakes(), scenario), None)
    calm = await undisturbed(scenario)
    real = calm.run

    def plain(text: str) -> str:
        return without_hashes(text.replace(calm.namespace, "pulsar"))

    assert [plain(str(c)) for c in real.writes] == [plain(str(c)) for c in fake.writes]
    assert differences(fake.state["pulsar"], real.state["pulsar"]) == []
    assert differences(fake.state["zookeeper"], real.state["zookeeper"]) == []
    assert sorted(real.state["kubernetes"]) == sorted(fake.state["kubernetes"])
    for name, obj in fake.state["kubernetes"].items():
        found = real.state["kubernetes"][name]
        if name.startswith("Pulsar"):
            assert differences(obj.get("status"), found.get("status")) == [], name
        assert found["metadata"].get("ownerReferences") == obj["metadata"].get("ownerReferences")


async def test_a_real_bring_up_ends_ready(undisturbed: Undisturbed) -> None:
    assert (await undisturbed(BRING_UP)).unready == {}
