"""A sample of all faults at all places, in memory and virtual time; ``make faults`` plays every one."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.faults.matrix import Disturbance, disturbances, problems
from tests.support.faults.scenarios import SCENARIOS, Scenario
from tests.support.faults.site import play, prepare
from tests.support.faults.summary import Summary, rng

SIZE = 10
"""Places in the sample of a scenario."""


def sample(scenario: Scenario, found: list[Disturbance]) -> list[Disturbance]:
    """As many as SIZE, of as many kinds of fault."""
    random = rng(scenario.name)
    kinds = sorted({(each.place[0], each.name) for each in found})
    return [
        random.choice([each for each in found if (each.place[0], each.name) == kind])
        for kind in random.sample(kinds, min(SIZE, len(kinds)))
    ]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
def test_a_disturbed_run_ends_as_an_undisturbed_one(scenario: Scenario, faults_summary: Summary) -> None:
    prepared = asyncio.run(prepare(scenario))
    calm = play(prepared)
    assert calm.late_writes == []
    found = disturbances(calm, scenario)
    chosen = sample(scenario, found)
    tally = faults_summary.begin(f"logical plane in memory, {scenario.name}, sample", len(chosen), len(found))
    for disturbance in chosen:
        tally.add(str(disturbance), problems(prepared, calm, disturbance))
    tally.check()
