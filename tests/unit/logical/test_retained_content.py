"""Content that deletionPolicy Retain left in Pulsar, found by its record when a parent is deleted by force."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import FINALIZER, Kind
from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.controllers.logical import retained
from pulsar_operator.ports import CUSTOM, RefusedError, UnavailableError
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_topics import FakeTopic
from tests.support.logical.world import NS, PAUSED, LogicalWorld
from tests.unit.logical.test_forced_deletion import FORCE, FORCED, confirm, confirmation

PARENTS = pytest.mark.parametrize(("kind", "name"), FORCED)


async def unforced(*names: str, clusters: tuple[str, ...] = ("a",), **spec: Any) -> LogicalWorld:
    """Topics with deletionPolicy Retain and unread messages, whose parents are not deleted by force yet."""
    w = LogicalWorld(*clusters)
    w.pulsar.force_delete_namespace = w.pulsar.force_delete_tenant = True
    w.tenant()
    w.namespace()
    for name in names:
        w.topic(name, **spec)
    await w.run()
    for name in names:
        for topic in list(w.pulsar.topics["a"]):
            if topic.startswith(f"persistent://t/n/{name}"):
                w.pulsar.topics["a"][topic] = FakeTopic(backlog={"billing": 1000})
    return w


async def retained_all(w: LogicalWorld, kind: Kind, name: str, *topics: str) -> str:
    """Delete the topics' objects, then the parent by force; what its DeletionBlocked says."""
    for topic in topics:
        w.delete(Kind.TOPIC, topic)
    await w.run()
    return await forced(w, kind, name)


async def forced(w: LogicalWorld, kind: Kind, name: str) -> str:
    w.tenant(**FORCE)
    w.namespace(**FORCE)
    await w.run()
    w.delete(Kind.NAMESPACE, "n")
    w.delete(kind, name)
    await w.run()
    return w.condition(kind, name, "DeletionBlocked")[2] if w.get(kind, name) is not None else ""


def there(w: LogicalWorld) -> set[str]:
    return {each.rsplit("/", 1)[1] for each in w.pulsar.topics["a"]}


@PARENTS
async def test_what_was_retained_before_is_named_and_stays(kind: Kind, name: str) -> None:
    w = await unforced("x", "y")
    assert FINALIZER not in (w.get(Kind.TOPIC, "x") or {})["metadata"].get("finalizers", ())
    text = await retained_all(w, kind, name, "x", "y")
    assert there(w) == {"x", "y"}
    for topic in ("x", "y"):
        assert f"persistent://t/n/{topic} (PulsarTopic {NS}/{topic})" in text


async def test_all_are_counted_and_each_counts() -> None:
    names = [f"x{n}" for n in range(8)]
    w = await unforced(*names)
    text = await retained_all(w, Kind.NAMESPACE, "n", *names[:-1])
    assert f"PulsarTopic {NS}/x7" in text and "is not being deleted" in text
    w.delete(Kind.TOPIC, "x7")
    await w.run()
    text = w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2]
    assert "contains 8 objects" in text and "and 3 more" in text and "pulsar-admin topics list t/n" in text
    answer = confirmation(w, Kind.NAMESPACE, "n")
    w.pulsar.topics["a"].pop("persistent://t/n/x7")
    w.restart()
    await w.run()
    assert "contains 7 objects" in w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2]
    confirm(w, Kind.NAMESPACE, "n", answer)
    await w.run()
    assert len(there(w)) == 7, "that was an answer to another question"
    confirm(w, Kind.NAMESPACE, "n", confirmation(w, Kind.NAMESPACE, "n"))
    await w.run()
    assert w.get(Kind.NAMESPACE, "n") is None and not there(w)


async def test_what_pulsar_no_longer_has_is_no_obstacle() -> None:
    w = await unforced("x")
    w.pulsar.topics["a"]["persistent://t/n/of-a-client"] = FakeTopic(backlog={"billing": 1})
    assert await retained_all(w, Kind.NAMESPACE, "n", "x")
    del w.pulsar.topics["a"]["persistent://t/n/x"]
    await w.run()
    assert w.get(Kind.NAMESPACE, "n") is None and not there(w), "what no object declared goes with its namespace"


async def test_a_successor_takes_the_record_over() -> None:
    w = await unforced("x")
    w.delete(Kind.TOPIC, "x")
    await w.run()
    w.topic("again", name="x", **FORCE)
    await w.run()
    w.delete(Kind.TOPIC, "again")
    assert await forced(w, Kind.NAMESPACE, "n") == "" and not there(w)


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_record_names_an_object_that_now_declares_another_topic(*, elsewhere: bool) -> None:
    w = await unforced("x")
    w.delete(Kind.TOPIC, "x")
    await w.run()
    w.namespace("other")
    w.topic("x", namespace="other" if elsewhere else "n", name="another", **FORCE)
    await w.run()
    w.kube.edit(CUSTOM[Kind.TOPIC], NS, "x", lambda obj: obj["metadata"]["finalizers"].append("of/another"))
    w.delete(Kind.TOPIC, "x")
    assert "persistent://t/n/x" in await forced(w, Kind.NAMESPACE, "n")
    assert "x" in there(w)


async def test_a_namespace_that_was_retained_is_content_of_its_tenant() -> None:
    w = await unforced()
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    w.tenant(**FORCE)
    await w.run()
    w.delete(Kind.TENANT, "t")
    await w.run()
    text = w.condition(Kind.TENANT, "t", "DeletionBlocked")[2]
    assert f"namespace t/n (PulsarNamespace {NS}/n)" in text and "t/n" in w.pulsar.namespaces
    confirm(w, Kind.TENANT, "t", confirmation(w, Kind.TENANT, "t"))
    await w.run()
    assert w.get(Kind.TENANT, "t") is None and not w.pulsar.namespaces


