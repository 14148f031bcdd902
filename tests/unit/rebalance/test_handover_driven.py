"""The standing balancer and the cluster controller's part together: never both on, and always given back in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from pulsar_operator.api.constants import ANNOTATION_PAUSE, Kind
from pulsar_operator.balance.execution.custom_resource import own_rebalance, standing_name
from pulsar_operator.controllers.dataplane.balancing.load_balancer import FLAGS
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, Json, RefusedError
from tests.fakes.killed import Killed
from tests.fakes.kube_calls import Call
from tests.support.balancing.world import NS, BalancingWorld
from tests.unit.rebalance.test_rebalance_paused import annotate

NAME = "east-balancer"
BEFORE = {"loadBalancerSheddingEnabled": "true", "theirs": "1"}


def driven(**spec: object) -> BalancingWorld:
    """Four brokers, all load on the first, and the operator is to balance them."""
    world = BalancingWorld()
    world.pulsar.brokers.append("b3.x:8080")
    world.skewed()
    world.share(3)
    world.pulsar.dynamic = dict(BEFORE)
    cluster = world.kube.live(CUSTOM[Kind.CLUSTER], NS, "east")
    assert cluster is not None and standing_name(cluster) == NAME
    budget = {"maxTrafficMovedPercent": 100, "movesPerMinute": 600}
    standing = {"autoApprove": True, "repeatSeconds": 60, "budget": budget, **spec}
    world.kube.put(own_rebalance(cluster, NAME, standing))

    def moved(words: str) -> None:
        if words.endswith(("/unload", "/split")):
            assert FLAGS.items() <= world.pulsar.dynamic.items(), "both balance"
            assert cluster_status(world).get("handover", {}).get("restoredTime") is None

    world.pulsar.before.append(moved)
    return world


def cluster_status(world: BalancingWorld) -> Json:
    found = world.kube.live(CUSTOM[Kind.CLUSTER], NS, "east")
    assert found is not None
    return dict(found.get("status") or {})


async def minutes(world: BalancingWorld, count: float, *, act: Callable[[], None] = lambda: None) -> None:
    """Passes of both controllers, half a minute apart."""
    end = world.clock.moment + timedelta(minutes=count)
    while world.clock.moment < end:
        act()
        await world.once(NAME)
        await world.cluster_pass(drives=True)
        world.clock.moment += timedelta(seconds=30)


def pulsars(world: BalancingWorld) -> bool:
    """Whether Pulsar's balancer is on, exactly as it was."""
    on = world.pulsar.dynamic == BEFORE
    assert on or world.pulsar.dynamic == {**BEFORE, **FLAGS}
    return on


def gives_back(world: BalancingWorld) -> int:
    calls = world.deps.metrics.calls
    return sum(call[0] == "balancer_restored" for call in calls)


async def test_one_silent_broker_of_four_hands_nothing_over() -> None:
    world = driven()
    world.pulsar.mute = {world.pulsar.brokers[3]}
    await minutes(world, 8 * 60)
    assert not pulsars(world) and gives_back(world) == 0
    load = [world.pulsar.load()[broker] for broker in world.pulsar.brokers[:3]]
    assert max(load) < 1.2 * sum(load) / 3


async def test_many_silent_brokers_give_pulsars_balancer_back_once_and_late_again() -> None:
    world = driven()
    await minutes(world, 5)
    world.pulsar.mute = set(world.pulsar.brokers[2:])
    await minutes(world, 14)
    assert not pulsars(world)
    await minutes(world, 3)
    assert pulsars(world) and gives_back(world) == 1
    since = cluster_status(world)["handover"]["restoredTime"]
    await minutes(world, 8 * 60)
    assert pulsars(world) and cluster_status(world)["handover"]["restoredTime"] == since
    world.pulsar.mute = set()
    await minutes(world, 9)
    assert pulsars(world) and world.condition("Completed", NAME) == ("True", "PulsarBalances")
    await minutes(world, 4)
    assert not pulsars(world) and gives_back(world) == 1
    assert cluster_status(world)["handover"] == {"count": 1}
    await minutes(world, 30)
    assert world.spread() < 1.2


async def test_it_is_not_taken_again_within_half_an_hour() -> None:
    world = driven()
    world.pulsar.mute = set(world.pulsar.brokers[2:])
    await minutes(world, 17)
    assert pulsars(world)
    world.pulsar.mute = set()
    await minutes(world, 27)
    assert pulsars(world)
    await minutes(world, 5)
    assert not pulsars(world)


