"""Brokers with autoscaling that foresee by recorded traffic, and the service that tells them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from pulsar_operator.api.constants import Kind
from pulsar_operator.balance.sizing.result import ExpectedBalance, HottestTopic, SizingResult, TrafficProfile, Verdict
from pulsar_operator.ports import Json
from tests.support.cluster.busy import BusyWorld
from tests.support.cluster.scaling import LIMITS, WINDOWS, Loads, minutes, row, scaling


class Sizing:
    """ports.SizingPort with one answer or error; None = no result."""

    def __init__(self, answer: SizingResult | Exception | None) -> None:
        self.answer = answer
        self.hangs = False
        self.asked: list[tuple[str, str]] = []

    async def latest(self, url: str, cluster: str) -> Any:
        """See ports.SizingPort."""
        raise AssertionError("a forecast needs none of what is about bundles")

    async def outlook(self, url: str, cluster: str) -> Any:
        """See ports.SizingPort."""
        self.asked.append((url, cluster))
        if self.hangs:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def rising(now: datetime, times: float = 2.0) -> TrafficProfile:
    """A day with so many times as much in the hour after this one."""
    hours = [1000.0] * 24
    hours[(now.hour + 1) % 24] = 1000.0 * times
    return TrafficProfile(period="Day", hours=tuple(hours), recorded=168)


def result(until: datetime, profile: TrafficProfile | None = None, hottest: HottestTopic | None = None) -> SizingResult:
    """What the job concluded from a week that ends then."""
    return SizingResult(
        instance="demo",
        cluster="east",
        generated_time=until,
        from_time=until - timedelta(days=7),
        to_time=until,
        samples=1,
        completeness=1.0,
        percentile=95.0,
        growth=1.2,
        namespaces=(),
        partitions=(),
        brokers=(),
        verdict=Verdict(verdict="RightSized", brokers_now=2, brokers=2, reason="enough", hottest=hottest),
        balance=ExpectedBalance(before=1.0, after=1.0, bound=1.0),
        profile=profile,
    )


def foresees(spec: Json) -> None:
    """A user asks for it."""
    spec["broker"]["autoscaling"] = LIMITS | {"behavior": WINDOWS, "forecast": {"trafficSource": "Recorded"}}


async def foreseeing(answer: SizingResult | Exception | None) -> tuple[BusyWorld, Loads, Sizing]:
    """Two brokers that carry what they should, at ten past an hour, whose service answers that."""
    world, loads = await scaling()
    now = world.clock.now()
    world.clock.forward(((70 - now.minute) % 60) * 60.0 - now.second)
    sizing = Sizing(answer)
    world.deps = replace(world.deps, sizing=sizing)
    world.restart()
    await world.change(Kind.CLUSTER, "east", foresees)
    await minutes(world, loads, 1)
    return world, loads, sizing


async def inputs(world: BusyWorld) -> dict[str, Json]:
    """What status says that was decided from, by its name."""
    return {each["name"]: each for each in (await row(world))["inputs"]}
