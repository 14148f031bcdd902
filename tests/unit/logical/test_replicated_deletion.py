"""A topic that clusters replicate to each other is deleted in all of them once its replication has ended, and never one
that somebody uses, or has yet to get from another cluster."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.topic_sets import SET, SetWorld, count
from tests.support.logical.world import LogicalWorld

KINDS = [pytest.param({}, id="plain"), pytest.param({"partitions": 2}, id="partitioned")]
OBJECTS = [Kind.TOPIC, SET]
PARTS = ["x-partition-0", "x-partition-1"]


class Replicated:
    """Topic x-0 in clusters a and b, of a PulsarTopic or a PulsarTopicSet."""

    def __init__(self, w: SetWorld, kind: Kind, **spec: Any) -> None:
        self.w, self.kind, self.name = w, kind, "x-0" if kind is Kind.TOPIC else "s"
        self.declare("Delete", **spec)

    def declare(self, policy: str, **spec: Any) -> None:
        if self.kind is Kind.TOPIC:
            self.w.topic("x-0", deletionPolicy=policy, **spec)
        else:
            self.w.topics("s", **count(1, deletionPolicy=policy, template=spec))

    async def work(self) -> None:
        """Some minutes."""
        for _ in range(20):
            if self.w.get(self.kind, self.name) is None:
                return
            self.w.clock.time += timedelta(minutes=1)
            await self.w.reconcile(self.kind, self.name)

    async def delete(self) -> None:
        self.w.delete(self.kind, self.name)
        await self.work()

    @property
    def gone(self) -> bool:
        """The object, so that nobody looks any more."""
        return self.w.get(self.kind, self.name) is None

    def parts(self, cluster: str) -> dict[str, FakeTopic]:
        return {name: each for name, each in self.w.pulsar.topics[cluster].items() if "/x-0" in name}

    def any(self, cluster: str) -> FakeTopic:
        return next(iter(self.parts(cluster).values()))

    def left(self) -> bool:
        return bool(self.parts("a") or self.parts("b"))

    def told(self) -> str:
        """Why it is not deleted."""
        return repr(self.w.status(self.kind, self.name))


async def made(kind: Kind, clusters: str = "ab", **spec: Any) -> Replicated:
    w = await SetWorld.made(*clusters)
    found = Replicated(w, kind, **spec)
    await found.work()
    for name in found.parts("a"):  # partitions come into being where somebody uses them
        for cluster in clusters[1:]:
            w.pulsar.topics[cluster].setdefault(name, FakeTopic())
    assert found.parts("a").keys() == found.parts("b").keys() != set()
    return found


@pytest.mark.parametrize("spec", KINDS)
@pytest.mark.parametrize("kind", OBJECTS)
async def test_it_is_deleted_in_each_cluster(kind: Kind, spec: dict[str, Any]) -> None:
    found = await made(kind, **spec)
    await found.delete()
    assert found.gone and not found.left() and not found.w.pulsar.partitioned


@pytest.mark.parametrize("spec", KINDS)
@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize(("source", "target"), [("a", "b"), ("b", "a")])
async def test_what_another_cluster_did_not_get_keeps_it(
    kind: Kind, source: str, target: str, spec: dict[str, Any]
) -> None:
    """A subscription there has nothing unread yet, and would never get it."""
    found = await made(kind, **spec)
    topic = found.any(source)
    topic.entries, topic.undelivered[target] = 10, 7
    await found.delete()
    assert not found.gone and topic in found.parts(source).values() and found.parts(target)
    assert f"has 7 messages that are not replicated to {target} yet" in found.told()
    topic.undelivered[target] = 0
    await found.work()
    assert found.gone and not found.left()


@pytest.mark.parametrize("kind", OBJECTS)
async def test_what_arrives_while_the_clusters_are_checked_keeps_it(kind: Kind) -> None:
    """On its way from c to b, where nothing was unread a moment before."""
    found = await made(kind, "abc")
    there, source = found.any("b"), found.any("c")
    source.undelivered["b"] = 1

    def arrives(call: AdminCall) -> None:
        if call.cluster == "b" and call.path[-1] == "stats" and source.undelivered["b"]:
            source.undelivered["b"], there.backlog["billing"] = 0, 1

    found.w.admin.after.append(arrives)
    await found.delete()
    assert not found.gone and all(found.parts(cluster) for cluster in "abc"), "nothing is deleted anywhere"
    assert "Subscription billing" in found.told() and "1 unread messages" in found.told()


@pytest.mark.parametrize("spec", KINDS)
@pytest.mark.parametrize("kind", OBJECTS)
async def test_who_connects_after_the_observations_is_not_closed(kind: Kind, spec: dict[str, Any]) -> None:
    found = await made(kind, **spec)
    topic, number = found.any("a"), 4 * len(found.parts("a"))

    def connects(call: AdminCall) -> None:
        nonlocal number
        number -= call.path[-1] == "stats"
        topic.producers = int(number <= 0)

    found.w.admin.after.append(connects)
    await found.delete()
    assert not found.gone and topic in found.parts("a").values() and found.parts("b")
    assert "connected producers" in found.told()


@pytest.mark.parametrize("spec", KINDS)
@pytest.mark.parametrize("kind", OBJECTS)
async def test_its_replication_ends_before_and_nothing_is_forced(kind: Kind, spec: dict[str, Any]) -> None:
    """Replicators of the other cluster make again what was forced. Their lists are not left for a topic to come."""
    found = await made(kind, **spec)
    w, seen = found.w, list[tuple[str, dict[str, Any]]]()

    def deleted(call: AdminCall) -> None:
        if call.method == "DELETE" and "x-0" in call.path[3] and call.path[-1] != "replication":
            lists = {c: w.pulsar.topic_policies.get((c, "persistent://t/n/x-0"), {}).get("replication") for c in "ab"}
            seen.append((call.path[-1], lists))

    w.admin.before.append(deleted)
    await found.delete()
    assert found.gone and not found.left()
    apart = {"a": ["a"], "b": ["b"]}
    parts = [lists for name, lists in seen if name != "partitions"]
    assert len(parts) == 2 * spec.get("partitions", 1) and parts[0] == apart
    assert all(lists in ({"a": None, "b": None}, apart, {"a": None, "b": ["b"]}) for lists in parts)
    assert {k: v for k, v in w.pulsar.topic_policies.items() if k[1].endswith("/x-0") and any(v.values())} == {}


@pytest.mark.parametrize("spec", KINDS)
@pytest.mark.parametrize("before", [None, ["a", "b"]])
async def test_one_that_stays_is_replicated_as_before(spec: dict[str, Any], before: list[str] | None) -> None:
    """Somebody connects at the moment at which its replication has ended."""
    found = await made(Kind.TOPIC, **spec)
    w, key = found.w, ("a", "persistent://t/n/x-0")
    if before:
        w.pulsar.topic_policies[key] = {"replication": before}
    topic = found.any("b")

    def connects(call: AdminCall) -> None:
        topic.producers |= int(call.method == "POST" and call.path[-1] == "replication")

    w.admin.after.append(connects)
    await found.delete()
    assert not found.gone and found.parts("a") and topic in found.parts("b").values()
    assert "connected producers" in found.told()
    assert w.pulsar.topic_policies.get(key, {}).get("replication") == before
    assert not w.pulsar.topic_policies.get(("b", key[1]), {}).get("replication")


@pytest.mark.parametrize("spec", KINDS)
async def test_it_is_forced_once_its_replication_has_ended(spec: dict[str, Any]) -> None:
    found = await made(Kind.TOPIC, **spec)
    found.any("a").producers = 1
    found.w.topic("x-0", deletionPolicy="ForceDelete", **spec)
    await found.delete()
    assert found.gone and not found.left()
    assert {k: v for k, v in found.w.pulsar.topic_policies.items() if k[1].endswith("/x-0") and any(v.values())} == {}


async def test_where_there_are_no_policies_of_topics_it_stays() -> None:
    found = await made(Kind.TOPIC)
    found.w.pulsar.topic_level_policies = False
    await found.delete()
    assert not found.gone and found.parts("a") and found.parts("b")
    assert "cannot end the replication" in found.told() and "ForceDelete" in found.told()


async def test_partitions_that_come_into_being_in_the_meantime_are_checked() -> None:
    """Pulsar makes them in a cluster where somebody uses the topic for the first time."""
    w = await SetWorld.made("a", "b")
    w.topic("x-0", deletionPolicy="Delete", partitions=2)
    await w.run()
    assert w.local("a") and not w.local("b")
    users = FakeTopic(producers=1)

    def connects(call: AdminCall) -> None:
        if call.method == "POST" and call.path[-1] == "replication":
            w.pulsar.topics["b"].setdefault("persistent://t/n/x-0-partition-1", users)

    w.admin.after.append(connects)
    w.delete(Kind.TOPIC, "x-0")
    await w.run()
    assert "connected producers" in repr(w.status(Kind.TOPIC, "x-0"))
    assert w.pulsar.partitioned and w.local("a") and w.local("b")
    users.producers = 0
    await w.run()
    assert w.get(Kind.TOPIC, "x-0") is None and not w.local("a") and not w.local("b")


@pytest.mark.parametrize("spec", KINDS)
@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize(("policy", "before"), [("Delete", None), ("Delete", ["a", "b"]), ("Retain", ["a", "b"])])
async def test_a_cluster_that_fell_silent_in_the_meantime_gets_its_list_back_later(
    kind: Kind, spec: dict[str, Any], policy: str, before: list[str] | None
) -> None:
    """It took the list of one, and does not answer when it is to be given back."""
    found = await made(kind, **spec)
    w, (a, b) = found.w, ((cluster, "persistent://t/n/x-0") for cluster in "ab")
    if before:
        w.pulsar.topic_policies[b] = {"replication": before}

    def falls_silent(call: AdminCall) -> None:
        if call.cluster == "b" and call.method == "POST" and call.path[-1] == "replication":
            w.admin.down.add("b")
            found.any("a").producers = 1

    w.admin.after.append(falls_silent)
    await found.delete()
    assert not found.gone and w.pulsar.topic_policies[b]["replication"] == ["b"]
    w.admin.after.clear()
    w.admin.down.clear()
    found.declare(policy, **spec)
    await found.work()
    assert found.gone == (policy == "Retain") and found.parts("a") and found.parts("b")
    assert w.pulsar.topic_policies.get(b, {}).get("replication") == before
    assert not w.pulsar.topic_policies.get(a, {}).get("replication")


async def test_topics_that_are_back_in_their_set_get_their_lists_back() -> None:
    found = await made(SET)
    w, b = found.w, ("b", "persistent://t/n/x-0")

    def falls_silent(call: AdminCall) -> None:
        if call.cluster == "b" and call.method == "POST" and call.path[-1] == "replication":
            w.admin.down.add("b")

    w.admin.after.append(falls_silent)
    w.topics("s", **count(0, deletionPolicy="Delete", template={}))
    await found.work()
    assert w.pulsar.topic_policies[b]["replication"] == ["b"]
    w.admin.after.clear()
    w.admin.down.clear()
    found.declare("Delete")
    await found.work()
    assert found.parts("a") and found.parts("b") and not w.pulsar.topic_policies[b].get("replication")
    assert w.condition(SET, "s")[0] == "True"


async def test_partitions_whose_topic_is_gone_are_deleted_by_force_alone() -> None:
    """Somebody deleted it in one cluster with force: Pulsar has no policies that would end their replication."""
    found = await made(Kind.TOPIC, partitions=2)
    found.w.pulsar.partitioned.clear()
    found.w.pulsar.topics["a"].clear()
    await found.delete()
    assert not found.gone and len(found.parts("b")) == 2
    assert "cannot end the replication" in found.told() and "ForceDelete" in found.told()
    found.declare("ForceDelete", partitions=2)
    await found.work()
    assert found.gone and not found.left()


PASSING = [pytest.param({}, ["x"], id="plain"), pytest.param({"partitions": 2}, PARTS, id="partitioned")]


async def passing(parts: list[str], **spec: Any) -> LogicalWorld:
    """A topic that keeps no message, which replicators of both clusters have open."""
    w = LogicalWorld("a", "b")
    w.tenant()
    w.namespace(replicationClusters=["a", "b"])
    w.topic("x", persistent=False, deletionPolicy="Delete", **spec)
    await w.run()
    for cluster in "ab":
        w.pulsar.topics[cluster].update({f"non-persistent://t/n/{part}": FakeTopic() for part in parts})
    w.delete(Kind.TOPIC, "x")
    return w


@pytest.mark.parametrize(("spec", "parts"), PASSING)
async def test_one_that_keeps_no_message_is_deleted_where_replicators_alone_use_it(
    spec: dict[str, Any], parts: list[str]
) -> None:
    w = await passing(parts, **spec)
    await w.run()
    assert w.get(Kind.TOPIC, "x") is None and not w.pulsar.partitioned
    assert not w.pulsar.topics["a"] and not w.pulsar.topics["b"]


@pytest.mark.parametrize(("spec", "parts"), PASSING)
@pytest.mark.parametrize("cluster", ["a", "b"])
async def test_one_that_keeps_no_message_stays_while_another_client_uses_it(
    cluster: str, spec: dict[str, Any], parts: list[str]
) -> None:
    w = await passing(parts, **spec)
    topic = w.pulsar.topics[cluster][f"non-persistent://t/n/{parts[-1]}"]
    topic.producers = 1
    await w.run()
    told = repr(w.status(Kind.TOPIC, "x"))
    assert f"Topic {parts[-1]} in cluster {cluster} has 1 connected producers" in told
    assert len(w.pulsar.topics["a"]) == len(w.pulsar.topics["b"]) == len(parts), "nobody is disconnected"
    topic.producers = 0
    await w.run()
    assert w.get(Kind.TOPIC, "x") is None
