"""HTTP 404 during a deletion: only that of the deletion itself says that the object is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.ports import NotFoundError
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_topics import FakeTopic
from tests.support.logical.topic_sets import SET, SetWorld, count
from tests.support.logical.world import LogicalWorld

HOUR = {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}
KINDS: dict[Kind, tuple[str, Callable[[LogicalWorld], bool]]] = {
    Kind.TENANT: ("t", lambda w: "t" in w.pulsar.tenants),
    Kind.NAMESPACE: ("n", lambda w: "t/n" in w.pulsar.namespaces),
    Kind.TOPIC: ("p", lambda w: any("/p-partition-" in each for held in w.pulsar.topics.values() for each in held)),
    Kind.RESOURCE_GROUP: ("g", lambda w: "g" in w.pulsar.resource_groups),
    Kind.ISOLATION_POLICY: ("i", lambda w: any(w.pulsar.isolation.values())),
}


async def world(kind: Kind) -> LogicalWorld:
    """An object of the kind, in two clusters, about to be deleted."""
    w = LogicalWorld("a", "b")
    more: dict[str, Any] = {"deletionPolicy": "Delete"}
    w.tenant(**more)
    if kind is not Kind.TENANT:
        w.namespace(**more)
    if kind is Kind.TOPIC:
        w.topic("p", partitions=2, **more)
    if kind is Kind.RESOURCE_GROUP:
        w.group("g", **more)
    if kind is Kind.ISOLATION_POLICY:
        w.isolation(namespaces=["t/n"], primary=["a-broker-0.*"], **more)
    await w.run()
    for cluster in ("a", "b"):
        for part in range(2) if kind is Kind.TOPIC else ():
            w.pulsar.topics.setdefault(cluster, {})[f"persistent://t/n/p-partition-{part}"] = FakeTopic()
    w.delete(kind, KINDS[kind][0])
    return w


def own(kind: Kind, call: AdminCall) -> bool:
    """The deletion of the object, or the question whether it, or what it is in, is there at all."""
    if kind is Kind.TOPIC:
        return call.method == "DELETE" or call.path == ("namespaces", "t", "n")
    return (call.path[-1] == KINDS[kind][0] and call.path[-2] != "namespaces") or call.path == ("namespaces", "t", "n")


@pytest.mark.parametrize("kind", KINDS)
async def test_only_the_deletions_own_404_ends_it(kind: Kind) -> None:
    name, there = KINDS[kind]
    played = await world(kind)
    mark = len(played.admin.calls)
    await played.reconcile(kind, name)
    assert played.get(kind, name) is None and not there(played)
    calls = played.admin.calls[mark:]
    tried = 0
    for number, call in enumerate(calls):
        if own(kind, call):
            continue
        tried += 1
        w = await world(kind)
        at = len(w.admin.calls) + number

        def missing(each: AdminCall, at: int = at) -> None:
            if each.index == at:
                raise NotFoundError("HTTP 404: Namespace does not exist")

        w.admin.before.append(missing)
        outcome = await w.reconcile(kind, name)
        gone = w.get(kind, name) is None
        assert not (gone and there(w)), call
        assert gone or outcome.backoff or outcome.requeue_after, call
        for _ in range(3):
            await w.reconcile(kind, name)
        assert w.get(kind, name) is None and not there(w), call
    assert tried or kind in (Kind.RESOURCE_GROUP,), calls


@pytest.mark.parametrize("kind", [Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC, Kind.RESOURCE_GROUP])
async def test_a_404_about_something_inside_leaves_the_object(kind: Kind) -> None:
    """A deletion takes many steps inside Pulsar, and answers as the one that failed."""
    name, there = KINDS[kind]
    w = await world(kind)

    def missing(call: AdminCall) -> None:
        if call.method == "DELETE":
            raise NotFoundError("HTTP 404: Ledger not found")

    w.admin.before.append(missing)
    for _ in range(3):
        outcome = await w.reconcile(kind, name)
    assert there(w) and w.get(kind, name) is not None
    assert outcome.backoff
    assert "Ledger not found" in w.condition(kind, name)[2]
    w.admin.before.clear()
    await w.reconcile(kind, name)
    assert w.get(kind, name) is None and not there(w)


async def test_the_object_says_what_is_not_found() -> None:
    w = await world(Kind.TOPIC)

    def missing(call: AdminCall) -> None:
        if call.cluster == "b" and call.path == ("persistent", "t", "n"):
            raise NotFoundError("HTTP 404: Namespace does not exist")

    w.admin.before.append(missing)
    outcome = await w.reconcile(Kind.TOPIC, "p")
    assert outcome.backoff
    status, reason, message = w.condition(Kind.TOPIC, "p")
    assert (status, reason) == ("Unknown", "ParentNotReady")
    assert "Namespace does not exist" in message
    assert w.condition(Kind.TOPIC, "p", "DeletionBlocked")[:2] == ("True", "ParentNotReady")
    assert not [call for call in w.admin.writes if call[0] == "DELETE"]


async def test_what_is_in_a_topic_that_was_listed_and_is_not_found_is_not_known() -> None:
    w = await world(Kind.TOPIC)
    w.pulsar.namespaces["t/n"]["retention_policies"] = dict(HOUR)
    w.pulsar.topics["a"]["persistent://t/n/p-partition-0"] = FakeTopic(entries=5)
    hits: list[AdminCall] = []

    def missing(call: AdminCall) -> None:
        if call.path[-1] in {"stats", "internalStats"} and not hits:
            hits.append(call)
            raise NotFoundError("HTTP 404: Topic not found")

    w.admin.before.append(missing)
    await w.reconcile(Kind.TOPIC, "p")
    assert hits and len(w.pulsar.topics["a"]) == 2


async def test_a_cluster_that_does_not_find_the_namespace_has_not_lost_its_topics() -> None:
    """Its namespace is there, as its policies say: what the cluster has of a set is not known, so nothing ends."""
    w = await SetWorld.made("a", "b")
    w.topics("s", **count(3, deletionPolicy="Delete"))
    await w.work()

    def missing(call: AdminCall) -> None:
        if call.cluster == "b" and call.path[:3] == ("persistent", "t", "n") and len(call.path) in (3, 4):
            raise NotFoundError("HTTP 404: Namespace does not exist")

    w.admin.before.append(missing)
    w.delete(SET, "s")
    await w.wait(60)
    assert w.get(SET, "s") is not None
    assert len(w.local("b")) == 3 and len(w.local("a")) == 3
    w.admin.before.clear()
    await w.wait(300)
    assert w.get(SET, "s") is None
    assert not w.local("a") and not w.local("b")


@pytest.mark.parametrize("kind", [Kind.TENANT, Kind.NAMESPACE])
async def test_a_404_while_an_object_is_checked_is_reported_and_tried_again(kind: Kind) -> None:
    """It is no sign that the custom resource is gone."""
    w = LogicalWorld()
    w.tenant()
    w.namespace(policies={"bookieAffinityGroup": {"primary": ["g"]}})
    await w.run()

    def missing(call: AdminCall) -> None:
        if call.path in (("clusters",), ("namespaces", "t", "n", "persistence", "bookieAffinity")):
            raise NotFoundError("HTTP 404: nobody knows")

    w.admin.before.append(missing)
    outcome = await w.reconcile(kind, "t" if kind is Kind.TENANT else "n")
    assert outcome.backoff or outcome.requeue_after
