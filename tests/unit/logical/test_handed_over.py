"""A rename, or any second object for the same thing in Pulsar: deleting the first hands over and deletes nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.watch_cache import DirectReader
from pulsar_operator.controllers.logical.topic import TopicController
from pulsar_operator.controllers.topicset.controller import TopicSetController
from pulsar_operator.ports import CUSTOM, Json, Key
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.world import NS, LogicalWorld

KINDS: dict[Kind, tuple[str, dict[str, Any]]] = {
    Kind.TENANT: ("tenant", {}),
    Kind.NAMESPACE: ("namespace", {}),
    Kind.TOPIC: ("topic", {"partitions": 2}),
    Kind.RESOURCE_GROUP: ("group", {"limits": {"publishRate": {"messagesPerSecond": 5}}}),
    Kind.ISOLATION_POLICY: ("isolation", {"namespaces": ["t/n"], "primary": [".*"]}),
}


def there(w: LogicalWorld, kind: Kind) -> bool:
    """Whether Pulsar has what both objects declare."""
    snapshot = repr(w.pulsar.snapshot())
    return "'same'" in snapshot or "/same" in snapshot


class StillClock:
    """It is always the same second."""

    def now(self) -> datetime:
        """Current time."""
        return datetime(2026, 1, 1, tzinfo=UTC)


async def two(kind: Kind) -> LogicalWorld:
    """The first manages, the second is a duplicate."""
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    make, spec = getattr(w, KINDS[kind][0]), KINDS[kind][1] | {"name": "same", "deletionPolicy": "Delete"}
    make("first", **spec)
    await w.run()
    assert w.condition(kind, "first")[0] == "True" and there(w, kind)
    make("second", **spec)
    await w.run()
    assert w.condition(kind, "second")[:2] == ("False", "Duplicate")
    return w


@pytest.mark.parametrize("kind", KINDS)
async def test_the_first_is_deleted(kind: Kind) -> None:
    w = await two(kind)
    before = w.pulsar.snapshot()
    w.delete(kind, "first")
    await w.reconcile(kind, "first")
    assert w.get(kind, "first") is None
    assert w.pulsar.snapshot() == before
    event = next(each for each in w.kube.events if each.reason == "HandedOver")
    assert f"{kind.value} {NS}/second" in event.message
    await w.run()
    assert w.condition(kind, "second")[0] == "True" and there(w, kind)
    w.delete(kind, "second")
    await w.run()
    assert w.get(kind, "second") is None and not there(w, kind), "nobody declares it any more"


async def test_a_successor_is_found_although_the_clock_was_put_back() -> None:
    """While it was ahead a list was made, which is not to serve until the clock has caught up."""
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    spec = {"name": "same", "deletionPolicy": "Delete"}
    w.topic("first", **spec)
    await w.run()
    topic = w.pulsar.topics["a"]["persistent://t/n/same"]
    topic.producers = 1
    w.stepping.forward(86400)
    w.delete(Kind.TOPIC, "first")
    await w.run()
    assert w.condition(Kind.TOPIC, "first", "DeletionBlocked")[0] == "True"
    w.stepping.forward(-86400)
    w.topic("second", **spec)
    topic.producers = 0
    await w.reconcile(Kind.TOPIC, "first")
    assert w.pulsar.topics["a"]["persistent://t/n/same"] is topic and "HandedOver" in w.reasons()


@pytest.mark.parametrize("kind", KINDS)
async def test_both_are_deleted(kind: Kind) -> None:
    """A finalizer of somebody else holds the second: it is no successor."""
    w = await two(kind)
    second = w.get(kind, "second")
    assert second is not None
    second["metadata"]["finalizers"] = ["example.com/hold"]
    w.kube.put(second)
    w.delete(kind, "second")
    w.delete(kind, "first")
    await w.run()
    assert w.get(kind, "first") is None and not there(w, kind)


async def test_a_successor_that_cannot_be_read_is_one() -> None:
    w = await two(Kind.TOPIC)
    second = w.get(Kind.TOPIC, "second")
    assert second is not None
    w.put(Kind.TOPIC, "second", {**second["spec"], "partitions": "many"})
    w.delete(Kind.TOPIC, "first")
    await w.run()
    assert w.get(Kind.TOPIC, "first") is None and there(w, Kind.TOPIC)


async def test_another_domain_is_another_topic() -> None:
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    w.topic("first", name="same", deletionPolicy="Delete")
    w.topic("second", name="same", persistent=False, partitions=1)
    await w.run()
    assert "persistent://t/n/same" in repr(w.pulsar.snapshot())
    w.delete(Kind.TOPIC, "first")
    await w.run()
    assert w.get(Kind.TOPIC, "first") is None
    assert "HandedOver" not in w.reasons()


@pytest.mark.parametrize("names", [["same"], ["other"]])
async def test_a_set_that_selects_the_topic_takes_it(names: list[str]) -> None:
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    w.topic("first", name="same", deletionPolicy="Delete")
    await w.run()
    w.topics("set", names=names)
    w.delete(Kind.TOPIC, "first")
    await w.reconcile(Kind.TOPIC, "first")
    assert w.get(Kind.TOPIC, "first") is None
    assert there(w, Kind.TOPIC) is (names == ["same"])


@pytest.mark.parametrize("policy", ["Delete", "ForceDelete"])
async def test_a_set_by_pattern_declares_nothing(policy: str) -> None:
    """It gives a template to topics that are there, and lets them go."""
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    w.topics("all", patterns=["*"])
    w.topic("first", name="same", deletionPolicy=policy)
    w.topic("kept", deletionPolicy=policy)
    await w.run()
    w.delete(Kind.TOPIC, "first")
    await w.run()
    assert w.get(Kind.TOPIC, "first") is None and not there(w, Kind.TOPIC)
    assert "kept" in repr(w.pulsar.snapshot())
    assert "HandedOver" not in w.reasons()


def make_younger(w: LogicalWorld, name: str) -> None:
    """A set was made a year after all others."""
    w.kube.edit(
        CUSTOM[Kind.TOPIC_SET], NS, name, lambda obj: obj["metadata"].update(creationTimestamp="2027-01-01T00:00:00Z")
    )


@pytest.mark.parametrize("leaves", ["the name leaves the set", "the set is deleted"])
async def test_a_younger_set_by_pattern_takes_nothing_from_a_set(leaves: str) -> None:
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    w.topics("set", names=["same", "other"], deletionPolicy="Delete")
    await w.run()
    w.topics("younger", patterns=["*"])
    make_younger(w, "younger")
    await w.run()
    if leaves == "the set is deleted":
        w.delete(Kind.TOPIC_SET, "set")
    else:
        w.topics("set", names=["other"], deletionPolicy="Delete")
    await w.run()
    assert not there(w, Kind.TOPIC)


@pytest.mark.parametrize("leaves", ["the name leaves the set", "the set is deleted"])
async def test_a_set_deletes_nothing_that_an_older_set_by_pattern_has(leaves: str) -> None:
    """It never had it."""
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    await w.run()
    w.pulsar.topics["a"] = {"persistent://t/n/same": FakeTopic()}
    w.topics("a-pattern", patterns=["*"])
    w.topics("set", names=["same", "other"], deletionPolicy="Delete")
    make_younger(w, "set")
    await w.run()
    if leaves == "the set is deleted":
        w.delete(Kind.TOPIC_SET, "set")
    else:
        w.topics("set", names=["other"], deletionPolicy="Delete")
    await w.run()
    assert there(w, Kind.TOPIC)


async def test_one_list_answers_for_all_that_were_being_deleted() -> None:
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    for n in range(30):
        w.topic(f"x{n}", deletionPolicy="Delete")
    await w.run()
    w.controllers[Kind.TOPIC] = TopicController(replace(w.controllers[Kind.TOPIC].deps, clock=StillClock()))
    for n in range(30):
        w.delete(Kind.TOPIC, f"x{n}")
    begin = len(w.kube.calls)
    for n in range(30):
        await w.reconcile(Kind.TOPIC, f"x{n}")
    lists = [c for c in w.kube.calls[begin:] if c.verb == "list" and c.kind == CUSTOM[Kind.TOPIC].kind]
    assert len(lists) == 1
    assert [n for n in range(30) if w.get(Kind.TOPIC, f"x{n}") is not None] == []


@pytest.mark.parametrize("listed_for", ["x", "first"])
async def test_a_successor_of_a_deletion_that_was_blocked_for_long(listed_for: str) -> None:
    """The list that was made when the deletion began does not know it."""
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    w.topic("first", name="same", deletionPolicy="Delete")
    w.topic("x", deletionPolicy="Delete")
    await w.run()
    topic = w.pulsar.topics["a"]["persistent://t/n/same"]
    topic.backlog["unread"] = 3
    w.delete(Kind.TOPIC, "first")
    w.delete(Kind.TOPIC, "x")
    await w.reconcile(Kind.TOPIC, listed_for)
    await w.reconcile(Kind.TOPIC, "first")
    assert w.condition(Kind.TOPIC, "first", "DeletionBlocked")[0] == "True"
    w.topic("second", name="same")
    topic.backlog.clear()
    for _ in range(6):
        w.controllers[Kind.TOPIC].deps.clock.now()
    await w.reconcile(Kind.TOPIC, "first")
    assert w.get(Kind.TOPIC, "first") is None and there(w, Kind.TOPIC)


class LateReader(DirectReader):
    """Like a watch cache that has not heard of any PulsarTopic yet."""

    async def named(self, target: Json, child: Kind) -> dict[str, Key]:
        """Nobody."""
        return {}


@pytest.mark.parametrize("leaves", ["the name leaves the set", "the set is deleted"])
@pytest.mark.parametrize("declared", [True, False])
async def test_a_topic_that_another_client_declares_by_now_survives_its_set(leaves: str, declared: bool) -> None:
    w = LogicalWorld()
    deps = w.controllers[Kind.TOPIC_SET].deps
    w.controllers[Kind.TOPIC_SET] = TopicSetController(replace(deps, reader=LateReader(deps)))
    w.tenant()
    w.namespace()
    w.topics("set", names=["same", "other"], deletionPolicy="Delete")
    await w.run()
    assert there(w, Kind.TOPIC)
    if declared:
        w.topic("mine", name="same")
    if leaves == "the set is deleted":
        w.delete(Kind.TOPIC_SET, "set")
    else:
        w.topics("set", names=["other"], deletionPolicy="Delete")
    await w.run()
    deleted = [write for write in map(repr, w.admin.writes) if "DELETE" in write and "same" in write]
    assert (deleted == [], there(w, Kind.TOPIC)) == (declared, declared)
    assert ("other" in repr(w.pulsar.snapshot())) is (leaves == "the name leaves the set")
