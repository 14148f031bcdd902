"""A world for tests of PulsarRebalance: three brokers in memory, the cluster controller's part, a clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from typing import Any
from zlib import crc32

import pytest

from pulsar_operator.adapters.clock import SystemEntropy
from pulsar_operator.api.constants import ANNOTATION_REBALANCE, API_VERSION, Kind
from pulsar_operator.api.v1alpha1 import wire
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.objects import owner_of
from pulsar_operator.controllers.core.reconciler import Outcome
from pulsar_operator.controllers.core.status import condition_of
from pulsar_operator.controllers.dataplane.balancing.balancer_record import BalancerRecord, balancer_record_name
from pulsar_operator.controllers.dataplane.balancing.balancing_owner import Question, whose_turn
from pulsar_operator.controllers.rebalance.controller import RebalanceController
from pulsar_operator.domain.dataplane.cluster.cluster_view import BalanceFact
from pulsar_operator.domain.stored import parsed
from pulsar_operator.ports import CONFIG_MAPS, CUSTOM, AdminEndpoint, Deps, Json, Key
from tests.fakes.bookies import FakeBookies
from tests.fakes.kube import FakeKube
from tests.fakes.pulsar_brokers import FakeBrokers
from tests.support.core.recorder import CountingMetrics

NS = "apps"
LAST = 0xFFFFFFFF
URL = "http://east-broker.apps:8080"


class SetClock:
    """ports.Clock that tests move."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Current time."""
        return self.moment


class Sizing:
    """ports.SizingPort with one answer."""

    def __init__(self) -> None:
        self.result: Any = None

    async def latest(self, url: str, cluster: str) -> Any:
        """See ports.SizingPort."""
        return self.result

    async def outlook(self, url: str, cluster: str) -> Any:
        """See ports.SizingPort."""
        return self.result


