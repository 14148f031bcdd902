"""Replicas that follow the load: brokers over a world whose bundles are under traffic, proxies, in virtual time."""

from __future__ import annotations

import copy

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM, STATEFUL_SETS, Json
from tests.support.bookkeeper.paths import under_replicated_path
from tests.support.cluster.scaling import LOOK, TARGET, WINDOWS, minutes, row, said, scaling, wanted


async def test_load_comes_and_goes() -> None:
    world, loads = await scaling()
    spec = copy.deepcopy((await world.get(Kind.CLUSTER, "east"))["spec"])
    loads.total = 2.6 * TARGET
    await minutes(world, loads, 2)
    assert await wanted(world) == 3 and min(world.owned.values()) >= 2, "the new one has its share"
    assert [e.reason for e in world.journal.events].count("ScaledOut") == 1
    found = await row(world)
    assert (found["current"], found["desired"], found["replicas"]) == (3, 3, 2) and found["lastScaleTime"]
    assert [(each["name"], each["value"]) for each in found["inputs"]] == [("messagesPerSecond", "260")]
    loads.total = 1.2 * TARGET
    await minutes(world, loads, 3)
    assert await wanted(world) == 3 and await said(world) == ("False", "Stabilizing")
    held: set[int] = set()

    async def look() -> None:
        await loads.serve()
        if world.owned.get("east-broker-2"):
            held.add(await wanted(world))

    for _ in range(5):
        world.clock.forward(LOOK)
        await world.run(rounds=300, each=look)
    assert await wanted(world) == 2 and held == {3}, "it leaves when it has no bundles"
    assert world.busy.displaced == [] and sorted(world.owned.values()) == [3, 3]
    assert [e.reason for e in world.journal.events].count("ScaledIn") == 1
    assert (await world.get(Kind.CLUSTER, "east"))["spec"] == spec, "spec is never written"
    assert await world.all_ready() == {}
    names = await world.names(CUSTOM[Kind.REBALANCE])
    assert not [name for name in names if "-drain-" in name]
    loads.total = 2.6 * TARGET
    await minutes(world, loads, 2)
    assert await wanted(world) == 3 and min(world.owned.values()) >= 2, "the second time as well"


async def test_at_rest_the_status_is_written_every_five_minutes() -> None:
    world, loads = await scaling()
    mark, begun = len(world.journal.attempts), world.clock.now()
    for number in range(20):
        loads.total = TARGET * (1.8 + 0.05 * (number % 3))
        await minutes(world, loads, 1)
    writes = [str(call) for call in world.journal.attempts[mark:]]
    most = (world.clock.now() - begun).total_seconds() / 300 + 1
    assert 2 <= len(writes) <= most and all("status" in each for each in writes), writes


@pytest.mark.parametrize("silent", [{"east-broker-1"}, {"east-broker-0", "east-broker-1"}])
async def test_what_is_not_known_is_not_zero(silent: set[str]) -> None:
    world, loads = await scaling()
    loads.silent, loads.total = silent, 0.1 * TARGET
    await minutes(world, loads, 12)
    assert await wanted(world) == 2 and await said(world) == ("False", "NoData")
    loads.silent, loads.total = set(), 2.6 * TARGET
    await minutes(world, loads, 2)
    assert await wanted(world) == 3


async def test_a_new_operator_waits_for_no_window_that_was_seen() -> None:
    """What was recommended is in the status."""
    world, loads = await scaling()
    loads.total = 2.6 * TARGET
    await minutes(world, loads, 2)
    loads.total = 1.2 * TARGET
    for _ in range(8):
        world.restart()
        await minutes(world, loads, 1)
    assert await wanted(world) == 2 and world.busy.displaced == []


def rolls(spec: Json) -> None:
    spec["broker"]["config"] = {"maxProducersPerTopic": "7"}


async def test_load_that_grows_is_served_during_a_roll() -> None:
    """Once it has lasted for minutes: a roll may take hours, or stop."""
    world, loads = await scaling()
    seen: list[tuple[int, str]] = []

    async def look() -> None:
        await loads.serve()
        if (await world.status(Kind.CLUSTER, "east")).get("rollout", {}).get("podsDone"):
            loads.total = 2.6 * TARGET
            seen.append((await wanted(world), (await said(world))[1]))

    await world.change(Kind.CLUSTER, "east", rolls)
    await world.run(rounds=600, each=look)
    assert "RolloutInProgress" in {reason for _, reason in seen} and seen[0][0] == 2
    await minutes(world, loads, 3)
    assert await wanted(world) == 3 and {number for number, _ in seen} == {2, 3}
    assert world.busy.displaced == [] and await world.all_ready() == {}


async def test_none_leaves_during_a_roll() -> None:
    world, loads = await scaling()
    loads.total = 2.6 * TARGET
    await minutes(world, loads, 3)
    seen: set[int] = set()

    async def look() -> None:
        await loads.serve()
        if (await world.status(Kind.CLUSTER, "east")).get("rollout", {}).get("podsDone"):
            loads.total = 1.2 * TARGET
            seen.add(await wanted(world))

    await world.change(Kind.CLUSTER, "east", rolls)
    await world.run(rounds=600, each=look)
    assert seen == {3}
    await minutes(world, loads, 9)
    assert await wanted(world) == 2


