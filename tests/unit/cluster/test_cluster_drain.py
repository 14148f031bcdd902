"""Bundles are handed over before a broker is replaced or removed, and a new broker gets its share."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM, PODS, STATEFUL_SETS, AdminEndpoint, Json, RefusedError, UnavailableError
from tests.fakes.killed import Killed
from tests.support.cluster.busy import BusyWorld
from tests.support.cluster.workloads import Trouble
from tests.support.core.journal import PortCall

THE_PLANS = 3
"""Which reading of a broker's bundles is the planner's."""


def config(spec: Json) -> None:
    spec["broker"]["config"] = {"maxProducersPerTopic": "7"}


async def uids(world: BusyWorld) -> dict[str, str]:
    return {n: u for n, u in (await world.uids(PODS)).items() if n.startswith("east-broker-")}


async def drains(world: BusyWorld) -> list[str]:
    return [n for n in await world.names(CUSTOM[Kind.REBALANCE]) if "-drain-" in n]


async def test_a_roll_empties_every_broker_first_and_fills_the_last() -> None:
    world = await BusyWorld.up(3)
    before = await uids(world)
    seen: list[str] = []

    async def look() -> None:
        status = await world.status(Kind.CLUSTER, "east")
        seen.extend(status.get("drain", {}).get("pods", []))

    await world.change(Kind.CLUSTER, "east", config)
    await world.run(rounds=600, each=look)
    after = await uids(world)
    assert before.keys() == after.keys() and not set(before.values()) & set(after.values())
    assert world.busy.displaced == []
    assert list(dict.fromkeys(seen)) == ["east-broker-2", "east-broker-1", "east-broker-0"]
    # Once each, the first broker's twice, and a third again for the one that came back empty last.
    assert world.busy.moves <= 12 * (1 + 1 / 3 + 1 / 3)
    assert max(world.owned.values()) <= 5 and min(world.owned.values()) >= 3
    assert world.busy.brokers.dynamic == {}
    assert await drains(world) == []
    assert "drain" not in await world.status(Kind.CLUSTER, "east")
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"


async def test_no_bundle_is_moved_between_brokers_with_different_load_managers() -> None:
    """Pulsar sends every lookup to the brokers with the newest manager, so that a planned move never ends."""
    world = await BusyWorld.up(3)
    before, drained = await uids(world), set[str]()

    async def observe() -> None:
        drained.update((await world.status(Kind.CLUSTER, "east")).get("drain", {}).get("pods", []))

    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(loadBalancing={"manager": "Extensible"}))
    await world.run(rounds=600, each=observe)
    after = await uids(world)
    assert before.keys() == after.keys() and not set(before.values()) & set(after.values())
    assert drained == {"east-broker-2"}
    incomplete = [each.message for each in world.journal.events if each.reason == "DrainIncomplete"]
    assert len(incomplete) == 2 and all("run two load managers" in message for message in incomplete), incomplete
    assert await drains(world) == []
    assert await world.all_ready() == {}


async def test_brokers_are_removed_when_they_have_no_bundles() -> None:
    world = await BusyWorld.up(3)
    held: list[int] = []

    async def look() -> None:
        sts = await world.get(STATEFUL_SETS, "east-broker")
        if world.owned.get("east-broker-2"):
            held.append(sts["spec"]["replicas"])

    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))
    await world.run(rounds=300, each=look)
    assert set(held) == {3}
    assert world.busy.displaced == []
    assert sorted(world.owned.values()) == [6, 6]
    assert await drains(world) == []
    assert world.busy.brokers.dynamic == {}
    assert await world.all_ready() == {}


@pytest.mark.parametrize("flapping", [False, True])
async def test_a_removal_times_out_although_a_broker_comes_and_goes(
    monkeypatch: pytest.MonkeyPatch, flapping: bool
) -> None:
    world = await BusyWorld.up(4, drain={"timeoutSeconds": 60})
    answer, clock = world.busy.brokers.call, world.deps.clock

    async def no_moves(endpoint: AdminEndpoint, method: str, path: Sequence[str], **more: Any) -> Any:
        if path[-1] == "unload":
            raise UnavailableError("HTTP 500: busy", status=500)
        return await answer(endpoint, method, path, **more)

    monkeypatch.setattr(world.busy.brokers, "call", no_moves)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))
    begun, turn = clock.now(), 0

    async def gone() -> bool:
        nonlocal turn
        turn += 1
        if await world.live(PODS, "east-broker-3") is None:
            return True
        if flapping:
            await world.backstage.edit(PODS, world.namespace, "east-broker-3", lambda pod: _ready(pod, turn // 2 % 2))
        return False

    await world.until(gone, rounds=250)
    assert (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["replicas"] == 2
    assert (clock.now() - begun).total_seconds() < 180
    assert any(each.reason == "DrainIncomplete" for each in world.journal.events)


def _ready(pod: Json, ready: int) -> None:
    for condition in pod["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition["status"] = "True" if ready else "False"


@pytest.mark.parametrize("flapping", [False, True])
async def test_a_drain_of_a_rollout_times_out_once(monkeypatch: pytest.MonkeyPatch, flapping: bool) -> None:
    """Although the budget keeps the pod afterwards, or brokers are unready by turns: the time does not start again."""
    world = await BusyWorld.up(4, drain={"timeoutSeconds": 120})
    answer, clock = world.busy.brokers.call, world.deps.clock

    async def no_moves(endpoint: AdminEndpoint, method: str, path: Sequence[str], **more: Any) -> Any:
        if path[-1] == "unload":
            raise UnavailableError("HTTP 500: busy", status=500)
        return await answer(endpoint, method, path, **more)

    monkeypatch.setattr(world.busy.brokers, "call", no_moves)
    before, begun = await uids(world), clock.now()
    world.busy.unready = set(before)
    await world.change(Kind.CLUSTER, "east", config)
    since = set[str]()
    for turn in range(16):
        # A sidecar of one broker is unready, so that the budget lets no ready one go.
        unready = "east-broker-3" if flapping and turn % 4 < 2 else "east-broker-2"
        for pod in ("east-broker-2", "east-broker-3"):
            ready = int(pod != unready)
            await world.backstage.edit(PODS, world.namespace, pod, lambda each, ready=ready: _ready(each, ready))
        await world.round()
        if (drain := (await world.status(Kind.CLUSTER, "east")).get("drain")) is not None:
            since.add(drain["since"])
        if await uids(world) != before:
            break
    if flapping:
        assert await uids(world) != before and (clock.now() - begun).total_seconds() < 300
        return
    assert len(since) == 1 and await uids(world) == before
    assert (clock.now() - begun).total_seconds() > 300
    await world.backstage.edit(PODS, world.namespace, "east-broker-2", lambda each: _ready(each, 1))
    for _ in range(2):
        await world.round()
    assert await uids(world) != before, "it goes as soon as it may"


async def test_a_broker_with_an_unready_sidecar_hands_its_bundles_over() -> None:
    """It serves all the same."""
    world = await BusyWorld.up(3)
    before = await uids(world)
    world.busy.unready = {"east-broker-1"}
    await world.backstage.edit(PODS, world.namespace, "east-broker-1", lambda pod: _ready(pod, 0))
    await world.change(Kind.CLUSTER, "east", config)
    await world.run(rounds=600)
    assert not set(before.values()) & set((await uids(world)).values())
    assert world.busy.displaced == []


async def test_a_broker_that_is_unready_for_a_moment_is_not_removed_with_its_bundles() -> None:
    """Its process serves on, and is registered; the kubelet's probe alone failed."""
    world = await BusyWorld.up(3)
    owners, goes = world.busy.brokers.owners, "east-broker-2"
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))
    world.busy.unready = {goes}
    await world.backstage.edit(PODS, world.namespace, goes, lambda pod: _ready(pod, 0))
    await world.round()
    assert (await world.status(Kind.CLUSTER, "east"))["drain"]["pods"] == [goes]
    await world.run(rounds=300)
    assert world.busy.displaced == []
    assert goes not in {owner.partition(".")[0] for owner in owners.values()}
    assert (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["replicas"] == 2


async def test_a_broker_that_never_came_up_is_removed_at_once() -> None:
    world = await BusyWorld.up(2)
    world.workloads.troubles.append(Trouble(pod="east-broker-2"))
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=3))
    for _ in range(10):
        await world.round()
    assert await world.live(PODS, "east-broker-2") is not None
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))
    for _ in range(3):
        await world.round()
    assert (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["replicas"] == 2
    assert not any(each.reason == "DrainIncomplete" for each in world.journal.events)


async def test_a_bundle_that_comes_during_a_drain_is_handed_over_too() -> None:
    world = await BusyWorld.up(3)
    goes = next(b for b in world.busy.brokers.brokers if b.startswith("east-broker-2."))
    first = {key for key, owner in world.busy.brokers.owners.items() if owner == goes}
    came: list[object] = []

    async def look() -> None:
        asked = await drains(world)
        done = (await world.status(Kind.REBALANCE, asked[0])).get("progress", {}).get("done", 0) if asked else 0
        moved = sorted(key for key in first if world.busy.brokers.owners[key] != goes)
        if done == len(moved) == 2 and not came:
            came.append(moved[0])
            world.busy.brokers.owners[moved[0]] = goes

    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))
    await world.run(rounds=600, each=look)
    assert came
    assert world.busy.displaced == []
    assert not any(each.reason == "DrainIncomplete" for each in world.journal.events)
    assert sorted(world.owned) == ["east-broker-0", "east-broker-1"]
    assert await drains(world) == []


