"""Who must be deleted before a cluster whose metadata store is the instance's configuration store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_TEAR_DOWN, API_VERSION, FINALIZER, Kind
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.cluster_status import PulsarClusterStatus
from pulsar_operator.controllers.core.actor import Actor
from pulsar_operator.controllers.core.objects import owner_of
from pulsar_operator.controllers.dataplane.cluster.teardown import tear_down
from pulsar_operator.domain.dataplane.registration.metadata import Marker
from pulsar_operator.domain.dataplane.registration.registration import claim_path
from pulsar_operator.ports import CUSTOM, Json, UnavailableError, ZooKeeperSession
from tests.fakes.zookeeper import FakeEnsemble, FakeZooKeeper
from tests.support.balancing.world import BalancingWorld
from tests.support.cluster.world import quickstart

HERE, THERE = "pulsar", "elsewhere"
STORE = {"metadataStoreServers": "east-zookeeper:2181"}
"""Status of the cluster with the store."""


class Clusters:
    """Instance demo in HERE keeps its configuration in cluster ``store`` of its own namespace."""

    def __init__(self, store: str | None = "east") -> None:
        self.world = BalancingWorld()
        self.kube = self.world.kube
        self.kube.remove(CUSTOM[Kind.CLUSTER], "apps", "east")
        self.stores, self.lost = FakeZooKeeper(), 0
        spec: Json = {"cluster": {"name": store}} if store else {"external": {"servers": "zk:2181"}}
        self.put(Kind.INSTANCE, HERE, "demo", {"configurationStore": spec})

    def put(self, kind: Kind, namespace: str, name: str, spec: Json, **fields: Json) -> Json:
        meta = {"name": name, "namespace": namespace, "finalizers": [FINALIZER]}
        return self.kube.put({"apiVersion": API_VERSION, "kind": kind.value, "metadata": meta, "spec": spec, **fields})

    def cluster(self, namespace: str, name: str, instance: str = "demo", of: str | None = HERE, **fields: Json) -> Json:
        ref = {"name": instance, **({"namespace": of} if of else {})}
        return self.put(Kind.CLUSTER, namespace, name, {**quickstart()[1]["spec"], "instanceRef": ref}, **fields)

    def registered(self, cluster: Json, owner: str | None = None) -> None:
        """Its claim is in the store."""
        name, namespace = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
        claim = Marker("an-id", name, owner or f"{namespace}/{name}")
        servers = STORE["metadataStoreServers"]
        self.stores.ensembles.setdefault(servers, FakeEnsemble(servers)).put(claim_path(name), claim.to_bytes())

    async def session(self, servers: str, chroot: str | None = None) -> ZooKeeperSession:
        self.lost -= 1
        if self.lost >= 0:
            raise UnavailableError("connection loss")
        return await self.stores.session(servers, chroot)

    async def waits_for(self, obj: Json) -> str | None:
        spec = PulsarClusterSpec.model_validate(obj["spec"])
        deps = replace(self.world.deps, zookeeper=self)
        obj["metadata"].setdefault("annotations", {})[ANNOTATION_TEAR_DOWN] = obj["metadata"]["uid"]
        actor = Actor(deps, obj)
        waiting = await tear_down(deps, owner_of(obj, part_of="demo"), obj, spec, PulsarClusterStatus(), actor)
        return waiting.text if waiting is not None else None


@pytest.mark.parametrize("of", [HERE, None])
async def test_the_other_clusters_of_the_instance_go_first(of: str | None) -> None:
    clusters = Clusters()
    east = clusters.cluster(HERE, "east", of=of, status=STORE)
    clusters.cluster(HERE, "west", of=of)
    clusters.registered(clusters.cluster(THERE, "north"))
    waiting = await clusters.waits_for(east)
    assert waiting is not None and waiting.endswith("Delete these clusters first: elsewhere/north, pulsar/west")


async def test_a_cluster_of_the_same_name_elsewhere_is_not_the_store() -> None:
    """It uses the instance's store like the others, and nobody waits for it."""
    clusters = Clusters()
    clusters.cluster(HERE, "east")
    clusters.cluster(HERE, "west")
    assert await clusters.waits_for(clusters.cluster(THERE, "east")) is None


@pytest.mark.parametrize("status", [{}, {"broker": {"desired": 1, "ready": 1, "summary": "1/1"}}])
@pytest.mark.parametrize("claim", [None, "pulsar/north", "elsewhere/another"])
async def test_one_that_the_instance_never_allowed_holds_nothing(status: Json, claim: str | None) -> None:
    """Whoever may make objects in another Kubernetes namespace, and write their status, could keep it for ever."""
    clusters = Clusters()
    east = clusters.cluster(HERE, "east", status=STORE)
    north = clusters.cluster(THERE, "north", status=status)
    if claim is not None:
        clusters.registered(north, claim)
    assert await clusters.waits_for(east) is None


async def test_one_that_was_allowed_once_holds_it_although_no_status_and_no_instance_speak_for_it() -> None:
    clusters = Clusters()
    east = clusters.cluster(HERE, "east", status=STORE)
    clusters.registered(clusters.cluster(THERE, "north"))
    clusters.registered(clusters.cluster(HERE, "west"))
    clusters.kube.remove(CUSTOM[Kind.INSTANCE], HERE, "demo")
    waiting = await clusters.waits_for(east)
    assert waiting is not None and waiting.endswith("Delete these clusters first: elsewhere/north, pulsar/west")


@pytest.mark.parametrize(("lost", "held"), [(1, True), (2, False)])
async def test_a_store_that_gives_no_answer_has_nobody_and_one_lost_answer_is_none(lost: int, held: bool) -> None:
    clusters = Clusters()
    east = clusters.cluster(HERE, "east", status=STORE)
    clusters.registered(clusters.cluster(THERE, "north"))
    clusters.lost = lost
    assert (await clusters.waits_for(east) is not None) is held


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
