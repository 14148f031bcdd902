"""Who must be deleted before a cluster whose metadata store is the instance's configuration store."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import API_VERSION, FINALIZER, Kind
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.objects import owner_of
from pulsar_operator.controllers.dataplane.teardown import tear_down
from pulsar_operator.ports import CUSTOM, Json
from tests.support.balancing.world import BalancingWorld
from tests.support.cluster.world import quickstart

HERE, THERE = "pulsar", "elsewhere"


class Clusters:
    """Instance demo in HERE keeps its configuration in cluster ``store`` of its own namespace."""

    def __init__(self, store: str | None = "east") -> None:
        self.world = BalancingWorld()
        self.kube = self.world.kube
        self.kube.remove(CUSTOM[Kind.CLUSTER], "apps", "east")
        spec: Json = {"cluster": {"name": store}} if store else {"external": {"servers": "zk:2181"}}
        self.put(Kind.INSTANCE, HERE, "demo", {"configurationStore": spec})

    def put(self, kind: Kind, namespace: str, name: str, spec: Json, **fields: Json) -> Json:
        meta = {"name": name, "namespace": namespace, "finalizers": [FINALIZER]}
        return self.kube.put({"apiVersion": API_VERSION, "kind": kind.value, "metadata": meta, "spec": spec, **fields})

    def cluster(self, namespace: str, name: str, instance: str = "demo", of: str | None = HERE, **fields: Json) -> Json:
        ref = {"name": instance, **({"namespace": of} if of else {})}
        return self.put(Kind.CLUSTER, namespace, name, {**quickstart()[1]["spec"], "instanceRef": ref}, **fields)

    async def waits_for(self, obj: Json) -> str | None:
        spec = PulsarClusterSpec.model_validate(obj["spec"])
        actor = Actor(self.world.deps, obj)
        waiting = await tear_down(self.world.deps, owner_of(obj, part_of="demo"), obj, spec, actor)
        return waiting.text if waiting is not None else None


@pytest.mark.parametrize("of", [HERE, None])
async def test_the_other_clusters_of_the_instance_go_first(of: str | None) -> None:
    clusters = Clusters()
    east = clusters.cluster(HERE, "east", of=of)
    clusters.cluster(HERE, "west", of=of)
    clusters.cluster(THERE, "north", status={"broker": {"desired": 1, "ready": 1, "summary": "1/1"}})
    waiting = await clusters.waits_for(east)
    assert waiting is not None and waiting.endswith("to be deleted first: elsewhere/north, pulsar/west")


async def test_a_cluster_of_the_same_name_elsewhere_is_not_the_store() -> None:
    """It uses the instance's store like the others, and nobody waits for it."""
    clusters = Clusters()
    clusters.cluster(HERE, "east")
    clusters.cluster(HERE, "west")
    assert await clusters.waits_for(clusters.cluster(THERE, "east")) is None


async def test_one_that_the_instance_never_allowed_holds_nothing() -> None:
    """Whoever may make objects in another Kubernetes namespace could keep it for ever."""
    clusters = Clusters()
    east = clusters.cluster(HERE, "east")
    clusters.cluster(THERE, "north")
    assert await clusters.waits_for(east) is None


@pytest.mark.parametrize("store", ["west", None])
async def test_a_cluster_that_is_not_the_store_waits_for_nobody(store: str | None) -> None:
    clusters = Clusters(store)
    east = clusters.cluster(HERE, "east")
    clusters.cluster(HERE, "west")
    assert await clusters.waits_for(east) is None


@pytest.mark.parametrize(
    "other",
    [{"namespace": HERE, "instance": "another"}, {"namespace": THERE, "of": None}, {"namespace": THERE, "of": THERE}],
)
async def test_clusters_of_other_instances_are_not_waited_for(other: dict[str, Any]) -> None:
    """An instance is a name in a namespace; without one in the reference, the cluster's own."""
    clusters = Clusters()
    east = clusters.cluster(HERE, "east")
    clusters.cluster(name="north", **other)
    assert await clusters.waits_for(east) is None
