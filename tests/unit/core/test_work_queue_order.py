"""Who goes first in the queue: what somebody changed, though not for ever."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.work_queue import CHANGED_IN_A_ROW, WorkQueue
from pulsar_operator.ports import Key
from tests.support.core.virtual_time import run_virtual


def test_a_changed_object_goes_before_those_that_wait_to_be_checked() -> None:
    async def scenario() -> list[str]:
        queue = WorkQueue(Kind, workers=1)
        for n in range(6):
            queue.add(topic(f"new{n}"))
        queue.add(topic("changed"), first=True)
        queue.add(topic("new4"), first=True)  # it waited already, and is changed now
        return await drained(queue)

    assert run_virtual(scenario()) == ["changed", "new4", "new0", "new1", "new2", "new3", "new5"]


def test_constant_change_does_not_keep_the_others_waiting_without_end() -> None:
    async def scenario() -> list[str]:
        queue = WorkQueue(Kind, workers=1)
        for n in range(3):
            queue.add(topic(f"new{n}"))
        for n in range(10):
            queue.add(topic(f"changed{n}"), first=True)
        return await drained(queue)

    order = run_virtual(scenario())
    assert order[CHANGED_IN_A_ROW] == "new0" and order[2 * CHANGED_IN_A_ROW + 1] == "new1"
    assert sorted(order) == sorted([f"new{n}" for n in range(3)] + [f"changed{n}" for n in range(10)])


def test_a_change_during_the_run_makes_the_next_run_one_of_the_first() -> None:
    async def scenario() -> list[str]:
        queue = WorkQueue(Kind, workers=1)
        queue.add(topic("a"))
        running = await queue.get()
        assert running is not None
        for n in range(3):
            queue.add(topic(f"new{n}"))
        queue.add(topic("a"))
        queue.add(topic("a"), first=True)
        queue.done(running)
        return await drained(queue)

    assert run_virtual(scenario()) == ["a", "new0", "new1", "new2"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcde"), st.booleans(), st.booleans()), max_size=40))
def test_every_added_key_runs_once_for_each_time_it_was_waiting(steps: list[tuple[str, bool, bool]]) -> None:
    """Adding never loses a key and never runs it twice for one wait, whatever the order of promotions and runs."""

    async def scenario() -> None:
        queue = WorkQueue(Kind, workers=1)
        waiting: set[str] = set()
        for name, first, take in steps:
            queue.add(topic(name), first=first)
            waiting.add(name)
            if take:
                key = await queue.get()
                assert key is not None and key.name in waiting
                waiting.discard(key.name)
                queue.done(key)
        assert set(left := await drained(queue)) == waiting and len(left) == len(waiting)

    run_virtual(scenario())


def test_a_changed_object_does_not_wait_until_one_of_ten_thousand_slow_passes_ends() -> None:
    """It may use workers that are kept free for other kinds, though not all of them."""

    async def scenario() -> tuple[list[str], Key | None]:
        queue = WorkQueue(Kind, workers=10)
        for n in range(100):
            queue.add(topic(f"new{n}"))
        bulk = [await queue.get() for _ in range(6)]  # none of these ever ends
        assert [key.name for key in bulk if key is not None] == [f"new{n}" for n in range(6)]
        waiting = [asyncio.create_task(queue.get()) for _ in range(4)]
        await asyncio.sleep(1)
        assert not any(task.done() for task in waiting)
        for n in range(4):
            queue.add(topic(f"changed{n}"), first=True)
        await asyncio.sleep(1)
        changed = [key.name for task in waiting if task.done() and (key := task.result()) is not None]
        queue.add(Key(Kind.CLUSTER, "ns", "c"))
        other, *_ = await asyncio.wait_for(asyncio.gather(next(task for task in waiting if not task.done())), 1)
        return changed, other

    changed, other = run_virtual(scenario())
    assert changed == ["changed0", "changed1"] and other == Key(Kind.CLUSTER, "ns", "c")


class Watched(WorkQueue):
    """Counts how often a worker looks for something to do."""

    looks = 0

    def _take(self) -> Key | None:
        self.looks += 1
        return super()._take()


def test_workers_kept_free_for_other_kinds_do_not_wake_on_every_change_of_the_queue() -> None:
    """A look for each pass and one for each key that is added or done, whatever the number of workers."""
    count, workers = 500, 20

    async def scenario() -> int:
        queue = Watched(Kind, workers=workers)

        async def work(number: int) -> None:
            while (key := await queue.get()) is not None:
                await asyncio.sleep(1 + number / 100)  # no two passes end together
                queue.done(key)

        tasks = [asyncio.create_task(work(n)) for n in range(workers)]
        await asyncio.sleep(1)
        for n in range(count):
            queue.add(topic(f"new{n}"))
        await queue.idle()
        queue.close()
        await asyncio.gather(*tasks)
        return queue.looks

    assert run_virtual(scenario()) <= 3 * count + 3 * workers


def test_what_a_cancelled_worker_was_woken_for_is_done_by_another() -> None:
    async def scenario() -> Key | None:
        queue = WorkQueue(Kind, workers=2)
        first, second = (asyncio.create_task(queue.get()) for _ in range(2))
        await asyncio.sleep(1)
        queue.add(topic("a"))
        first.cancel()
        return await asyncio.wait_for(second, 1)

    assert run_virtual(scenario()) == topic("a")


def topic(name: str) -> Key:
    """A key of the kind there are most of."""
    return Key(Kind.TOPIC, "ns", name)


async def drained(queue: WorkQueue) -> list[str]:
    """Names in the order they run, until nothing waits."""
    order: list[str] = []
    while queue.depth:
        key = await queue.get()
        assert key is not None
        order.append(key.name)
        queue.done(key)
    return order
