"""Runs many calls, a few at a time.

The deadline of a call includes the time it waits for its turn (adapters/admin.py), so that a thousand calls that are
begun together end without an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

AT_ONCE: Final = 8
"""Calls to one cluster for one object at the same time."""


async def each_of(
    items: Iterable[ItemT], call: Callable[[ItemT], Awaitable[ResultT]], at_once: int = AT_ONCE
) -> list[ResultT]:
    """Returns the results of the calls in the order of the items, ``at_once`` of them at the same time.

    The first error ends it and rises: calls that have begun are cancelled, the others are not begun.
    """
    listed = list(items)
    found: dict[int, ResultT] = {}
    pending = iter(enumerate(listed))

    async def work() -> None:
        for place, item in pending:
            found[place] = await call(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(listed))):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [found[place] for place in range(len(listed))]
