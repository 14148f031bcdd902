"""A world whose brokers serve traffic: registered are those with ready pods, bundles of one that stops go elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from pulsar_operator.api.constants import LABEL_COMPONENT, Component
from pulsar_operator.ports import PODS, AdminEndpoint, Json
from tests.fakes.admin import FakeAdmin
from tests.fakes.kube import FakeKube
from tests.fakes.pulsar import FakePulsar
from tests.fakes.pulsar_brokers import FakeBrokers
from tests.fakes.streams import Streaming
from tests.fakes.zookeeper import FakeZooKeeper
from tests.support.cluster.backstage import Backstage, FakeBackstage
from tests.support.cluster.copies import made_once
from tests.support.cluster.workloads import is_ready
from tests.support.cluster.world import NS, ClusterWorld, quickstart

NAMESPACE = "busy/load"
LAST = 0xFFFFFFFF


class BusyAdmin(Streaming):
    """ports.PulsarAdminPort: brokers, bundles and traffic of one cluster; everything else is the inner one's."""

    def __init__(self, inner: FakeAdmin, backstage: Backstage) -> None:
        self._inner, self._backstage = inner, backstage
        self.brokers = FakeBrokers(brokers=[])
        self.displaced: list[str] = []
        """Bundles that a broker still had when it stopped."""
        self.unready: set[str] = set()
        """Pods whose brokers serve although they are not ready."""
        self.moves = 0
        """Times a bundle got another owner."""

    async def call(
        self,
        endpoint: AdminEndpoint,
        method: str,
        path: Sequence[str],
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        deadline: float | None = None,
        text: bool = False,
    ) -> Any:
        """See ports.PulsarAdminPort."""
        await self.settle()
        ours = path[0] in ("brokers", "broker-stats") or "/".join(path[1:3]) == NAMESPACE
        if ours or path[-1] in ("namespaceIsolationPolicies", "failureDomains"):
            before = dict(self.brokers.owners)
            answer = await self.brokers.call(endpoint, method, path, query=query, body=body, text=text)
            self.moves += sum(before.get(key) != owner for key, owner in self.brokers.owners.items())
            return answer
        return await self._inner.call(
            endpoint, method, path, query=query, body=body, content_type=content_type, deadline=deadline, text=text
        )

    async def settle(self) -> None:
        """Ready brokers are registered; the bundles of one that is gone are spread over the others."""
        live = sorted(broker_of(pod) for pod in await self._backstage.all(PODS) if self._serves(pod))
        self.brokers.brokers = live
        turn = itertools.cycle(live)
        for key, owner in list(self.brokers.owners.items()):
            if owner not in live and live:
                self.displaced.append(f"{owner} {key}")
                self.brokers.owners[key] = next(turn)
                self.moves += 1

    def _serves(self, pod: Json) -> bool:
        meta = pod["metadata"]
        broker = meta["labels"].get(LABEL_COMPONENT) == Component.BROKER.value
        return broker and (is_ready(pod) or meta["name"] in self.unready) and "deletionTimestamp" not in meta


def broker_of(pod: Json) -> str:
    """Id of a pod's broker."""
    meta = pod["metadata"]
    return f"{meta['name']}.east-broker-headless.{meta['namespace']}.svc.cluster.local:8080"


class BusyWorld(ClusterWorld):
    """The quickstart with several brokers, its bundles under traffic."""

    busy: BusyAdmin
    zookeeper: FakeZooKeeper

    @classmethod
    @made_once
    async def up(cls, brokers: int, *, bundles: int = 12, drain: Json | None = None) -> BusyWorld:
        """Converged, ``bundles`` evenly spread, every bundle with the same traffic."""
        kube, pulsar, zookeeper = FakeKube(), FakePulsar(clusters=[]), FakeZooKeeper()
        backstage = FakeBackstage(kube)
        busy = BusyAdmin(FakeAdmin(pulsar), backstage)
        world = cls(kube=kube, backstage=backstage, zookeeper=zookeeper, admin=busy, pulsar=pulsar, namespace=NS)
        world.busy, world.zookeeper = busy, zookeeper
        manifests = quickstart()
        manifests[1]["spec"]["broker"].update({"replicas": brokers, **({"drain": drain} if drain else {})})
        await world.apply(*manifests)
        await world.run()
        await busy.settle()
        step = (LAST + 1) // bundles
        bounds = [i * step for i in range(bundles)] + [LAST]
        owners = [busy.brokers.brokers[i * brokers // bundles] for i in range(bundles)]
        busy.brokers.namespace(NAMESPACE, bounds, owners)
        busy.brokers.rates = {_topic(low, up): 100.0 for low, up in itertools.pairwise(bounds)}
        return world

    @property
    def owned(self) -> dict[str, int]:
        """Bundles by pod name."""
        counts = dict.fromkeys((b.partition(".")[0] for b in self.busy.brokers.brokers), 0)
        for owner in self.busy.brokers.owners.values():
            name = owner.partition(".")[0]
            counts[name] = counts.get(name, 0) + 1
        return counts


def _topic(lower: int, upper: int) -> str:
    """A topic whose hash is in a range."""
    return next(
        name for n in itertools.count() if lower <= crc32((name := f"persistent://{NAMESPACE}/t{n}").encode()) < upper
    )
