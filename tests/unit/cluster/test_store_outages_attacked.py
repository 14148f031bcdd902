"""Outages of the configuration store at the worst moment: while brokers wait for their roll, again and again, with a
status that is not written or lost, another operator, clocks that step, and sessions that are not what was asked for."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM, PODS, STATEFUL_SETS, UnavailableError
from tests.support.cluster.outages import MANAGED, away, look, pair
from tests.support.cluster.rolls import CLOSED, brought_up, one_of_each
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import ClusterWorld, quickstart
from tests.support.core.journal import KUBERNETES, PortCall

EXTERNAL = "zk.example:2181"
EAST, WEST = (tuple(f"{cluster}-broker-{n}" for n in (0, 1)) for cluster in ("east", "west"))


async def windows(world: ClusterWorld, *, closed: bool) -> None:
    for name in ("east", "west"):
        await world.change(
            Kind.CLUSTER, name, lambda spec: spec.update(maintenanceWindows=list(CLOSED) if closed else [])
        )
    await world.run()


async def wiped(world: ClusterWorld, kind: Kind, name: str) -> None:
    """Somebody takes a status away."""
    await world.backstage.edit(CUSTOM[kind], world.namespace, name, lambda obj: obj.pop("status", None))


class Gone:
    """Pods that are replaced from now on."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world, self._mark = world, len(world.journal.pods_gone())

    def names(self) -> list[str]:
        return self._world.journal.pods_gone()[self._mark :]

    def brokers(self) -> list[str]:
        return sorted(name for name in self.names() if "-broker-" in name)


# ------------------------------------------------------------------------------------------ several, one after another


async def test_a_short_one_while_the_second_cluster_waits_for_the_first() -> None:
    world = await pair()
    gone = Gone(world)
    await away(world, 60)

    async def begun() -> bool:
        return bool(gone.names())

    await world.until(begun)
    assert len(gone.names()) == 1
    await away(world, 10)
    await world.run()
    assert gone.brokers() == sorted(EAST + WEST)


async def test_a_short_one_while_a_window_is_waited_for() -> None:
    world = await pair()
    await windows(world, closed=True)
    gone = Gone(world)
    await away(world, 60)
    await world.run()
    for _ in range(3):
        await away(world, 10)
        await world.run()
    assert gone.names() == []
    await windows(world, closed=False)
    assert gone.brokers() == sorted(EAST + WEST)


async def test_a_short_one_while_a_cluster_is_paused() -> None:
    world = await pair()
    await world.pause(Kind.CLUSTER, "west")
    gone = Gone(world)
    await away(world, 60)
    await away(world, 10)
    await world.run()
    assert gone.brokers() == sorted(EAST)
    await world.pause(Kind.CLUSTER, "west", on=False)
    await world.run()
    assert gone.brokers() == sorted(EAST + WEST)


async def test_clusters_whose_sessions_are_not_alike() -> None:
    """The second outage is one for those of east alone; that of west came before."""
    world = await pair()
    short = {"metadataStoreSessionTimeoutMillis": "10000"}
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(config=short))
    await world.run()
    await windows(world, closed=True)
    gone = Gone(world)
    await away(world, 60)
    await away(world, 10)
    await windows(world, closed=False)
    assert gone.brokers() == sorted(EAST + WEST)


async def test_a_store_that_comes_and_goes_keeps_nobody_waiting_for_ever_and_its_status_is_bounded() -> None:
    world = await pair()
    await windows(world, closed=True)
    gone = Gone(world)
    for seconds in (300, 250, 200, 150, 120, 110, 100, 90, 80, 70, 60, 50, 40):
        await away(world, seconds)
    stored = (await world.status(Kind.INSTANCE, "demo"))["configurationStoreOutages"]
    assert 1 < len(stored) <= 8
    assert stored == sorted(stored, key=lambda each: each["until"], reverse=True)
    await windows(world, closed=False)
    assert gone.brokers() == sorted(EAST + WEST), "each once"


# ------------------------------------------------------------------------------------- what is known, and by whom


async def test_a_status_that_could_not_be_written_when_it_ended() -> None:
    world = await pair()
    gone = Gone(world)
    await look(world)
    world.unreachable.add(MANAGED)
    for _ in range(6):
        await look(world, 10)
    world.unreachable.clear()
    refused: list[PortCall] = []

    def refuse(call: PortCall) -> None:
        if call.port == KUBERNETES and call.is_write and call.kind == "PulsarInstance" and len(refused) < 2:
            refused.append(call)
            raise UnavailableError("the API server does not answer")

    world.journal.before.append(refuse)
    for _ in range(3):
        await look(world, 10)
    assert len(refused) == 2
    await world.run()
    assert gone.brokers() == sorted(EAST + WEST)


async def test_a_status_that_somebody_took_away() -> None:
    world = await pair()
    await windows(world, closed=True)
    gone = Gone(world)
    await away(world, 60)
    await wiped(world, Kind.INSTANCE, "demo")
    await world.run()
    await windows(world, closed=False)
    assert gone.brokers() == sorted(EAST + WEST)


