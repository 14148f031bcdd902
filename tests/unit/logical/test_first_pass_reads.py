"""After a start: what was left as declared is looked at as the list had it, and nothing is written by that list."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.watch_cache import DirectReader, WatchCache
from pulsar_operator.controllers.logical.topic import TopicController
from pulsar_operator.ports import CUSTOM, Json, Key
from tests.support.logical.world import NS, LogicalWorld

X = Key(Kind.TOPIC, NS, "x")


class Restarted:
    """A new process of the operator beside a world: its first list is made."""

    def __init__(self, world: LogicalWorld) -> None:
        self.world = world
        deps = world.controllers[Kind.TOPIC].deps
        self.cache = WatchCache(DirectReader(deps))
        for kind in Kind:
            objects = world.kube.all(CUSTOM[kind])
            self.cache.first_list(kind, objects)
            for obj in objects:
                self.cache.update(kind, obj)
            self.cache.synced(kind)
        self.topics = TopicController(replace(deps, reader=self.cache))

    async def look(self) -> Counter[str]:
        """The first pass over the topic; its calls about topics."""
        mark = len(self.world.kube.calls)
        await self.topics.reconcile(X)
        return Counter(call.verb for call in self.world.kube.calls[mark:] if call.kind == "PulsarTopic")


async def ready(**spec: object) -> LogicalWorld:
    world = LogicalWorld()
    world.tenant()
    world.namespace()
    world.topic("x", policies={"maxConsumers": 5}, **spec)
    await world.run()
    assert world.condition(Kind.TOPIC, "x")[0] == "True"
    return world


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
async def test_a_topic_left_ready_is_not_read_and_not_written(policy: str) -> None:
    world = await ready(deletionPolicy=policy)
    operator = Restarted(world)
    assert await operator.look() == {}
    assert await operator.look() == {"get": 1}  # once: what comes later reads


async def test_a_topic_that_was_lost_is_read_before_it_is_made_again() -> None:
    world = await ready()
    world.pulsar.handle("a", "DELETE", ["persistent", "t", "n", "x"], {}, None)
    calls = await Restarted(world).look()
    assert calls["get"] == 1 and calls["apply_status"] >= 1
    assert world.condition(Kind.TOPIC, "x")[0] == "True" and "Repaired" in world.reasons(Kind.TOPIC)


async def test_what_was_changed_since_the_list_is_read() -> None:
    world = await ready()
    operator = Restarted(world)
    changed = world.topic("x", policies={"maxConsumers": 6})
    operator.cache.update(Kind.TOPIC, changed)
    assert (await operator.look())["get"] == 1
    assert world.status(Kind.TOPIC, "x")["observedGeneration"] == 2


async def test_a_list_the_watch_has_not_caught_up_with_changes_nothing() -> None:
    """The topic was changed, lost in Pulsar, and nobody told yet: what is made is what the API server has."""
    world = await ready()
    operator = Restarted(world)
    world.topic("x", policies={"maxConsumers": 6})
    world.pulsar.handle("a", "DELETE", ["persistent", "t", "n", "x"], {}, None)
    await operator.look()
    assert world.status(Kind.TOPIC, "x")["observedGeneration"] == 2
    calls = [call for call in world.admin.calls if call.path[-1] == "maxConsumers" and call.is_write]
    assert len(calls) == 2 and "Repaired" in world.reasons(Kind.TOPIC)


@pytest.mark.parametrize(
    "change",
    [
        {"status": {}},
        {"metadata": {"generation": 2}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"spec": {"deletionPolicy": "Delete"}},
    ],
)
async def test_what_was_left_undone_is_read(change: dict[str, Json]) -> None:
    world = await ready()
    operator = Restarted(world)
    (obj,) = world.kube.all(CUSTOM[Kind.TOPIC])
    for member, values in change.items():
        obj = {**obj, member: {**obj[member], **values} if values else {}}
    operator.cache = WatchCache(DirectReader(operator.topics.deps))
    operator.cache.first_list(Kind.TOPIC, [obj])
    operator.topics = TopicController(replace(operator.topics.deps, reader=operator.cache))
    assert (await operator.look())["get"] >= 1


def topic(version: str) -> Json:
    meta = {"name": "x", "namespace": NS, "uid": "u", "resourceVersion": version, "managedFields": [{}]}
    return {"apiVersion": "v", "kind": "PulsarTopic", "metadata": meta, "spec": {"namespaceRef": {"name": "n"}}}


@pytest.mark.parametrize(("before", "after", "kept"), [(None, None, True), ("5", "5", True), ("6", None, False)])
def test_a_list_is_kept_unless_the_watch_said_something_else(before: str | None, after: str | None, kept: bool) -> None:
    cache = WatchCache(DirectReader(None))  # type: ignore[arg-type]
    if before:
        cache.update(Kind.TOPIC, topic(before))
    cache.first_list(Kind.TOPIC, [topic("5")])
    cache.synced(Kind.TOPIC)
    if after:
        cache.update(Kind.TOPIC, topic(after))
    found = cache.listed(X)
    assert (found is not None) is kept and cache.listed(X) is None
    assert found is None or "managedFields" not in found["metadata"]


def test_a_topic_that_is_gone_is_not_in_the_list_any_more() -> None:
    for early in (True, False):
        cache = WatchCache(DirectReader(None))  # type: ignore[arg-type]
        if early:
            cache.remove(X)
        cache.first_list(Kind.TOPIC, [topic("5")])
        cache.synced(Kind.TOPIC)
        if not early:
            cache.remove(X)
        assert cache.listed(X) is None
