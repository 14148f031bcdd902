"""Copies of worlds: made once for what is asked, and what is done to one is in no other."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import PODS, STATEFUL_SETS, Json
from tests.support.cluster.copies import KEPT, made_once, ready_world
from tests.support.cluster.end_state import end_state
from tests.support.cluster.world import NS, ClusterWorld


async def test_a_copy_is_what_a_bring_up_ends_in_and_shares_nothing_that_changes() -> None:
    calm = await ClusterWorld.fakes().bring_up()
    one, other = await ready_world(), await ready_world()
    assert await end_state(one) == await end_state(other) == await end_state(calm)
    pods, calls = await other.uids(PODS), len(other.journal.calls)
    await one.backstage.remove(PODS, NS, "east-broker-0")
    await one.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))
    await one.run()
    assert len(await one.uids(PODS)) == len(pods) + 1
    for untouched in (other, await ready_world()):
        assert await untouched.uids(PODS) == pods
        assert len(untouched.journal.calls) == calls
        await untouched.run()
        assert await end_state(untouched) == await end_state(calm)


async def test_who_changes_what_was_listed_is_found() -> None:
    """A list shows the same objects as the one before it, as what watches delivered is shared too."""
    world = await ready_world()

    async def listed(name: str) -> Json:
        found = await world.deps.kube.list(STATEFUL_SETS, NS)
        return next(obj for obj in found if obj["metadata"]["name"] == name)

    bookie, broker = await listed("east-bookie"), await listed("east-broker")
    before = bookie["spec"]["replicas"]
    assert bookie is await listed("east-bookie")
    await world.backstage.edit(STATEFUL_SETS, NS, "east-bookie", lambda obj: obj["spec"].update(replicas=before + 1))
    assert (await listed("east-bookie"))["spec"]["replicas"] == before + 1
    assert bookie["spec"]["replicas"] == before, "who has an older state keeps it"
    assert broker is await listed("east-broker")
    broker["spec"]["replicas"] = 7
    with pytest.raises(AssertionError, match="StatefulSet east-broker was changed by who only looked at it"):
        await world.backstage.edit(STATEFUL_SETS, NS, "east-broker", lambda obj: obj["spec"].update(replicas=2))


async def test_made_once_for_each_of_what_is_asked() -> None:
    asked: list[tuple[int, str]] = []

    @made_once
    async def numbers(number: int, *, word: str = "a") -> list[int]:
        asked.append((number, word))
        return [number]

    found = await numbers(1)
    found.append(2)
    assert await numbers(1) == [1] and await numbers(1, word="b") == [1]
    assert asked == [(1, "a"), (1, "b")]
    for number in range(KEPT + 1):
        await numbers(number + 10)
    await numbers(1)
    assert asked.count((1, "a")) == 2, "the ones asked for last are kept"
    with pytest.raises(TypeError, match="numbers"):
        await numbers(lambda: 1)  # type: ignore[arg-type]
