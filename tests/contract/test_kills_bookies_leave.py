"""The operator ends at a write of 3 -> 2 -> 3 bookies, before it or after it: a bookie is removed and comes back all
the same, and no copy is lost. A sample by the seed; all of them are slow. The same with writes whose answer is lost."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field

import pytest

from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.ports import PVCS, STATEFUL_SETS
from tests.support.cluster.end_state import differences, end_state
from tests.support.cluster.ledgers import WORKLOAD, LedgerWorld, bookie
from tests.support.core.journal import BOOKIES, PortCall
from tests.support.faults.killing import WHEN, Kill, sample
from tests.support.faults.played import killed, lost
from tests.support.faults.summary import Summary, Tally

STALL = 301.0
SAMPLE = 10
NUMBERS = (2, 3)


@dataclass
class Played:
    """From three bookies to two, and back to three."""

    world: LedgerWorld
    todo: list[int] = field(default_factory=lambda: list(NUMBERS))
    begun: int = 0
    """Writes before the first change."""

    async def play(self, each: list[Played] | None = None) -> None:
        """To the end; ``each`` gets a copy before every round."""

        async def remember() -> None:
            if each is not None:
                each.append(copy.deepcopy(self))

        while self.todo:
            if await self._number() != self.todo[0]:
                await self.world.resize(self.todo[0])
            await self.world.run(rounds=300, each=remember)
            if not await self._settled():
                # A copy that was asked for in vain is asked for again without progress.
                self.world.clock.forward(STALL)
                continue
            self.todo.pop(0)

    def restart(self) -> None:
        """Another operator goes on."""
        self.world.restart()

    async def _number(self) -> int:
        spec = (await self.world.get(STATEFUL_SETS, WORKLOAD))["spec"]
        return int(spec["replicas"])

    async def _settled(self) -> bool:
        return await self._number() == self.todo[0] and DECOMMISSION_RECORD_PATH not in self.world.store.nodes

    async def end(self) -> object:
        """What must be the same in the end. Which ledger is where is chance; that none is lost is checked."""
        assert self.world.lost() == []
        assert await self.world.all_ready() == {}
        state = await end_state(self.world)
        for tree in state["zookeeper"].values():
            for path in [path for path in tree if path.startswith(("/ledgers/00/", "/ledgers/available"))]:
                del tree[path]
        state["kubernetes"] = {name: obj for name, obj in state["kubernetes"].items() if "Rebalance" not in name}
        return state


async def begin() -> Played:
    world = await LedgerWorld.up(3)
    world.ledger(state="CLOSED")
    assert world.naming(2)
    return Played(world, begun=len(world.journal.attempts))


async def calm() -> tuple[list[PortCall], object, list[Played]]:
    played = await begin()
    copies: list[Played] = []
    await played.play(copies)
    return played.world.journal.attempts[played.begun :], await played.end(), copies


def problems(writes: list[PortCall], state: object, found: object, played: Played) -> list[str]:
    wrong = differences(state, found)
    made = Counter(str(c) for c in played.world.journal.effects[played.begun :])
    once = [f"happened twice: {text}" for text, n in made.items() if n > 1 and ("cookies" in text or "delete" in text)]
    return wrong + [text for text in once if DECOMMISSION_RECORD_PATH not in text]


async def matrix(summary: Summary, name: str, size: int | None) -> None:
    writes, state, copies = await calm()
    print("\n".join(f"{number:3} {call}" for number, call in enumerate(writes)))
    places: list[Kill] = [(number, when) for number in range(len(writes)) for when in (*WHEN, "lost")]
    chosen = places if size is None else sample(name, places, size)
    tally: Tally = summary.begin(name, len(chosen), len(places))
    for number, when in chosen:
        words = f"{when} write {number} ({writes[number]})"
        try:
            played = await (lost(copies, number) if when == "lost" else killed(copies, (number, when)))
            tally.add(words, problems(writes, state, await played.end(), played))
        except AssertionError as error:
            tally.add(words, [str(error)])
    tally.check()


async def test_a_sample_of_kills_and_lost_answers(faults_summary: Summary) -> None:
    await matrix(faults_summary, "kills in memory, 3 -> 2 -> 3 bookies, sample", SAMPLE)


@pytest.mark.slow
@pytest.mark.faults
async def test_a_kill_or_a_lost_answer_at_any_write(faults_summary: Summary) -> None:
    await matrix(faults_summary, "kills in memory, 3 -> 2 -> 3 bookies", None)


async def test_the_undisturbed_run_does_each_thing_once() -> None:
    writes, _, _ = await calm()
    made = Counter((call.port, call.verb) for call in writes)
    assert made[BOOKIES, "recover"] == 1 and made[BOOKIES, "set_readonly"] == 1
    assert [str(c) for c in writes if c.verb == "delete" and bookie(2) in c.name and "cookies" in c.name][1:] == []
    assert len([c for c in writes if c.verb == "delete" and c.kind == PVCS.kind]) == 2
