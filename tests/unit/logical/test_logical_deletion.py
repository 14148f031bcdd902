"""Deleting tenants, namespaces and topics: only with the policy, never with content, always to an end."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import FINALIZER, Kind
from pulsar_operator.controllers.core.finalizers import ensure_finalizer
from pulsar_operator.ports import CUSTOM, UnavailableError
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_topics import FakeTopic
from tests.support.logical.world import NS, PAUSED, LogicalWorld


async def world(*clusters: str, policy: str = "Delete") -> LogicalWorld:
    w = LogicalWorld(*clusters)
    w.tenant(deletionPolicy=policy)
    w.namespace(deletionPolicy=policy)
    w.topic("x", deletionPolicy=policy)
    w.topic("p", partitions=2, deletionPolicy=policy)
    await w.run()
    for kind, name in ((Kind.TENANT, "t"), (Kind.NAMESPACE, "n"), (Kind.TOPIC, "x"), (Kind.TOPIC, "p")):
        assert w.condition(kind, name)[0] == "True", w.condition(kind, name)
    return w


def gone(w: LogicalWorld) -> bool:
    return not w.pulsar.tenants and not w.pulsar.namespaces and not any(w.pulsar.topics.values())


@pytest.mark.parametrize("clusters", [("a",), ("a", "b")])
async def test_everything_at_once_ends_with_nothing_left(clusters: tuple[str, ...]) -> None:
    w = await world(*clusters)
    for kind, name in ((Kind.TENANT, "t"), (Kind.NAMESPACE, "n"), (Kind.TOPIC, "x"), (Kind.TOPIC, "p")):
        assert FINALIZER in (w.get(kind, name) or {})["metadata"]["finalizers"]
        w.delete(kind, name)
    await w.run(10)
    assert w.kube.all(CUSTOM[Kind.TENANT]) == []
    assert gone(w)


@pytest.mark.parametrize(
    "answer",
    [
        (500, "Message: Topic is already fenced"),
        (500, "Message: Consumer connect fail! consumer state:Connecting"),
        (422, "HTTP 422 {}"),
    ],
)
async def test_a_namespace_whose_deletion_is_stuck_in_pulsar_is_freed(answer: tuple[int, str]) -> None:
    w = await world()
    w.pulsar.stuck["t/n"] = answer
    for kind, name in ((Kind.TENANT, "t"), (Kind.NAMESPACE, "n"), (Kind.TOPIC, "x"), (Kind.TOPIC, "p")):
        w.delete(kind, name)
    await w.run(10)
    assert gone(w)
    unloads = [path for method, path in w.admin.writes if method == "PUT" and path.endswith("/unload")]
    assert unloads and all("t/n/0x" in path for path in unloads)


async def test_a_namespace_whose_deletion_takes_long_is_left_to_pulsar() -> None:
    w = await world()
    seen: list[AdminCall] = []

    def slow(call: AdminCall) -> None:
        if call.method == "DELETE" and call.path == ("namespaces", "t", "n"):
            w.pulsar.namespaces["t/n"]["deleted"] = True
            seen.append(call)
            raise UnavailableError("no answer within 15 s")

    w.admin.before.append(slow)
    for kind, name in ((Kind.NAMESPACE, "n"), (Kind.TOPIC, "x"), (Kind.TOPIC, "p")):
        w.delete(kind, name)
    await w.run(10)
    assert seen
    assert w.condition(Kind.NAMESPACE, "n")[1] == "AdminUnreachable"
    assert not [path for _, path in w.admin.writes if path.endswith("/unload")]


@pytest.mark.parametrize("answer", [(500, "Message: Failed to seek the subscription __compaction"), (422, "")])
@pytest.mark.parametrize(("name", "full"), [("x", "persistent://t/n/x"), ("p", "persistent://t/n/p-partition-1")])
async def test_a_topic_whose_last_compaction_failed_is_freed(name: str, full: str, answer: tuple[int, str]) -> None:
    w = await world()
    w.pulsar.lost[full] = answer
    w.delete(Kind.TOPIC, name)
    await w.run()
    assert w.get(Kind.TOPIC, name) is None
    assert full not in w.pulsar.topics["a"]
    unloads = [path for method, path in w.admin.writes if method == "PUT" and path.endswith("/unload")]
    assert unloads == [f"{full.replace('://', '/')}/unload"]


async def test_a_topic_that_cannot_be_deleted_for_another_reason_is_not_unloaded() -> None:
    w = await world()

    def broken(call: AdminCall) -> None:
        if call.method == "DELETE":
            raise UnavailableError("HTTP 500", status=500)

    w.admin.before.append(broken)
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert w.condition(Kind.TOPIC, "x")[1] == "AdminUnreachable"
    assert not [path for _, path in w.admin.writes if path.endswith("/unload")]


async def test_retain_leaves_everything() -> None:
    w = await world(policy="Retain")
    before = w.pulsar.snapshot()
    for kind, name in ((Kind.TENANT, "t"), (Kind.NAMESPACE, "n"), (Kind.TOPIC, "x"), (Kind.TOPIC, "p")):
        w.delete(kind, name)
    await w.run()
    assert w.kube.all(CUSTOM[Kind.TOPIC]) == []
    assert w.pulsar.snapshot() == before


async def test_a_policy_changed_back_to_retain_is_followed() -> None:
    w = await world()
    w.topic("x", deletionPolicy="Retain")
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert w.get(Kind.TOPIC, "x") is None
    assert "persistent://t/n/x" in w.pulsar.topics["a"]


async def test_content_blocks_and_is_named() -> None:
    w = await world()
    w.pulsar.topics["a"]["persistent://t/n/theirs"] = FakeTopic()
    w.delete(Kind.TENANT, "t")
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    status, reason, message = w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")
    assert (status, reason) == ("True", "NotEmpty")
    assert "persistent://t/n" in message
    assert w.condition(Kind.NAMESPACE, "n")[:2] == ("False", "NotEmpty")
    assert "t/n" in w.condition(Kind.TENANT, "t", "DeletionBlocked")[2]
    outcome = await w.reconcile(Kind.NAMESPACE, "n")
    assert outcome.requeue_after is not None
    assert not outcome.backoff
    assert await w.second_pass_writes() == ([], [])


@pytest.mark.parametrize(
    ("content", "word"), [(FakeTopic(producers=1), "producers"), (FakeTopic(backlog={"s": 3}), "3 unread")]
)
@pytest.mark.parametrize("topic", ["x", "p"])
async def test_a_topic_in_use_or_with_unread_messages_is_kept(topic: str, content: FakeTopic, word: str) -> None:
    w = await world()
    full = f"persistent://t/n/{topic}" + ("-partition-1" if topic == "p" else "")
    w.pulsar.topics["a"][full] = content
    w.delete(Kind.TOPIC, topic)
    await w.run()
    assert full in w.pulsar.topics["a"]
    assert word in w.condition(Kind.TOPIC, topic, "DeletionBlocked")[2]
    w.topic(topic, deletionPolicy="ForceDelete", **({"partitions": 2} if topic == "p" else {}))
    await w.run()
    assert w.get(Kind.TOPIC, topic) is None
    assert full not in w.pulsar.topics["a"]


async def test_what_compaction_has_not_read_keeps_no_topic() -> None:
    w = await world()
    w.pulsar.topics["a"]["persistent://t/n/x"] = FakeTopic(backlog={"__compaction": 3})
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert w.get(Kind.TOPIC, "x") is None


async def test_force_does_only_what_pulsar_allows() -> None:
    w = await world(policy="ForceDelete")
    for name in ("x", "p"):
        w.delete(Kind.TOPIC, name)
    w.delete(Kind.NAMESPACE, "n")
    await w.reconcile(Kind.NAMESPACE, "n")
    assert "forceDeleteNamespaceAllowed" in w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2]
    w.delete(Kind.TENANT, "t")
    await w.reconcile(Kind.TENANT, "t")
    assert "forceDeleteTenantAllowed" in w.condition(Kind.TENANT, "t", "DeletionBlocked")[2]
    w.pulsar.force_delete_namespace = True
    await w.reconcile(Kind.NAMESPACE, "n")
    assert w.get(Kind.NAMESPACE, "n") is None


async def test_a_replicated_namespace_is_only_reduced_when_empty_everywhere() -> None:
    w = LogicalWorld("a", "b")
    w.tenant()
    w.namespace(deletionPolicy="Delete")
    await w.run()
    w.pulsar.topics.setdefault("b", {})["persistent://t/n/only-in-b"] = FakeTopic()
    w.delete(Kind.NAMESPACE, "n")
    await w.run()
    assert w.pulsar.namespaces["t/n"]["replication_clusters"] == ["a", "b"]
    assert "cluster b" in w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2]
    w.admin.down = {"b"}
    w.pulsar.topics["b"].clear()
    outcome = await w.reconcile(Kind.NAMESPACE, "n")
    assert outcome.backoff, "an unseen cluster is not an empty one"
    assert "t/n" in w.pulsar.namespaces
    w.admin.down = set()
    await w.run()
    assert w.get(Kind.NAMESPACE, "n") is None
    assert w.pulsar.namespaces == {}


@pytest.mark.parametrize("missing", [Kind.INSTANCE, Kind.CLUSTER, Kind.TENANT])
async def test_without_a_parent_the_finalizer_is_released(missing: Kind) -> None:
    w = LogicalWorld()
    w.tenant()
    w.namespace(deletionPolicy="Delete")
    await w.run()
    w.delete(Kind.NAMESPACE, "n")
    w.delete(missing, {Kind.INSTANCE: "prod", Kind.CLUSTER: "a", Kind.TENANT: "t"}[missing])
    await w.reconcile(Kind.NAMESPACE, "n")
    assert w.get(Kind.NAMESPACE, "n") is None
    assert "ParentDeleted" in w.reasons(Kind.NAMESPACE)


async def test_unreachable_is_not_gone() -> None:
    w = await world()
    w.admin.down = {"a"}
    w.delete(Kind.TOPIC, "x")
    outcome = await w.reconcile(Kind.TOPIC, "x")
    assert outcome.backoff
    assert w.condition(Kind.TOPIC, "x")[1] == "AdminUnreachable"
    w.cluster_status("a", ready=False)
    outcome = await w.reconcile(Kind.TOPIC, "x")
    assert not outcome.backoff
    assert w.condition(Kind.TOPIC, "x")[1] == "ParentNotReady"


async def test_a_cluster_that_goes_away_unreachable_lets_go() -> None:
    w = await world()
    w.admin.down = {"a"}
    w.kube.edit(CUSTOM[Kind.CLUSTER], NS, "a", lambda o: o["metadata"].update(finalizers=[FINALIZER]))
    w.delete(Kind.CLUSTER, "a")
    w.delete(Kind.TOPIC, "x")
    await w.reconcile(Kind.TOPIC, "x")
    assert w.get(Kind.TOPIC, "x") is None


async def test_paused_objects_are_not_deleted_in_pulsar() -> None:
    w = await world()
    w.topic("x", deletionPolicy="Delete", annotations=PAUSED)
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert "persistent://t/n/x" in w.pulsar.topics["a"]
    w.topic("x", deletionPolicy="Delete", annotations={})
    await w.run()
    assert w.get(Kind.TOPIC, "x") is None
    assert "persistent://t/n/x" not in w.pulsar.topics["a"]


async def test_an_object_that_never_managed_anything_deletes_nothing() -> None:
    w = LogicalWorld()
    w.tenant("first", name="same")
    await w.run()
    w.tenant("second", name="same", deletionPolicy="Delete")
    await ensure_finalizer(w.controllers[Kind.TENANT].deps, w.get(Kind.TENANT, "second") or {})
    await w.run()
    w.delete(Kind.TENANT, "second")
    await w.run()
    assert w.get(Kind.TENANT, "second") is None
    assert not [write for write in w.admin.writes if write[0] == "DELETE"]


@pytest.mark.parametrize("policy", ["Delete", "ForceDelete"])
async def test_a_topic_that_is_only_named_like_a_partition_stays(policy: str) -> None:
    """Pulsar takes x-partition-01 for a topic like any other."""
    w = await world(policy=policy)
    other = "persistent://t/n/p-partition-01"
    w.pulsar.topics["a"][other] = FakeTopic(producers=int(policy == "ForceDelete"))
    w.delete(Kind.TOPIC, "p")
    await w.run()
    assert w.get(Kind.TOPIC, "p") is None and not w.pulsar.partitioned
    assert other in w.pulsar.topics["a"]


@pytest.mark.parametrize("clusters", ["a", "ab"])
async def test_a_topic_that_cannot_be_loaded_is_forced(clusters: str) -> None:
    """Its statistics are an error, and that is why somebody forces it."""
    w = await world(*clusters, policy="ForceDelete")

    def lost(call: AdminCall) -> None:
        if call.path[-1] == "stats":
            raise UnavailableError("HTTP 500: No such ledger exists", status=500)

    w.admin.before.append(lost)
    for name in ("x", "p"):
        w.delete(Kind.TOPIC, name)
    await w.run()
    assert not any(w.pulsar.topics.values()) and not w.pulsar.partitioned
    assert w.get(Kind.TOPIC, "x") is None is w.get(Kind.TOPIC, "p")
