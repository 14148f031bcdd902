"""Many calls to one cluster, a few at a time.

The deadline of a call includes the time it waits for its turn (adapters/admin.py), so that a thousand calls that are
begun together end without an answer. Used by topic_deletion.py, topic_content.py and
consent.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

AT_ONCE: Final = 8
"""Calls to one cluster for one object at the same time."""


async def each(items: Sequence[ItemT], ask: Callable[[ItemT], Awaitable[ResultT]]) -> list[ResultT]:
    """Results of ``ask`` in the order of the items. The first error ends it: calls that have begun are cancelled, the
    others are not begun."""
    found: dict[int, ResultT] = {}
    pending = iter(enumerate(items))

    async def work() -> None:
        for index, item in pending:
            found[index] = await ask(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(items))):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [found[index] for index in range(len(items))]
