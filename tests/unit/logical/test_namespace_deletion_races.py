"""A namespace of two clusters is deleted: nothing created until then is lost, and one that stays is whole."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import UnavailableError
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_topics import FakeTopic
from tests.support.logical.world import LogicalWorld

NEW = "persistent://t/n/new"
BOTH = {"replicationClusters": ["a", "b"], "allowedClusters": ["a", "b"]}
SPECS = [{"replicationClusters": ["a", "b"]}, BOTH]


async def world(spec: dict[str, Any]) -> LogicalWorld:
    w = LogicalWorld("a", "b")
    w.tenant()
    w.namespace(**spec, deletionPolicy="Delete")
    await w.run()
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"
    return w


def lists(w: LogicalWorld) -> tuple[list[str], list[str]]:
    live = w.pulsar.namespaces["t/n"]
    return live["replication_clusters"], live["allowed_clusters"]


def created(w: LogicalWorld, cluster: str, method: str, last: str, *, time: int = 1) -> None:
    """Somebody creates a topic right after a call."""
    seen = 0

    def create(call: AdminCall) -> None:
        nonlocal seen
        if call.method == method and call.path[-1] == last and call.path[0] == "namespaces":
            seen += 1
            if seen == time:
                w.pulsar.topics.setdefault(cluster, {})[NEW] = FakeTopic(backlog={"billing": 7})

    w.admin.after.append(create)


async def deleted(w: LogicalWorld) -> str:
    """Why it is not deleted."""
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    return w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("cluster", ["a", "b"])
async def test_what_is_created_after_the_first_observation_stays(cluster: str, spec: dict[str, Any]) -> None:
    w = await world(spec)
    before = lists(w)
    created(w, cluster, "GET", "topics", time=2)
    text = await deleted(w)
    assert f"in cluster {cluster} ({NEW})" in text or "non empty" in text
    assert w.pulsar.topics[cluster][NEW] and lists(w) == before


async def test_what_is_created_between_the_two_writes_stays() -> None:
    w = await world(BOTH)
    created(w, "b", "POST", "replication")
    assert f"in cluster b ({NEW})" in await deleted(w)
    assert w.pulsar.topics["b"][NEW] and lists(w) == (["a", "b"], ["a", "b"])


@pytest.mark.parametrize("spec", SPECS)
async def test_pulsar_itself_refuses_what_is_created_in_the_last_cluster(spec: dict[str, Any]) -> None:
    w = await world(spec)
    before = lists(w)
    created(w, "a", "POST", "allowedClusters" if "allowedClusters" in spec else "replication")
    await deleted(w)
    assert any("Cannot delete non empty namespace" in each.message for each in w.kube.events)
    assert w.pulsar.topics["a"][NEW] and lists(w) == before, "it is replicated as before while somebody uses it"
    w.pulsar.topics["a"].clear()
    await w.run()
    assert w.get(Kind.NAMESPACE, "n") is None and not w.pulsar.namespaces


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("restart", [False, True])
async def test_one_that_is_retained_after_all_is_in_all_of_its_clusters(spec: dict[str, Any], restart: bool) -> None:
    """Its deletion had begun and no answer came."""
    w = await world(spec)
    before = lists(w)

    def silent(call: AdminCall) -> None:
        if call.method == "DELETE":
            raise UnavailableError("no answer")

    w.admin.before.append(silent)
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    assert lists(w) != before
    told = w.status(Kind.NAMESPACE, "n")["clustersBeforeDeletion"]
    assert told == {"replicationClusters": before[0], "allowedClusters": before[1]} or (told, before[1]) == (
        {"replicationClusters": before[0]},
        [],
    )
    if restart:
        w.restart()
    w.namespace(**spec, deletionPolicy="Retain")
    w.admin.down = {"a", "b"}
    await w.run()
    assert w.get(Kind.NAMESPACE, "n") is not None, "it is let go when it is whole"
    w.admin.down = set()
    await w.run()
    assert w.get(Kind.NAMESPACE, "n") is None and lists(w) == before


async def test_a_namespace_in_a_foreign_cluster_names_the_command() -> None:
    w = await world({"replicationClusters": ["a", "b"]})
    w.delete(Kind.CLUSTER, "b")
    text = await deleted(w)
    assert "pulsar-admin namespaces set-clusters t/n --clusters a" in text and "patch pulsarnamespace/n" in text


async def test_force_on_two_clusters_names_what_helps() -> None:
    w = await world({"replicationClusters": ["a", "b"]})
    w.namespace(replicationClusters=["a", "b"], deletionPolicy="ForceDelete")
    text = await deleted(w)
    assert "pulsar-admin namespaces set-clusters t/n --clusters a" in text and "forceDeleteNamespaceAllowed" not in text
