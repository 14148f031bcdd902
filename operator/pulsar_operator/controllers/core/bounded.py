"""Runs many calls with limited concurrency.

The deadline of a call includes the time it waits for a free slot (adapters/admin.py). If a thousand calls were started
together, most of them would time out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

AT_ONCE: Final = 8
"""Maximum number of concurrent calls to one cluster for one object."""


async def each_of(
    items: Iterable[ItemT], call: Callable[[ItemT], Awaitable[ResultT]], at_once: int = AT_ONCE
) -> list[ResultT]:
    """Returns the results of the calls in the order of the items, with at most ``at_once`` concurrent calls.

    The first error is raised. Running calls are then cancelled, and the others are not started.
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
