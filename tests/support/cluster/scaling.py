"""A busy world whose brokers and proxies have autoscaling, and what they say of their load."""

from __future__ import annotations

import copy

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import PODS, STATEFUL_SETS, Json, Key
from tests.support.cluster.busy import BusyWorld
from tests.support.cluster.workloads import is_ready
from tests.support.cluster.world import ClusterWorld

LIMITS = {"minReplicas": 2, "maxReplicas": 4, "targets": {"messagesPerSecond": 100}}
WINDOWS = {"scaleDown": {"stabilizationWindowSeconds": 300, "cooldownSeconds": 60}}
TARGET = 100.0
LOOK = 60.0


class Loads:
    """What the pods of a component say; all together carry ``total``, each ready one its part."""

    def __init__(self, world: ClusterWorld, total: float) -> None:
        self.world, self.total = world, total
        self.silent: set[str] = set()
        """Pods that do not answer."""
        self.connections: float = 10
        self.on_first = 0.0
        """What broker 0 carries besides."""

    async def serve(self) -> None:
        """Put up the pages as they are now."""
        pages = self.world.counters.pages
        pages.clear()
        pods = await self.world.backstage.all(PODS)
        ready = [pod for pod in pods if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]]
        brokers = [pod for pod in ready if pod["metadata"]["name"].startswith("east-broker-")]
        proxies = [pod for pod in ready if pod["metadata"]["name"].startswith("east-proxy-")]
        for pod in (*brokers, *proxies):
            name, host = pod["metadata"]["name"], pod["status"]["podIP"]
            if name in self.silent:
                continue
            mine = self.total / max(len(brokers), 1) + (self.on_first if name == "east-broker-0" else 0.0)
            page = f"pulsar_broker_rate_in {mine / 2}\n" if pod in brokers else ""
            page += f"pulsar_broker_rate_out {mine / 2}\n" if pod in brokers else ""
            page += f"pulsar_proxy_active_connections {self.connections / len(proxies)}\n" if pod in proxies else ""
            pages[f"http://{host}:8080/metrics/"] = page


async def wanted(world: ClusterWorld, workload: str = "east-broker") -> int:
    """Replicas of a workload."""
    return int((await world.get(STATEFUL_SETS, workload))["spec"]["replicas"])


async def row(world: ClusterWorld, component: str = "broker") -> Json:
    """What status says of a component."""
    return dict((await world.status(Kind.CLUSTER, "east"))["autoscaling"][component])


async def said(world: ClusterWorld) -> tuple[str, str]:
    """Condition ScalingActive: status and reason."""
    status, reason, _ = await world.condition(Kind.CLUSTER, "east", "ScalingActive")
    return status, reason


async def minutes(world: ClusterWorld, loads: Loads, number: int) -> None:
    """A look of the operator each minute, and what follows from it."""
    for _ in range(number):
        world.clock.forward(LOOK)
        await loads.serve()
        before = len(world.journal.attempts)
        await world.reconcile(Key(Kind.CLUSTER, world.namespace, "east"))
        if len(world.journal.attempts) > before:
            await world.run(rounds=300, each=loads.serve)


def scaled(spec: Json) -> None:
    """Autoscaling of brokers, with short windows."""
    spec["broker"]["autoscaling"] = LIMITS | {"behavior": WINDOWS}


_UP: list[tuple[BusyWorld, Loads]] = []


async def scaling() -> tuple[BusyWorld, Loads]:
    """A copy of two brokers with autoscaling that carry what they should, at rest: long to make."""
    if not _UP:
        world = await BusyWorld.up(2, bundles=6)
        loads = Loads(world, 1.8 * TARGET)
        await world.change(Kind.CLUSTER, "east", scaled)
        await minutes(world, loads, 2)
        assert await said(world) == ("True", "WithinTarget") and await wanted(world) == 2
        _UP.append((world, loads))
    return copy.deepcopy(_UP[0])
