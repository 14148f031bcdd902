"""The list of a larger set is minutes old: what a deletion takes with it is asked for before, and looked at."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pulsar_operator.ports import UnavailableError
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.topic_sets import SET, TTL, SetWorld, count

LAST = "persistent://t/n/x-149"


async def listed(*clusters: str, partitions: int | None = 2, deleted: bool = False) -> SetWorld:
    """A set whose last topic is to be deleted and is used; its list serves for some minutes."""
    w = await SetWorld.made(*clusters)
    template = {**TTL, **({"partitions": partitions} if partitions else {})}
    w.topics("s", **count(150, deletionPolicy="Delete"), template=template)
    await w.work()
    for cluster in w.pulsar.clusters:
        first = f"{LAST}-partition-0" if partitions else LAST
        w.pulsar.topics[cluster].setdefault(first, FakeTopic()).producers = 1
    if deleted:
        w.delete(SET, "s")
        await w.wait(20)
    else:
        w.topics("s", **count(149, deletionPolicy="Delete"), template=template)
        await w.work()
    return w


def let_go(w: SetWorld) -> None:
    """Nobody is connected any more."""
    for topics in w.pulsar.topics.values():
        for topic in topics.values():
            topic.producers = 0


def grow(w: SetWorld, cluster: str) -> FakeTopic:
    """Somebody adds partitions; the newest one has unread messages in a cluster."""
    w.pulsar.partitioned[LAST] = 4
    for index in (2, 3):
        w.pulsar.topics[cluster][f"{LAST}-partition-{index}"] = FakeTopic()
    newest = w.pulsar.topics[cluster][f"{LAST}-partition-3"]
    newest.backlog["sub"], newest.entries = 7, 7
    return newest


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("cluster", ["a", "b"])
async def test_partitions_that_were_added_since_are_checked(cluster: str, deleted: bool) -> None:
    w = await listed("a", "b", deleted=deleted)
    newest = grow(w, cluster)
    let_go(w)
    await w.wait(200)
    assert "x-149-partition-3" in w.local(cluster), "7 unread messages were deleted without a look"
    message = w.condition(SET, "s")[2]
    assert "topic x-149-partition-3 in cluster" in message and "7 unread messages" in message
    newest.backlog.clear()
    for _ in range(100):
        if not [each for each in w.local(cluster) if each.startswith("x-149")]:
            return
        w.clock.time += timedelta(seconds=60)
        await w.work()
    raise AssertionError("what nobody needs is deleted in the end")


async def test_a_topic_that_was_made_again_with_partitions_is_checked() -> None:
    w = await listed(partitions=None)
    del w.pulsar.topics["a"][LAST]
    grow(w, "a")
    await w.wait(200)
    assert "x-149-partition-3" in w.local()


async def test_nothing_is_deleted_while_a_cluster_does_not_report_the_number() -> None:
    w = await listed("a", "b")
    let_go(w)

    def silent(call: AdminCall) -> None:
        if call.cluster == "b" and call.path[-1] == "partitions":
            raise UnavailableError("no connection to cluster b")

    w.admin.before.append(silent)
    w.clock.time += timedelta(seconds=60)
    with w.admin.recording() as made:
        await w.reconcile(SET, "s")
    assert made == []
    w.admin.before.clear()
    await w.wait(400)
    assert not [each for each in w.local() if each.startswith("x-149")]


async def test_it_is_asked_for_deletions_alone_once_in_each_cluster() -> None:
    w = await SetWorld.made("a", "b")
    w.topics("s", **count(12, deletionPolicy="Delete"))
    await w.work()
    mark = len(w.admin.calls)
    w.topics("s", **count(10, deletionPolicy="Delete"))
    await w.work()
    asked = [call.path[-2] for call in w.admin.calls[mark:] if call.path[-1] == "partitions"]
    gone = sorted(each for each in asked if each in {"x-10", "x-11"})
    assert gone == ["x-10", "x-10", "x-11", "x-11"]
