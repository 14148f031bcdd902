"""A sample of all faults at all places, in memory and virtual time; ``make faults`` plays every one.

PULSAR_OPERATOR_FAULT_SEED chooses another sample; the seed is printed.
"""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from tests.support.faults_matrix import Disturbance, disturbances, problems
from tests.support.faults_scenarios import SCENARIOS, Scenario
from tests.support.faults_site import play, prepare

SIZE = 10
"""Places in the sample of a scenario."""


def sample(scenario: Scenario, found: list[Disturbance]) -> list[Disturbance]:
    """As many as SIZE, of as many kinds of fault."""
    seed = int(os.environ.get("PULSAR_OPERATOR_FAULT_SEED", "1"))
    print(f"{scenario.name}: PULSAR_OPERATOR_FAULT_SEED={seed}, {len(found)} places")
    rng = random.Random(f"{seed} {scenario.name}")
    kinds = sorted({(each.place[0], each.name) for each in found})
    return [
        rng.choice([each for each in found if (each.place[0], each.name) == kind])
        for kind in rng.sample(kinds, min(SIZE, len(kinds)))
    ]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_a_disturbed_run_ends_as_an_undisturbed_one(scenario: Scenario) -> None:
    prepared = asyncio.run(prepare(scenario))
    calm = play(prepared)
    assert calm.late_writes == []
    wrong: list[str] = []
    for disturbance in sample(scenario, disturbances(calm, scenario)):
        wrong += [f"{disturbance}: {text}" for text in problems(prepared, calm, disturbance)]
    assert not wrong, "\n".join(wrong)
