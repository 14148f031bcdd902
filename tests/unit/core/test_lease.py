"""adapters/lease.py in virtual time."""

from __future__ import annotations

import asyncio
import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from pulsar_operator.adapters.lease import Lease
from pulsar_operator.ports import ConflictError, UnavailableError
from tests.support.core.virtual_time import run_virtual


class Store:
    """A Lease in memory; ``down`` makes every call fail."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.down = False

    async def read(self) -> dict[str, Any] | None:
        await self._check()
        return copy.deepcopy(self.lease)

    async def create(self, lease: dict[str, Any]) -> dict[str, Any]:
        await self._check()
        if self.lease is not None:
            raise ConflictError("exists")
        return self._put(lease)

    async def replace(self, lease: dict[str, Any]) -> dict[str, Any]:
        await self._check()
        if self.lease is None or lease["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise ConflictError("changed")
        return self._put(lease)

    def _put(self, lease: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.lease = {**copy.deepcopy(lease), "metadata": {"resourceVersion": str(self.version)}}
        return copy.deepcopy(self.lease)

    async def _check(self) -> None:
        await asyncio.sleep(0.01)
        if self.down:
            raise UnavailableError("down")


class LoopClock:
    def now(self) -> datetime:
        return datetime.fromtimestamp(asyncio.get_running_loop().time(), UTC)


def lease(store: Store, identity: str) -> Lease:
    return Lease(store, LoopClock(), identity=identity, seconds=30)


def test_a_free_lease_is_taken_at_once_and_kept() -> None:
    async def scenario() -> None:
        store = Store()
        ours = lease(store, "a")
        await ours.acquire()
        assert asyncio.get_running_loop().time() < 0.1 and ours.is_leader
        keeping = asyncio.create_task(ours.keep())
        await asyncio.sleep(300)
        assert ours.is_leader and not keeping.done()
        assert store.version >= 29
        keeping.cancel()

    run_virtual(scenario())


def test_a_second_waits_while_the_first_renews_and_takes_over_when_it_is_silent() -> None:
    async def scenario() -> None:
        store, told = Store(), []
        first, second = lease(store, "a"), lease(store, "b")
        await first.acquire()
        keeping = asyncio.create_task(first.keep())
        waiting = asyncio.create_task(second.acquire(on_wait=told.append))
        await asyncio.sleep(300)
        assert not waiting.done() and told == ["a"]
        keeping.cancel()
        unreachable_since = asyncio.get_running_loop().time()
        await waiting
        waited = asyncio.get_running_loop().time() - unreachable_since
        assert 20 <= waited <= 33 and second.is_leader
        assert store.lease is not None and store.lease["spec"]["leaseTransitions"] == 1
        # The first one is sure of nothing long before the second one acts.
        assert not first.is_leader

    run_virtual(scenario())


def test_the_first_gives_up_before_the_second_may_act() -> None:
    async def scenario() -> None:
        store = Store()
        ours = lease(store, "a")
        await ours.acquire()
        keeping = asyncio.create_task(ours.keep())
        await asyncio.sleep(31)
        store.down = True
        renewed = 30.0
        await keeping
        assert asyncio.get_running_loop().time() - renewed < 25

    run_virtual(scenario())


def test_release_lets_the_next_one_in_at_once() -> None:
    async def scenario() -> float:
        store = Store()
        first, second = lease(store, "a"), lease(store, "b")
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(5)
        await first.release()
        await waiting
        return asyncio.get_running_loop().time()

    assert run_virtual(scenario()) < 8


def test_a_stolen_lease_ends_keep_but_an_edit_does_not() -> None:
    async def scenario() -> None:
        store = Store()
        ours = lease(store, "a")
        await ours.acquire()
        keeping = asyncio.create_task(ours.keep())
        assert store.lease is not None
        store._put({**store.lease, "labels": {"somebody": "edited"}})
        await asyncio.sleep(60)
        assert not keeping.done() and ours.is_leader
        spec = {**store.lease["spec"], "holderIdentity": "thief"}
        store._put({**store.lease, "spec": spec})
        await keeping
        assert not ours.is_leader and ours.holder == "thief"
        await ours.release()
        assert store.lease["spec"]["holderIdentity"] == "thief"

    run_virtual(scenario())


def test_two_at_once_one_wins() -> None:
    async def scenario() -> None:
        store = Store()
        both = [lease(store, name) for name in "ab"]
        tasks = [asyncio.create_task(one.acquire()) for one in both]
        await asyncio.sleep(5)
        assert sorted(one.is_leader for one in both) == [False, True]
        for task in tasks:
            task.cancel()

    run_virtual(scenario())


def test_deadline_and_an_api_server_that_is_down() -> None:
    async def scenario() -> None:
        store = Store()
        store.down = True
        with pytest.raises(TimeoutError):
            await lease(store, "a").acquire(deadline=20)
        waiting = asyncio.create_task(lease(store, "a").acquire())
        await asyncio.sleep(10)
        store.down = False
        await asyncio.wait_for(waiting, 5)

    run_virtual(scenario())