class BalancingWorld:
    """``run`` plays the operator for a while: the rebalances, and the cluster controller's handling of the balancer."""

    def __init__(self) -> None:
        self.kube = FakeKube()
        self.pulsar = FakeBrokers()
        self.clock = SetClock()
        self.sizing = Sizing()
        self.refused: list[str] = []
        """What the API server refused to the cluster controller, in words."""
        self.put(Kind.CLUSTER, "east", {"instanceRef": {"name": "prod"}, "loadBalancing": {}})
        self._cluster_status({"endpoints": {"brokerWebServiceUrl": URL}, "broker": {"desired": 3, "ready": 3}})
        self.restart()

    def restart(self) -> None:
        """A new operator process."""
        self.deps: Any = Deps(
            self.kube,
            None,
            self.pulsar,
            self.clock,
            SystemEntropy(),
            CountingMetrics(),
            FakeBookies(),
            sizing=self.sizing,  # type: ignore[arg-type]
        )
        self.controller = RebalanceController(self.deps)

    def _cluster_status(self, status: Json) -> None:
        self.kube.set_status(CUSTOM[Kind.CLUSTER], NS, "east", status)

    def put(self, kind: Kind, name: str, spec: Json, annotations: Json | None = None) -> Json:
        """A user applies an object."""
        meta: Json = {"name": name, "namespace": NS}
        if annotations is not None:
            meta["annotations"] = annotations
        return self.kube.put({"apiVersion": API_VERSION, "kind": kind.value, "metadata": meta, "spec": spec})

    def rebalance(self, name: str = "once", annotations: Json | None = None, **spec: Any) -> Json:
        """A PulsarRebalance."""
        full = {
            "clusterRef": {"name": "east"},
            "budget": {"maxTrafficMovedPercent": 100, "movesPerMinute": 600},
            **spec,
        }
        return self.put(Kind.REBALANCE, name, full, annotations)

    def command(self, word: str, name: str = "once") -> None:
        """A user annotates."""

        def change(obj: Json) -> None:
            obj["metadata"].setdefault("annotations", {})[ANNOTATION_REBALANCE] = word

        self.kube.edit(CUSTOM[Kind.REBALANCE], NS, name, change)

    def live(self, name: str = "once") -> Json:
        """The object."""
        found = self.kube.live(CUSTOM[Kind.REBALANCE], NS, name)
        assert found is not None
        return found

    def status(self, name: str = "once") -> Json:
        """Its status."""
        return dict(self.live(name).get("status") or {})

    def condition(self, kind: str, name: str = "once") -> tuple[str, str]:
        """Status and reason of a condition."""
        found = condition_of(self.live(name), kind) or {"status": "absent", "reason": "absent"}
        return found["status"], found["reason"]

    async def once(self, name: str = "once") -> Outcome:
        """One pass."""
        return await self.controller.reconcile(Key(Kind.REBALANCE, NS, name))

    async def cluster_pass(self, *, drives: bool = False) -> BalanceFact:
        """What the cluster controller does about the balancer."""
        cluster = self.kube.live(CUSTOM[Kind.CLUSTER], NS, "east")
        assert cluster is not None
        rebalances = [o for o in self.kube.all() if o["kind"] == Kind.REBALANCE.value]
        old = cluster["status"].get("balancer")
        actor = Actor(self.deps, cluster)
        listed = self.kube.live(CONFIG_MAPS, NS, balancer_record_name("east"))
        record = BalancerRecord(actor, owner_of(cluster, part_of=""), listed)
        before = parsed(PulsarClusterStatus, cluster["status"])
        question = Question(cluster, rebalances, before, drives=drives)
        found = await whose_turn(actor, AdminEndpoint("east", URL), record, question)
        self.refused += actor.refused
        status = {k: v for k, v in cluster["status"].items() if k not in ("balancer", "handover")}
        balancer = (
            wire(found.status) if found.observed and found.status is not None else None if found.observed else old
        )
        handover = wire(found.handover) if found.handover is not None else None
        more = {"balancer": balancer, "handover": handover}
        self._cluster_status({**status, **{k: v for k, v in more.items() if v is not None}})
        return found

    async def run(self, name: str = "once", *, seconds: float = 600.0) -> None:
        """Passes at the times they ask for, until nothing is asked for within ``seconds``."""
        end = self.clock.moment + timedelta(seconds=seconds)
        for _ in range(400):
            outcome = await self.once(name)
            await self.cluster_pass()
            wait = 1.0 if outcome.backoff else outcome.requeue_after
            if wait is None or self.clock.moment + timedelta(seconds=wait) > end:
                return
            self.clock.moment += timedelta(seconds=max(wait, 0.05))
        raise AssertionError("400 passes and no end")

    def spread(self) -> float:
        """Load of the busiest broker, as a multiple of the mean."""
        load = list(self.pulsar.load().values())
        return max(load) * len(load) / sum(load)

    def slightly_uneven(self) -> None:
        """15 % above the best that is possible: what a standing balancer leaves alone for ever."""
        rates = iter([170.0, 170.0, 100.0, 60.0] + [100.0] * 8)
        self.pulsar.rates.clear()
        for lower, upper in pairwise(self.pulsar.boundaries["shop/orders"]):
            names = (f"persistent://shop/orders/e{n}" for n in count())
            self.pulsar.rates[next(n for n in names if lower <= crc32(n.encode()) < upper)] = next(rates)

    def share(self, index: int) -> None:
        """A broker gets two bundles of the one before it."""
        before, new = self.pulsar.brokers[index - 1 : index + 1]
        theirs = [bundle for bundle, owner in self.pulsar.owners.items() if owner == before]
        self.pulsar.owners.update(dict.fromkeys(theirs[-2:], new))

    def skewed(self, topics: int = 24) -> None:
        """Twelve bundles over three brokers, all traffic on the first broker's."""
        step = (LAST + 1) // 12
        bounds = [i * step for i in range(12)] + [LAST]
        self.pulsar.namespace("shop/orders", bounds, [self.pulsar.brokers[i * 3 // 12] for i in range(12)])
        made = 0
        for number in range(100_000):
            topic = f"persistent://shop/orders/t{number}"
            lower, upper = self.pulsar._bundle("shop/orders", _position(topic))
            if self.pulsar.owners["shop/orders", lower, upper] == self.pulsar.brokers[0]:
                self.pulsar.rates[topic] = 100.0 + made
                made += 1
            if made == topics:
                return


def _position(topic: str) -> int:
    from zlib import crc32

    return crc32(topic.encode())


@pytest.fixture
def world() -> BalancingWorld:
    """All load is on one broker."""
    made = BalancingWorld()
    made.skewed()
    return made
