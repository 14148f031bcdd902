"""Autoscaling while the configuration store is away, and after a status of another time was put back."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM, STATEFUL_SETS, Key
from tests.support.cluster.scaling import LIMITS, LOOK, TARGET, WINDOWS, Loads, minutes, row, said, scaling, wanted
from tests.support.cluster.world import ClusterWorld, quickstart

MANAGED, OWN = (f"{name}.pulsar.svc.cluster.local" for name in ("demo-configuration-store", "east-zookeeper"))
AWAY = ("False", "ConfigurationStoreUnavailable")
OLD = 3600.0
"""Seconds after which no decision counts that nobody looked at."""


async def up(*, own: bool) -> tuple[ClusterWorld, Loads, str]:
    """Two brokers with autoscaling, at rest; the store's host. Without a store of its own they are not drained."""
    if own:
        return *await scaling(), OWN
    manifests = quickstart()
    manifests[0]["spec"]["configurationStore"] = {"managed": {"replicas": 1, "storage": {"size": "1Gi"}}}
    # Their sessions outlast each outage: else they are replaced after it, which is another matter.
    patient = {"config": {"metadataStoreSessionTimeoutMillis": "86400000"}}
    scaled = {"replicas": 2, "drain": {"enabled": False}, "autoscaling": LIMITS | {"behavior": WINDOWS}, **patient}
    manifests[1]["spec"]["broker"] |= scaled
    world = ClusterWorld.fakes()
    loads = Loads(world, 1.8 * TARGET)
    await world.apply(*manifests)
    await world.run(each=loads.serve)
    await minutes(world, loads, 3)
    assert await said(world) == ("True", "WithinTarget")
    return world, loads, MANAGED


async def decide_alone(world: ClusterWorld, loads: Loads) -> None:
    """One look, which decides, and no pass after it."""
    world.clock.forward(LOOK)
    await loads.serve()
    await world.reconcile(Key(Kind.CLUSTER, world.namespace, "east"))


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("told", [False, True], ids=["this pass finds out", "the instance says it"])
async def test_nothing_is_decided_while_the_store_is_away(own: bool, told: bool) -> None:
    world, loads, host = await up(own=own)
    loads.total = 2.6 * TARGET
    world.unreachable.add(host)
    if told:
        await world.round()
    for _ in range(3):
        await decide_alone(world, loads)
        assert await said(world) == AWAY
        assert (await wanted(world), (await row(world))["desired"]) == (2, 2)
    world.unreachable.clear()
    await world.run(each=loads.serve)
    await minutes(world, loads, 2)
    assert await wanted(world) == 3 and (await said(world))[1] != "ConfigurationStoreUnavailable"


@pytest.mark.parametrize(
    ("own", "away", "load", "before", "after"),
    [(False, 60.0, 2.6, 2, 3), (True, 60.0, 1.2, 3, 2), (True, 900.0, 2.6, 2, 3), (False, 900.0, 1.2, 3, 2)],
    ids=["minutes, out", "minutes, in", "an hour, out", "an hour, in"],
)
async def test_what_was_decided_waits_for_the_store(
    own: bool, away: float, load: float, before: int, after: int
) -> None:
    """And does not count any more after a long outage: the load decides anew, which takes a window to let some go."""
    world, loads, host = await up(own=own)
    if before == 3:
        loads.total = 2.6 * TARGET
        await minutes(world, loads, 2)
    loads.total = load * TARGET
    while (await row(world))["desired"] != after:
        await decide_alone(world, loads)
    assert await wanted(world) == before, "decided, not done"
    world.unreachable.add(host)
    pods = await world.uids(STATEFUL_SETS)
    for _ in range(4):
        world.clock.forward(away)
        await loads.serve()
        await world.round()
        assert await wanted(world) == before and await said(world) == AWAY
    assert await world.uids(STATEFUL_SETS) == pods
    world.unreachable.clear()
    if after < before:
        world.clock.step = 0.01  # looks at the clock are no window
    await world.run(rounds=300, each=loads.serve)
    await minutes(world, loads, 2)
    done = after > before or away < LOOK * 2
    assert await wanted(world) == (await row(world))["desired"] == (after if done else before)
    await minutes(world, loads, 2 if after > before else 0)  # the rebalance that fills the new one measures
    assert await world.all_ready() == {}
    await minutes(world, loads, 6)
    assert await wanted(world) == after


async def test_a_status_of_an_old_backup_moves_nothing() -> None:
    """What runs counts, also while nothing is known of the load, and then it decides anew."""
    world, loads = await scaling()
    old = {"autoscaling": (await world.status(Kind.CLUSTER, "east"))["autoscaling"]}
    loads.total = 2.6 * TARGET
    await minutes(world, loads, 3)
    world.clock.forward(OLD)
    await world.backstage.set_status(CUSTOM[Kind.CLUSTER], world.namespace, "east", old)
    assert (await row(world))["desired"] == 2
    loads.silent = {"east-broker-0"}
    world.restart()
    await minutes(world, loads, 3)
    assert await said(world) == ("False", "NoData")
    assert await wanted(world) == 3 and (await row(world))["desired"] == 3


async def test_a_workload_that_somebody_scaled_by_hand_is_put_back() -> None:
    world, loads = await scaling()
    by_hand = {"replicas": 4}
    await world.backstage.edit(STATEFUL_SETS, world.namespace, "east-broker", lambda sts: sts["spec"].update(by_hand))
    await minutes(world, loads, 2)
    assert await wanted(world) == 2 and (await row(world))["desired"] == 2


@pytest.mark.parametrize(
    ("limits", "load", "number"),
    [
        ({"minReplicas": 1, "maxReplicas": 2}, 2.6, 2),
        ({"minReplicas": 4, "maxReplicas": 6}, 2.6, 4),
        ({"minReplicas": 3, "maxReplicas": 3}, 9.0, 3),
    ],
    ids=["maximum below what runs", "minimum above what runs", "no choice"],
)
async def test_limits_that_change_in_the_middle_count(limits: dict[str, int], load: float, number: int) -> None:
    """Three run, and a fourth was just decided."""
    world, loads = await scaling()
    loads.total = 2.6 * TARGET
    await minutes(world, loads, 2)
    loads.total = 3.6 * TARGET
    while (await row(world))["desired"] != 4:
        await decide_alone(world, loads)
    assert await wanted(world) == 3
    loads.total = load * TARGET
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"]["autoscaling"].update(limits))
    await minutes(world, loads, 5)
    assert await wanted(world) == (await row(world))["desired"] == number
    assert world.busy.displaced == [] and await world.all_ready() == {}


async def test_brokers_that_begin_at_none_become_the_minimum() -> None:
    world, loads = await scaling()
    for change in ({"autoscaling": None, "replicas": 0}, {"autoscaling": None}):
        await world.change(Kind.CLUSTER, "east", lambda spec, each=change: spec["broker"].update(each))
        await minutes(world, loads, 2)
        assert await wanted(world) == 0
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(autoscaling=LIMITS))
    await minutes(world, loads, 2)
    assert await wanted(world) == LIMITS["minReplicas"]