@pytest.mark.parametrize(("silent", "handovers"), [(8, 0), (10, 1)])
async def test_brokers_that_come_and_go_do_not_pass_it_to_and_fro(silent: int, handovers: int) -> None:
    """Of six minutes they are silent for four, in which the operator balances in the others, or for five."""
    world, step = driven(), 0

    def flap() -> None:
        nonlocal step
        step += 1
        world.pulsar.mute = set(world.pulsar.brokers[2:]) if step % 12 < silent else set()

    await minutes(world, 8 * 60, act=flap)
    assert gives_back(world) == handovers and pulsars(world) is bool(handovers)
    assert handovers or world.spread() < 1.3


async def test_a_paused_standing_balancer_lets_pulsar_balance() -> None:
    world = driven()
    while world.status(NAME).get("progress", {}).get("done", 0) < 1:
        await minutes(world, 0.5)
    assert world.condition("Executing", NAME)[0] == "True", "paused in the middle of a plan"
    annotate(world, ANNOTATION_PAUSE, "true", NAME)
    await minutes(world, 14)
    assert not pulsars(world)
    await minutes(world, 4)
    assert pulsars(world) and gives_back(world) == 1
    await minutes(world, 60)
    annotate(world, ANNOTATION_PAUSE, None, NAME)
    await minutes(world, 1)
    assert world.condition("Executing", NAME)[0] == "False", "what was planned an hour ago is no plan"
    await minutes(world, 40)
    assert not pulsars(world) and world.spread() < 1.2


async def test_a_proposal_that_waits_for_approval_keeps_pulsars_balancer_off() -> None:
    """Who wants to be asked wants nothing moved meanwhile."""
    world = driven(autoApprove=False, expireSeconds=600)
    await minutes(world, 12 * 60)
    assert world.condition("Ready", NAME)[1] == "WaitingForApproval"
    assert not pulsars(world) and gives_back(world) == 0


async def test_a_standing_balancer_that_another_client_stopped_lets_pulsar_balance() -> None:
    world = driven(autoApprove=False)
    while world.condition("Ready", NAME)[1] != "WaitingForApproval":
        await minutes(world, 0.5)
    world.command("stop", NAME)
    await minutes(world, 20)
    assert pulsars(world)
    world.command("refresh", NAME)
    await minutes(world, 45)
    assert not pulsars(world)


async def test_one_that_cannot_be_made_lets_pulsar_balance() -> None:
    world = driven()
    world.kube.edit(CUSTOM[Kind.REBALANCE], NS, NAME, lambda obj: obj["metadata"].pop("ownerReferences"))
    await minutes(world, 17)
    assert pulsars(world) and gives_back(world) == 1


async def test_a_drain_still_takes_it_for_its_moves() -> None:
    world = driven()
    world.pulsar.mute = set(world.pulsar.brokers[2:])
    await minutes(world, 17)
    assert pulsars(world)
    since = cluster_status(world)["handover"]
    world.pulsar.before.pop()
    world.pulsar.mute = {world.pulsar.brokers[3]}
    first = world.pulsar.brokers[0]
    world.rebalance("drain", mode="RemoveBrokers", brokers=[first], autoApprove=True, repeatSeconds=30)
    for _ in range(80):
        before = len(world.pulsar.writes)
        await world.once("drain")
        if any(each.endswith("/unload") for each in world.pulsar.writes[before:]):
            assert FLAGS.items() <= world.pulsar.dynamic.items()
        await world.cluster_pass(drives=True)
        world.clock.moment += timedelta(seconds=2)
    assert first not in world.pulsar.owners.values() and pulsars(world)
    assert cluster_status(world)["handover"]["restoredTime"] == since["restoredTime"]
    assert gives_back(world) == 1


# --------------------------------------------------------------------------- what is lost, and who is killed


async def given_back(settings: Json | None = None) -> BalancingWorld:
    world = driven()
    world.pulsar.dynamic.update(settings or {})
    world.pulsar.mute = set(world.pulsar.brokers[2:])
    await minutes(world, 17)
    assert gives_back(world) == 1
    return world


def lose_status(world: BalancingWorld) -> None:
    kept = {name: value for name, value in cluster_status(world).items() if name not in ("balancer", "handover")}
    world._cluster_status(kept)


async def test_a_restart_and_a_lost_status_change_nothing() -> None:
    world = await given_back()
    since = cluster_status(world)["handover"]["restoredTime"]
    lose_status(world)
    world.restart()
    world.pulsar.mute = set()
    await minutes(world, 1)
    handover = cluster_status(world)["handover"]
    assert pulsars(world) and (handover["restoredTime"], handover["count"]) == (since, 1)
    await minutes(world, 40)
    lose_status(world)
    await minutes(world, 2)
    assert not pulsars(world) and cluster_status(world)["handover"] == {"count": 1}


