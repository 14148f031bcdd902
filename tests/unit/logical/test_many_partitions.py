"""A topic with many partitions is deleted with few calls, some at a time, over as many passes as it takes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.controllers.core.bounded import AT_ONCE, each_of
from pulsar_operator.controllers.logical import replicated_topic_deletion
from pulsar_operator.ports import AdminEndpoint, UnavailableError
from tests.fakes.admin import AdminCall, FakeAdmin
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.topic_sets import SET
from tests.support.logical.world import LogicalWorld

X = "persistent://t/n/x"


class Counting(FakeAdmin):
    """Counts the calls that are under way in each cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def call(self, endpoint: AdminEndpoint, method: str, path: Sequence[str], **options: Any) -> Any:
        """See ports.PulsarAdminPort."""
        self.running[endpoint.cluster] += 1
        self.most[endpoint.cluster] = max(self.most[endpoint.cluster], self.running[endpoint.cluster])
        try:
            await asyncio.sleep(0)
            return await super().call(endpoint, method, path, **options)
        finally:
            self.running[endpoint.cluster] -= 1


async def world(kind: Kind, number: int, *clusters: str, policy: str = "Delete") -> LogicalWorld:
    """A topic with so many partitions, of a PulsarTopic or a set, in each cluster."""
    admin = Counting()
    w = LogicalWorld(*clusters, admin=admin)
    admin.pulsar = w.pulsar
    w.tenant()
    w.namespace()
    if kind is Kind.TOPIC:
        w.topic("x", partitions=number, deletionPolicy=policy)
    else:
        w.topics("x", names=["x"], template={"partitions": number}, deletionPolicy=policy)
    await w.run()
    for cluster in clusters:
        for part in range(number):
            w.pulsar.topics.setdefault(cluster, {}).setdefault(f"{X}-partition-{part}", FakeTopic(entries=3))
    admin.calls.clear()
    admin.most.clear()
    w.delete(kind, "x")
    return w


def left(w: LogicalWorld, cluster: str) -> int:
    return sum(X in name for name in w.pulsar.topics[cluster])


@pytest.mark.parametrize("policy", ["Delete", "ForceDelete"])
@pytest.mark.parametrize("clusters", ["a", "ab"])
async def test_few_calls_for_each_partition(clusters: str, policy: str) -> None:
    """Statistics of all come in one answer; the deletion itself is one call."""
    w = await world(Kind.TOPIC, 100, *clusters, policy=policy)
    await w.run()
    assert w.get(Kind.TOPIC, "x") is None and not any(left(w, cluster) for cluster in clusters)
    paths = ["/".join((call.cluster, *call.path[:4])) for call in w.admin.calls]
    calls = Counter(path for path in paths if "/x-partition-" in path)
    assert max(calls.values(), default=0) <= 2, calls.most_common(5)
    assert all(0 < most <= AT_ONCE + 2 for most in w.admin.most.values())


@pytest.mark.parametrize("kind", [Kind.TOPIC, SET])
@pytest.mark.parametrize("clusters", ["a", "ab"])
async def test_passes_go_on_with_what_is_left(kind: Kind, clusters: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated_topic_deletion, "PER_PASS", 20)
    monkeypatch.setattr("pulsar_operator.controllers.topicset.removal.PER_PASS", 20)
    w = await world(kind, 50, *clusters)
    outcome = await w.reconcile(kind, "x")
    assert [left(w, cluster) for cluster in clusters] == [30] * len(clusters)
    assert outcome.requeue_after == 0.0, "it goes on at once"
    assert w.condition(kind, "x")[1] == "Deleting" and w.condition(kind, "x", "DeletionBlocked")[0] == "absent"
    if kind is Kind.TOPIC:
        assert "30 in cluster a" in w.condition(kind, "x")[2]
    for cluster in clusters if len(clusters) > 1 else "":
        own = w.pulsar.topic_policies[cluster, X].get("replication")
        assert own == [cluster], "replicators of the other cluster would make again what is deleted"
    w.restart()
    await w.reconcile(kind, "x")
    assert [left(w, cluster) for cluster in clusters] == [10] * len(clusters)
    await w.run()
    assert w.get(kind, "x") is None and not w.pulsar.partitioned
    assert not any(left(w, cluster) for cluster in clusters)
    assert not any(held.get("replication") for held in w.pulsar.topic_policies.values())


async def test_who_uses_one_of_the_rest_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated_topic_deletion, "PER_PASS", 20)
    w = await world(Kind.TOPIC, 50, "a", "b")
    await w.reconcile(Kind.TOPIC, "x")
    used = next(name for name in w.pulsar.topics["b"] if X in name)
    w.pulsar.topics["b"][used].producers = 1
    await w.reconcile(Kind.TOPIC, "x")
    assert left(w, "a") == left(w, "b") == 30
    assert "connected producers" in w.condition(Kind.TOPIC, "x", "DeletionBlocked")[2]
    assert not any(held.get("replication") for held in w.pulsar.topic_policies.values())


@pytest.mark.parametrize("gives", ["nothing", "half"])
async def test_partitions_that_the_answer_leaves_out_are_asked_one_by_one(gives: str) -> None:
    w = await world(Kind.TOPIC, 40, "a")
    names = [f"{X}-partition-{part}" for part in range(40)]
    w.pulsar.mute = set(names if gives == "nothing" else names[::2])
    w.pulsar.topics["a"][names[-2]].backlog["billing"] = 5
    await w.reconcile(Kind.TOPIC, "x")
    assert left(w, "a") == 40
    assert "5 unread messages" in w.condition(Kind.TOPIC, "x", "DeletionBlocked")[2]


async def test_a_cluster_without_statistics_of_all_is_asked_for_each() -> None:
    w = await world(Kind.TOPIC, 40, "a", "b")

    def broken(call: AdminCall) -> None:
        if call.path[-1] == "partitioned-stats":
            raise UnavailableError("HTTP 500", status=500)

    w.admin.before.append(broken)
    await w.run()
    assert w.get(Kind.TOPIC, "x") is None and not left(w, "a") and not left(w, "b")


async def test_no_more_at_once_and_the_first_error_ends_it() -> None:
    running = most = begun = 0

    async def ask(number: int) -> int:
        nonlocal running, most, begun
        running, begun = running + 1, begun + 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        if number == 20:
            raise UnavailableError("no")
        return number * 2

    assert await each_of(range(20), ask) == [number * 2 for number in range(20)]
    assert await each_of([], ask) == []
    begun = 0
    with pytest.raises(UnavailableError):
        await each_of(range(1000), ask)
    assert most == AT_ONCE and begun < 40
