"""Every fault at every place of every scenario, in memory: the logical plane in virtual time, ZooKeeper with all kinds.

Prints progress and a closing table (``pytest -s``). Samples of both are in ``make test``.
"""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from tests.support.faults_matrix import Table, disturbances, problems
from tests.support.faults_scenarios import SCENARIOS, Scenario
from tests.support.faults_site import play, prepare
from tests.support.faults_zookeeper import Calm, calm_run, places
from tests.support.faults_zookeeper import problems as zookeeper_problems
from tests.support.killing import BRING_UP, UPDATE
from tests.support.killing import Scenario as ClusterScenario

EVERY = 100
"""Runs between two lines of progress."""
ZOOKEEPER_SAMPLE = 3


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_every_fault_everywhere(scenario: Scenario) -> None:
    prepared = asyncio.run(prepare(scenario))
    calm, table = play(prepared), Table()
    found = disturbances(calm, scenario)
    wrong: list[str] = []
    for number, disturbance in enumerate(found):
        problem = problems(prepared, calm, disturbance)
        table.add(scenario.name, disturbance.place[0], disturbance.name, problem)
        wrong += [f"{disturbance}: {text}" for text in problem]
        if number % EVERY == 0:
            print(f"{scenario.name}: {number} of {len(found)}, {len(wrong)} differences", flush=True)
    print(table)
    assert not wrong, "\n".join(wrong[:30])


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [BRING_UP, UPDATE], ids=lambda s: s.name)
async def test_every_fault_of_zookeeper(scenario: ClusterScenario) -> None:
    calm = await calm_run(scenario)
    await _all(calm, places(calm))


@pytest.mark.parametrize("scenario", [BRING_UP, UPDATE], ids=lambda s: s.name)
async def test_a_sample_of_zookeepers_faults(scenario: ClusterScenario) -> None:
    seed = int(os.environ.get("PULSAR_OPERATOR_FAULT_SEED", "1"))
    print(f"{scenario.name}: PULSAR_OPERATOR_FAULT_SEED={seed}")
    calm = await calm_run(scenario)
    await _all(calm, random.Random(f"{seed} {scenario.name}").sample(places(calm), ZOOKEEPER_SAMPLE))


async def _all(calm: Calm, chosen: list[tuple[int, str]]) -> None:
    table, wrong = Table(), list[str]()
    for done, (number, kind) in enumerate(chosen):
        problem = await zookeeper_problems(calm, number, kind)
        table.add(calm.scenario.name, "zookeeper", kind, problem)
        wrong += [f"{kind} at {calm.calls[number]}: {text}" for text in problem]
        if done % EVERY == 0:
            print(f"{calm.scenario.name}: {done} of {len(chosen)}, {len(wrong)} differences", flush=True)
    print(table)
    assert not wrong, "\n".join(wrong[:30])