@PARENTS
async def test_topics_of_a_set_that_retained_them(kind: Kind, name: str) -> None:
    w = await unforced()
    w.topics("s", names=["x", "y"], deletionPolicy="Retain")
    await w.run()
    w.delete(Kind.TOPIC_SET, "s")
    await w.run()
    assert f"persistent://t/n/y (PulsarTopicSet {NS}/s)" in await forced(w, kind, name)
    assert there(w) == {"x", "y"}


async def test_a_partitioned_topic_is_one() -> None:
    w = await unforced("x", partitions=3)
    text = await retained_all(w, Kind.NAMESPACE, "n", "x")
    assert "contains 1 objects" in text and f"persistent://t/n/x (PulsarTopic {NS}/x)" in text


async def test_an_object_whose_finalizer_another_client_removed() -> None:
    w = await unforced("x", **FORCE)
    w.kube.edit(CUSTOM[Kind.TOPIC], NS, "x", lambda obj: obj["metadata"].update(finalizers=[]))
    assert f"PulsarTopic {NS}/x" in await retained_all(w, Kind.NAMESPACE, "n", "x")
    assert there(w) == {"x"}


async def test_one_that_gives_its_content_up_may_be_kept_at_the_last_moment() -> None:
    """What was listed a moment ago is asked for once more."""
    w = await unforced("x", **FORCE)
    w.tenant(**FORCE)
    w.namespace(**FORCE)
    await w.run()
    w.delete(Kind.TOPIC, "x")
    w.delete(Kind.NAMESPACE, "n")

    def change(call: AdminCall) -> None:
        if call.path[-1] == "properties":
            w.admin.before.clear()
            w.topic("x", deletionPolicy="Retain")

    w.admin.before.append(change)
    await w.reconcile(Kind.NAMESPACE, "n")
    assert there(w) == {"x"} and w.get(Kind.NAMESPACE, "n") is not None


@PARENTS
@pytest.mark.parametrize("error", [UnavailableError("no answer"), RefusedError("HTTP 412: no", status=412)])
@pytest.mark.parametrize("last", ["n", "properties"])
async def test_what_nobody_can_tell_is_not_absent(kind: Kind, name: str, error: Exception, last: str) -> None:
    w = await unforced("x")

    def fails(call: AdminCall) -> None:
        if call.method == "GET" and call.path[0] == "persistent" and call.path[-1] == last:
            raise error

    w.delete(Kind.TOPIC, "x")
    await w.run()
    w.admin.before.append(fails)
    text = await forced(w, kind, name)
    assert "deletionPolicy" in text and "API server" not in text and there(w) == {"x"}
    w.admin.before.clear()
    w.stepping.forward(60)
    await w.run()
    assert f"PulsarTopic {NS}/x" in w.condition(kind, name, "DeletionBlocked")[2]


async def test_a_record_that_is_none_may_be_given_up_too() -> None:
    w = await unforced("x")
    w.pulsar.topic_properties["a", "persistent://t/n/x"][OWNER_PROPERTY] = "nobody"
    assert "cannot be used" in await retained_all(w, Kind.NAMESPACE, "n", "x")
    confirm(w, Kind.NAMESPACE, "n", confirmation(w, Kind.NAMESPACE, "n"))
    await w.run()
    assert w.get(Kind.NAMESPACE, "n") is None


async def test_many_topics_are_read_in_several_passes_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained, "READS", 3)
    w = await unforced("x")
    for n in range(10):
        w.pulsar.topics["a"][f"persistent://t/n/c{n}"] = FakeTopic()
    w.delete(Kind.TOPIC, "x")
    w.namespace(**FORCE)
    await w.run()
    w.delete(Kind.NAMESPACE, "n")
    mark = len(w.admin.calls)
    for left in (8, 5, 2):
        assert (await w.reconcile(Kind.NAMESPACE, "n")).requeue_after == 0.0
        assert f"still has to search {left} topics of t/n" in w.condition(Kind.NAMESPACE, "n")[2]
    for _ in range(3):
        await w.reconcile(Kind.NAMESPACE, "n")
    assert "persistent://t/n/x" in w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2]
    assert len([call for call in w.admin.calls[mark:] if call.path[-1] == "properties"]) == 11


async def test_a_deletion_by_force_that_has_begun_goes_on() -> None:
    w = await unforced("x")
    assert await retained_all(w, Kind.NAMESPACE, "n", "x")
    w.pulsar.namespaces["t/n"]["deleted"] = True
    await w.run()
    assert w.get(Kind.NAMESPACE, "n") is None


async def test_a_replicated_topic_that_is_paused_halfway_says_so() -> None:
    w = await unforced("x", clusters=("a", "b"), deletionPolicy="Delete")
    status = w.status(Kind.TOPIC, "x")
    rows = [{"name": "a", "replicationClusters": []}]
    w.kube.set_status(CUSTOM[Kind.TOPIC], NS, "x", {**status, "replicationBeforeDeletion": rows})
    w.topic("x", deletionPolicy="Delete", annotations=PAUSED)
    w.delete(Kind.TOPIC, "x")
    await w.run()
    text = w.condition(Kind.TOPIC, "x", "DeletionBlocked")[2]
    assert "not replicated from a" in text and '"deletionPolicy":"Retain"' in text
