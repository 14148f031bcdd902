"""The operator ends while replicas change: what is decided is in the status before anything follows from it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM
from tests.fakes.killed import Killed
from tests.support.cluster.busy import BusyWorld
from tests.support.cluster.scaling import LOOK, TARGET, Loads, minutes, row, said, scaling, wanted

SOME = 3
"""Writes of a change that a fast test ends at, before one and after the next."""


async def _killed(load: float, before: int, after: int, *, every: bool) -> None:
    """The operator ends before and after writes of a change; a new one comes to the same end."""
    calm, loads = await scaling()
    loads.total = 2.6 * TARGET
    if before == 3:
        await minutes(calm, loads, 2)
        loads.total = load * TARGET
        await minutes(calm, loads, 3)
        assert await said(calm) == ("False", "Stabilizing")
    first = len(calm.journal.attempts)
    copies: list[tuple[BusyWorld, Loads]] = []

    async def remember() -> None:
        await loads.serve()
        copies.append(copy.deepcopy((calm, loads)))

    while await wanted(calm) != after or await calm.names(CUSTOM[Kind.REBALANCE]) != await _over(calm):
        calm.clock.forward(LOOK)
        await calm.run(rounds=300, each=remember)
    writes = len(calm.journal.attempts) - first
    assert writes > 10
    tried = [(number, when) for number in range(writes) for when in ("before", "after")]
    if not every:
        tried = [(writes * number // SOME, ("before", "after")[number % 2]) for number in range(SOME)]
    ended = 0
    for number, when in tried:
        world, at = copy.deepcopy([e for e in copies if len(e[0].journal.attempts) - first <= number][-1])
        world.journal.arm(first + number, when)
        try:
            await minutes(world, at, 3)
        except Killed:
            ended += 1
        world.journal.disarm()
        world.restart()
        await minutes(world, at, 5)
        assert await wanted(world) == (await row(world))["desired"] == after, (number, when)
        assert world.busy.displaced == [], (number, when)
        assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True", (number, when)
    assert ended >= len(tried) * (0.8 if every else 0.6), (
        "a copy goes on a minute later, with a write more or less at the end"
    )


async def _over(world: BusyWorld) -> list[str]:
    """Moves that nobody waits for any more."""
    return [name for name in await world.names(CUSTOM[Kind.REBALANCE]) if "-drain-" not in name]


async def test_killed_at_writes_of_a_scale_out() -> None:
    await _killed(2.6, 2, 3, every=False)


async def test_killed_at_writes_of_a_scale_in() -> None:
    await _killed(1.2, 3, 2, every=False)


@pytest.mark.slow
@pytest.mark.parametrize(("load", "before", "after"), [(2.6, 2, 3), (1.2, 3, 2)])
async def test_killed_at_every_write(load: float, before: int, after: int) -> None:
    await _killed(load, before, after, every=True)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", ["status", "apply"])
async def test_killed_at_the_first_write_of_each_sort(verb: str, when: str) -> None:
    world, loads = await scaling()
    loads.total = 2.6 * TARGET
    await loads.serve()
    world.clock.forward(LOOK)
    hooks: list[Any] = world.journal.before if when == "before" else world.journal.after
    armed = [True]

    def kill(call: Any) -> None:
        if armed and call.verb == verb and call.is_write:
            armed.clear()
            raise Killed

    hooks.append(kill)
    for _ in range(20):
        await loads.serve()
        try:
            await world.round()
        except Killed:
            world.restart()
            loads.silent = {"east-broker-0"}
            await loads.serve()
            await world.round()
            assert await wanted(world) in (2, 3), "a new operator that knows no load takes nothing back"
            loads.silent = set()
            break
    assert not armed
    await minutes(world, loads, 2)
    assert await wanted(world) == 3 and world.busy.displaced == []
