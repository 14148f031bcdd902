"""What cannot be taken back in Pulsar is recorded: an event and a log line at info for each decision."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.logical.plan import EVENT_REASONS, Verb
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.isolation import PIP, SHOP, B, domain
from tests.support.logical.isolation import world as isolated
from tests.support.logical.topic_sets import SetWorld, count
from tests.support.logical.world import LogicalWorld
from tests.unit.logical import test_namespace_backlogs as backlogs
from tests.unit.logical import test_namespace_clusters as clusters
from tests.unit.logical.test_consent import DAY, WEEK, asked, confirm, kept_by, minutes
from tests.unit.logical.test_topic_parts import X, held
from tests.unit.logical.test_topic_parts import world as parts

Recorded = list[tuple[str, str]]


@contextmanager
def recorded(w: LogicalWorld, caplog: pytest.LogCaptureFixture) -> Iterator[Recorded]:
    """Collects the events of the block, by reason and message. Each must also be a log line at info."""
    found: Recorded = []
    start = len(w.kube.events)
    caplog.clear()
    with caplog.at_level(logging.INFO, "pulsar_operator"):
        yield found
    found += [(each.reason, each.message) for each in w.kube.events[start:]]
    lines = [each.getMessage() for each in caplog.records if each.levelno == logging.INFO]
    for reason, message in found:
        assert any(message in line for line in lines), (reason, message, lines)


def test_every_verb_is_reported_or_writes_a_value_that_can_be_changed_again() -> None:
    assert set(Verb) - set(EVENT_REASONS) == {Verb.SET, Verb.RESET}


async def test_a_subscription_that_is_deleted_with_unread_messages(caplog: pytest.LogCaptureFixture) -> None:
    w = await parts("a", subscriptions=[{"name": "busy"}], deletionPolicy="ForceDelete")
    w.pulsar.topics["a"][X].backlog["busy"] = 3_000_000
    with recorded(w, caplog) as events:
        w.topic(deletionPolicy="ForceDelete")
        await w.run()
    assert held(w) == {}
    there = "a subscription with 3000000 unread messages in cluster a"
    assert events == [
        ("Deleted", f"Delete spec.subscriptions[busy] ({there}), because the subscription was removed from the spec")
    ]


async def test_a_dispatch_rate_that_is_reset_is_no_event(caplog: pytest.LogCaptureFixture) -> None:
    w = await parts("a", subscriptions=[{"name": "s", "dispatchRate": {"messagesPerPeriod": 10}}])
    with recorded(w, caplog) as events:
        w.topic(subscriptions=[{"name": "s"}])
        await w.run()
    assert events == []


async def test_a_failure_domain_that_is_deleted(caplog: pytest.LogCaptureFixture) -> None:
    w = await isolated("a", failureDomains=[domain("x", B[0]), domain("y", B[1])])
    with recorded(w, caplog) as events:
        w.isolation(failureDomains=[domain("x", B[0])])
        await w.run()
    assert set(w.pulsar.domains["a"]) == {"x"}
    ((reason, message),) = events
    assert reason == "Deleted" and message.startswith("Delete failure domain y of cluster a")


async def test_an_isolation_policy_whose_cluster_left_the_list(caplog: pytest.LogCaptureFixture) -> None:
    w = await isolated(**SHOP)
    with recorded(w, caplog) as events:
        w.isolation(**SHOP, clusters=["a"])
        await w.run()
    assert set(w.pulsar.isolation["a"]) == {"i"} and not w.pulsar.isolation.get("b")
    assert events == [
        ("Deleted", "Delete isolation policy i in cluster b, because the cluster was removed from spec.clusters")
    ]


@pytest.mark.parametrize("kind", [PIP, Kind.TENANT, Kind.NAMESPACE, Kind.TOPIC, Kind.RESOURCE_GROUP])
async def test_an_object_that_is_deleted_with_its_custom_resource(kind: Kind, caplog: pytest.LogCaptureFixture) -> None:
    w = LogicalWorld("a")
    w.tenant(deletionPolicy="Delete")
    made = {
        Kind.TENANT: lambda: "t",
        Kind.NAMESPACE: lambda: w.namespace(deletionPolicy="Delete")["metadata"]["name"],
        Kind.TOPIC: lambda: (w.namespace(), w.topic(deletionPolicy="Delete")["metadata"]["name"])[1],
        Kind.RESOURCE_GROUP: lambda: w.group(deletionPolicy="Delete")["metadata"]["name"],
        PIP: lambda: w.isolation(**SHOP, deletionPolicy="Delete")["metadata"]["name"],
    }
    name = made[kind]()
    await w.run()
    with recorded(w, caplog) as events:
        w.delete(kind, name)
        await w.run()
    assert [reason for reason, _ in events] == ["Deleted"]


@pytest.mark.parametrize(("growth", "events_"), [(4, 1), (2, 0)])
async def test_partitions_that_are_added(growth: int, events_: int, caplog: pytest.LogCaptureFixture) -> None:
    w = await parts("a", partitions=2)
    with recorded(w, caplog) as events:
        w.topic(partitions=growth)
        await w.run()
    assert events == [("Changed", "Increase spec.partitions from 2 to 4")] * events_


async def test_partitions_that_are_added_to_a_set_are_one_event() -> None:
    w = await SetWorld.made()
    w.topics("s", **count(30), template={"partitions": 2})
    await w.work()
    start = len(w.told())
    w.topics("s", **count(30), template={"partitions": 3})
    await w.work()
    told = w.told()[start:]
    assert {reason for reason, _ in told} == {"Changed"}
    assert sum(int(message.split(" ", 1)[0]) for _, message in told) == 30, "one event for each round"
    assert all("such as x-" in message and "from 2 to 3" in message for _, message in told)


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        ({"retention": WEEK}, {"retention": DAY}, ["policies.retention"]),
        ({"retention": DAY}, {"retention": WEEK}, []),
        ({}, {"messageTTLSeconds": 60}, ["policies.messageTTLSeconds"]),
        ({"messageTTLSeconds": 60}, {"messageTTLSeconds": 90, "maxTopics": 3}, []),
    ],
)
async def test_a_declared_policy_that_keeps_less(
    before: dict[str, Any], after: dict[str, Any], fields: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    w = await kept_by(**before)
    with recorded(w, caplog) as events:
        w.namespace(policies=after)
        await w.run()
    assert [(reason, message.split(" to ")[0]) for reason, message in events] == [
        ("Changed", f"Set spec.{each}") for each in fields
    ]


async def test_a_new_object_is_one_event(caplog: pytest.LogCaptureFixture) -> None:
    w = LogicalWorld("a")
    w.tenant()
    await w.run()
    with recorded(w, caplog) as events:
        w.namespace(policies={"retention": DAY, "messageTTLSeconds": 60})
        w.topic(retention=DAY, messageTTLSeconds=60)
        await w.run()
    assert [reason for reason, _ in events] == ["Created"] * 2


async def test_a_policy_that_is_reset_by_confirmation(caplog: pytest.LogCaptureFixture) -> None:
    w = await kept_by(retention=WEEK)
    w.namespace()
    await w.run()
    with recorded(w, caplog) as events:
        confirm(w, asked(w))
        await w.run()
    assert minutes(w) is None
    ((reason, message),) = events
    assert reason == "Changed" and message.startswith("Reset spec.policies.retention to the inherited value (was ")


async def test_a_default_of_the_tenant_that_a_person_confirmed(caplog: pytest.LogCaptureFixture) -> None:
    w = await kept_by({"retention": WEEK})
    w.tenant(namespaceDefaults={"retention": DAY})
    await w.run()
    with recorded(w, caplog) as events:
        confirm(w, asked(w))
        await w.run()
    ((reason, message),) = events
    assert reason == "Changed" and message.startswith("Set spec.policies.retention to ")


async def test_clusters_that_leave_a_namespace(caplog: pytest.LogCaptureFixture) -> None:
    w = await clusters.world(replicationClusters=["a", "b"])
    with recorded(w, caplog) as events:
        w.namespace(replicationClusters=["a"], allowedClusters=["a"], confirmations=[clusters.confirmation("b")])
        await w.run()
    assert clusters.holding(w) == {"a"}
    assert [(reason, message.split(" to ")[0]) for reason, message in events] == [
        ("Changed", "Set spec.replicationClusters"),
        ("Changed", "Set spec.allowedClusters"),
    ], "widening allowed_clusters can be taken back"


async def test_a_replication_backlog_that_is_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    w = await backlogs.world()
    backlogs.has(w, "a", X, 100, b=12)
    with recorded(w, caplog) as events:
        w.namespace(replicationClusters=["a"], confirmations=[backlogs.consent("b")])
        await w.run()
    assert w.pulsar.abandoned
    assert [reason for reason, _ in events] == ["Changed"]


async def test_clusters_that_join_are_no_event(caplog: pytest.LogCaptureFixture) -> None:
    w = await clusters.world(replicationClusters=["a"])
    w.pulsar.topics["b"] = {X: FakeTopic()}
    with recorded(w, caplog) as events:
        w.namespace(replicationClusters=["a", "b"])
        await w.run()
    assert clusters.lists(w)[0] == ["a", "b"] and events == []
