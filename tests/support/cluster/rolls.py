"""Clusters in memory that roll: of three pods of each tier, and two of one instance."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.dataplane.rollout.versions import Jumps
from pulsar_operator.ports import PODS, Json
from tests.support.cluster.copies import made_once
from tests.support.cluster.workloads import Trouble
from tests.support.cluster.world import ClusterWorld, quickstart

OLD, NEW = "4.0.6", "4.0.8"
CLOSED = [{"schedule": "0 2 1 7 *", "minutes": 30}]
"""A window that opens in half a year."""
WEEK = 7 * 86400.0
BROKEN = Trouble(image="*:broken", waiting="ErrImagePull")


def of_three(spec: Json) -> None:
    spec["metadataStore"]["managed"]["replicas"] = 3
    spec["bookkeeper"]["replicas"] = spec["proxy"]["replicas"] = 3
    spec["broker"] |= {"replicas": 3, "drain": {"enabled": False}}
    spec["version"] = OLD


@made_once
async def brought_up(*manifests: Json, jumps: str = f"{OLD} <-> {NEW}") -> ClusterWorld:
    world = ClusterWorld.fakes()
    world.deps = replace(world.deps, jumps=Jumps.parse(jumps))
    world.restart()
    await world.apply(*manifests)
    await world.run()
    assert await world.all_ready() == {}
    return world


async def three(change: Callable[[Json], Any] = lambda spec: None, jumps: str = f"{OLD} <-> {NEW}") -> ClusterWorld:
    """A cluster of three of each, at the older version."""
    manifests = quickstart()[:2]
    of_three(manifests[1]["spec"])
    change(manifests[1]["spec"])
    return await brought_up(*manifests, jumps=jumps)


def one_of_each(spec: Json) -> None:
    """One ZooKeeper server and one bookie."""
    spec["metadataStore"]["managed"]["replicas"] = spec["bookkeeper"]["replicas"] = 1


async def two(brokers: int, change: Callable[[Json], Any] = lambda spec: None) -> ClusterWorld:
    """Clusters east and west of one instance, at the older version."""
    instance, east = quickstart()[:2]
    instance["spec"] = {"configurationStore": {"managed": {"replicas": 1, "storage": {"size": "1Gi"}}}}
    of_three(east["spec"])
    east["spec"].pop("proxy")
    east["spec"]["broker"]["replicas"] = brokers
    change(east["spec"])
    west = copy.deepcopy(east)
    west["metadata"]["name"] = "west"
    return await brought_up(instance, east, west)


async def images(world: ClusterWorld, workload: str) -> dict[str, str]:
    """Image by name of a workload's pods."""
    return {
        pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"]
        for pod in await world.backstage.all(PODS)
        if pod["metadata"]["name"].startswith(f"{workload}-")
    }


async def until(world: ClusterWorld, seen: Callable[[list[str]], Any]) -> None:
    """Rounds until what went by now is right."""

    async def right() -> bool:
        return bool(seen(world.journal.pods_gone()))

    await world.until(right)


async def reason(world: ClusterWorld, kind: str = "Progressing", name: str = "east") -> str:
    return str((await world.condition(Kind.CLUSTER, name, kind))[1])


def version(text: str) -> Callable[[Json], Any]:
    return lambda spec: spec.update(version=text)
