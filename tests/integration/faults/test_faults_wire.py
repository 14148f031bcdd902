"""Faults on the wire: the operator's process between a proxy before a real API server and one before the admin REST.

Every fault at every request is slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from tests.support.faults.summary import Missable, Summary, Tally, rng
from tests.support.faults.wire import Site, operating
from tests.support.faults.wire_cases import Case
from tests.support.processes.apiserver import ApiServer

SAMPLE = 8
"""Faults in the sample, of different kinds; each takes some seconds, since what repairs is a resync."""
BESIDE = 16
"""Cases that run beside each other."""
MISSABLE = Missable(0.2, "events that come close together are one pass, which asks once")
"""Of the places that are not certain; 3 to 6 % of them were missed on two cores that had ten times as much to do."""


async def play(site: Site, cases: Sequence[Case], tally: Tally) -> None:
    """Those that concern nobody else beside each other, then the others one by one."""
    slots = asyncio.Semaphore(BESIDE)

    async def one(case: Case) -> None:
        async with slots:
            found, came = await site.play(case)
        tally.add(str(case), found, reached=came, certain=case.certain, kind=case.fault)

    async with asyncio.TaskGroup() as group:
        for case in cases:
            if not case.alone:
                group.create_task(one(case))
    for case in cases:
        if case.alone:
            await one(case)


def one_of(cases: Sequence[Case], random: Random) -> Case:
    """A certain one where there is one, for a sample misses nothing."""
    return random.choice([case for case in cases if case.certain] or list(cases))


def kind_of(case: Case) -> tuple[str, str]:
    """What the sample is spread over."""
    return case.side, case.fault


async def test_a_sample_of_faults(
    apiserver: ApiServer, namespace: str, tmp_path: Path, faults_summary: Summary
) -> None:
    async with operating(apiserver, namespace, tmp_path) as site:
        cases, random = site.cases(), rng("wire")
        kinds = random.sample(sorted({kind_of(case) for case in cases}), SAMPLE)
        chosen = [one_of([case for case in cases if kind_of(case) == kind], random) for kind in kinds]
        tally = faults_summary.begin("wire, sample", len(chosen), len(cases), every=1)
        await play(site, chosen, tally)
    tally.check()


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("alone", [False, True], ids=["own requests", "shared requests and streams"])
@pytest.mark.parametrize("side", ["kubernetes", "admin"])
@pytest.mark.parametrize("phase", ["create", "delete"])
async def test_every_fault(
    apiserver: ApiServer, namespace: str, tmp_path: Path, faults_summary: Summary, side: str, phase: str, alone: bool
) -> None:
    async with operating(apiserver, namespace, tmp_path) as site:
        cases = [each for each in site.cases() if (each.side, each.phase, each.alone) == (side, phase, alone)]
        kind = "shared requests and streams" if alone else "own requests"
        tally = faults_summary.begin(f"wire, {side}, {phase}, {kind}", len(cases), every=10, missable=MISSABLE)
        await play(site, cases, tally)
    tally.check()
