"""PulsarTopicSet through its controller: who leaves the set, and its deletion."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_REMOVAL, FINALIZER, Kind
from pulsar_operator.controllers.topicset.removal import AT_A_TIME
from pulsar_operator.ports import CUSTOM, DeadlineError, UnavailableError
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.topic_sets import SET, TTL, SetWorld, count
from tests.support.logical.world import NS


async def test_with_retain_who_leaves_is_let_go_for_good() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30), template=TTL)
    await w.work()
    w.topics("s", **count(20), template=TTL)
    await w.work()
    w.topics("s", **count(15, deletionPolicy="Delete"), template=TTL)
    await w.work()
    assert w.local() == {f"x-{n}" for n in range(30)}
    assert w.counts() == {"desired": 15, "ready": 15}


async def test_with_delete_a_few_are_deleted_and_who_is_used_stays() -> None:
    w = await SetWorld.made("a", "b")
    w.topics("s", **count(30, deletionPolicy="Delete"), template={**TTL, "partitions": 2})
    await w.work()
    used = w.pulsar.topics["a"]["persistent://t/n/x-29-partition-1"]
    used.producers = 1
    w.topics("s", **count(25, deletionPolicy="Delete"), template={**TTL, "partitions": 2})
    await w.work()
    assert w.local() == {f"x-{n}-partition-{i}" for n in (*range(25), 29) for i in range(2)}
    status, reason, message = w.condition(SET, "s")
    assert (status, reason) == ("False", "NotEmpty")
    assert "such as x-29: Topic x-29-partition-1 in cluster a has 1 connected producers" in message
    assert w.counts() == {"desired": 25, "ready": 25, "pendingDeletion": 1}
    assert w.status(SET, "s")["owned"] == {"number": 30}
    used.producers = 0
    await w.wait(60)
    assert w.local() == {f"x-{n}-partition-{i}" for n in range(25) for i in range(2)}
    assert w.status(SET, "s")["owned"] == {"number": 25}
    assert w.condition(SET, "s")[0] == "True"


async def test_one_that_pulsar_cannot_delete_does_not_keep_the_others() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30, deletionPolicy="Delete"), template=TTL)
    await w.work()

    def broken(call: AdminCall) -> None:
        if call.method == "DELETE" and call.path[-1] == "x-25":
            raise UnavailableError("HTTP 500: because of this", status=500)

    w.admin.before.append(broken)
    w.topics("s", **count(25, deletionPolicy="Delete"), template=TTL)
    await w.work()
    assert w.local() == {f"x-{n}" for n in range(26)}
    status, reason, message = w.condition(SET, "s")
    assert (status, reason) == ("False", "AdminUnreachable")
    assert "x-25: HTTP 500: because of this" in message
    w.admin.before.clear()
    await w.wait(60)
    assert w.local() == {f"x-{n}" for n in range(25)}
    assert w.condition(SET, "s")[0] == "True"


async def test_many_at_once_need_a_word_for_this_very_change() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(300, deletionPolicy="Delete"))
    await w.work()
    meta = w.topics("s", **count(20, deletionPolicy="Delete"))["metadata"]
    generation, uid = meta["generation"], meta["uid"]
    await w.work()
    await w.wait(3600)
    assert len(w.local()) == 300
    status, reason, message = w.condition(SET, "s")
    assert (status, reason) == ("False", "WaitingForConfirmation")
    assert "280 of 300 topics were removed from the set" in message
    assert f"annotate --overwrite pulsartopicset/s {ANNOTATION_CONFIRM_REMOVAL}={generation}-{uid[:8]}." in message
    for value in ("true", str(generation), f"{generation - 1}-{uid[:8]}", "s"):
        w.topics("s", **count(20, deletionPolicy="Delete"), annotations={ANNOTATION_CONFIRM_REMOVAL: value})
        await w.work()
        assert len(w.local()) == 300, value
    confirmation = {ANNOTATION_CONFIRM_REMOVAL: f"{generation}-{uid[:8]}"}
    w.topics("s", **count(20, deletionPolicy="Delete"), annotations=confirmation)
    await w.reconcile(SET, "s")
    assert len(w.local()) == 300 - AT_A_TIME, "a few at a time"
    await w.work()
    assert w.local() == {f"x-{n}" for n in range(20)}
    assert w.condition(SET, "s")[0] == "True"
    # The next change is another one.
    w.topics("s", **count(0, deletionPolicy="Delete"), annotations=confirmation)
    await w.work()
    assert w.condition(SET, "s")[1] == "WaitingForConfirmation"
    assert len(w.local()) == 20


async def test_a_word_for_an_object_does_not_count_for_the_one_that_is_applied_after_it() -> None:
    """Its manifest still has the annotation, and the new object comes to the same generation."""
    w = await SetWorld.made()
    w.topics("s", **count(300))
    await w.work()
    old = w.kube.live(CUSTOM[SET], NS, "s")
    assert old is not None
    w.delete(SET, "s")
    await w.work()
    assert w.kube.live(CUSTOM[SET], NS, "s") is None and len(w.local()) == 300
    w.topics("s", **count(300, deletionPolicy="Delete"))
    await w.work()
    meta = w.topics("s", **count(20, deletionPolicy="Delete"))["metadata"]
    for value in (str(meta["generation"]), f"{meta['generation']}-{old['metadata']['uid'][:8]}"):
        w.topics("s", **count(20, deletionPolicy="Delete"), annotations={ANNOTATION_CONFIRM_REMOVAL: value})
        await w.work()
        assert w.condition(SET, "s")[1] == "WaitingForConfirmation", value
        assert len(w.local()) == 300


async def test_nothing_is_deleted_while_a_cluster_is_silent() -> None:
    """Its clients may need the topics; a partitioned one would go for all clusters with the first."""
    w = await SetWorld.made("a", "b")
    template = {**TTL, "partitions": 2}
    w.topics("s", **count(30, deletionPolicy="Delete"), template=template)
    await w.work()
    for part in range(2):
        w.pulsar.topics["b"][f"persistent://t/n/x-29-partition-{part}"] = FakeTopic()
    everything = w.local()
    w.admin.down.add("b")
    w.topics("s", **count(28, deletionPolicy="Delete"), template=template)
    passes = await w.wait(600)
    assert passes < 20
    assert w.local() == everything
    assert w.condition(SET, "s")[:2] == ("Unknown", "AdminUnreachable")
    w.admin.down.clear()
    await w.wait(300)
    assert w.local() == {f"x-{n}-partition-{i}" for n in range(28) for i in range(2)}
    assert w.local("b") == set()
    w.admin.down.add("b")
    w.delete(SET, "s")
    await w.wait(600)
    assert len(w.local()) == 56
    assert w.condition(SET, "s", "DeletionBlocked")[:2] == ("True", "AdminUnreachable")
    w.admin.down.clear()
    await w.wait(300)
    assert w.get(SET, "s") is None
    assert w.local() == set()


async def test_names_that_leave() -> None:
    w = await SetWorld.made()
    w.topics("s", names=["a", "b", "c"], deletionPolicy="Delete")
    await w.work()
    w.pulsar.topics["a"]["persistent://t/n/z"] = FakeTopic()
    w.topics("s", names=["b", "d"], deletionPolicy="Delete")
    await w.work()
    assert w.local() == {"b", "d", "z"}
    assert [message for reason, message in w.told() if reason == "Deleted"] == [
        "Deleted 2 topics that were removed from the set: a, c"
    ]


async def test_who_left_and_is_declared_by_another_client_stays() -> None:
    w = await SetWorld.made()
    w.topics("s", names=["a", "b", "c"], deletionPolicy="Delete")
    await w.work()
    w.topic("a")
    w.topics("young", names=["b"])
    w.topics("s", names=[], deletionPolicy="Delete")
    await w.work()
    assert w.local() == {"a", "b"}
    w.delete(SET, "s")
    await w.work()
    assert w.get(SET, "s") is None
    assert w.local() == {"a", "b"}


async def test_an_empty_list_deletes_nothing_and_makes_nothing_twice() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30, deletionPolicy="Delete"), template=TTL)
    await w.work()
    topics = w.pulsar.topics["a"]
    w.pulsar.topics["a"] = {}
    real = w.pulsar.handle

    def blind(cluster: str, method: str, path: Any, query: Any, body: Any) -> Any:
        listing = method == "GET" and tuple(path) == ("persistent", "t", "n")
        w.pulsar.topics["a"] = {} if listing else topics
        return real(cluster, method, path, query, body)

    w.pulsar.handle = blind  # type: ignore[method-assign]
    w.clock.time += timedelta(minutes=10)
    await w.work()
    w.topics("s", **count(25, deletionPolicy="Delete"), template=TTL)
    await w.work()
    assert len(topics) == 30
    assert w.condition(SET, "s")[0] == "True"
    assert not any(call.method == "DELETE" for call in w.admin.calls)


async def test_deleting_the_set() -> None:
    w = await SetWorld.made("a", "b")
    w.topics("s", **count(250, deletionPolicy="Delete"), template=TTL)
    await w.work()
    obj = w.get(SET, "s")
    assert obj is not None and FINALIZER in obj["metadata"]["finalizers"]
    w.pulsar.topics["b"]["persistent://t/n/x-9"].producers = 2
    w.pulsar.topics["a"]["persistent://t/n/other"] = FakeTopic()
    w.delete(SET, "s")
    await w.work()
    assert w.local() == {"x-9", "other"}
    assert w.condition(SET, "s", "DeletionBlocked")[:2] == ("True", "NotEmpty")
    w.pulsar.topics["b"]["persistent://t/n/x-9"].producers = 0
    await w.wait(60)
    assert w.get(SET, "s") is None
    assert w.local("a") == {"other"}
    assert w.local("b") == set()


async def test_deleting_a_set_that_retains() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30), template=TTL)
    await w.work()
    obj = w.get(SET, "s")
    assert obj is not None and not obj["metadata"].get("finalizers")
    w.delete(SET, "s")
    await w.reconcile(SET, "s")
    assert w.get(SET, "s") is None
    assert len(w.local()) == 30


async def test_deleting_a_set_whose_parents_are_gone() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30, deletionPolicy="Delete"))
    await w.work()
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    w.delete(SET, "s")
    await w.work()
    assert w.get(SET, "s") is None
    assert "ParentDeleted" in w.reasons(SET)
    assert len(w.local()) == 30


async def test_a_blocked_deletion_of_a_larger_set_rests_between_its_attempts() -> None:
    """The topics it still has are not read any more, however long their turn has been due."""
    w = await SetWorld.made()
    w.topics("s", **count(150, deletionPolicy="Delete"), template=TTL)
    await w.work()
    w.pulsar.topics["a"]["persistent://t/n/x-149"].producers = 1
    w.delete(SET, "s")
    assert await w.wait(3600) < 30
    assert w.local() == {"x-149"}


@pytest.mark.parametrize("what", ["stats", "DELETE"])
async def test_one_that_gives_no_answer_does_not_keep_the_others(what: str) -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30, deletionPolicy="Delete"), template=TTL)
    await w.work()

    def hangs(call: AdminCall) -> None:
        if call.path[3:4] == ("x-10",) and what in (call.method, call.path[-1]):
            raise DeadlineError("no answer within 15 s")

    w.admin.before.append(hangs)
    w.delete(SET, "s")
    for _ in range(20):
        await w.reconcile(SET, "s")
        w.clock.time += timedelta(minutes=1)
    assert w.local() == {"x-10"}


async def test_partitions_of_a_topic_that_is_gone_do_not_keep_the_others() -> None:
    """They are replicated, and nothing can end that: Pulsar has no policies for them. A set forces nothing."""
    w = await SetWorld.made("a", "b")
    partitioned = {"deletionPolicy": "Delete", "template": {"partitions": 2}}
    w.topics("s", **count(30, **partitioned))
    await w.work()
    del w.pulsar.partitioned["persistent://t/n/x-25"]
    w.topics("s", **count(25, **partitioned))
    await w.wait(120)
    assert {each for each in w.local() if int(each.split("-")[1]) >= 25} == {"x-25-partition-0", "x-25-partition-1"}
    message = w.condition(SET, "s")[2]
    assert "x-25: Pulsar does not delete a topic that is replicated" in message
    assert "Set deletionPolicy to Retain" in message and "ForceDelete" not in message


async def test_nobody_counts_up_to_a_number_that_a_client_made_up() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(2, deletionPolicy="Delete", template={"partitions": 2}))
    await w.work()
    for name in ("x-1-partition-999999999", "x-7-partition-999999999"):
        w.pulsar.topics["a"][f"persistent://t/n/{name}"] = FakeTopic()
    del w.pulsar.partitioned["persistent://t/n/x-0"]
    w.delete(SET, "s")
    for _ in range(5):
        await w.reconcile(SET, "s")
        w.clock.time += timedelta(minutes=1)
    assert w.get(SET, "s") is None
    assert w.local() == {"x-7-partition-999999999"}


async def test_what_is_named_like_a_partition_of_a_topic_without_any_is_another_clients() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(2, deletionPolicy="Delete"))
    await w.work()
    w.pulsar.topics["a"]["persistent://t/n/x-1-partition-3"] = FakeTopic()
    used = w.pulsar.topics["a"]["persistent://t/n/x-0"]
    used.producers = 1
    w.delete(SET, "s")
    await w.wait(120)
    used.producers = 0
    await w.wait(120)
    assert w.get(SET, "s") is None and w.local() == {"x-1-partition-3"}
