"""The operator ends at a write of bookies that are added for a full disk, or that leave since their data is gone: a new
one comes to the same number, no copy is lost, and none too many was made. A sample by the seed; all of them are slow.
The same with writes whose answer is lost."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest

from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.ports import PVCS
from tests.support.cluster.ledgers import NS, WORKLOAD, LedgerWorld
from tests.support.cluster.scaling_bookies import SOON, SPARSE, fill, looks, row, scaling
from tests.support.core.journal import PortCall
from tests.support.faults.killing import WHEN, Kill, sample
from tests.support.faults.played import killed, lost
from tests.support.faults.summary import Summary, Tally

SAMPLE = 8
LOOKS = 40


@dataclass
class Played:
    """From one number of bookies to another."""

    world: LedgerWorld
    wanted: int
    begun: int = 0
    """Writes before the change."""
    inside: bool = False
    """Whether rounds follow from a look that was made: they go on before the next one."""

    async def play(self, each: list[Played] | None = None) -> None:
        """To the end; ``each`` gets a copy before every look, and before every round that follows from one."""

        async def remember() -> None:
            if each is not None:
                each.append(copy.deepcopy(self))

        for _ in range(LOOKS):
            if self.inside:
                await self.world.settle(each=remember)
                self.inside = False
                if await self._settled():
                    return
            await remember()
            self.inside = True
            await looks(self.world, 1, every=SPARSE, each=remember)
        raise AssertionError(f"no end after {LOOKS} looks: {await row(self.world)}")

    def restart(self) -> None:
        """Another operator goes on."""
        self.world.restart()
        self.inside = True

    async def _settled(self) -> bool:
        found, there = await row(self.world), await self.world.replicas()
        return found["desired"] == there == self.wanted and DECOMMISSION_RECORD_PATH not in self.world.store.nodes

    async def problems(self) -> list[str]:
        """What must not be in the end."""
        world, wrong = self.world, []
        wrong += world.lost()
        wrong += [f"{name}: {text}" for name, text in (await world.all_ready()).items()]
        if world.kube.live(PVCS, NS, f"ledgers-0-{WORKLOAD}-5") is not None:
            wrong.append("one more was made than was decided")
        number = (await row(world))["replicas"]
        return wrong if number == 4 else [*wrong, "spec was written"]


async def begin(wanted: int) -> Played:
    """Four bookies with ledgers on each, a moment before another number is decided."""
    world = await scaling(4, 55.0, hours=5, behavior=SOON)
    for _ in range(4):
        world.ledger(state="CLOSED")
    if wanted > 4:
        fill(world, {0: 91.0, 1: 70.0, 2: 70.0, 3: 70.0})
    else:
        fill(world, 30.0, 4)
        await looks(world, 3, every=SPARSE)
    assert (await row(world))["desired"] == 4 and world.naming(3)
    return Played(world, wanted, len(world.journal.attempts))


async def calm(wanted: int) -> tuple[list[PortCall], list[Played]]:
    played = await begin(wanted)
    copies: list[Played] = []
    await played.play(copies)
    assert await played.problems() == []
    return played.world.journal.attempts[played.begun :], copies


async def matrix(summary: Summary, wanted: int, size: int | None) -> None:
    writes, copies = await calm(wanted)
    name = f"kills in memory, 4 -> {wanted} bookies by autoscaling" + ("" if size is None else ", sample")
    places: list[Kill] = [(number, when) for number in range(len(writes)) for when in (*WHEN, "lost")]
    chosen = places if size is None else sample(name, places, size)
    tally: Tally = summary.begin(name, len(chosen), len(places))
    for number, when in chosen:
        words = f"{when} write {number} ({writes[number]})"
        try:
            played = await (lost(copies, number) if when == "lost" else killed(copies, (number, when)))
            tally.add(words, await played.problems())
        except AssertionError as error:
            tally.add(words, [str(error)])
    tally.check()


@pytest.mark.parametrize("wanted", [5, 3])
async def test_a_sample_of_kills_and_lost_answers(faults_summary: Summary, wanted: int) -> None:
    await matrix(faults_summary, wanted, SAMPLE)


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("wanted", [5, 3])
async def test_a_kill_or_a_lost_answer_at_any_write(faults_summary: Summary, wanted: int) -> None:
    await matrix(faults_summary, wanted, None)
