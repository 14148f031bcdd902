"""Worlds in memory that are brought up once: who asks for the same again gets a copy of what there was then.

A bring-up takes a second of processor, a copy a hundredth of it. Nothing a test does to its copy is seen in another:
what copies have in common is never changed (tests/fakes/kube.py).
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pulsar_operator.ports import Json
from tests.support.cluster.world import ClusterWorld, quickstart

W = TypeVar("W")
P = ParamSpec("P")
KEPT = 24
"""Worlds of one maker that are kept: those asked for last."""


def made_once(make: Callable[P, Awaitable[W]]) -> Callable[P, Awaitable[W]]:
    """``make``, which is called once for each of its arguments: plain values, told apart by what they hold.

    Raises TypeError for a function among them, of which nobody can say whether it is the same.
    """
    made: OrderedDict[str, W] = OrderedDict()

    @wraps(make)
    async def copied(*args: P.args, **kwargs: P.kwargs) -> W:
        values: list[Any] = [*args, *kwargs.values()]
        if any(callable(each) and not isinstance(each, type) for each in values):
            raise TypeError(f"{make.__qualname__}: call what changes a specification before, and give the result")
        key = repr((args, sorted(kwargs.items())))
        if key not in made:
            made[key] = await make(*args, **kwargs)
        made.move_to_end(key)
        while len(made) > KEPT:
            made.popitem(last=False)
        return copy.deepcopy(made[key])

    return copied


@made_once
async def converged(*manifests: Json) -> ClusterWorld:
    """A world with these objects, applied at once and run until nothing changes any more."""
    world = ClusterWorld.fakes()
    await world.apply(*manifests)
    await world.run()
    return world


async def ready_world() -> ClusterWorld:
    """The quickstart, up."""
    return await converged(*quickstart())
