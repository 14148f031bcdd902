"""A topic that clusters replicate to each other is deleted in all of them: Pulsar does so by force alone, so nothing is
that somebody uses, or has yet to get from another cluster."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.topic_sets import SET, SetWorld, count

KINDS = [pytest.param({}, id="plain"), pytest.param({"partitions": 2}, id="partitioned")]
OBJECTS = [Kind.TOPIC, SET]


class Replicated:
    """Topic x-0 in clusters a and b, of a PulsarTopic or a PulsarTopicSet."""

    def __init__(self, w: SetWorld, kind: Kind, **spec: Any) -> None:
        self.w, self.kind, self.name = w, kind, "x-0" if kind is Kind.TOPIC else "s"
        if kind is Kind.TOPIC:
            w.topic("x-0", deletionPolicy="Delete", **spec)
        else:
            w.topics("s", **count(1, deletionPolicy="Delete", template=spec))

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
    assert f"has 7 messages that {target} did not get yet" in found.told()
    topic.undelivered[target] = 0
    await found.work()
    assert found.gone and not found.left()


@pytest.mark.parametrize("kind", OBJECTS)
async def test_what_arrives_while_the_clusters_are_looked_at_keeps_it(kind: Kind) -> None:
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
    assert "subscription billing" in found.told() and "1 unread messages" in found.told()


@pytest.mark.parametrize("spec", KINDS)
@pytest.mark.parametrize("kind", OBJECTS)
async def test_who_connects_after_the_looks_is_not_closed(kind: Kind, spec: dict[str, Any]) -> None:
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


@pytest.mark.parametrize("kind", OBJECTS)
async def test_one_that_a_replicator_makes_again_is_deleted_again(kind: Kind) -> None:
    """That of b connects anew as soon as the topic is gone in a, and makes it."""
    found = await made(kind)

    def again(call: AdminCall) -> None:
        if call.method == "DELETE" and call.cluster == "a":
            found.w.admin.after.remove(again)
            found.w.pulsar.topics["a"]["persistent://t/n/x-0"] = FakeTopic()

    found.w.admin.after.append(again)
    await found.delete()
    assert found.gone and not found.left()
