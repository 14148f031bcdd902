"""The operator ends at a write while a bookie gets a new volume, before the write or after it: the bookie comes back
under its next id all the same, and no copy is lost. A sample by the seed; all of them are slow. The same with writes
whose answer is lost."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass

import pytest

from pulsar_operator.api.constants import ANNOTATION_REPLACE_VOLUME
from pulsar_operator.domain.dataplane.decommission.decommission_record import DECOMMISSION_RECORD_PATH
from pulsar_operator.ports import PODS, PVCS, Json
from tests.support.cluster.end_state import differences, end_state
from tests.support.cluster.leaving_bookies import lose
from tests.support.cluster.ledgers import WORKLOAD, LedgerWorld, claims
from tests.support.cluster.world import NS
from tests.support.core.journal import PortCall
from tests.support.faults.killing import WHEN, Kill, sample
from tests.support.faults.played import killed, lost
from tests.support.faults.summary import Summary, Tally

STALL = 301.0
TIMES = 10
"""Stalls after which it will not come to an end."""
SAMPLE = 6
ORDINAL = 2
LOST, WANTED = "the volume of a bookie is lost", "a bookie is to have another volume"


@dataclass
class Played:
    """Bookie 2 of three gets a new volume."""

    world: LedgerWorld
    why: str
    had: str
    """UID of the volume that it had."""
    begun: int = 0
    """Writes before it began."""
    told: bool = False

    async def play(self, each: list[Played] | None = None) -> None:
        """To the end; ``each`` gets a copy before every round."""

        async def remember() -> None:
            if each is not None:
                each.append(copy.deepcopy(self))

        if not self.told:
            self.told = True
            await self._begin()
        for _ in range(TIMES):
            await self.world.run(rounds=300, each=remember)
            if self._settled():
                return
            # A copy that was asked for in vain is asked for again without progress.
            self.world.clock.forward(STALL)
        raise AssertionError(f"no new volume: {await self.world.progressing()}")

    async def _begin(self) -> None:
        if self.why == LOST:
            await lose(self.world, ORDINAL)
            return

        def ask(obj: Json) -> None:
            obj["metadata"].setdefault("annotations", {})[ANNOTATION_REPLACE_VOLUME] = "SMART errors"

        await self.world.backstage.edit(PODS, NS, f"{WORKLOAD}-{ORDINAL}", ask)

    def restart(self) -> None:
        """Another operator goes on."""
        self.world.restart()

    def _settled(self) -> bool:
        has = self.world.volume(self.world.id(ORDINAL))
        return has not in ("", self.had) and DECOMMISSION_RECORD_PATH not in self.world.store.nodes

    async def end(self) -> object:
        """What must be the same in the end. Which ledger is where is chance; that none is lost is checked."""
        assert self.world.lost() == []
        assert await self.world.all_ready() == {}
        assert len(self.world.cookies(ORDINAL)) == 1
        state = await end_state(self.world)
        for tree in state["zookeeper"].values():
            for path in [path for path in tree if path.startswith(("/ledgers/00/", "/ledgers/available"))]:
                del tree[path]
        state["kubernetes"] = {name: obj for name, obj in state["kubernetes"].items() if "Rebalance" not in name}
        return state


async def begin(why: str) -> Played:
    world = await LedgerWorld.up(3)
    world.ledger(state="CLOSED")
    assert world.naming(ORDINAL)
    return Played(world, why, world.volume(world.id(ORDINAL)), begun=len(world.journal.attempts))


async def calm(why: str) -> tuple[list[PortCall], object, list[Played]]:
    played = await begin(why)
    copies: list[Played] = []
    await played.play(copies)
    return played.world.journal.attempts[played.begun :], await played.end(), copies


def problems(state: object, found: object, played: Played) -> list[str]:
    made = Counter(str(c) for c in played.world.journal.effects[played.begun :])
    once = [f"happened twice: {text}" for text, n in made.items() if n > 1 and ("cookies" in text or "delete" in text)]
    return differences(state, found) + [text for text in once if DECOMMISSION_RECORD_PATH not in text]


async def matrix(summary: Summary, why: str, name: str, size: int | None) -> None:
    writes, state, copies = await calm(why)
    print("\n".join(f"{number:3} {call}" for number, call in enumerate(writes)))
    places: list[Kill] = [(number, when) for number in range(len(writes)) for when in (*WHEN, "lost")]
    chosen = places if size is None else sample(name, places, size)
    tally: Tally = summary.begin(name, len(chosen), len(places))
    for number, when in chosen:
        words = f"{when} write {number} ({writes[number]})"
        try:
            played = await (lost(copies, number) if when == "lost" else killed(copies, (number, when)))
            tally.add(words, problems(state, await played.end(), played))
        except AssertionError as error:
            tally.add(words, [str(error)])
    tally.check()


@pytest.mark.parametrize("why", [LOST, WANTED])
async def test_a_sample_of_kills_and_lost_answers(why: str, faults_summary: Summary) -> None:
    await matrix(faults_summary, why, f"kills in memory, {why}, sample", SAMPLE)


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("why", [LOST, WANTED])
async def test_a_kill_or_a_lost_answer_at_any_write(why: str, faults_summary: Summary) -> None:
    await matrix(faults_summary, why, f"kills in memory, {why}", None)


@pytest.mark.parametrize("why", [LOST, WANTED])
async def test_the_undisturbed_run_does_each_thing_once(why: str) -> None:
    writes, _, _ = await calm(why)
    deleted = [call.name for call in writes if call.verb == "delete" and call.kind == PVCS.kind]
    assert sorted(deleted) == sorted(claims(ORDINAL)), "also those that the pod got for lost ones: they hold nothing"
    assert len([call for call in writes if call.verb == "delete" and "cookies" in call.name]) == 1
