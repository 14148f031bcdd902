"""Calls that fail once, at any place: everything converges to the same end afterwards."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import PODS, ConflictError, Json, PortError, UnavailableError
from tests.support.cluster.copies import converged, ready_world
from tests.support.cluster.end_state import differences, end_state
from tests.support.cluster.world import ClusterWorld, quickstart
from tests.support.core.journal import ADMIN, KUBERNETES, ZOOKEEPER, PortCall
from tests.support.sampling import first, sample_or_each

ERRORS: dict[str, Callable[[], PortError]] = {
    "500": lambda: UnavailableError("HTTP 500: internal error"),
    "429": lambda: UnavailableError("HTTP 429: too many requests", retry_after=1.0),
    "409": lambda: ConflictError("HTTP 409: the object has been modified"),
}


EVERY = pytest.mark.parametrize("every", sample_or_each(7))
"""All places, and the sample of them that each run of the tests takes."""


class Calm:
    """An undisturbed bring-up, with a copy of the world before each round."""

    def __init__(self, calls: list[PortCall], state: Json, copies: list[ClusterWorld]) -> None:
        kinds = {(c.port, c.verb, c.kind, c.name if c.is_write else ""): c for c in reversed(calls)}
        self.calls = sorted(kinds.values(), key=calls.index)
        """Every write, and the first read of each sort."""
        self.state = state
        self._first = {call: number for number, call in reversed(list(enumerate(calls)))}
        self._copies = copies

    async def fail_once(self, call: PortCall, error: PortError, *, after: bool) -> list[str]:
        """What ends otherwise when the first call of this kind fails, before or after it took effect."""
        base = [world for world in self._copies if len(world.journal.calls) <= self._first[call]][-1]
        world, failed = copy.deepcopy(base), []

        def hook(seen: PortCall) -> None:
            if seen == call and not failed:
                failed.append(seen)
                raise error

        (world.journal.after if after else world.journal.before).append(hook)
        await world.run()
        assert failed, f"{call} was not made"
        return [f"{call}: {text}" for text in differences(self.state, await end_state(world))]


@pytest.fixture(scope="module")
def calms() -> list[Calm]:
    """The bring-up; filled by the first test that asks."""
    return []


@pytest.fixture
async def calm(calms: list[Calm]) -> Calm:
    if not calms:
        calms.append(await _undisturbed())
    return calms[0]


async def _undisturbed() -> Calm:
    world, copies = ClusterWorld.fakes(), []

    async def remember() -> None:
        copies.append(copy.deepcopy(world))

    await world.apply(*quickstart())
    await world.run(each=remember)
    return Calm(world.journal.calls, await end_state(world), copies)


@EVERY
@pytest.mark.parametrize("name", ["500", "409"])
async def test_any_kubernetes_call_may_fail_once(calm: Calm, name: str, every: int) -> None:
    """429 reaches the controllers as 500 does, with a time to wait that is the engine's."""
    wrong: list[str] = []
    for call in [each for each in calm.calls if each.port == KUBERNETES][first(every) :: every]:
        if name == "500" or call.is_write:
            wrong += await calm.fail_once(call, ERRORS[name](), after=False)
    assert wrong == []


@EVERY
async def test_any_write_may_take_effect_and_lose_its_answer(calm: Calm, every: int) -> None:
    wrong: list[str] = []
    for call in [each for each in calm.calls if each.is_write][first(every) :: every]:
        wrong += await calm.fail_once(call, ERRORS["500"](), after=True)
    assert wrong == []


@EVERY
async def test_any_zookeeper_or_admin_call_may_fail_once(calm: Calm, every: int) -> None:
    wrong: list[str] = []
    for call in [each for each in calm.calls if each.port in (ZOOKEEPER, ADMIN)][first(every) :: every]:
        wrong += await calm.fail_once(call, ERRORS["500"](), after=False)
    assert wrong == []


@pytest.mark.parametrize("name", sorted(ERRORS))
async def test_a_kubernetes_that_refuses_every_call_changes_nothing(name: str) -> None:
    """The operator sees errors for a while: no pod goes, nothing is written, and then all is as before."""
    world = await ready_world()
    expected, pods = await end_state(world), await world.uids(PODS)
    on = True

    def hook(call: PortCall) -> None:
        if on and call.port == KUBERNETES:
            raise ERRORS[name]()

    world.journal.before.append(hook)
    mark = len(world.journal.effects)
    for _ in range(5):
        await world.round()
    assert world.journal.since(mark) == []
    assert all(isinstance(outcome, PortError) or outcome.backoff or outcome.requeue_after is not None
               for key, outcome in world.outcomes.items())  # fmt: skip
    on = False
    await world.run()
    assert differences(expected, await end_state(world)) == []
    assert await world.uids(PODS) == pods


async def test_a_pass_that_cannot_list_its_pods_does_not_say_there_are_none() -> None:
    world = await ready_world()
    before = await world.status(Kind.CLUSTER, "east")

    def hook(call: PortCall) -> None:
        if (call.verb, call.kind) == ("list", "Pod"):
            raise ERRORS["500"]()

    world.journal.before.append(hook)
    for _ in range(3):
        await world.round()
    status = await world.status(Kind.CLUSTER, "east")
    for name in ("broker", "bookkeeper", "zookeeper", "endpoints", "instanceId"):
        assert status[name] == before[name]
    ready = await world.condition(Kind.CLUSTER, "east")
    assert ready[0] == "Unknown"
    assert "HTTP 500" in ready[2]


async def test_an_instance_that_becomes_invalid_rolls_and_loses_nothing() -> None:
    manifests = quickstart()
    manifests[0]["spec"]["configurationStore"] = {"external": {"servers": "zk.example.com:2181", "chroot": "/c"}}
    world = await converged(*manifests)
    pods = await world.uids(PODS)

    def change(spec: Json) -> None:
        spec["configurationStore"]["external"]["servers"] = "no servers!"

    await world.change(Kind.INSTANCE, "demo", change)
    mark = len(world.journal.effects)
    await world.run()
    assert (await world.condition(Kind.INSTANCE, "demo", "Accepted"))[:2] == ("False", "InvalidSpec")
    assert (await world.status(Kind.INSTANCE, "demo"))["configurationStoreServers"] == "zk.example.com:2181"
    assert await world.uids(PODS) == pods
    assert {c.verb for c in world.journal.since(mark)} == {"status"}