async def test_what_another_client_set_while_pulsar_balanced_is_what_is_restored() -> None:
    world = await given_back()
    world.pulsar.dynamic["loadBalancerSheddingEnabled"] = "false"
    del world.pulsar.dynamic["theirs"]
    await minutes(world, 5)
    assert world.pulsar.dynamic == {"loadBalancerSheddingEnabled": "false"}, "it is restored once, not for ever"
    world.pulsar.mute = set()
    await minutes(world, 45)
    assert FLAGS.items() <= world.pulsar.dynamic.items()
    await world.cluster_pass()
    await world.cluster_pass()
    assert world.pulsar.dynamic == {"loadBalancerSheddingEnabled": "false"}


@pytest.mark.parametrize("verb", ["create", "apply"])
async def test_a_record_that_cannot_be_written_keeps_no_other_from_balancing(verb: str) -> None:
    """It is immutable, or a quota or a webhook refuses it; the status says all that it would."""
    world = driven()

    def refuse(call: Call) -> None:
        if (call.verb, call.kind, call.name) == (verb, CONFIG_MAPS.kind, "east-load-balancer"):
            raise RefusedError("data: Forbidden: field is immutable when `immutable` is set", status=422)

    world.kube.before.append(refuse)
    await minutes(world, 30)
    assert not pulsars(world) and world.spread() < 1.3
    world.pulsar.mute = set(world.pulsar.brokers[2:])
    await minutes(world, 17)
    assert pulsars(world) and gives_back(world) == 1
    world.pulsar.mute = set()
    await minutes(world, 45)
    assert not pulsars(world) and gives_back(world) == 1
    (told,) = {each for each in world.refused if "east-load-balancer" in each}
    assert "immutable" in told and "Delete the ConfigMap" in told


async def test_a_driver_that_changes_back_leaves_no_record() -> None:
    world = await given_back()
    assert world.kube.live(CONFIG_MAPS, NS, "east-load-balancer") is not None
    await world.cluster_pass()
    assert world.kube.live(CONFIG_MAPS, NS, "east-load-balancer") is None
    assert pulsars(world) and "handover" not in cluster_status(world)


async def test_settings_that_cannot_be_restored_are_tried_again() -> None:
    """The Service leads to the broker that does not answer."""
    world = driven()
    world.pulsar.mute = set(world.pulsar.brokers[2:])
    await minutes(world, 13)
    world.pulsar.mute.add("east-broker.apps:8080")
    await minutes(world, 6)
    assert not pulsars(world) and cluster_status(world)["handover"]["restoredTime"]
    world.pulsar.mute.discard("east-broker.apps:8080")
    await minutes(world, 0.5)
    assert pulsars(world) and gives_back(world) == 1


class Kill:
    """Ends the operator at one of its writes."""

    def __init__(self, world: BalancingWorld, number: int, *, after: bool) -> None:
        self.count, self.number = 0, number
        for hooks in (world.pulsar.after if after else world.pulsar.before,):
            hooks.append(lambda _: self._write())
        kube = world.kube.after if after else world.kube.before
        kube.append(lambda call: self._write() if call.is_write else None)

    def _write(self) -> None:
        self.count += 1
        if self.count == self.number:
            raise Killed


def story(kill: int = 0, *, after: bool = False) -> tuple[BalancingWorld, Kill, list[bool]]:
    """Silence, Pulsar's turn, answers, the operator's turn; killed at a write, with a restart at once."""
    world = driven()
    world.pulsar.owners = {key: world.pulsar.brokers[n % 4] for n, key in enumerate(world.pulsar.owners)}
    world.pulsar.rates = {}
    world.pulsar.mute = set(world.pulsar.brokers[2:])
    ender, turns = Kill(world, kill, after=after), []

    async def play() -> None:
        for minute in range(75):
            if minute == 30:
                world.pulsar.mute = set()
            for _ in range(2):
                try:
                    await world.once(NAME)
                    await world.cluster_pass(drives=True)
                except Killed:
                    world.restart()
                world.clock.moment += timedelta(seconds=30)
            turns.append(pulsars_or_half(world))

    asyncio.run(play())
    return world, ender, turns


def pulsars_or_half(world: BalancingWorld) -> bool:
    """Whether anything of Pulsar's balancer is on."""
    return not FLAGS.items() <= world.pulsar.dynamic.items()


WRITES = story()[1].count


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kill", range(1, WRITES + 1))
def test_killed_at_any_write_of_a_handover(kill: int, after: bool) -> None:
    world, ender, turns = story(kill, after=after)
    assert ender.count >= kill
    assert world.pulsar.dynamic == {**BEFORE, **FLAGS} and cluster_status(world)["handover"] == {"count": 1}
    record = world.kube.live(CONFIG_MAPS, NS, "east-load-balancer")
    assert record is not None and record["data"]["loadBalancerSheddingEnabled"] == "true"
    changes = sum(before is not now for before, now in zip([True, *turns], turns, strict=False))
    assert changes == 3, "taken, given back once, taken again"
    assert 28 <= sum(turns[2:]) <= 35
