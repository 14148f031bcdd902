"""Kills in memory: the operator ends before or after a write of bring-up, update and deletion; a seeded sample.

All of them, before and after each write, are slow; that test prints the numbered writes and N (``pytest -s`` shows
them).
"""

from __future__ import annotations

import pytest

from tests.fakes.killed import Killed
from tests.support.cluster.end_state import differences
from tests.support.cluster.world import ClusterWorld
from tests.support.faults.killing import (
    BRING_UP,
    SCENARIOS,
    Kill,
    Scenario,
    begin,
    finish,
    listing,
    matrix_in_memory,
    sample,
    undisturbed,
)
from tests.support.faults.summary import Summary, Tally
from tests.support.sampling import first, sample_or_each

SAMPLE = {"bring-up": 12, "update": 8}
"""Kills in the sample; of the short deletions four each."""


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
async def test_a_kill_at_any_write_changes_nothing_in_the_end(scenario: Scenario, faults_summary: Summary) -> None:
    def all_of_them(found: list[Kill]) -> tuple[list[Kill], Tally]:
        return found, faults_summary.begin(f"kills in memory, {scenario.name}", len(found))

    calm = await matrix_in_memory(scenario, all_of_them)
    print(f"{scenario.name}\n{listing(calm)}")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
async def test_a_sample_of_kills_changes_nothing_in_the_end(scenario: Scenario, faults_summary: Summary) -> None:
    def some(found: list[Kill]) -> tuple[list[Kill], Tally]:
        chosen = sample(f"kills in memory {scenario.name}", found, SAMPLE.get(scenario.name, 4))
        return chosen, faults_summary.begin(f"kills in memory, {scenario.name}, sample", len(chosen), len(found))

    await matrix_in_memory(scenario, some)


async def test_the_undisturbed_quickstart_ends_ready_and_registered_once() -> None:
    start = await begin(ClusterWorld.fakes(), BRING_UP)
    run = await finish(start, None)
    assert await start.world.all_ready() == {}
    assert run.state["pulsar"]["topics"] == {
        "east": [
            *(f"persistent://shop/orders/clicks-partition-{n}" for n in range(4)),
            "persistent://shop/orders/payments",
        ]
    }
    (tree,) = run.state["zookeeper"].values()
    assert tree["/ledgers/INSTANCEID"] == "ID-0"
    assert run.state["kubernetes"]["PulsarCluster east"]["status"]["instanceId"] == "ID-0"


AGAIN = 1
"""Writes that the successor of a killed operator may end before it is killed too."""


@pytest.mark.parametrize("every", sample_or_each(7))
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.name)
async def test_killed_twice(scenario: Scenario, every: int) -> None:
    """The operator that comes back is killed too, soon after: what a pass repeats must be repeatable."""
    calm = await undisturbed(scenario)
    writes = len(calm.run.writes)
    step = min(every, writes)
    for number in range(first(step), writes, step):
        start = calm.before(number)
        journal, kills_seen, at = start.world.journal, 0, start.attempts + number
        for _ in range(2):
            journal.arm(at, "after")
            try:
                await start.world.run()
            except Killed:
                kills_seen += 1
                start.world.restart()
            at = len(journal.attempts) + AGAIN
        journal.disarm()
        left = writes - number - 1
        # A successor that has no more than that left to write ends before its kill.
        assert kills_seen == (2 if left > AGAIN else 1), f"{kills_seen} kills from write {number} on, {left} were left"
        run = await finish(start, None)
        assert differences(calm.run.state, run.state) == [], f"killed twice from write {number} on"