@pytest.mark.parametrize("seen", [0, 1], ids=["before anybody looked", "after it was told"])
async def test_an_operator_that_is_started_while_the_stores_pods_are_not_ready(seen: int) -> None:
    """Their readiness tells first, and the reason then is not that nobody answers."""
    world = await pair()
    gone = Gone(world)
    await look(world)
    world.workloads.troubles.append(Trouble(pod="demo-configuration-store-*"))
    await world.backstage.remove(PODS, world.namespace, "demo-configuration-store-0")
    await world.idle_steps(3)
    for _ in range(seen):
        await look(world, 5)
    world.restart()
    for _ in range(6):
        await look(world, 10)
    world.workloads.troubles.clear()
    await world.idle_steps(3)
    await world.run()
    assert gone.brokers() == sorted(EAST + WEST)


async def test_a_bring_up_is_told_as_no_outage() -> None:
    world = await pair()
    assert "configurationStoreOutages" not in await world.status(Kind.INSTANCE, "demo")
    world.restart()
    await world.run()
    assert "configurationStoreOutages" not in await world.status(Kind.INSTANCE, "demo")


# ------------------------------------------------------------------------------------------------------------ clocks


async def test_a_clock_that_was_ahead_at_the_outage_before_hides_none() -> None:
    world = await pair()
    gone = Gone(world)
    world.clock.forward(7200)
    await look(world)
    await away(world, 60)
    await world.run()
    assert len(gone.names()) == 4
    world.clock.forward(-7000)
    await look(world)
    await away(world, 60)
    await world.run()
    assert len(gone.names()) == 8


async def test_a_clock_that_is_set_back_in_an_outage() -> None:
    world = await pair()
    world.clock.forward(86400)
    await world.run()
    gone = Gone(world)
    await look(world)
    world.unreachable.add(MANAGED)
    for seconds in (10, 10, 10, -3600, 10, 10, 10):
        await look(world, seconds)
    world.unreachable.clear()
    await look(world)
    await world.run()
    assert gone.brokers() == sorted(EAST + WEST)


@pytest.mark.parametrize("late", [0, 1])
async def test_a_clock_that_is_set_forward_makes_no_long_outage_of_a_short_one(late: int) -> None:
    """Nor does a process that stood still, and finds the store silent for a moment when it goes on."""
    world = await pair()
    world.clock.step = 0.1
    gone = Gone(world)
    await look(world)
    if late:
        world.unreachable.add(MANAGED)
        await look(world, 5)
        await look(world, 7200)
    else:
        world.clock.forward(7200)
        world.unreachable.add(MANAGED)
        await look(world)
    world.unreachable.clear()
    await look(world)
    await world.run()
    assert gone.names() == []


# ---------------------------------------------------------------------------------------------------------- sessions


async def asking(world: ClusterWorld, config: dict[str, str]) -> None:
    """Brokers of both clusters get settings."""
    for name in ("east", "west"):
        await world.change(Kind.CLUSTER, name, lambda spec: spec["broker"].update(config=dict(config)))
    await world.run()


async def test_a_session_lasts_no_longer_than_the_servers_grant() -> None:
    world = await pair()
    await asking(world, {"metadataStoreSessionTimeoutMillis": "120000"})
    gone = Gone(world)
    await away(world, 60)
    await world.run()
    assert gone.brokers() == sorted(EAST + WEST)


async def test_brokers_that_have_one_store_for_all_have_one_session_for_all() -> None:
    """An external ensemble is the configuration store and the metadata store of one cluster, below one path."""
    instance, east = quickstart()[:2]
    instance["spec"] = {"configurationStore": {"external": {"servers": EXTERNAL}}}
    one_of_each(east["spec"])
    east["spec"]["metadataStore"] = {"external": {"servers": EXTERNAL.removesuffix(":2181")}}
    east["spec"]["broker"]["drain"] = {"enabled": False}
    west = copy.deepcopy(east)
    west["metadata"]["name"] = "west"
    west["spec"]["metadataStore"]["external"]["chroot"] = "/west"
    world = await brought_up(instance, east, west)
    gone = Gone(world)
    await away(world, 60, "zk.example")
    await world.run()
    assert gone.names() == ["west-broker-0"]


# ------------------------------------------------------------------------------------------- a roll that was stopped


async def test_an_outage_tries_nothing_again_that_failed() -> None:
    world = await pair()
    world.workloads.troubles.append(Trouble(image="*:broken", waiting="ErrImagePull"))
    broken = {"broker": "registry.example/pulsar-broker:broken"}
    await world.change(Kind.CLUSTER, "east", lambda spec: spec.update(image=dict(broken)))

    async def stopped() -> bool:
        world.clock.forward(120)
        return any(each.reason == "RolloutFailed" for each in world.journal.events)

    await world.until(stopped)
    await world.run()
    gone = Gone(world)
    await away(world, 60)
    for _ in range(20):
        world.clock.forward(120)
        await world.round()
    images: Any = {
        pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in await world.backstage.all(PODS)
    }
    assert not any(image.endswith(":broken") for image in images.values())
    assert [name for name in gone.names() if name.startswith("east")] == []
    template: Any = (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["template"]
    assert not template["spec"]["containers"][0]["image"].endswith(":broken")
