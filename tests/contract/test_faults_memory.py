"""Every fault at every place of every scenario, in memory: the logical plane in virtual time, ZooKeeper with all kinds.

Prints progress (``pytest -s``) and a closing table. Samples of both are in ``make test``.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.support.faults.killing import BRING_UP, UPDATE
from tests.support.faults.killing import Scenario as ClusterScenario
from tests.support.faults.matrix import disturbances, problems
from tests.support.faults.scenarios import SCENARIOS, Scenario
from tests.support.faults.site import play, prepare
from tests.support.faults.summary import Summary, Tally, rng
from tests.support.faults.zookeeper import Calm, calm_run, places
from tests.support.faults.zookeeper import problems as zookeeper_problems

ZOOKEEPER_SAMPLE = 3


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_every_fault_everywhere(scenario: Scenario, faults_summary: Summary) -> None:
    prepared = asyncio.run(prepare(scenario))
    calm = play(prepared)
    found = disturbances(calm, scenario)
    tally = faults_summary.begin(f"logical plane in memory, {scenario.name}", len(found))
    for disturbance in found:
        tally.add(str(disturbance), problems(prepared, calm, disturbance))
    tally.check()


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("scenario", [BRING_UP, UPDATE], ids=lambda s: s.name)
async def test_every_fault_of_zookeeper(scenario: ClusterScenario, faults_summary: Summary) -> None:
    calm = await calm_run(scenario)
    chosen = places(calm)
    await _all(calm, chosen, faults_summary.begin(f"ZooKeeper in memory, {scenario.name}", len(chosen), every=20))


@pytest.mark.parametrize("scenario", [BRING_UP, UPDATE], ids=lambda s: s.name)
async def test_a_sample_of_zookeepers_faults(scenario: ClusterScenario, faults_summary: Summary) -> None:
    calm = await calm_run(scenario)
    found = places(calm)
    chosen = rng(scenario.name).sample(found, ZOOKEEPER_SAMPLE)
    title = f"ZooKeeper in memory, {scenario.name}, sample"
    await _all(calm, chosen, faults_summary.begin(title, len(chosen), len(found)))


async def _all(calm: Calm, chosen: list[tuple[int, str]], tally: Tally) -> None:
    for number, kind in chosen:
        tally.add(f"{kind} at {calm.calls[number]}", await zookeeper_problems(calm, number, kind))
    tally.check()