async def test_nothing_is_changed_while_bundles_move() -> None:
    world, loads = await scaling()
    loads.total = 2.6 * TARGET
    seen: list[tuple[str, str]] = []

    async def look() -> None:
        await loads.serve()
        for each in await world.backstage.all(CUSTOM[Kind.REBALANCE]):
            conditions = {c["type"]: c["status"] for c in (each.get("status") or {}).get("conditions") or ()}
            if conditions.get("Executing") == "True":
                seen.append(await said(world))

    await minutes(world, loads, 1)
    world.clock.forward(LOOK)
    await world.run(rounds=300, each=look)
    await minutes(world, loads, 1)
    loads.total = 3.6 * TARGET
    world.clock.forward(LOOK)
    await world.run(rounds=300, each=look)
    assert await wanted(world) == 4 and ("False", "Rebalancing") in seen


async def test_ledgers_that_lack_copies_hold_neither_brokers_nor_proxies() -> None:
    """One ledger may lack a copy for ever."""
    world, loads = await scaling()
    limits = {"minReplicas": 1, "maxReplicas": 4, "targets": {"connections": 100}, "behavior": WINDOWS}
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(proxy={"replicas": 1, "autoscaling": limits}))
    (store,) = world.zookeeper.ensembles.values()
    store.put(under_replicated_path(7))
    loads.total, loads.connections = 2.6 * TARGET, 250
    await minutes(world, loads, 4)
    assert (await wanted(world), await wanted(world, "east-proxy")) == (3, 3)
    loads.total, loads.connections = 1.2 * TARGET, 50
    await minutes(world, loads, 14)
    assert (await wanted(world), await wanted(world, "east-proxy")) == (2, 1)
    assert under_replicated_path(7) in store.nodes


async def test_a_pause_and_a_dry_run_change_nothing() -> None:
    world, loads = await scaling()
    loads.total = 2.6 * TARGET
    await world.pause(Kind.CLUSTER, "east")
    await minutes(world, loads, 2)
    assert await wanted(world) == 2 and await said(world) == ("False", "Paused")
    await world.pause(Kind.CLUSTER, "east", on=False)
    await world.dry_run(Kind.CLUSTER, "east")
    await minutes(world, loads, 2)
    assert await wanted(world) == 2 and await said(world) == ("False", "DryRun")
    pending = (await world.status(Kind.CLUSTER, "east"))["pendingActions"]
    assert "Scale brokers from 2 to 3 (status.autoscaling has the reason)" in pending
    await world.dry_run(Kind.CLUSTER, "east", on=False)
    await minutes(world, loads, 2)
    assert await wanted(world) == 3


async def test_removed_it_leaves_the_number_until_replicas_changes() -> None:
    world, loads = await scaling()
    loads.total = 2.6 * TARGET
    await minutes(world, loads, 2)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].pop("autoscaling"))
    world.restart()
    await minutes(world, loads, 12)
    assert await wanted(world) == 3 and (await said(world))[0] == "absent"
    mark = len(world.journal.attempts)
    await minutes(world, loads, 12)
    assert world.journal.attempts[mark:] == []
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(replicas=4))
    await minutes(world, loads, 1)
    assert await wanted(world) == 4 and "autoscaling" not in await world.status(Kind.CLUSTER, "east")


async def test_limits_count_at_once() -> None:
    world, loads = await scaling()
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"]["autoscaling"].update(minReplicas=3))
    await minutes(world, loads, 1)
    assert await wanted(world) == 3


async def test_a_lost_status_moves_nothing() -> None:
    """What runs is what was decided."""
    world, loads = await scaling()
    loads.total = 2.6 * TARGET
    await minutes(world, loads, 3)
    loads.silent = {"east-broker-0"}
    await world.backstage.set_status(CUSTOM[Kind.CLUSTER], world.namespace, "east", {"autoscaling": None})
    world.restart()
    await minutes(world, loads, 3)
    assert await wanted(world) == 3 and (await row(world))["desired"] == 3


async def test_proxies_follow_their_connections() -> None:
    world, loads = await scaling()
    limits = {"minReplicas": 1, "maxReplicas": 4, "targets": {"connections": 100}, "behavior": WINDOWS}
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(proxy={"replicas": 1, "autoscaling": limits}))
    await minutes(world, loads, 3)
    there = await world.get(STATEFUL_SETS, "east-proxy")
    hook = there["spec"]["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert "time.sleep(30)" in hook[-1], "one that leaves its Service serves on for a while"
    loads.connections = 250
    await minutes(world, loads, 3)
    assert await wanted(world, "east-proxy") == 3 and (await row(world, "proxy"))["desired"] == 3
    loads.connections = 50
    await minutes(world, loads, 12)
    assert await wanted(world, "east-proxy") == 1 and await wanted(world) == 2
