"""Who goes first in the queue: what somebody changed, though not for ever."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.workqueue import CHANGED_IN_A_ROW, WorkQueue
from pulsar_operator.ports import Key
from tests.support.virtualtime import run_virtual


def test_a_changed_object_goes_before_those_that_wait_to_be_looked_at() -> None:
    async def scenario() -> list[str]:
        queue = WorkQueue(Kind, workers=1)
        for n in range(6):
            queue.add(topic(f"new{n}"))
        queue.add(topic("changed"), first=True)
        queue.add(topic("new4"), first=True)  # it waited already, and is changed now
        return await drained(queue)

    assert run_virtual(scenario()) == ["changed", "new4", "new0", "new1", "new2", "new3", "new5"]


def test_constant_change_does_not_keep_the_others_waiting_for_ever() -> None:
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
