"""A cluster whose brokers do not say what they carry: condition, events, metric, and what goes with the cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.dataplane.balancing.load_balancer import FLAGS
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, Json, UnavailableError
from tests.support.cluster.copies import made_once
from tests.support.cluster.world import NS, ClusterWorld
from tests.support.core.journal import ADMIN, PortCall
from tests.unit.cluster.test_cluster_balancer import NAME, RECORD, SHEDDING, SPLITTING, delete, drive, held, leave

BEFORE = {SHEDDING: "true", "theirs": "1"}


def mute(world: ClusterWorld) -> Callable[[], None]:
    """Brokers do not list their bundles until the answer is called."""

    def hook(call: PortCall) -> None:
        if call.port == ADMIN and "ownedNamespaces" in call.name:
            raise UnavailableError("no answer from the broker")

    world.journal.before.append(hook)
    return lambda: world.journal.before.remove(hook)


async def minutes(world: ClusterWorld, count: int) -> None:
    for _ in range(count):
        world.clock.forward(40)
        await world.round()


async def condition(world: ClusterWorld) -> tuple[str, str, str]:
    return await world.condition(Kind.CLUSTER, "east", "BalancingActive")


async def handover(world: ClusterWorld) -> Json:
    return dict((await world.status(Kind.CLUSTER, "east")).get("handover") or {})


@made_once
async def given_back() -> ClusterWorld:
    """Pulsar balances, since nobody answers the operator."""
    world = await held(BEFORE)
    mute(world)
    for _ in range(40):
        await minutes(world, 1)
        if world.pulsar.dynamic["east"] == BEFORE:
            return world
    raise AssertionError(await condition(world))


async def test_a_cluster_that_is_balanced_says_by_whom() -> None:
    world = await held(BEFORE)
    assert (await condition(world))[:2] == ("True", "OperatorBalances")
    assert "handover" not in await world.status(Kind.CLUSTER, "east")
    await world.change(Kind.CLUSTER, "east", leave)
    await world.run()
    assert (await condition(world))[0] == "absent"


async def test_it_says_that_nobody_balances_before_it_gives_back() -> None:
    world = await held(BEFORE)
    mute(world)
    await minutes(world, 6)
    status, reason, message = await condition(world)
    assert (status, reason) == ("False", "NoData") and "it turns Pulsar's balancer back on" in message
    assert FLAGS.items() <= world.pulsar.dynamic["east"].items()


async def test_it_says_since_when_pulsar_balances_why_and_until_when() -> None:
    world = await given_back()
    status, reason, message = await condition(world)
    assert (status, reason) == ("False", "PulsarBalances")
    assert f"PulsarRebalance {NAME} reports NoData" in message and "no answer from the broker" in message
    assert "not before" in message
    (event,) = [each for each in world.journal.events if each.reason == "PulsarBalances"]
    assert (event.kind, event.object_name) == ("Warning", "east")
    assert [call for call in world.deps.metrics.calls if call[0] == "balancer_restored"] == [  # type: ignore[attr-defined]
        ("balancer_restored", NS, "east")
    ]
    assert await world.all_ready() == {f"PulsarRebalance {NAME}": (await world.condition(Kind.REBALANCE, NAME))[2]}


async def test_nothing_is_written_while_pulsar_balances() -> None:
    world = await given_back()
    await minutes(world, 2)
    mark = len(world.journal.attempts)
    await minutes(world, 20)
    kinds = {"PulsarCluster", "PulsarRebalance", "ConfigMap"}
    assert [call for call in world.journal.attempts[mark:] if call.kind in kinds or call.port == ADMIN] == []


async def test_the_record_says_when_it_was_given_back() -> None:
    world = await given_back()
    since = (await handover(world))["restoredTime"]
    data = (await world.get(CONFIG_MAPS, RECORD))["data"]
    assert data == {SHEDDING: "true", SPLITTING: "", "disabled": "false", "restoredTime": since, "handovers": "1"}
    await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", lambda obj: obj.pop("status", None))
    world.restart()
    await minutes(world, 10)
    assert world.pulsar.dynamic["east"] == BEFORE
    assert (await handover(world))["restoredTime"] == since


@pytest.mark.parametrize("text", ["yesterday", "", "2026-01-01T00:00:00"])
async def test_a_record_that_somebody_edited_is_no_error(text: str) -> None:
    world = await given_back()
    await world.backstage.edit(CONFIG_MAPS, NS, RECORD, lambda obj: obj["data"].update(restoredTime=text))
    await world.backstage.edit(CUSTOM[Kind.CLUSTER], NS, "east", lambda obj: obj.pop("status", None))
    await minutes(world, 3)
    assert (await world.condition(Kind.CLUSTER, "east"))[0] == "True"


async def test_a_cluster_that_is_deleted_leaves_the_settings_as_they_are() -> None:
    world = await given_back()
    world.pulsar.dynamic["east"][SHEDDING] = "false"
    await delete(world)
    assert world.pulsar.dynamic["east"] == {SHEDDING: "false", "theirs": "1"}
    assert await world.live(CONFIG_MAPS, RECORD) is None


async def test_a_paused_cluster_says_what_it_would_do() -> None:
    world = await held(BEFORE)
    mute(world)
    await minutes(world, 3)
    await world.pause(Kind.CLUSTER, "east")
    await minutes(world, 3)
    await minutes(world, 30)
    assert FLAGS.items() <= world.pulsar.dynamic["east"].items()
    status = await world.status(Kind.CLUSTER, "east")
    assert "restoredTime" not in (status.get("handover") or {})


async def test_it_is_taken_again() -> None:
    world = await held(BEFORE)
    answer = mute(world)
    while world.pulsar.dynamic["east"] != BEFORE:
        await minutes(world, 1)
    answer()
    for _ in range(60):
        await minutes(world, 1)
        if FLAGS.items() <= world.pulsar.dynamic["east"].items():
            break
    assert (await condition(world))[:2] == ("True", "OperatorBalances")
    assert await handover(world) == {"count": 1}


async def test_the_driver_may_change_while_pulsar_balances() -> None:
    world = await given_back()
    await world.change(Kind.CLUSTER, "east", leave)
    await world.run()
    assert world.pulsar.dynamic["east"] == BEFORE and await world.live(CONFIG_MAPS, RECORD) is None
    assert "handover" not in await world.status(Kind.CLUSTER, "east")
    await world.change(Kind.CLUSTER, "east", drive)
    await minutes(world, 3)
    assert FLAGS.items() <= world.pulsar.dynamic["east"].items(), "somebody asked for it anew"


async def test_a_rebalance_of_somebody_else_by_that_name_lets_pulsar_balance() -> None:
    """The operator may not make its own, so nobody would balance."""
    world = await held(BEFORE)
    await world.backstage.edit(CUSTOM[Kind.REBALANCE], NS, NAME, lambda obj: obj["metadata"].pop("ownerReferences"))
    for _ in range(40):
        await minutes(world, 1)
    assert world.pulsar.dynamic["east"] == BEFORE
    assert "does not exist" in (await condition(world))[2]
