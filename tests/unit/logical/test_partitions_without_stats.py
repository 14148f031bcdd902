"""Pulsar leaves a partition out of partitioned-stats when its broker does not answer: what it holds is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.logical.subscriptions import partitions_without_stats
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.topic_sets import SetWorld

X = "persistent://t/n/x"
BOTH = [{"name": "s1"}, {"name": "s2"}]


async def two_subscriptions(*clusters: str, partitions: int = 2, **more: Any) -> SetWorld:
    """Topic x, of whose subscriptions s2 has unread messages in the last partition of cluster a, which is mute."""
    w = await SetWorld.made(*clusters)
    w.topic("x", partitions=partitions, deletionPolicy="Delete", subscriptions=BOTH, **more)
    await w.run()
    for cluster in clusters[1:]:
        w.pulsar.topics[cluster] = {f"{X}-partition-{index}": FakeTopic() for index in range(partitions)}
    await w.run()
    last = f"{X}-partition-{partitions - 1}"
    w.pulsar.topics["a"][last].backlog["s2"] = 9
    w.pulsar.mute.add(last)
    return w


def has(w: SetWorld, name: str, partition: int = 1) -> bool:
    """Whether a partition in cluster a has a subscription."""
    return name in w.pulsar.topics["a"][f"{X}-partition-{partition}"].subscriptions


@pytest.mark.parametrize("policy", ["Delete", "ForceDelete"])
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("left", [BOTH[:1], []])
@pytest.mark.parametrize("clusters", [("a",), ("a", "b")])
async def test_a_subscription_that_left_stays_until_every_partition_shows(
    policy: str, partitions: int, left: list[Any], clusters: tuple[str, ...]
) -> None:
    w = await two_subscriptions(*clusters, partitions=partitions)
    w.topic("x", partitions=partitions, deletionPolicy=policy, subscriptions=left)
    await w.run()
    assert has(w, "s2", partitions - 1), "9 unread messages lost"
    status, reason, message = w.condition(Kind.TOPIC, "x")
    assert (status, reason) == ("Unknown", "AdminUnreachable")
    assert f"did not return statistics of 1 partitions, such as {X}-partition-{partitions - 1}" in message
    w.pulsar.mute.clear()
    await w.run()
    assert has(w, "s2", partitions - 1) is (policy == "Delete")
    assert w.condition(Kind.TOPIC, "x")[1] == ("NotEmpty" if policy == "Delete" else "Ready")


async def test_nothing_is_repaired_by_what_other_partitions_tell() -> None:
    w = await two_subscriptions()
    w.pulsar.topics["a"][f"{X}-partition-0"].subscriptions.clear()
    with w.admin.recording() as made:
        await w.run()
    assert made == []
    w.pulsar.mute.clear()
    await w.run()
    assert has(w, "s2", 0)


async def test_partitions_nobody_has_used_yet_hold_nothing() -> None:
    """A cluster of the namespace has none of them until a client comes, or the subscriptions are made."""
    w = await SetWorld.made("a", "b")
    w.topic("x", partitions=2, deletionPolicy="Delete", subscriptions=BOTH)
    await w.run()
    assert not w.local("b")
    w.pulsar.topics["b"][f"{X}-partition-0"] = FakeTopic()
    await w.run()
    assert set(w.pulsar.topics["b"][f"{X}-partition-0"].subscriptions) == {"s1", "s2"}
    w.topic("x", partitions=2, deletionPolicy="Delete", subscriptions=BOTH[:1])
    await w.run()
    assert set(w.pulsar.topics["b"][f"{X}-partition-0"].subscriptions) == {"s1"}
    assert w.condition(Kind.TOPIC, "x")[0] == "True"


async def test_complete_statistics_cost_no_further_call() -> None:
    w = await two_subscriptions()
    w.pulsar.mute.clear()
    mark = len(w.admin.calls)
    await w.reconcile(Kind.TOPIC, "x")
    assert [call.path[-1] for call in w.admin.calls[mark:] if call.method == "GET"][-1] == "partitioned-stats"


@pytest.mark.parametrize(
    ("stats", "missing"),
    [
        ({"metadata": {"partitions": 2}, "partitions": {f"{X}-partition-0": {}, f"{X}-partition-1": {}}}, []),
        ({"metadata": {"partitions": 11}, "partitions": {f"{X}-partition-{i}": {} for i in range(10)}}, [10]),
        ({"metadata": {"partitions": 1}, "partitions": {X: {}}}, [0]),
        ({"metadata": {"partitions": 1}, "partitions": None}, [0]),
        ({"partitions": {f"{X}-partition-0": {}}}, None),
        ({"metadata": {}, "partitions": {}}, None),
        ({}, None),
    ],
)
def test_which_partitions_are_left_out(stats: dict[str, Any], missing: list[int] | None) -> None:
    assert partitions_without_stats(stats) == missing
