"""What is of no use under its declared name: a namespace marked as deleted, a topic of the other kind."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import CUSTOM
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.world import NS, LogicalWorld

X = "persistent://t/n/x"


async def world(*clusters: str) -> LogicalWorld:
    w = LogicalWorld(*clusters)
    w.tenant()
    w.namespace(deletionPolicy="Delete")
    await w.run()
    return w


@pytest.mark.parametrize("time", ["before", "after"])
async def test_a_namespace_that_is_marked_as_deleted_is_not_ready(time: str) -> None:
    """The broker that was forced to delete it was killed."""
    w = LogicalWorld()
    w.tenant()
    w.namespace(policies={"maxTopics": 3})
    w.topic()
    if time == "after":
        await w.run()
    else:
        w.pulsar.tenants["t"] = {"adminRoles": [], "allowedClusters": ["a"]}
        w.pulsar.handle("a", "PUT", ["namespaces", "t", "n"], {}, None)
    w.pulsar.namespaces["t/n"]["deleted"] = True
    before = w.pulsar.namespaces["t/n"].copy()
    await w.run()
    status, reason, text = w.condition(Kind.NAMESPACE, "n")
    assert (status, reason) == ("False", "DeletionUnfinished")
    assert "pulsar-admin namespaces delete t/n" in text
    assert w.condition(Kind.TOPIC, "x")[:2] == ("False", "ParentNotReady")
    assert w.pulsar.namespaces["t/n"] == before, "nothing is written into it"
    w.pulsar.namespaces.clear()
    w.pulsar.topics.clear()
    await w.run()
    assert w.condition(Kind.NAMESPACE, "n")[0] == w.condition(Kind.TOPIC, "x")[0] == "True"


async def test_a_topic_says_so_before_its_namespace_does() -> None:
    w = await world()
    w.pulsar.namespaces["t/n"]["deleted"] = True
    w.topic()
    await w.reconcile(Kind.TOPIC, "x")
    status, reason, text = w.condition(Kind.TOPIC, "x")
    assert (status, reason) == ("False", "ParentNotReady") and "has started to delete namespace t/n" in text


async def test_the_deletion_of_a_topic_waits_for_that_of_its_namespace() -> None:
    w = await world()
    w.topic(deletionPolicy="Delete")
    await w.run()
    w.pulsar.namespaces["t/n"]["deleted"] = True
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert w.condition(Kind.TOPIC, "x", "DeletionBlocked")[:2] == ("True", "DeletionUnfinished")
    w.pulsar.namespaces.clear()
    await w.reconcile(Kind.TOPIC, "x")
    assert w.get(Kind.TOPIC, "x") is None


def other(w: LogicalWorld, spec: dict[str, Any], *, persistent: bool = True) -> None:
    """A topic of the other kind, of somebody else."""
    name = X if persistent else X.replace("persistent", "non-persistent")
    if "partitions" in spec:
        for topics in (w.pulsar.topics.setdefault(cluster, {}) for cluster in w.pulsar.clusters):
            topics[name] = FakeTopic(backlog={"theirs": 7})
    else:
        w.pulsar.partitioned[name] = 4
        for topics in (w.pulsar.topics.setdefault(cluster, {}) for cluster in w.pulsar.clusters):
            topics[f"{name}-partition-0"] = FakeTopic(backlog={"theirs": 7})


@pytest.mark.parametrize("policy", ["Delete", "ForceDelete"])
@pytest.mark.parametrize("spec", [{}, {"partitions": 2}])
@pytest.mark.parametrize("clusters", ["a", "ab"])
@pytest.mark.parametrize("managed", [False, True], ids=["new", "managed before"])
async def test_a_refused_topic_is_not_managed_and_goes(
    clusters: str, spec: dict[str, Any], policy: str, managed: bool
) -> None:
    w = await world(*clusters)
    if managed:
        w.topic(**spec, deletionPolicy=policy)
        await w.run()
        w.pulsar.partitioned.clear()
        w.pulsar.topics.clear()
    other(w, spec)
    w.topic(**spec, deletionPolicy=policy)
    await w.run()
    assert w.condition(Kind.TOPIC, "x", "Accepted")[:2] == ("False", "ImmutableInPulsar")
    assert "Adopted" not in w.reasons(Kind.TOPIC)
    assert managed or "pulsarName" not in w.status(Kind.TOPIC, "x")
    before = w.pulsar.snapshot()
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert w.get(Kind.TOPIC, "x") is None and w.pulsar.snapshot() == before
    assert not managed or "FinalizerReleased" in w.reasons(Kind.TOPIC)


async def test_one_that_an_earlier_operator_took_for_its_own_goes() -> None:
    w = await world()
    other(w, {})
    w.topic(deletionPolicy="Delete")
    await w.run()
    w.kube.edit(CUSTOM[Kind.TOPIC], NS, "x", lambda o: o["metadata"].update(finalizers=["pulsaroperator.io/cleanup"]))
    w.kube.set_status(CUSTOM[Kind.TOPIC], NS, "x", {"pulsarName": X})
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert w.get(Kind.TOPIC, "x") is None and w.pulsar.partitioned == {X: 4}


async def test_a_cluster_that_does_not_report_the_kind_keeps_the_object() -> None:
    w = await world("a", "b")
    w.topic(deletionPolicy="Delete")
    await w.run()
    w.pulsar.topics.clear()
    other(w, {})
    w.admin.down = {"b"}
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert w.condition(Kind.TOPIC, "x", "DeletionBlocked")[0] == "True"
