"""Upgrades whose first pod of a component is ready and does not restart, but errs: beside its peers, or as they do."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import PODS, Json
from tests.support.cluster.workloads import is_ready
from tests.support.cluster.world import ClusterWorld
from tests.unit.cluster.test_cluster_rolls import NEW, images, reason, three, version

MINUTES = 15
BROKERS = ("east-broker-0", "east-broker-1", "east-broker-2")
COMPARED = "are compared with those of 2 other pods"


def canary(spec: Json) -> None:
    spec["upgrade"] = {"canary": {"minutes": MINUTES}}


def alone(spec: Json) -> None:
    canary(spec)
    spec["broker"]["replicas"] = 1


async def serve(world: ClusterWorld, pod: str, lines: int, errors: int) -> None:
    """What a broker has counted: lines of its log, and those that are errors."""
    found = await world.live(PODS, pod)
    assert found is not None
    page = f'log4j2_appender_total{{level="info"}} {lines - errors}\nlog4j2_appender_total{{level="error"}} {errors}\n'
    world.counters.pages[f"http://{found['status']['podIP']}:8080/metrics/"] = page


async def newer(world: ClusterWorld, workload: str = "east-broker") -> list[str]:
    """Pods of the newer version."""
    return [name for name, image in (await images(world, workload)).items() if image.endswith(NEW)]


async def to_the_first_broker(world: ClusterWorld) -> str:
    """Upgrade until the first broker is watched."""
    await world.change(Kind.CLUSTER, "east", version(NEW))
    for _ in range(20):
        await world.run()
        if found := await newer(world):
            assert len(found) == 1
            return found[0]
        world.clock.forward(MINUTES * 60)
    raise AssertionError(await world.status(Kind.CLUSTER, "east"))


async def to_the_end(world: ClusterWorld) -> None:
    """Watches go by until nothing is left to be replaced."""
    for _ in range(20):
        world.clock.forward(MINUTES * 60)
        await world.run()
        if (await world.condition(Kind.CLUSTER, "east", "UpToDate"))[0] == "True":
            return
    raise AssertionError(await world.status(Kind.CLUSTER, "east"))


async def waits(world: ClusterWorld) -> str:
    return str((await world.status(Kind.CLUSTER, "east"))["rollout"]["message"])


async def rows(world: ClusterWorld) -> dict[str, Any]:
    found = (await world.status(Kind.CLUSTER, "east")).get("canaries") or ()
    return {row["component"]: row for row in found}


_WATCHED: list[tuple[ClusterWorld, str]] = []


async def watched() -> tuple[ClusterWorld, str]:
    """A copy of a cluster whose first broker of the newer version is watched, which takes long to make; metrics are
    read of nobody."""
    if not _WATCHED:
        world = await three(canary)
        _WATCHED.append((world, await to_the_first_broker(world)))
    world, first = _WATCHED[0]
    world = copy.deepcopy(world)
    world.restart()
    return world, first


async def began() -> tuple[ClusterWorld, str]:
    """A cluster whose first broker of the newer version is compared from now on."""
    world, first = await watched()
    for name in BROKERS:
        await serve(world, name, 5000, 7)
    await world.run()
    assert "are not compared yet, because there are too few operations" in await waits(world)
    return world, first


@pytest.mark.parametrize("killed", [False, True])
async def test_a_first_pod_that_errs_goes_back_although_it_is_ready(killed: bool) -> None:
    """Also when the operator that began the comparison is not the one that ends it."""
    world, first = await began()
    if killed:
        world.restart()
    for name in BROKERS:
        await serve(world, name, 6000, 107 if name == first else 7)
    await world.run()
    status, why, text = await world.condition(Kind.CLUSTER, "east", "Progressing")
    assert (status, why) == ("False", "CanaryFailed")
    words = "on this pod 100 of 1000 lines of the log are errors, and on its peers 0 of 2000"
    assert f"Pod {first} of version {NEW} has more errors than its peers: {words}" in text
    assert await newer(world) == [], "the last good template went back"
    assert [name for name in await newer(world, "east-bookie")] != [], "tiers before it stay"
    assert all(map(is_ready, await world.backstage.all(PODS)))
    assert "broker" not in await rows(world)


async def test_errors_that_its_peers_have_too_are_not_its_own() -> None:
    world, _ = await began()
    for name in BROKERS:
        await serve(world, name, 6000, 107)
    await world.run()
    assert COMPARED in await waits(world)
    await to_the_end(world)
    assert sorted(await newer(world)) == list(BROKERS)
    assert await rows(world) == {}


async def test_errors_of_before_the_comparison_and_idle_peers_fail_nothing() -> None:
    world, first = await watched()
    for name in BROKERS:
        await serve(world, name, 5000, 4000 if name == first else 0)
    await world.run()
    await serve(world, first, 5009, 4009)
    await world.run()
    assert await reason(world) == "RolloutInProgress"
    await to_the_end(world)


async def test_metrics_that_nobody_can_read_fail_nothing_and_that_is_said() -> None:
    world, first = await watched()
    text = await waits(world)
    assert (
        f"Pod {first} runs another version and is" in text and "cannot be compared, because the metrics of pod" in text
    )
    await to_the_end(world)


async def test_a_server_without_metrics_is_not_compared() -> None:
    world = await three(canary)
    await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.run()
    assert "cannot be compared, because pod east-zookeeper-" in await waits(world)
    assert "has no port for metrics" in await waits(world)


async def test_the_only_pod_of_a_component_is_not_compared() -> None:
    world = await three(alone)
    await to_the_first_broker(world)
    await serve(world, "east-broker-0", 100, 100)
    await world.run()
    await to_the_end(world)
    assert await newer(world) == ["east-broker-0"]


@pytest.mark.parametrize(
    "spec", [{}, {"upgrade": {"canary": {"minutes": 0}}}, {"upgrade": {"canary": {"minutes": 15}}}]
)
async def test_nothing_is_read_where_no_first_pod_is_watched(spec: Json) -> None:
    """A change that is no upgrade, or an upgrade without a canary."""
    world = await three(lambda found: found.update(spec))
    if "15" in str(spec):
        await world.change(Kind.CLUSTER, "east", lambda found: found["proxy"].update(config={"httpNumThreads": "9"}))
    else:
        await world.change(Kind.CLUSTER, "east", version(NEW))
    await world.run()
    assert world.journal.pods_gone() != []
    assert world.counters.asked == []
