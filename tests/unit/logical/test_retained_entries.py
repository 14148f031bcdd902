"""Entries that a retention policy keeps are content: a topic that has some is not deleted."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.logical.retention import keeps
from pulsar_operator.ports import RefusedError, UnavailableError
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_topics import GLOBAL, FakeTopic
from tests.support.logical.topic_sets import SET, SetWorld, count
from tests.support.logical.world import LogicalWorld

HOUR = {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}
NONE = {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}
X, P = "persistent://t/n/x", "persistent://t/n/p"


async def world(*clusters: str, **spec: Any) -> LogicalWorld:
    w = LogicalWorld(*clusters)
    w.tenant()
    w.namespace(deletionPolicy="Delete")
    w.topic("x", deletionPolicy="Delete", **spec)
    w.topic("p", partitions=2, deletionPolicy="Delete", **spec)
    await w.run()
    return w


def fill(w: LogicalWorld, cluster: str = "a", number: int = 20) -> None:
    """Entries that every subscription has acknowledged, in the topic and in the second partition of the other."""
    w.pulsar.topics[cluster][X] = FakeTopic(entries=number)
    w.pulsar.topics[cluster][f"{P}-partition-1"] = FakeTopic(entries=number)


def blocked(w: LogicalWorld, name: str) -> str:
    status, reason, message = w.condition(Kind.TOPIC, name, "DeletionBlocked")
    assert (status, reason) == ("True", "NotEmpty"), (status, reason, message)
    return message


@pytest.mark.parametrize(
    ("time", "size", "kept"),
    [(60, 512, True), (-1, -1, True), (60, -1, True), (-1, 512, True), (0, 0, False), (0, -1, False), (60, 0, False)],
)
def test_a_policy_with_a_limit_of_0_keeps_nothing(time: int, size: int, kept: bool) -> None:
    assert keeps({"retentionTimeInMinutes": time, "retentionSizeInMB": size}) is kept


@pytest.mark.parametrize("name", ["x", "p"])
async def test_entries_that_retention_keeps_block_until_they_are_let_go(name: str) -> None:
    w = await world()
    w.pulsar.namespaces["t/n"]["retention_policies"] = dict(HOUR)
    fill(w)
    w.delete(Kind.TOPIC, name)
    await w.run()
    message = blocked(w, name)
    assert (
        f"Topic {name} has 20 entries (820 bytes) in cluster a, which retention keeps (60 minutes, any size)" in message
    )
    assert "set spec.deletionPolicy to ForceDelete. To release the object" in message
    assert not [write for write in w.admin.writes if write[0] == "DELETE"]
    w.pulsar.namespaces["t/n"]["retention_policies"] = dict(NONE)
    await w.run()
    assert w.get(Kind.TOPIC, name) is None


async def test_force_delete_is_the_consent() -> None:
    w = await world()
    w.pulsar.namespaces["t/n"]["retention_policies"] = dict(HOUR)
    fill(w)
    w.topic("x", deletionPolicy="ForceDelete")
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert w.get(Kind.TOPIC, "x") is None
    assert X not in w.pulsar.topics["a"]


async def test_without_retention_what_is_left_is_nobodys() -> None:
    w = await world()
    fill(w)
    for name in ("x", "p"):
        w.delete(Kind.TOPIC, name)
    await w.run()
    assert not w.pulsar.topics["a"]
    assert not [call for call in w.admin.calls if call.path[-1] == "internalStats"]


async def test_an_empty_topic_costs_no_further_question() -> None:
    w = await world()
    w.pulsar.namespaces["t/n"]["retention_policies"] = dict(HOUR)
    w.delete(Kind.TOPIC, "x")
    mark = len(w.admin.calls)
    await w.run()
    assert w.get(Kind.TOPIC, "x") is None
    assert not [call for call in w.admin.calls[mark:] if call.path[-1] in {"retention", "internalStats"}]


@pytest.mark.parametrize(
    ("local", "shared", "namespace", "kept"),
    [
        (HOUR, None, NONE, True),
        (NONE, None, HOUR, False),
        (None, HOUR, NONE, True),
        (None, NONE, HOUR, False),
        (NONE, HOUR, HOUR, False),
        (HOUR, NONE, NONE, True),
        (None, None, None, False),
    ],
)
async def test_the_policy_that_counts_is_the_nearest(local: Any, shared: Any, namespace: Any, kept: bool) -> None:
    w = await world()
    for where, policy in (("a", local), (GLOBAL, shared)):
        if policy is not None:
            w.pulsar.topic_policies[where, X] = {"retention": dict(policy)}
    if namespace is not None:
        w.pulsar.namespaces["t/n"]["retention_policies"] = dict(namespace)
    fill(w)
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert (w.get(Kind.TOPIC, "x") is not None) is kept
    assert (X in w.pulsar.topics["a"]) is kept


@pytest.mark.parametrize("topic_policies", [True, False])
@pytest.mark.parametrize("minutes", ["0", "60"])
async def test_the_brokers_default_counts_where_nobody_set_one(minutes: str, topic_policies: bool) -> None:
    w = await world()
    w.pulsar.topic_level_policies = topic_policies
    w.pulsar.dynamic["a"] = {"defaultRetentionTimeInMinutes": minutes, "defaultRetentionSizeInMB": "100"}
    fill(w)
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert (X in w.pulsar.topics["a"]) is (minutes == "60")


async def test_without_topic_policies_the_namespaces_counts() -> None:
    w = await world()
    w.pulsar.topic_level_policies = False
    w.pulsar.namespaces["t/n"]["retention_policies"] = dict(HOUR)
    fill(w)
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert "20 entries" in blocked(w, "x")


async def test_entries_in_another_cluster_block_too_and_all_are_reported() -> None:
    w = await world("a", "b")
    w.pulsar.namespaces["t/n"]["retention_policies"] = {"retentionTimeInMinutes": -1, "retentionSizeInMB": 512}
    fill(w, "b", 3)
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert "3 entries (123 bytes) in cluster b, which retention keeps (any time, 512 MiB)" in blocked(w, "x")
    fill(w, "a", 4)
    await w.run()
    assert "4 entries (164 bytes) in cluster a, 3 entries (123 bytes) in cluster b" in blocked(w, "x")


@pytest.mark.parametrize("last", ["retention", "internalStats", "stats"])
async def test_what_is_not_known_is_not_empty(last: str) -> None:
    w = await world()
    w.pulsar.namespaces["t/n"]["retention_policies"] = dict(HOUR)
    fill(w)

    def silent(call: AdminCall) -> None:
        if call.path[-1] == last:
            raise UnavailableError("HTTP 500", status=500)

    w.admin.before.append(silent)
    w.delete(Kind.TOPIC, "x")
    outcome = await w.reconcile(Kind.TOPIC, "x")
    assert outcome.backoff
    assert X in w.pulsar.topics["a"]
    assert w.condition(Kind.TOPIC, "x")[:2] == ("Unknown", "AdminUnreachable")


async def test_a_number_that_is_not_reported_is_not_0(monkeypatch: pytest.MonkeyPatch) -> None:
    w = await world()
    w.pulsar.namespaces["t/n"]["retention_policies"] = dict(HOUR)
    fill(w)
    monkeypatch.setattr(FakeTopic, "internal_stats", lambda self: {"totalSize": 820})
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert X in w.pulsar.topics["a"]
    assert "did not return the number of entries of topic x" in w.condition(Kind.TOPIC, "x")[2]


async def test_a_size_that_is_not_reported_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    w = await world()
    w.pulsar.namespaces["t/n"]["retention_policies"] = dict(HOUR)
    fill(w)
    monkeypatch.setattr(FakeTopic, "stats", lambda self: {"publishers": [], "subscriptions": {}})
    w.delete(Kind.TOPIC, "x")
    await w.run()
    assert "20 entries" in blocked(w, "x")


async def test_a_namespace_whose_topics_have_entries_is_kept() -> None:
    w = await world()
    w.pulsar.namespaces["t/n"]["retention_policies"] = dict(HOUR)
    fill(w)
    for kind, name in ((Kind.NAMESPACE, "n"), (Kind.TOPIC, "x"), (Kind.TOPIC, "p")):
        w.delete(kind, name)
    await w.run()
    assert "t/n" in w.pulsar.namespaces
    assert w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[:2] == ("True", "NotEmpty")
    assert X in w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")[2]
    w.pulsar.namespaces["t/n"]["retention_policies"] = dict(NONE)
    await w.run(10)
    assert "t/n" not in w.pulsar.namespaces


@pytest.mark.parametrize("template", [{}, {"partitions": 2}])
async def test_a_topic_that_left_its_set_is_kept_with_its_entries(template: Any) -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30, deletionPolicy="Delete"), template=template)
    await w.work()
    w.pulsar.namespaces["t/n"]["retention_policies"] = dict(HOUR)
    kept = "x-29-partition-1" if template else "x-29"
    w.pulsar.topics["a"][f"persistent://t/n/{kept}"] = FakeTopic(entries=7)
    w.topics("s", **count(28, deletionPolicy="Delete"), template=template)
    await w.work()
    assert kept in w.local()
    assert not any(name.startswith("x-28") for name in w.local())
    assert "x-29: Topic x-29 has 7 entries (287 bytes) in cluster a" in w.condition(SET, "s")[2]
    assert w.condition(SET, "s")[:2] == ("False", "NotEmpty")
    w.delete(SET, "s")
    await w.wait(60)
    assert w.local() == ({"x-29-partition-0", kept} if template else {kept})
    assert w.condition(SET, "s", "DeletionBlocked")[:2] == ("True", "NotEmpty")
    w.pulsar.namespaces["t/n"]["retention_policies"] = dict(NONE)
    await w.wait(300)
    assert w.get(SET, "s") is None


async def test_a_refused_question_about_one_topic_of_a_set_does_not_keep_the_others() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30, deletionPolicy="Delete"))
    await w.work()
    w.pulsar.topics["a"]["persistent://t/n/x-28"] = FakeTopic(entries=7)

    def refuse(call: AdminCall) -> None:
        if call.path[-1] == "retention":
            raise RefusedError("HTTP 403: not you", status=403)

    w.admin.before.append(refuse)
    w.topics("s", **count(28, deletionPolicy="Delete"))
    await w.work()
    assert w.local() == {f"x-{n}" for n in range(29)}
    assert w.condition(SET, "s")[:2] == ("False", "RejectedByPulsar")
