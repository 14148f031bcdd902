"""The operator ends at a write of a cluster that leaves its instance, before it or after it, or the answer is lost: it
leaves all the same, the other cluster is as it was, and it can come back under its name. A sample by the seed; all of
them are slow."""

from __future__ import annotations

import copy

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import Json, UnavailableError
from tests.support.cluster.end_state import differences, end_state
from tests.support.cluster.leaving import again, naming, pair, put
from tests.support.cluster.world import ClusterWorld
from tests.support.core.journal import PortCall
from tests.support.faults.killing import WHEN, Kill, Run, Scenario, Start, begin, doubled, finish, sample, words
from tests.support.faults.summary import Summary

SAMPLE = 8


async def prepared(world: ClusterWorld) -> None:
    """What a world of two clusters has: it is made before."""
    put(world, "shop", {"adminRoles": [], "allowedClusters": ["east", "west"]})
    put(world, "pulsar/system", {"replication_clusters": ["west", "east"]})


async def leave(world: ClusterWorld) -> None:
    """kubectl delete pulsarcluster west"""
    await world.delete(Kind.CLUSTER, "west")


LEAVE = Scenario("a cluster leaves its instance", prepared, leave)


async def lost(start: Start, number: int) -> Run:
    """A write takes effect, and its answer never comes."""
    journal = start.world.journal

    def drop(call: PortCall) -> None:
        if call.is_write and len(journal.attempts) == start.attempts + number + 1:
            raise UnavailableError("the answer was lost")

    journal.after.append(drop)
    run = await finish(start, None)
    journal.after.remove(drop)
    return run


async def comes_back(world: ClusterWorld, manifest: Json) -> list[str]:
    """What is wrong with the cluster made again."""
    await world.apply(manifest)
    await world.run()
    return [f"made again: {name}: {why}" for name, why in (await world.all_ready()).items()]


async def matrix(summary: Summary, name: str, size: int | None) -> None:
    start = await begin(await pair(), LEAVE)
    manifest = again("west", await start.world.get(Kind.CLUSTER, "west"))
    copies: list[Start] = []

    async def remember() -> None:
        copies.append(copy.deepcopy(start))

    calm = await finish(start, None, remember)
    assert await start.world.live(Kind.CLUSTER, "west") is None and naming(start.world) == []
    there = copy.deepcopy(start.world)
    assert await comes_back(there, manifest) == []
    state = await end_state(there)
    places: list[Kill] = [(number, when) for number in range(len(calm.writes)) for when in (*WHEN, "lost")]
    chosen = places if size is None else sample(name, places, size)
    tally = summary.begin(name, len(chosen), len(places))
    for number, when in chosen:
        base = copy.deepcopy([c for c in copies if len(c.world.journal.attempts) - c.attempts <= number][-1])
        try:
            run = await (lost(base, number) if when == "lost" else finish(base, (number, when)))
            wrong = differences(calm.state, run.state)
            wrong += [f"happened twice: {text}" for text in doubled(run)]
            wrong += await comes_back(base.world, manifest)
            wrong += differences(state, await end_state(base.world))
        except AssertionError as error:
            wrong = [str(error)]
        tally.add(words(calm, (number, when)), wrong)
    tally.check()
    print("\n".join(f"{number:3} {call}" for number, call in enumerate(calm.writes)))


async def test_a_sample_of_kills_and_lost_answers(faults_summary: Summary) -> None:
    await matrix(faults_summary, "kills in memory, a cluster leaves, sample", SAMPLE)


@pytest.mark.slow
@pytest.mark.faults
async def test_a_kill_or_a_lost_answer_at_any_write(faults_summary: Summary) -> None:
    await matrix(faults_summary, "kills in memory, a cluster leaves", None)