async def test_a_bundle_that_was_on_its_way_when_the_drain_was_planned_is_handed_over_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen on kind: nobody's for the plan, the leaving broker's before and after it."""
    world = await BusyWorld.up(3)
    owners, answer = world.busy.brokers.owners, world.busy.brokers.call
    goes, other = (next(b for b in world.busy.brokers.brokers if b.startswith(f"east-broker-{n}.")) for n in (2, 0))
    first, *rest = sorted(key for key, owner in owners.items() if owner == goes)
    owners.update(dict.fromkeys(rest, other))
    reads = 0

    async def call(endpoint: AdminEndpoint, method: str, path: Sequence[str], **more: Any) -> Any:
        nonlocal reads
        reads += path[-1] == "ownedNamespaces" and goes in path
        hidden = path[-1] == "ownedNamespaces" and reads == THE_PLANS
        return {} if hidden and goes in path else await answer(endpoint, method, path, **more)

    monkeypatch.setattr(world.busy.brokers, "call", call)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))
    await world.run(rounds=600)
    asked = [w for w in world.journal.effects if (w.verb, w.kind) == ("apply", "PulsarRebalance") and "drain" in w.name]
    assert (len(asked), world.busy.moves) == (2, 1), "one drain without a step, another with one"
    assert not any(each.reason == "DrainIncomplete" for each in world.journal.events)
    assert world.busy.displaced == []
    assert owners[first] not in ("", goes)


async def test_bundles_of_a_deleted_namespace_hold_no_broker() -> None:
    world = await BusyWorld.up(3)
    goes = next(b for b in world.busy.brokers.brokers if b.startswith("east-broker-2."))
    world.busy.brokers.owners["public/gone", 0, (1 << 32) - 1] = goes
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))
    await world.run(rounds=600)
    assert sorted(world.owned) == ["east-broker-0", "east-broker-1"]
    assert not any(each.reason == "DrainIncomplete" for each in world.journal.events)


async def test_a_new_broker_gets_its_share() -> None:
    world = await BusyWorld.up(2)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=3))
    await world.run(rounds=300)
    assert sorted(world.owned.values()) == [4, 4, 4]
    assert world.busy.displaced == []


async def test_a_broker_that_is_taken_away_before_it_has_its_share_leaves_no_fill_behind() -> None:
    """Seen on kind: the fill waited for the broker for ever, and nothing else balanced."""
    world = await BusyWorld.up(2)

    async def filling() -> bool:
        return any("-fill-" in name for name in await world.names(CUSTOM[Kind.REBALANCE]))

    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=3))
    await world.until(filling)
    assert world.owned.get("east-broker-2", 0) == 0
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))
    await world.run(rounds=300)
    assert await world.names(CUSTOM[Kind.REBALANCE]) == []
    assert world.busy.brokers.dynamic == {}
    assert await world.all_ready() == {}
    assert sorted(world.owned) == ["east-broker-0", "east-broker-1"]


async def test_without_drain_brokers_unload_by_themselves() -> None:
    world = await BusyWorld.up(3, drain={"enabled": False})
    await world.change(Kind.CLUSTER, "east", config)
    await world.run(rounds=300)
    assert world.busy.displaced != []
    assert await world.names(CUSTOM[Kind.REBALANCE]) == []


@pytest.mark.parametrize("unreachable", ["statistics", "all"])
async def test_brokers_that_do_not_answer_block_nothing_for_ever(unreachable: str) -> None:
    world = await BusyWorld.up(3)
    if unreachable == "all":
        world.busy.brokers.mute = {"east-broker.pulsar.svc.cluster.local:8080"}
    else:
        world.busy.brokers.mute = {b for b in world.busy.brokers.brokers if b.startswith("east-broker-1.")}
    before = await uids(world)
    await world.change(Kind.CLUSTER, "east", config)
    await world.until(lambda: _changed(world, before), rounds=400)
    assert any(each.reason == "DrainIncomplete" for each in world.journal.events)


async def test_a_budget_that_keeps_a_broker_has_its_drain_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await BusyWorld.up(3)
    world.busy.brokers.mute = set(world.busy.brokers.brokers)
    port = world.deps.kube
    evict, refusals = port.evict, 0

    async def kept(namespace: str, name: str, *, uid: str) -> str | None:
        nonlocal refusals
        if name.startswith("east-broker-") and refusals < 10:
            refusals += 1
            return "Cannot evict pod as it would violate the pod's disruption budget."
        return await evict(namespace, name, uid=uid)

    monkeypatch.setattr(port, "evict", kept)
    before = await uids(world)
    await world.change(Kind.CLUSTER, "east", config)
    await world.until(lambda: _changed(world, before), rounds=400)
    incomplete = [each.message for each in world.journal.events if each.reason == "DrainIncomplete"]
    assert refusals == 10 and len(incomplete) <= 3, incomplete
    brokers = [message.partition(" did not")[0].partition(" still had")[0] for message in incomplete]
    assert len(set(brokers)) == len(brokers), incomplete


async def test_a_refused_removal_has_its_drain_reported_once() -> None:
    """The drain is over: it does not begin again with each attempt to lower the StatefulSet."""
    world = await BusyWorld.up(3)
    world.busy.brokers.mute = {each for each in world.busy.brokers.brokers if each.startswith("east-broker-2.")}
    refused = 0

    def refuse(call: PortCall) -> None:
        nonlocal refused
        if call.verb == "apply" and (call.kind, call.name) == (STATEFUL_SETS.kind, "east-broker") and refused < 10:
            refused += 1
            raise RefusedError("admission webhook denied the request")

    world.journal.before.append(refuse)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))

    async def gone() -> bool:
        return await world.live(PODS, "east-broker-2") is None

    await world.until(gone, rounds=400)
    incomplete = [each.message for each in world.journal.events if each.reason == "DrainIncomplete"]
    assert refused == 10 and len(incomplete) == 1, incomplete
    await world.run()
    assert "drain" not in await world.status(Kind.CLUSTER, "east")


async def _changed(world: BusyWorld, before: dict[str, str]) -> bool:
    return not set((await uids(world)).values()) & set(before.values())


async def test_the_only_broker_is_replaced_at_once() -> None:
    world = await BusyWorld.up(1)
    before = await uids(world)
    await world.change(Kind.CLUSTER, "east", config)
    await world.run()
    assert await world.names(CUSTOM[Kind.REBALANCE]) == []
    assert await _changed(world, before)
    assert not any(each.reason == "DrainIncomplete" for each in world.journal.events)


async def test_a_rebalance_of_a_user_waits_until_the_roll_is_over() -> None:
    world = await BusyWorld.up(3)
    await world.change(Kind.CLUSTER, "east", config)
    await world.until(lambda: _draining(world))
    mine = {
        "apiVersion": "pulsaroperator.io/v1alpha1",
        "kind": "PulsarRebalance",
        "metadata": {"name": "mine", "namespace": world.namespace},
        "spec": {"clusterRef": {"name": "east"}, "autoApprove": True},
    }
    await world.apply(mine)
    await world.round()
    assert (await world.condition(Kind.REBALANCE, "mine"))[1] == "BrokersChanging"
    await world.run(rounds=600)
    assert (await world.condition(Kind.REBALANCE, "mine"))[0] == "True"
    assert world.busy.displaced == []


async def test_somebody_elses_rebalance_of_the_name_is_not_taken_over() -> None:
    world = await BusyWorld.up(3)
    theirs = {
        "apiVersion": "pulsaroperator.io/v1alpha1",
        "kind": "PulsarRebalance",
        "metadata": {"name": "east-drain-to-2", "namespace": world.namespace},
        "spec": {"clusterRef": {"name": "east"}, "mode": "Split"},
    }
    await world.apply(theirs)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=2))
    for _ in range(5):
        await world.round()
    assert (await world.get(Kind.REBALANCE, "east-drain-to-2"))["spec"]["mode"] == "Split"
    assert "not owned by this cluster" in (await world.condition(Kind.CLUSTER, "east", "Accepted"))[2]
    assert world.busy.displaced == []


async def shrunk() -> BusyWorld:
    """Two brokers, one to go."""
    world = await BusyWorld.up(2, bundles=4)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=1))
    return world


async def test_a_drain_goes_on_after_a_kill_of_the_operator() -> None:
    """Every third write of a removal, the operator ended before and after it; a new one comes to the same end."""
    calm = await shrunk()
    first = len(calm.journal.attempts)
    copies: list[BusyWorld] = []

    async def remember() -> None:
        copies.append(copy.deepcopy(calm))

    await calm.run(rounds=300, each=remember)
    writes = len(calm.journal.attempts) - first
    assert writes > 10
    for number in range(0, writes, 3):
        for when in ("before", "after"):
            world = copy.deepcopy([each for each in copies if len(each.journal.attempts) - first <= number][-1])
            world.journal.arm(first + number, when)
            with pytest.raises(Killed):
                await world.run(rounds=300)
            world.restart()
            await world.run(rounds=300)
            assert world.owned == {"east-broker-0": 4}, (number, when)
            assert world.busy.displaced == [], (number, when)
            assert world.busy.moves == 2, (number, when)
            assert (await drains(world), world.busy.brokers.dynamic) == ([], {}), (number, when)


async def _draining(world: BusyWorld) -> bool:
    return bool((await world.status(Kind.CLUSTER, "east")).get("drain"))
