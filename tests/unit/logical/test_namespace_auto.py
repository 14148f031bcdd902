"""bundles.sizing: Auto: a new namespace is cut where it should be, without a single split."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.balance.sizing.result import SizingResult
from pulsar_operator.controllers.logical.namespace import NamespaceController
from pulsar_operator.ports import Json, UnavailableError
from tests.support.logical.world import LogicalWorld

AUTO: Json = {"tenantRef": {"name": "shop"}, "bundles": {"sizing": "Auto"}}
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


class Sizing:
    """ports.SizingPort with one answer or error."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def latest(self, url: str, cluster: str) -> Any:
        """See ports.SizingPort."""
        assert (url, cluster) == ("http://prod-sizing.apps:8080", "a")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def outlook(self, url: str, cluster: str) -> Any:
        """See ports.SizingPort."""
        return await self.latest(url, cluster)


def world_of(brokers: int, sizing: Any = None) -> LogicalWorld:
    world = LogicalWorld("a")
    world.pulsar.live_brokers["a"] = [f"a-broker-{n}.x:8080" for n in range(brokers)]
    if sizing is not None:
        deps = replace(world.controllers[Kind.NAMESPACE].deps, sizing=Sizing(sizing))
        world.controllers[Kind.NAMESPACE] = NamespaceController(deps)
    world.tenant("shop")
    return world


def boundaries(world: LogicalWorld) -> list[int]:
    return [int(each, 16) for each in world.pulsar.namespaces["shop/orders"]["bundles"]["boundaries"]]


def spread(bounds: list[int], names: list[str]) -> list[int]:
    """How many names each bundle holds."""
    inside = [0] * (len(bounds) - 1)
    for name in names:
        position = crc32(name.encode())
        inside[max(n for n in range(len(inside)) if bounds[n] <= position)] += 1
    return inside


async def test_nothing_known_is_even_and_a_multiple_of_the_brokers() -> None:
    world = world_of(3)
    world.namespace("orders", **AUTO)
    await world.run()
    assert len(boundaries(world)) - 1 == 66
    assert world.condition(Kind.NAMESPACE, "orders", "Ready")[0] == "True"


async def test_declared_topics_and_partitions_are_cut_apart() -> None:
    world = world_of(3)
    world.topic("clicks", namespaceRef={"name": "orders"}, partitions=16)
    world.topic("elsewhere", namespaceRef={"name": "other"}, partitions=64)
    world.namespace("orders", **AUTO)
    await world.run()
    names = [f"persistent://shop/orders/clicks-partition-{n}" for n in range(16)]
    assert max(spread(boundaries(world), names)) == 1
    assert "16 declared topics" in next(e.message for e in world.kube.events if "Create namespace" in e.message)


def _said(world: LogicalWorld) -> str:
    return next(e.message for e in world.kube.events if "Create namespace" in e.message)


async def test_topics_of_sets_count_as_single_ones_do() -> None:
    world = world_of(3)
    here = {"namespaceRef": {"name": "orders"}}
    world.topics("c", **here, count={"prefix": "clicks-", "first": 5, "number": 40}, template={"partitions": 2})
    world.topics("n", **here, names=["a", "b", "clicks-0"])
    world.topic("a", **here)
    world.topics("p", **here, patterns=["*"])
    world.topics("wrong", **here, names=["x"], count={"prefix": "x-", "number": "many"})
    world.topics("elsewhere", namespaceRef={"name": "other"}, count={"prefix": "o-", "number": 64})
    world.namespace("orders", **AUTO)
    await world.run()
    parts = [f"clicks-{n}-partition-{part}" for n in range(5, 45) for part in range(2)]
    names = [f"persistent://shop/orders/{name}" for name in (*parts, "a", "b", "clicks-0")]
    assert f"{len(names)} declared topics and partitions" in _said(world)
    assert max(spread(boundaries(world), names)) == 2


async def test_of_very_large_sets_every_nth_topic_counts_with_all_its_partitions() -> None:
    world = world_of(2)
    template = {"partitions": 100}
    for prefix in ("a-", "b-"):
        count = {"prefix": prefix, "number": 1_000_000}
        world.topics(prefix, namespaceRef={"name": "orders"}, count=count, template=template)
    world.namespace("orders", **AUTO)
    await world.reconcile(Kind.TENANT, "shop")
    await world.reconcile(Kind.NAMESPACE, "orders")
    assert "100000 declared topics and partitions" in _said(world)
    names = [f"persistent://shop/orders/a-{n}" for n in range(0, 1_000_000, 1000)]
    held = spread(boundaries(world), names)
    assert max(held) <= 3 * sum(held) / len(held)


def recorded(cells: list[Json]) -> SizingResult:
    """A sizing result that has seen the namespace in another life."""
    sizing = {"namespace": "shop/orders", "bundlesNow": 4, "boundaries": [], "freshBoundaries": [], "weight": 4000.0}
    result = {
        "instance": "prod", "cluster": "a", "generatedTime": MOMENT, "fromTime": MOMENT, "toTime": MOMENT, "samples": 9,
        "completeness": 1, "percentile": 95, "growth": 1, "partitions": [], "brokers": [],
        "verdict": {"verdict": "Unknown", "brokersNow": 2, "brokers": 2, "reason": ""},
        "balance": {"before": 1, "after": 1, "bound": 1},
        "namespaces": [{**sizing, "hottestTopic": "", "hottestWeight": 100.0, "cells": cells, "reason": ""}],
    }  # fmt: skip
    return SizingResult.model_validate(result)


async def test_recorded_traffic_decides_where_there_is_any() -> None:
    world = world_of(2, recorded([{"position": 1000 + n * 10, "weight": 100.0} for n in range(40)]))
    world.namespace("orders", **AUTO)
    await world.run()
    assert any(1000 < bound < 1400 for bound in boundaries(world))


@pytest.mark.parametrize(("cpus", "busiest"), [(("1", "1"), "1.00"), (("1", "3"), "1.33")])
async def test_bundles_are_for_brokers_of_the_size_they_have(cpus: tuple[str, str], busiest: str) -> None:
    """Two topics on brokers of which one is three times the other: both belong onto the large one."""
    world = world_of(2, recorded([{"position": position, "weight": 100.0} for position in (1, 1 << 31)]))
    declared = {f"a-broker-{number}": cpu for number, cpu in enumerate(cpus)}
    spec = {"instanceRef": {"name": "prod"}, "loadBalancing": {"capacities": declared}}
    world.put(Kind.CLUSTER, "a", spec)
    world.cluster_status("a", ready=True)
    world.namespace("orders", **AUTO)
    await world.run()
    assert f"The busiest of 2 brokers gets {busiest} times the mean" in _said(world)


async def test_a_sizing_service_that_is_away_does_not_keep_the_namespace_from_being_made() -> None:
    world = world_of(2, UnavailableError("no such host"))
    world.namespace("orders", **AUTO)
    await world.run()
    assert len(boundaries(world)) - 1 == 64


async def test_later_splits_and_an_adopted_namespace_are_no_drift() -> None:
    world = world_of(2)
    world.namespace("orders", **AUTO)
    await world.run()
    held = world.pulsar.namespaces["shop/orders"]["bundles"]
    held["boundaries"] = sorted([*held["boundaries"], "0x00000123"])
    held["numBundles"] += 1
    await world.run()
    assert world.condition(Kind.NAMESPACE, "orders", "Drifted")[0] == "False"
