"""ConfigMap <cluster>-capacities: what the sizing job is told of brokers of different size."""

from __future__ import annotations

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CONFIG_MAPS, PODS, Json
from pulsar_sizing.job import cli
from tests.support.cluster.copies import converged
from tests.support.cluster.world import NS, ClusterWorld, quickstart

NAME = "east-capacities"


async def started(brokers: int = 3) -> ClusterWorld:
    manifests = quickstart()
    manifests[1]["spec"]["broker"]["replicas"] = brokers
    world = await converged(*manifests)
    assert await world.all_ready() == {}
    return world


async def told(world: ClusterWorld) -> dict[str, str] | None:
    """What the job makes of it; None where there is nothing."""
    found = await world.live(CONFIG_MAPS, NAME)
    return None if found is None else cli.capacities(found["data"]["capacities"])


async def resize(world: ClusterWorld, pod: str, cpu: str) -> None:
    """Somebody gives a running pod another CPU."""

    def change(obj: Json) -> None:
        container = next(each for each in obj["spec"]["containers"] if each["name"] == "broker")
        container["resources"] = {"limits": {"cpu": cpu}}

    await world.backstage.edit(PODS, NS, pod, change)


def declared(spec: Json) -> None:
    spec["loadBalancing"] = {"capacities": {"east-broker-1": "8"}}


async def test_equal_brokers_have_none() -> None:
    assert await told(await started()) is None


async def test_pods_of_different_size_are_told_until_they_are_equal_again() -> None:
    world = await started()
    for number, cpu in enumerate(("500m", "1", "1500m")):
        await resize(world, f"east-broker-{number}", cpu)
    await world.run()
    assert await told(world) == {"east-broker-0": "0.5", "east-broker-1": "1", "east-broker-2": "1.5"}
    owners = (await world.get(CONFIG_MAPS, NAME))["metadata"]["ownerReferences"]
    assert [each["name"] for each in owners] == ["east"], "it goes with the cluster"
    for number in range(3):
        await resize(world, f"east-broker-{number}", "2")
    await world.run()
    assert await told(world) is None


async def test_what_is_declared_wins() -> None:
    world = await started(2)
    await resize(world, "east-broker-0", "4")
    await resize(world, "east-broker-1", "4")
    await world.change(Kind.CLUSTER, "east", declared)
    await world.run()
    assert await told(world) == {"east-broker-0": "4", "east-broker-1": "8"}


async def test_a_roll_to_another_cpu_says_nothing_in_between() -> None:
    world = await started()
    seen: list[dict[str, str] | None] = []

    def larger(spec: Json) -> None:
        spec["broker"]["resources"] = {"requests": {"cpu": "3", "memory": "1Gi"}}

    async def look() -> None:
        seen.append(await told(world))

    await world.change(Kind.CLUSTER, "east", larger)
    await world.run(each=look)
    pods = [await world.get(PODS, f"east-broker-{number}") for number in range(3)]
    assert [pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in pods] == ["3"] * 3
    assert set(map(str, seen)) == {"None"}
