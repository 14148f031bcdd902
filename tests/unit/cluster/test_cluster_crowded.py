"""A roll beside a pod that was added and fits on no node."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CONFIG_MAPS, STATEFUL_SETS, Json
from tests.support.cluster.rolls import NEW, images, reason, three, until, version
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import NS, ClusterWorld

FULL = "0/3 nodes are available: 3 Insufficient cpu"


def no_place(pod: str, image: str = "*") -> Trouble:
    return Trouble(pod=pod, image=image, unschedulable=True, message=FULL)


def bookies(spec: Json) -> None:
    spec["metadataStore"]["managed"]["replicas"] = spec["broker"]["replicas"] = 1
    spec.pop("proxy")


def brokers(spec: Json) -> None:
    spec["metadataStore"]["managed"]["replicas"] = spec["bookkeeper"]["replicas"] = 1
    spec.pop("proxy")


async def later(world: ClusterWorld) -> None:
    world.clock.forward(3600)
    await world.run()


@pytest.mark.parametrize("component", ["bookie", "broker"])
async def test_a_pod_that_was_added_and_has_no_place_stops_no_roll(component: str) -> None:
    """It is added in the middle of the roll; no template goes back, and the roll goes on when there is room."""
    world = await three(bookies if component == "bookie" else brokers)
    extra = f"east-{component}-3"
    world.workloads.troubles.append(no_place(extra))
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await until(world, lambda gone: sum(component in name for name in gone) == 1)
    field = "bookkeeper" if component == "bookie" else component
    await world.change(Kind.CLUSTER, "east", lambda spec: spec[field].update(replicas=4))
    await world.run()
    await later(world)
    status, found, message = await world.condition(Kind.CLUSTER, "east", "Progressing")
    assert (status, found) == ("True", "Unschedulable")
    assert f"{extra} was added to 3 pods" in message and "Add capacity" in message
    assert ("lower the number of replicas" in message) == (component == "broker"), "bookies are not taken away"
    template = (await world.get(STATEFUL_SETS, f"east-{component}"))["spec"]["template"]["spec"]
    assert template["containers"][0]["image"].endswith(NEW)
    world.workloads.troubles.clear()
    await world.run()
    assert await reason(world) == "Ready"
    assert all(image.endswith(NEW) for image in (await images(world, f"east-{component}")).values())


async def test_what_waits_for_its_tier_names_the_pod_too() -> None:
    world = await three(bookies)
    world.workloads.troubles.append(no_place("east-bookie-3"))
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(replicas=4))
    await world.run()
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["broker"].update(config={"maxProducersPerTopic": "7"}))
    await world.run()
    await later(world)
    _, found, message = await world.condition(Kind.CLUSTER, "east", "Progressing")
    assert (
        found == "Unschedulable"
        and "rollout of the broker pods" in message
        and "east-bookie-3 was added to 3 pods" in message
    )


@pytest.mark.parametrize("known", [True, False])
async def test_a_template_whose_pods_fit_nowhere_stops_its_roll(known: bool) -> None:
    """A pod that ran had a place, so the change lost it; so it is said too where nobody noted how many ran."""
    world = await three(brokers)
    if not known:
        await world.backstage.edit(CONFIG_MAPS, NS, "east-broker-templates", lambda obj: obj["data"].pop("ran"))
        await world.pause(Kind.CLUSTER, "east")
    world.workloads.troubles.append(no_place("*", image=f"pulsar-broker:{NEW}"))
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.pause(Kind.CLUSTER, "east", on=False)
    await world.run()
    await later(world)
    assert await reason(world) == "RolloutFailed"
    template = (await world.get(STATEFUL_SETS, "east-broker"))["spec"]["template"]["spec"]
    assert not template["containers"][0]["image"].endswith(NEW), "the last good one is back"


async def test_how_many_ran_follows_the_number_of_pods() -> None:
    world = await three(brokers)
    for replicas in (5, 2):
        await world.change(Kind.CLUSTER, "east", lambda spec, n=replicas: spec["broker"].update(replicas=n))
        await world.run()
        assert (await world.get(CONFIG_MAPS, "east-broker-templates"))["data"]["ran"] == str(replicas)
