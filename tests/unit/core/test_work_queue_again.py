"""A key that is asked for while it runs: it runs once more, as soon and as early as the most urgent request says."""

from __future__ import annotations

import asyncio

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.work_queue import WorkQueue
from pulsar_operator.ports import Key
from tests.support.core.virtual_time import run_virtual


def topic(name: str) -> Key:
    return Key(Kind.TOPIC, "ns", name)


async def rest(queue: WorkQueue) -> list[str]:
    """What is ready to run, in order."""
    order = []
    while queue.depth:
        key = await queue.get()
        assert key is not None
        order.append(key.name)
        assert len(order) < 10, "it never ends"
        queue.done(key)
    return order


async def running(queue: WorkQueue, name: str = "a") -> Key:
    """A queue whose only key runs."""
    queue.add(topic(name))
    key = await queue.get()
    assert key == topic(name)
    return key


@pytest.mark.parametrize(
    ("requests", "first"),
    [([True, False], True), ([False, True], True), ([True, False, False], True), ([False, False], False)],
)
def test_a_change_among_several_requests_is_what_counts(requests: list[bool], first: bool) -> None:
    """Somebody waits for the answer to a change: a look that is asked for after it must not put it back in the line."""

    async def scenario() -> list[str]:
        queue = WorkQueue(Kind, workers=1)
        key = await running(queue)
        queue.add(topic("other"))
        for urgent in requests:
            queue.add(key, first=urgent)
        queue.done(key)
        return await rest(queue)

    assert run_virtual(scenario()) == (["a", "other"] if first else ["other", "a"])


def test_requests_during_a_run_are_one_more_run() -> None:
    async def scenario() -> tuple[list[str], list[str]]:
        queue = WorkQueue(Kind, workers=1)
        key = await running(queue)
        for _ in range(3):
            queue.add(key)
        assert queue.depth == 0, "it runs in no other worker meanwhile"
        queue.done(key)
        again = await rest(queue)
        await running(queue)
        queue.done(key)
        return again, await rest(queue)

    assert run_virtual(scenario()) == (["a"], [])


def test_a_later_time_adds_nothing_to_a_run_that_comes_at_once() -> None:
    async def scenario() -> list[str]:
        queue = WorkQueue(Kind, workers=1)
        key = await running(queue)
        queue.add(key)
        queue.add(key, 5.0)
        queue.done(key)
        assert await rest(queue) == ["a"]
        await asyncio.sleep(10)
        return await rest(queue)

    assert run_virtual(scenario()) == []


def test_a_time_that_comes_during_the_run_is_a_run_after_it() -> None:
    async def scenario() -> list[str]:
        queue = WorkQueue(Kind, workers=1)
        key = await running(queue)
        queue.add(key, 5.0)
        await asyncio.sleep(6)
        assert queue.depth == 0
        queue.done(key)
        return await rest(queue)

    assert run_virtual(scenario()) == ["a"]


def test_after_the_end_nothing_runs_again() -> None:
    async def scenario() -> tuple[int, Key | None]:
        queue = WorkQueue(Kind, workers=1)
        key = await running(queue)
        queue.add(key)
        queue.close()
        queue.done(key)
        return queue.depth, await queue.get()

    assert run_virtual(scenario()) == (0, None)
