"""Autoscaling of brokers that do not start: no node has room for them, or something keeps all that are new from it."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from tests.support.cluster.scaling import LIMITS, TARGET, WINDOWS, minutes, said, scaling, wanted
from tests.support.cluster.workloads import Trouble


async def test_one_that_fits_on_no_node_keeps_no_other_from_leaving() -> None:
    world, loads = await scaling()
    world.workloads.troubles.append(Trouble(pod="east-broker-3", unschedulable=True))
    loads.total = 3.6 * TARGET
    await minutes(world, loads, 8)
    assert await wanted(world) == 4, "no other would find room either"
    loads.total = 1.2 * TARGET
    await minutes(world, loads, 30)
    assert await wanted(world) == 2 and await said(world) == ("True", "WithinTarget")
    assert world.busy.displaced == [] and await world.all_ready() == {}


@pytest.mark.parametrize("waiting", ["ImagePullBackOff", "CrashLoopBackOff"])
async def test_what_keeps_new_ones_from_starting_asks_for_one_more_and_no_second_one(waiting: str) -> None:
    world, loads = await scaling()
    limits = LIMITS | {"maxReplicas": 20, "behavior": WINDOWS}
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(autoscaling=limits))
    world.workloads.troubles += [Trouble(pod=f"east-broker-{n}", waiting=waiting) for n in range(2, 20)]
    loads.total = 2.6 * TARGET
    await minutes(world, loads, 60)
    assert await wanted(world) == 4, "another one is tried, for the node of the first may be bad"
    world.workloads.troubles.clear()
    await minutes(world, loads, 5)
    assert await world.all_ready() == {}
    await minutes(world, loads, 15)
    assert await wanted(world) == 3 and await said(world) == ("True", "WithinTarget")


@pytest.mark.parametrize(
    ("part", "meanwhile", "least"),
    [("bookkeeper", ("False", "RolloutInProgress"), 2), ("broker", ("True", "ScaledOut"), 3)],
)
async def test_a_roll_that_stopped_and_went_back_keeps_no_broker_from_being_added(
    part: str, meanwhile: tuple[str, str], least: int
) -> None:
    """It waits for the specification to be changed, by day or by night. A roll of the brokers themselves leaves one
    broker with the load of two, which asks for one more. The operator gives that one its share, and lets one leave,
    once the roll is over."""
    world, loads = await scaling()
    waits = {"PulsarRebalance east"} if part == "broker" else set()
    pods = "east-bookie-*" if part == "bookkeeper" else "east-broker-*"
    world.workloads.troubles.append(Trouble(pod=pods, waiting="CrashLoopBackOff"))
    config = {"gcWaitTime": "900001"} if part == "bookkeeper" else {"maxProducersPerTopic": "7"}
    await world.change(Kind.CLUSTER, "east", lambda spec: spec[part].update(config=config))
    for _ in range(200):
        world.clock.forward(10.0)
        await loads.serve()
        await world.round()
        if (await world.condition(Kind.CLUSTER, "east", "Progressing"))[1] == "RolloutFailed":
            break
    assert await said(world) == meanwhile
    world.workloads.troubles.clear()
    await world.run(rounds=300, each=loads.serve)
    assert {name.partition("-fill")[0] for name in await world.all_ready()} == waits
    assert (await world.condition(Kind.CLUSTER, "east", "Progressing"))[1] == "RolloutFailed"
    loads.total = 2.6 * TARGET
    await minutes(world, loads, 4)
    assert await wanted(world) == 3
    assert {name.partition("-fill")[0] for name in await world.all_ready()} == waits
    loads.total = 1.2 * TARGET
    await minutes(world, loads, 12)
    assert await wanted(world) == least and world.busy.displaced == []
