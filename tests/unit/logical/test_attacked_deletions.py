"""Attacks on deletions: what is lost, what never ends, what nobody is told of."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import ANNOTATION_CONFIRM_RETAINED, Kind
from pulsar_operator.ports import CUSTOM, NotFoundError, RefusedError, UnavailableError
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_topics import FakeTopic
from tests.support.logical.topic_sets import SET, SetWorld
from tests.support.logical.world import NS, PAUSED, LogicalWorld
from tests.unit.logical.test_forced_deletion import FORCE, confirmation
from tests.unit.logical.test_many_partitions import X
from tests.unit.logical.test_many_partitions import world as partitioned
from tests.unit.logical.test_namespace_deletion_races import BOTH, lists, world


async def _reduced() -> LogicalWorld:
    """A namespace whose deletion has left it in one cluster and got no answer."""
    w = await world(BOTH)

    def silent(call: AdminCall) -> None:
        if call.method == "DELETE":
            raise UnavailableError("no answer")

    w.admin.before.append(silent)
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    assert lists(w) == (["a"], ["a"])
    w.admin.before.clear()
    return w


async def test_retain_frees_a_namespace_whose_clusters_cannot_be_given_back() -> None:
    """The tenant lost the cluster meanwhile: Pulsar refuses the list, for ever."""
    w = await _reduced()

    def refuses(call: AdminCall) -> None:
        if call.method == "POST":
            raise RefusedError("HTTP 403: Cluster [b] is not in the list of allowed clusters", status=403)

    w.admin.before.append(refuses)
    w.namespace(**BOTH, deletionPolicy="Retain")
    for _ in range(3):
        await w.run()
    assert w.get(Kind.NAMESPACE, "n") is None, "the message names Retain as the way out"


async def test_a_404_of_something_inside_gives_the_clusters_back() -> None:
    w = await world(BOTH)
    before = lists(w)

    def missing(call: AdminCall) -> None:
        if call.method == "DELETE":
            raise NotFoundError("HTTP 404: topic policies not found")

    w.admin.before.append(missing)
    w.delete(Kind.NAMESPACE, "n")
    for _ in range(3):
        await w.run()
    assert w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[0] == "True"
    assert lists(w) == before, "nobody knows how long it stays so"


async def test_a_deletion_that_is_paused_halfway_leaves_the_namespace_whole() -> None:
    w = await _reduced()
    w.namespace(**BOTH, deletionPolicy="Delete", annotations=PAUSED)
    await w.run()
    blocked = w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")
    assert lists(w) == (["a", "b"], ["a", "b"]) or "replicated to fewer clusters" in blocked[2]


async def test_the_message_of_a_reduced_namespace_has_the_commands_that_restore_it() -> None:
    w = await _reduced()
    w.namespace(**BOTH, deletionPolicy="Delete", annotations=PAUSED)
    await w.run()
    text = w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2]
    assert "pulsar-admin namespaces set-clusters t/n --clusters a,b" in text
    assert '"deletionPolicy":"Retain"' in text
    w.namespace(**BOTH, deletionPolicy="Retain", annotations=PAUSED)
    await w.run()
    assert w.get(Kind.NAMESPACE, "n") is None and lists(w) == (["a", "b"], ["a", "b"])


async def test_a_reduced_namespace_that_waits_for_a_cluster_says_so() -> None:
    w = await _reduced()

    def silent(call: AdminCall) -> None:
        raise UnavailableError("no answer")

    w.admin.before.append(silent)
    await w.run()
    status, reason, text = w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")
    assert (status, reason) == ("True", "AdminUnreachable")
    assert "is replicated to fewer clusters than before. It was replicated to a, b. To keep" in text


@pytest.mark.parametrize("policy", ["Delete", "ForceDelete"])
async def test_partitions_that_are_made_again_end_the_hot_loop(policy: str) -> None:
    """A client makes again what is deleted: a pass that got nowhere waits, and says so."""
    w = await partitioned(Kind.TOPIC, 600, "a", policy=policy)

    def again(call: AdminCall) -> None:
        if call.method == "DELETE" and "-partition-" in call.path[-1]:
            w.pulsar.topics["a"][f"persistent://t/n/{call.path[-1]}"] = FakeTopic()

    w.admin.after.append(again)
    outcomes = [await w.reconcile(Kind.TOPIC, "x") for _ in range(5)]
    assert w.get(Kind.TOPIC, "x") is not None
    assert sum(each.requeue_after == 0.0 for each in outcomes) == 1, "more full passes for nothing"
    assert "a client creates again" in w.condition(Kind.TOPIC, "x", "DeletionBlocked")[2]
    w.admin.after.clear()
    await w.run()
    assert w.get(Kind.TOPIC, "x") is None


async def test_so_it_is_with_a_topic_that_left_its_set() -> None:
    w = await SetWorld.made()
    w.topics("s", names=["x", "y"], template={"partitions": 600}, deletionPolicy="Delete")
    await w.work()

    def again(call: AdminCall) -> None:
        if call.method == "DELETE" and "-partition-" in call.path[-1]:
            w.pulsar.topics["a"][f"persistent://t/n/{call.path[-1]}"] = FakeTopic()

    w.admin.after.append(again)
    w.topics("s", names=["y"], template={"partitions": 600}, deletionPolicy="Delete")
    await w.work(passes=5)
    assert "a client creates again" in w.condition(SET, "s")[2]
    w.admin.after.clear()
    for _ in range(3):
        await w.wait(60)
    assert not [each for each in w.local() if each.startswith("x")], w.condition(SET, "s")


async def _forced(*names: str) -> LogicalWorld:
    w = LogicalWorld()
    w.pulsar.force_delete_namespace = True
    w.tenant()
    w.namespace(**FORCE)
    for name in names:
        w.topic(name)
    await w.run()
    for name in names:
        w.pulsar.topics["a"][f"persistent://t/n/{name}"] = FakeTopic(backlog={"billing": 1000})
    await w.run()
    return w


async def test_every_retained_object_is_named_before_it_is_destroyed() -> None:
    w = await _forced("x", "y")
    w.delete(Kind.TOPIC, "x")
    w.delete(Kind.TOPIC, "y")
    await w.run()
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    text = w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2]
    assert "apps/x" in text and "apps/y" in text


async def test_content_that_was_retained_before_the_parent_was_forced_stays() -> None:
    w = LogicalWorld()
    w.pulsar.force_delete_namespace = True
    w.tenant()
    w.namespace()
    w.topic()
    await w.run()
    w.pulsar.topics["a"]["persistent://t/n/x"] = FakeTopic(backlog={"billing": 1000})
    w.delete(Kind.TOPIC, "x")
    await w.run()
    w.namespace(**FORCE)
    await w.run()
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    assert "persistent://t/n/x" in w.pulsar.topics["a"]


async def test_a_child_that_is_made_while_the_parent_waits_stays() -> None:
    w = await _forced("x")
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    w.topic("late")
    w.pulsar.topics["a"]["persistent://t/n/late"] = FakeTopic(backlog={"billing": 1000})
    w.topic("x", deletionPolicy="ForceDelete")
    w.delete(Kind.TOPIC, "x")
    for _ in range(3):
        await w.run()
    assert "persistent://t/n/late" in w.pulsar.topics["a"]


async def test_a_confirmation_of_an_earlier_object_of_the_name_does_not_count() -> None:
    w = await _forced("x")
    w.delete(Kind.TOPIC, "x")
    await w.run()
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    answer = confirmation(w, Kind.NAMESPACE, "n")
    w.kube.edit(CUSTOM[Kind.NAMESPACE], NS, "n", lambda obj: obj["metadata"].update(finalizers=[]))
    w.namespace(**FORCE, annotations={ANNOTATION_CONFIRM_RETAINED: answer})
    await w.run()
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    assert "persistent://t/n/x" in w.pulsar.topics["a"]
    assert confirmation(w, Kind.NAMESPACE, "n") != answer
    assert X == "persistent://t/n/x"
