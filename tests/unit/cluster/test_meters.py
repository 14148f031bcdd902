"""How pods are read: at a pace of their own, each cluster's for itself, never longer than a pass can wait."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from math import inf
from types import SimpleNamespace
from typing import Any, cast

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.balance.autoscaling.policy import traffic_growth
from pulsar_operator.balance.autoscaling.pressure import STALE_INTERVALS
from pulsar_operator.controllers.dataplane.observed.meters import EVERY_SECONDS, FORGOTTEN_SECONDS, READ_SECONDS, Meters
from pulsar_operator.controllers.dataplane.scaling.scaling_inputs import INTERVAL
from pulsar_operator.domain.dataplane.objects.pods import pod_facts
from pulsar_operator.domain.dataplane.observed.pod_counters import parse
from pulsar_operator.ports import Scrape
from tests.fakes.counters import FakeCounters
from tests.support.core.virtual_time import run_virtual

SPEC = PulsarClusterSpec.model_validate(
    {
        "instanceRef": {"name": "demo"},
        "metadataStore": {"managed": {}},
        "bookkeeper": {},
        "broker": {"autoscaling": {"minReplicas": 1, "maxReplicas": 9}},
    }
)


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def forward(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class Pods:
    """Ready brokers of one cluster; others have the same names."""

    def __init__(self, net: int, number: int) -> None:
        ports = [{"name": "http", "containerPort": 8080}]
        self.hosts = [f"10.0.{net}.{ordinal}" for ordinal in range(number)]
        self._pods = [
            pod_facts(
                {
                    "metadata": {"name": f"east-broker-{ordinal}", "uid": f"{net}-{ordinal}"},
                    "spec": {"containers": [{"name": "broker", "ports": ports}]},
                    "status": {"podIP": host, "conditions": [{"type": "Ready", "status": "True"}]},
                }
            )
            for ordinal, host in enumerate(self.hosts)
        ]

    def facts(self, component: Component) -> Any:
        return SimpleNamespace(pods=self._pods) if component is Component.BROKER else None


def reader(counters: Any, clock: Clock) -> Meters:
    return Meters(cast(Any, SimpleNamespace(counters=counters, clock=clock)))


async def topics(meters: Meters, cluster: str, pods: Pods) -> dict[str, float]:
    found = await meters.loads(cluster, SPEC, cast(Any, pods))
    measured = found[Component.BROKER].get("topics")
    return dict(measured.values) if measured is not None else {}


def url(host: str) -> str:
    return f"http://{host}:8080/metrics/"


async def test_clusters_with_pods_of_the_same_names_are_read_apart() -> None:
    clock = Clock()
    counters, east, west = FakeCounters(clock), Pods(1, 2), Pods(2, 1)
    for number, host in enumerate((*east.hosts, *west.hosts)):
        counters.pages[url(host)] = f"pulsar_broker_topics_count {number}"
    meters = reader(counters, clock)
    assert await topics(meters, "a", east) == {"east-broker-0": 0, "east-broker-1": 1}
    assert await topics(meters, "b", west) == {"east-broker-0": 2}
    assert await topics(meters, "a", east) == {"east-broker-0": 0, "east-broker-1": 1}


async def test_passes_that_come_fast_read_once_also_what_does_not_answer() -> None:
    clock = Clock()
    counters, pods = FakeCounters(clock), Pods(1, 2)
    counters.pages[url(pods.hosts[0])] = "pulsar_broker_topics_count 3"
    meters = reader(counters, clock)
    for _ in range(5):
        assert await topics(meters, "a", pods) == {"east-broker-0": 3}, "of the other one nothing is known"
        clock.forward(1)
    assert len(counters.asked) == 2
    clock.forward(EVERY_SECONDS)
    await topics(meters, "a", pods)
    assert len(counters.asked) == 4


async def test_with_a_new_pod_all_are_read() -> None:
    """Of what it took over nothing is counted at the pods that had it."""
    clock = Clock()
    counters = FakeCounters(clock)
    meters, one, two = reader(counters, clock), Pods(1, 1), Pods(1, 2)
    counters.pages[url(one.hosts[0])] = "pulsar_broker_topics_count 8"
    assert await topics(meters, "a", one) == {"east-broker-0": 8}
    for host in two.hosts:
        counters.pages[url(host)] = "pulsar_broker_topics_count 4"
    clock.forward(1)
    assert await topics(meters, "a", two) == {"east-broker-0": 4, "east-broker-1": 4}
    clock.forward(1)
    assert await topics(meters, "a", one) == {"east-broker-0": 4}


async def test_what_was_read_of_a_cluster_that_is_gone_is_forgotten() -> None:
    clock = Clock()
    meters, pods = reader(FakeCounters(clock), clock), Pods(1, 1)
    await topics(meters, "gone", pods)
    clock.forward(FORGOTTEN_SECONDS + 1)
    await topics(meters, "there", pods)
    assert {cluster for cluster, _ in (*meters._read, *meters._pods)} == {"there"}


class Slow:
    """Pods that take two seconds each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def read(self, url: str, names: frozenset[str]) -> Scrape:
        await asyncio.sleep(2)
        return Scrape(self._clock.now(), parse(["pulsar_broker_topics_count 1"], names))


def test_of_many_pods_that_are_slow_each_is_read_in_time() -> None:
    """Some 80 answer within a look: the others are the first ones of the next."""

    async def looks() -> list[float]:
        clock, pods, ages = Clock(), Pods(1, 120), []
        meters = reader(Slow(clock), clock)
        for _ in range(6):
            found = (await meters.loads("a", SPEC, cast(Any, pods)))[Component.BROKER]["topics"]
            ages.append(found.age if len(found.values) == 120 else inf)
            clock.forward(60)
        return ages

    assert max(run_virtual(looks())[1:]) <= STALE_INTERVALS * INTERVAL


class Silent:
    """Pods that accept a connection and say nothing."""

    async def read(self, url: str, names: frozenset[str]) -> Scrape:
        return await cast(Any, asyncio.get_running_loop().create_future())


def test_pods_that_say_nothing_do_not_keep_a_pass() -> None:
    async def look() -> tuple[dict[str, float], float]:
        asyncio.get_running_loop().call_later(1000, lambda: None)
        found = await topics(reader(Silent(), Clock()), "a", Pods(1, 50))
        return found, asyncio.get_running_loop().time()

    found, seconds = run_virtual(look())
    assert found == {} and seconds == READ_SECONDS


async def test_what_a_broker_that_left_carried_counts_as_carried_before() -> None:
    """The others have it by now: that is no traffic that grew."""
    clock = Clock()
    counters, two, one = FakeCounters(clock), Pods(1, 2), Pods(1, 1)
    meters = reader(counters, clock)

    async def growth(pods: Pods, each: float) -> float | None:
        for host in pods.hosts:
            page = f"pulsar_broker_throughput_in {each}\npulsar_broker_throughput_out 0\n"
            counters.pages[url(host)] = page + "pulsar_broker_rate_in 0\npulsar_broker_rate_out 0\n"
        found = await meters.loads("a", SPEC, cast(Any, pods))
        clock.forward(60)
        grew = traffic_growth(found[Component.BROKER])
        return None if grew is None else grew.times

    assert [await growth(two, 100.0) for _ in range(4)] == [None, 1.0, 1.0, 1.0]
    assert max([await growth(one, 200.0) or 9.0 for _ in range(4)]) <= 1.0
    assert (await growth(one, 600.0) or 0.0) > 2.0
    for _ in range(9):
        last = await growth(one, 600.0)
    assert last == 1.0
