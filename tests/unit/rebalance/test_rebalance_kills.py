"""The operator's process ends before or after any single write: the rebalance ends as if nothing had happened."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.killed import Killed
from tests.support.balancing.world import BalancingWorld


def made() -> BalancingWorld:
    world = BalancingWorld()
    world.skewed(topics=12)
    # One bundle holds most of it, so that there are splits as well.
    world.pulsar.namespace("shop/one", [0, 0xFFFFFFFF], world.pulsar.brokers[0])
    world.pulsar.rates |= {f"persistent://shop/one/t{n}": 300.0 for n in range(8)}
    world.rebalance(autoApprove=True, budget={"maxTrafficMovedPercent": 100, "movesPerMinute": 600})
    return world


class Counting:
    """Counts all writes of the operator, and ends the process at one of them."""

    def __init__(self, world: BalancingWorld, kill: int | None = None, after: bool = False) -> None:
        self.count = {False: 0, True: 0}
        self.killed = 0
        self._kill, self._after = kill, after
        for late, hooks in ((False, world.pulsar.before), (True, world.pulsar.after)):
            hooks.append(self._hook(late))
        for late, kube in ((False, world.kube.before), (True, world.kube.after)):
            kube.append(lambda call, late=late: self._hook(late)("") if call.is_write else None)

    def _hook(self, late: bool) -> Callable[[str], None]:
        def seen(_: str) -> None:
            self.count[late] += 1
            if late is self._after and self.count[late] == self._kill:
                self.killed += 1
                raise Killed

        return seen


def outcome(world: BalancingWorld) -> Any:
    status = world.status()
    return (
        world.pulsar.owners,
        world.pulsar.boundaries,
        world.pulsar.dynamic,
        world.condition("Completed"),
        status["progress"]["done"],
        status["measured"],
        Counter(w for w in world.pulsar.writes if w.endswith(("/split", "/unload"))),
    )


def play(kill: int | None = None, *, after: bool = False) -> tuple[BalancingWorld, Counting]:
    world = made()
    counting = Counting(world, kill, after)
    for _ in range(2):
        try:
            # The cluster controller writes its part of the status at the end of its own pass.
            asyncio.run(world.run())
            break
        except Killed:
            world.restart()
    return world, counting


UNDISTURBED, SEEN = play()
WRITES = SEEN.count[False]


def test_the_undisturbed_run_has_splits_and_moves() -> None:
    words = [w.rsplit("/", 1)[1] for w in UNDISTURBED.pulsar.writes]
    assert words.count("split") >= 1 and words.count("unload") >= 3
    assert UNDISTURBED.condition("Completed") == ("True", "Completed")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kill", range(1, WRITES + 1))
def test_killed_at_any_write(kill: int, after: bool) -> None:
    world, counting = play(kill, after=after)
    assert counting.killed == 1
    assert outcome(world) == outcome(UNDISTURBED)
