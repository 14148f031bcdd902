"""What a status publishes: a change of it runs those that act on it, a change of anything else runs nobody."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.controllers.core.index import PUBLISHED, RefIndex, key_of
from pulsar_operator.controllers.dataplane.instance.instance_controller import InstanceController
from pulsar_operator.ports import CUSTOM, Deps, Json
from tests.fakes.bookies import FakeBookies
from tests.fakes.kube import FakeKube
from tests.fakes.zookeeper import FakeZooKeeper
from tests.support.core.clocks import SteppingClock
from tests.support.core.engine import Running, engine_of, watch
from tests.support.core.objects import custom, instance, pulsar_namespace, tenant, topic
from tests.support.core.recorder import CountingMetrics
from tests.support.core.virtual_time import run_virtual

PARENTS: dict[Kind, tuple[Json, Json]] = {
    Kind.INSTANCE: (instance("ns"), tenant("ns")),
    Kind.CLUSTER: (
        custom(Kind.CLUSTER, "ns", "c", {"instanceRef": {"name": "i"}}),
        custom(Kind.REBALANCE, "ns", "r", {"clusterRef": {"name": "c"}}),
    ),
    Kind.TENANT: (tenant("ns"), pulsar_namespace("ns")),
    Kind.NAMESPACE: (pulsar_namespace("ns"), topic("ns")),
}

Change = tuple[Kind, Json, Json, bool]
CHANGES: list[Change] = [
    (Kind.CLUSTER, {}, {"metadataStoreServers": "zk:2181"}, True),
    (Kind.CLUSTER, {"metadataStoreServers": "zk:2181"}, {"metadataStoreServers": "zk-0:2181,zk-1:2181"}, True),
    (Kind.CLUSTER, {"metadataStoreServers": "zk:2181"}, {}, True),
    (Kind.CLUSTER, {}, {"metadataStoreChroot": "/a"}, True),
    (Kind.CLUSTER, {}, {"endpoints": {"brokerWebServiceUrl": "http://b"}}, True),
    (Kind.CLUSTER, {"version": "4.0.8"}, {"version": "4.0.9"}, True),
    (Kind.CLUSTER, {"broker": {"ready": 0, "desired": 3}}, {"broker": {"ready": 1, "desired": 3}}, True),
    (Kind.CLUSTER, {"broker": {"ready": 1, "desired": 3}}, {"broker": {"ready": 2, "desired": 3}}, False),
    (Kind.CLUSTER, {"balancer": {"disabledFor": "a/b"}}, {"balancer": {"disabledFor": "a/c"}}, True),
    (Kind.CLUSTER, {"dependents": 1, "blocker": "x"}, {"dependents": 2}, False),
    (Kind.INSTANCE, {}, {"configurationStoreServers": "zk:2181"}, True),
    (Kind.INSTANCE, {}, {"configurationStoreChroot": "/a"}, True),
    (Kind.INSTANCE, {"clusterCount": 1}, {"clusterCount": 2}, False),
    (Kind.TENANT, {}, {"pulsarName": "t"}, True),
    (Kind.TENANT, {"dependents": 1}, {"dependents": 2}, False),
    (Kind.NAMESPACE, {}, {"pulsarName": "t/n"}, True),
    (Kind.NAMESPACE, {"clusters": [{"name": "a", "exists": True}]}, {"clusters": [{"name": "a"}]}, True),
    (Kind.NAMESPACE, {"clusters": [{"name": "a", "exists": True, "bundles": 4}]},
     {"clusters": [{"name": "a", "exists": True, "bundles": 5}]}, False),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "before", "after", "wakes"), CHANGES)
def test_what_others_act_on_wakes_them(kind: Kind, before: Json, after: Json, wakes: bool) -> None:
    index = RefIndex()
    obj, child = copy.deepcopy(PARENTS[kind])
    index.update(Kind(child["kind"]), child)
    index.update(kind, {**obj, "status": before})
    effect = index.update(kind, {**obj, "status": after})
    assert (key_of(Kind(child["kind"]), child) in effect.referrers) is wakes
    assert not effect.own, "its own pass wrote it"


def test_the_fields_exist() -> None:
    for kind, fields in PUBLISHED.items():
        known = {field.alias or name for name, field in MODELS[kind].status.model_fields.items()}
        assert set(fields) <= known, kind


def test_an_instance_follows_its_clusters_store_at_once() -> None:
    async def scenario() -> tuple[Any, Any]:
        kube = FakeKube()
        kube.put(custom(Kind.INSTANCE, "ns", "i", {"configurationStore": {"cluster": {"name": "c"}}}))
        kube.put(custom(Kind.CLUSTER, "ns", "c", {"instanceRef": {"name": "i"}}))
        deps = Deps(kube, FakeZooKeeper(), None, SteppingClock(), None, CountingMetrics(), FakeBookies())  # type: ignore[arg-type]
        engine, _ = engine_of({Kind.INSTANCE: InstanceController(deps)}, kube=kube)
        watch(kube, engine)
        ready = {"type": "MetadataReady", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "t"}

        def status(servers: str) -> None:
            value = {"conditions": [ready], "metadataStoreServers": servers}
            kube.set_status(CUSTOM[Kind.CLUSTER], "ns", "c", value)

        async def told() -> Any:
            await engine.idle(within=1.5)
            return (kube.live(CUSTOM[Kind.INSTANCE], "ns", "i") or {})["status"].get("configurationStoreServers")

        async with Running(engine):
            status("one:2181")
            first = await told()
            status("two:2181")
            return first, await told()

    assert run_virtual(scenario()) == ("one:2181", "two:2181")
