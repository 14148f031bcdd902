"""A change that is played to its end in a world in memory, and once more with a kill or a lost answer at a write."""

from __future__ import annotations

import copy
from typing import Protocol, TypeVar

from pulsar_operator.ports import UnavailableError
from tests.fakes.killed import Killed
from tests.support.cluster.world import ClusterWorld
from tests.support.core.journal import PortCall
from tests.support.faults.killing import Kill


class Play(Protocol):
    """A world and what is to be done with it; copies of it go on from where it is."""

    begun: int
    """Writes before the change."""

    @property
    def world(self) -> ClusterWorld:
        """Where it is played."""

    async def play(self) -> None:
        """To the end."""

    def restart(self) -> None:
        """Another operator goes on."""


P = TypeVar("P", bound=Play)


def before(copies: list[P], number: int) -> P:
    """A copy of the last moment before a write."""
    return copy.deepcopy([c for c in copies if len(c.world.journal.attempts) - c.begun <= number][-1])


async def killed(copies: list[P], kill: Kill) -> P:
    """The operator ends at a write, and another one goes on to the end."""
    number, when = kill
    played = before(copies, number)
    played.world.journal.arm(played.begun + number, when)
    try:
        await played.play()
    except Killed:
        if when == "after":
            await played.world.idle_steps(3)
        played.restart()
    assert not played.world.journal.armed, f"write {number} never came"
    await played.play()
    return played


async def lost(copies: list[P], number: int) -> P:
    """The write takes effect, and its answer never comes."""
    played = before(copies, number)
    journal = played.world.journal

    def drop(call: PortCall) -> None:
        if call.is_write and len(journal.attempts) == played.begun + number + 1:
            raise UnavailableError("the answer was lost")

    journal.after.append(drop)
    await played.play()
    journal.after.remove(drop)
    return played
