"""Whose policies make the largest ensemble of a cluster: not those of another instance, nor of another cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.dataplane.observed.quorums import widest_ensemble
from pulsar_operator.ports import CUSTOM, STATEFUL_SETS, Json
from tests.support.cluster.ledgers import STORE, LedgerWorld
from tests.support.cluster.world import NS

WIDE: Json = {"persistence": {"ensembleSize": 5, "writeQuorum": 5, "ackQuorum": 3}}
DEFAULT = ("the default of managed ledgers", 2)


def custom(kind: str, name: str, namespace: str = NS, /, **spec: Any) -> Json:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "pulsaroperator.io/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}


async def world_of(*objects: Json, policies: Json | None = None) -> LedgerWorld:
    """Cluster east of instance main with objects and, in its store, namespace shop/wide."""
    world = LedgerWorld.empty()
    await world.apply(
        custom("PulsarInstance", "main"),
        custom("PulsarCluster", "east", instanceRef={"name": "main"}),
        *objects,
    )
    store = world.zookeeper.ensemble(STORE)
    store.put("/admin/policies/shop", "{}")
    store.put("/admin/policies/shop/wide", json.dumps(policies or {}))
    return world


async def widest(world: LedgerWorld) -> tuple[str, int]:
    cluster = await world.get(CUSTOM[Kind.CLUSTER], "east")
    found = await widest_ensemble(world.deps, await world.zookeeper.session(STORE), 2, cluster)
    return found.whose, found.size


@pytest.mark.parametrize(
    ("clusters", "counts"),
    [
        ({}, True),
        ({"replication_clusters": []}, True),
        ({"replication_clusters": ["west", "east"]}, True),
        ({"replication_clusters": ["west"]}, False),
        ({"replication_clusters": ["west"], "allowed_clusters": ["west", "east"]}, True),
    ],
)
async def test_a_namespace_counts_where_it_may_be(clusters: Json, counts: bool) -> None:
    world = await world_of(policies={**clusters, "persistence": {"bookkeeperEnsemble": 5}})
    assert await widest(world) == (("namespace shop/wide", 5) if counts else DEFAULT)


def family(instance: str, namespace: str = NS) -> list[Json]:
    """A tenant shop and a namespace wide of an instance."""
    return [
        custom("PulsarTenant", "t", namespace, name="shop", instanceRef={"name": instance}),
        custom("PulsarNamespace", "n", namespace, name="wide", tenantRef={"name": "t"}),
    ]


def topic(kind: str, namespace: str = NS, /, **spec: Any) -> Json:
    content = {"policies": WIDE, **spec}
    if kind == "PulsarTopicSet":
        return custom(kind, "wide", namespace, namespaceRef={"name": "n"}, names=["a"], template=content)
    return custom(kind, "wide", namespace, namespaceRef={"name": "n"}, **content)


@pytest.mark.parametrize("kind", ["PulsarTopic", "PulsarTopicSet"])
@pytest.mark.parametrize(
    ("instance", "namespace", "counts"), [("main", NS, True), ("other", NS, False), ("main", "elsewhere", False)]
)
async def test_a_topic_counts_in_its_instance(kind: str, instance: str, namespace: str, counts: bool) -> None:
    """An instance of the same name in another Kubernetes namespace is another one."""
    world = await world_of(*family(instance, namespace), topic(kind, namespace))
    assert await widest(world) == ((f"{kind} {NS}/wide", 5) if counts else DEFAULT)


@pytest.mark.parametrize("known", [False, True])
async def test_a_topic_without_parents_counts_where_it_was_in_pulsar(known: bool) -> None:
    wide = topic("PulsarTopic")
    world = await world_of(wide)
    if known:
        await world.backstage.edit(
            CUSTOM[Kind.TOPIC], NS, "wide", lambda obj: obj.update(status={"pulsarName": "persistent://shop/wide/wide"})
        )
    assert await widest(world) == ((f"PulsarTopic {NS}/wide", 5) if known else DEFAULT)


@pytest.mark.parametrize(
    ("policies", "declared", "seen", "counts"),
    [
        ({"replication_clusters": ["west"]}, None, False, False),
        ({"replication_clusters": ["west"]}, ["east", "west"], False, True),
        ({"replication_clusters": ["east", "west"]}, ["east"], False, True),
        ({"replication_clusters": ["east", "west"]}, ["west"], False, False),
        # Left out, it keeps the topic and its policies.
        ({"replication_clusters": ["east", "west"]}, ["west"], True, True),
    ],
)
async def test_a_topic_counts_where_its_clusters_are(
    policies: Json, declared: list[str] | None, seen: bool, counts: bool
) -> None:
    wide = topic("PulsarTopic", **({} if declared is None else {"replicationClusters": declared}))
    world = await world_of(*family("main"), wide, policies=policies)
    status = {"clusters": [{"name": "east", "exists": seen}]}
    await world.backstage.edit(CUSTOM[Kind.TOPIC], NS, "wide", lambda obj: obj.update(status=status))
    assert await widest(world) == ((f"PulsarTopic {NS}/wide", 5) if counts else DEFAULT)


@pytest.mark.parametrize("clusters", [["west"], ["east", "west"]])
async def test_a_bookie_is_replaced_without_a_word_of_what_is_elsewhere(clusters: list[str]) -> None:
    """Where ledgers on three bookies may be in it, two are too few for them while one is away."""
    world = await LedgerWorld.up(3, topics=())
    policies = {"replication_clusters": clusters, "persistence": {"bookkeeperEnsemble": 3}}
    world.store.put("/admin/policies/shop/wide", json.dumps(policies))
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(config={"flushInterval": "1000"}))
    await world.run()
    assert len([name for name in world.journal.pods_gone() if "bookie" in name]) == 3
    told = [event.message for event in world.journal.events if event.reason == "TooFewBookies"]
    assert bool(told) is ("east" in clusters)


async def test_a_bookie_that_a_budget_keeps_pauses_no_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported once for each bookie, when it goes, and not in each pass in which its budget keeps it."""
    world = await LedgerWorld.up(3, topics=())
    policies = {"replication_clusters": ["east"], "persistence": {"bookkeeperEnsemble": 3}}
    world.store.put("/admin/policies/shop/wide", json.dumps(policies))
    evict, refusals = world.kube.evict, 0

    async def kept(namespace: str, name: str, *, uid: str) -> str | None:
        nonlocal refusals
        if "bookie" in name and refusals < 5:
            refusals += 1
            return "Cannot evict pod as it would violate the pod's disruption budget."
        return await evict(namespace, name, uid=uid)

    monkeypatch.setattr(world.kube, "evict", kept)
    await world.change(Kind.CLUSTER, "east", lambda spec: spec["bookkeeper"].update(config={"flushInterval": "1000"}))
    await world.run()
    assert refusals == 5 and len([name for name in world.journal.pods_gone() if "bookie" in name]) == 3
    reported = [event.message.partition(":")[0] for event in world.journal.events if event.reason == "TooFewBookies"]
    assert len(reported) == len(set(reported)) == 3, reported


@pytest.mark.parametrize("clusters", [["west"], ["east", "west"]])
async def test_a_bookie_leaves_whatever_is_asked_for_elsewhere(clusters: list[str]) -> None:
    world = await LedgerWorld.up(3)
    policies = {"replication_clusters": clusters, "persistence": {"bookkeeperEnsemble": 5}}
    world.store.put("/admin/policies/shop/wide", json.dumps(policies))
    await world.apply(topic("PulsarTopic", "elsewhere"))
    await world.resize(2)
    await world.run()
    _, reason, message = await world.condition(Kind.CLUSTER, "east", "Progressing")
    left = 3 if "east" in clusters else 2
    assert (await world.get(STATEFUL_SETS, "east-bookie"))["spec"]["replicas"] == left, message
    assert (reason == "DecommissionRefused") is (left == 3)
