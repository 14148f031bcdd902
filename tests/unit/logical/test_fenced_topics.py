"""A topic whose deletion hung stays fenced: its bundle is unloaded, late and rarely, and the deletion then ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.balance.model.hashing import topic_hash
from pulsar_operator.controllers.logical.topic import TopicController
from pulsar_operator.controllers.logical.topic_deletion import FENCED_AGAIN_SECONDS, FENCED_SECONDS
from pulsar_operator.ports import NotFoundError
from tests.fakes.admin import AdminCall
from tests.support.logical.topic_sets import SET, SetWorld, Still, count
from tests.support.logical.world import LogicalWorld

X, P = "persistent://t/n/x", "persistent://t/n/p-partition-1"


class Fenced(LogicalWorld):
    """A world in which time stands still until it is moved."""

    def restart(self) -> None:
        """A new operator process."""
        super().restart()
        self.clock = Still()
        deps = self.controllers[Kind.TOPIC].deps
        self.controllers[Kind.TOPIC] = TopicController(replace(deps, clock=self.clock))

    @classmethod
    async def made(cls, *clusters: str) -> Fenced:
        w = cls(*clusters)
        w.tenant()
        w.namespace()
        w.topic("x", deletionPolicy="Delete")
        w.topic("p", partitions=2, deletionPolicy="Delete")
        await w.run()
        return w

    async def passes(self, name: str, seconds: float) -> None:
        """Passes for so long, each when the one before asked for it."""
        end = self.clock.time + timedelta(seconds=seconds)
        while self.clock.time < end and self.get(Kind.TOPIC, name) is not None:
            outcome = await self.reconcile(Kind.TOPIC, name)
            self.clock.time += timedelta(seconds=outcome.requeue_after or 60.0)

    def unloads(self) -> list[str]:
        """Paths of what was unloaded."""
        return [path for method, path in self.admin.writes if method == "PUT" and path.endswith("/unload")]


@pytest.mark.parametrize(("name", "full"), [("x", X), ("p", P)])
async def test_the_bundle_is_unloaded_after_a_while_and_the_topic_goes(name: str, full: str) -> None:
    w = await Fenced.made()
    w.pulsar.fenced = {full}
    w.delete(Kind.TOPIC, name)
    await w.passes(name, FENCED_SECONDS)
    assert w.unloads() == [], "a deletion under way is left alone"
    status, reason, message = w.condition(Kind.TOPIC, name, "DeletionBlocked")
    assert (status, reason) == ("True", "TopicFenced")
    assert f"topic {name} in cluster a" in message and "Topic is already fenced" in message
    await w.passes(name, 60)
    assert w.get(Kind.TOPIC, name) is None
    assert full not in w.pulsar.topics["a"]
    boundaries = w.pulsar.namespaces["t/n"]["bundles"]["boundaries"]
    lower = max(each for each in boundaries if int(each, 16) <= topic_hash(full))
    assert len(w.unloads()) == 1 and w.unloads()[0].startswith(f"namespaces/t/n/{lower}_")


async def test_one_that_stays_fenced_costs_an_unload_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    w = await Fenced.made()

    class Always(set[str]):
        def __isub__(self, other: Any) -> Any:
            return self

    w.pulsar.fenced = Always({X})
    w.delete(Kind.TOPIC, "x")
    await w.passes("x", FENCED_SECONDS + 3 * FENCED_AGAIN_SECONDS + 30)
    assert len(w.unloads()) == 4
    assert w.reasons(Kind.TOPIC).count("TopicFenced") <= 12
    assert w.condition(Kind.TOPIC, "x")[:2] == ("False", "TopicFenced")
    w.pulsar.fenced = set()
    await w.passes("x", 30)
    assert w.get(Kind.TOPIC, "x") is None


async def test_a_fence_that_falls_by_itself_is_forgotten() -> None:
    w = await Fenced.made()
    w.pulsar.fenced = {X}
    w.delete(Kind.TOPIC, "x")
    await w.passes("x", 30)
    w.pulsar.fenced = set()
    w.pulsar.topics["a"][X].producers = 1
    await w.passes("x", 300)
    assert w.condition(Kind.TOPIC, "x", "DeletionBlocked")[1] == "NotEmpty"
    w.pulsar.topics["a"][X].producers = 0
    await w.passes("x", 30)
    assert w.get(Kind.TOPIC, "x") is None
    assert w.unloads() == []


async def test_one_fenced_partition_does_not_keep_the_others() -> None:
    w = await Fenced.made()
    w.pulsar.fenced = {P}
    w.delete(Kind.TOPIC, "p")
    await w.passes("p", 30)
    assert sorted(each for each in w.pulsar.topics["a"] if "/p-" in each) == [P]


async def test_a_bundle_that_is_not_known_is_not_unloaded() -> None:
    w = await Fenced.made()
    w.pulsar.fenced = {X}

    def missing(call: AdminCall) -> None:
        if call.path[-1] == "bundles":
            raise NotFoundError("HTTP 404")

    w.admin.before.append(missing)
    w.delete(Kind.TOPIC, "x")
    await w.passes("x", 300)
    assert w.unloads() == []
    assert w.condition(Kind.TOPIC, "x")[:2] == ("False", "TopicFenced")


async def test_a_fenced_topic_of_a_set() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30, deletionPolicy="Delete"))
    await w.work()
    w.pulsar.fenced = {"persistent://t/n/x-29"}
    w.topics("s", **count(28, deletionPolicy="Delete"))
    await w.wait(60)
    assert w.local() == {f"x-{n}" for n in (*range(28), 29)}
    assert w.condition(SET, "s")[:2] == ("False", "TopicFenced")
    assert not [path for _, path in w.admin.writes if path.endswith("/unload")]
    await w.wait(600)
    assert w.local() == {f"x-{n}" for n in range(28)}
    assert len([path for _, path in w.admin.writes if path.endswith("/unload")]) == 1
