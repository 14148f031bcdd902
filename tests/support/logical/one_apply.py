"""Everything of an instance applied in some order, with the operator's engine in virtual time and no resync to help.

The data plane is played: the instance's own controller, and clusters that register themselves and serve after a while.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pulsar_operator.adapters.clock import SystemEntropy
from pulsar_operator.api.constants import API_VERSION, Kind
from pulsar_operator.controllers.core.engine import Engine
from pulsar_operator.controllers.core.reconciler import DONE, Outcome
from pulsar_operator.controllers.core.status import is_true
from pulsar_operator.controllers.core.watch_cache import DirectReader, WatchCache
from pulsar_operator.controllers.dataplane.instance.instance_controller import InstanceController
from pulsar_operator.controllers.logical.isolation_policy import IsolationPolicyController
from pulsar_operator.controllers.logical.namespace import NamespaceController
from pulsar_operator.controllers.logical.resource_group import ResourceGroupController
from pulsar_operator.controllers.logical.tenant import TenantController
from pulsar_operator.controllers.logical.topic import TopicController
from pulsar_operator.controllers.topicset.controller import TopicSetController
from pulsar_operator.domain.dataplane.registration.registration import POLICIES_PATH
from pulsar_operator.ports import CUSTOM, Deps, Json, Key
from tests.fakes.admin import AdminCall, FakeAdmin
from tests.fakes.bookies import FakeBookies
from tests.fakes.kube import FakeKube
from tests.fakes.pulsar import FakePulsar
from tests.fakes.zookeeper import FakeZooKeeper
from tests.support.core.engine import watch
from tests.support.core.recorder import CountingMetrics
from tests.support.core.virtual_time import run_virtual
from tests.support.faults.site import LoopClock
from tests.support.logical.world import NS

SERVERS = "zk:2181"
NEVER = 10.0**6
"""Seconds between two resyncs: none comes in a test."""
Applied = tuple[Kind, str, Mapping[str, Any]]
"""Kind, name, spec."""


class _Clusters:
    """PulsarClusters: each is in Pulsar, and serves, so many seconds after it was first seen."""

    def __init__(self, world: OneApply) -> None:
        self._world = world
        self._first: dict[str, float] = {}

    async def reconcile(self, key: Key) -> Outcome:
        """Status as the cluster controller publishes it."""
        w = self._world
        if w.kube.live(CUSTOM[Kind.CLUSTER], NS, key.name) is None:
            return DONE
        now = asyncio.get_running_loop().time()
        left = self._first.setdefault(key.name, now) + w.takes.get(key.name, 0.0) - now
        ready = left < 0.001
        if ready and key.name not in w.pulsar.clusters:
            w.pulsar.clusters = sorted([*w.pulsar.clusters, key.name])
        word = "True" if ready else "False"
        conditions = [{"type": kind, "status": word, "reason": "Ready"} for kind in ("Ready", "BrokersReady")]
        status: Json = {"conditions": conditions, "version": w.pulsar.version}
        if ready:
            status["endpoints"] = {"brokerWebServiceUrl": f"http://{key.name}:8080"}
        live = w.kube.live(CUSTOM[Kind.CLUSTER], NS, key.name) or {}
        if live.get("status") != status:
            w.kube.set_status(CUSTOM[Kind.CLUSTER], NS, key.name, status)
        return DONE if ready else Outcome(requeue_after=left)


@dataclass
class OneApply:
    """A world that begins empty."""

    takes: dict[str, float] = field(default_factory=dict)
    """Seconds until a cluster serves, by name."""
    kube: FakeKube = field(default_factory=FakeKube)
    pulsar: FakePulsar = field(default_factory=lambda: FakePulsar(clusters=[]))
    passes: list[Key] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.admin = FakeAdmin(self.pulsar)
        self.zookeeper = FakeZooKeeper()
        self.zookeeper.ensemble(SERVERS)
        self.admin.after.append(self._store)

    def _store(self, call: AdminCall) -> None:
        """Brokers keep policies in the configuration store."""
        for name, live in self.pulsar.namespaces.items() if call.is_write else ():
            lists = {key: list(live.get(key) or []) for key in ("replication_clusters", "allowed_clusters")}
            self.zookeeper.ensemble(SERVERS).put(f"{POLICIES_PATH}/{name}", json.dumps(lists).encode())

    def put(self, applied: Applied) -> None:
        """A user applies an object."""
        kind, name, spec = applied
        meta = {"name": name, "namespace": NS}
        self.kube.put({"apiVersion": API_VERSION, "kind": kind.value, "metadata": meta, "spec": dict(spec)})

    def unready(self) -> dict[str, str]:
        """Objects of the logical plane that are not Ready, with why."""
        out = {}
        for kind in Kind:
            for obj in self.kube.all(CUSTOM[kind]):
                if not is_true(obj, "Ready"):
                    conditions = (obj.get("status") or {}).get("conditions") or ()
                    why = [f"{c['reason']}: {c.get('message')}" for c in conditions if c["type"] == "Ready"]
                    out[f"{kind.value} {obj['metadata']['name']}"] = "".join(why)
        return out

    def engine(self) -> Engine:
        """The operator."""
        clock, entropy, metrics = LoopClock(), SystemEntropy(), CountingMetrics()
        asked = Deps(self.kube, self.zookeeper, self.admin, clock, entropy, metrics, FakeBookies())
        cache = WatchCache(DirectReader(asked))
        deps = replace(asked, reader=cache)
        controllers: dict[Kind, Any] = {
            Kind.INSTANCE: InstanceController(deps),
            Kind.CLUSTER: _Clusters(self),
            Kind.TENANT: TenantController(deps),
            Kind.NAMESPACE: NamespaceController(deps),
            Kind.TOPIC: TopicController(deps),
            Kind.RESOURCE_GROUP: ResourceGroupController(deps),
            Kind.ISOLATION_POLICY: IsolationPolicyController(deps),
            Kind.TOPIC_SET: TopicSetController(deps),
        }
        engine = Engine(deps, controllers, cache=cache, resync_seconds=NEVER, rng=random.Random(1))
        watch(self.kube, engine)
        return engine


def play(world: OneApply, steps: Sequence[tuple[float, Callable[[], None]]], *, seconds: float) -> None:
    """Run the operator; each step comes so many seconds after the one before. Ends ``seconds`` after the last one."""

    async def main() -> None:
        stop = asyncio.Event()
        engine = world.engine()
        running = asyncio.create_task(engine.run(stop))
        await engine.ready.wait()
        for pause, step in steps:
            await asyncio.sleep(pause)
            step()
        await asyncio.sleep(seconds)
        stop.set()
        await running

    run_virtual(main())
