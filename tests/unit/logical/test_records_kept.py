"""A record of who manages an object of Pulsar comes back, at next to no calls; and what calls a topic costs."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.entries import OWNER_PROPERTY
from pulsar_operator.controllers.logical.ownership import RECORD_SECONDS, STALE_SECONDS
from pulsar_operator.domain.logical.owners import OWNERS_PATH
from tests.fakes.pulsar_topics import GLOBAL
from tests.support.logical.topic_sets import SetWorld
from tests.support.logical.world import PAUSED
from tests.unit.logical.test_owner_records import Stored, parents

TOPIC = "persistent://t/n/x"
MINE = "PulsarTopic apps/x"
POLICIES = {"messageTTLSeconds": 3600, "maxConsumers": 50, "retention": {"timeMinutes": 1440, "size": "20Gi"}}
PROPERTIES = {"team": "orders", "cost-centre": "12"}


async def made(*clusters: str, **spec: Any) -> Stored:
    """A topic at rest, without policies and properties of its own unless they are given."""
    w = Stored(*clusters)
    w.tenant()
    w.namespace()
    await w.run()
    w.topic(**spec)
    await w.run()
    return w


async def an_hour_later(w: Stored) -> None:
    """The next resync after the time in which a record is looked at once."""
    w.stepping.forward(RECORD_SECONDS)
    await w.run()


def record(w: Stored, where: str = "a") -> str | None:
    """What the topic's property says."""
    return w.pulsar.topic_properties.get((where, TOPIC), {}).get(OWNER_PROPERTY)


def nodes(w: Stored) -> dict[str, str]:
    """The records in the configuration store."""
    return {path: w.ensemble.nodes[path].data.decode() for path, data in w.ensemble.tree(OWNERS_PATH).items() if data}


# --------------------------------------------------------------------------------------------------------- calls


@pytest.mark.parametrize(
    ("spec", "creation", "rest", "hourly"),
    [
        ({"policies": POLICIES, "properties": PROPERTIES}, 10, 6, 6),
        ({"policies": POLICIES, "properties": PROPERTIES, "partitions": 3}, 10, 5, 5),
        ({"policies": POLICIES}, 10, 5, 6),
        ({"partitions": 3}, 4, 2, 2),
        ({}, 4, 2, 3),
    ],
    ids=["policies and properties", "both, partitioned", "policies", "partitioned", "nothing"],
)
async def test_calls_of_a_topic(spec: dict[str, Any], creation: int, rest: int, hourly: int) -> None:
    """The figures of docs/developing.md; without keeping the record the last one is that of rest."""
    w = await made()
    w.topic("other", **spec)
    found = [await calls(w, "other") for _ in range(3)]
    w.stepping.forward(RECORD_SECONDS)
    found.append(await calls(w, "other"))
    print(f"calls to create the topic, of two passes at rest, of one an hour later: {[*map(len, found)]}")
    assert [*map(len, found)] == [creation, rest, rest, hourly], found


async def calls(w: Stored, name: str) -> list[str]:
    """The admin calls of one pass over a topic."""
    mark = len(w.admin.calls)
    await w.reconcile(Kind.TOPIC, name)
    return [f"{call.method} {'/'.join(call.path)}" for call in w.admin.calls[mark:]]


async def test_a_record_that_no_answer_contains_costs_one_call_an_hour() -> None:
    w = await made()
    since = len(w.admin.calls)
    for _ in range(2):
        await an_hour_later(w)
        mark = len(w.admin.calls)
        for _ in range(5):
            await w.reconcile(Kind.TOPIC, "x")
        assert not [call for call in w.admin.calls[mark:] if call.path[-1] == "properties"]
    asked = [call for call in w.admin.calls[since:] if call.path[-1] == "properties"]
    assert [call.method for call in asked] == ["GET", "GET"], "once in each hour"


async def test_a_partitioned_topic_shows_its_record_with_its_partitions() -> None:
    w = await made(partitions=2)
    mark = len(w.admin.calls)
    for _ in range(3):
        await an_hour_later(w)
    assert not [call for call in w.admin.calls[mark:] if call.path[-1] == "properties"]
    w.pulsar.topic_properties[GLOBAL, TOPIC] = {}
    await an_hour_later(w)
    assert record(w, GLOBAL) == MINE


# ------------------------------------------------------------------------------------------------------- it comes back


async def test_a_topic_whose_properties_are_read_gets_its_record_back_at_the_next_pass() -> None:
    w = await made(properties=PROPERTIES)
    w.pulsar.topic_properties["a", TOPIC].pop(OWNER_PROPERTY)
    await w.reconcile(Kind.TOPIC, "x")
    assert record(w) is None, "a broker may answer with what was there before the record was written"
    w.stepping.forward(STALE_SECONDS)
    await w.reconcile(Kind.TOPIC, "x")
    assert record(w) == MINE
    (event,) = [each for each in w.kube.events if each.reason == "DriftRepaired"]
    assert MINE in event.message
    mark = len(w.admin.writes)
    await w.run()
    assert not w.admin.writes[mark:]


async def test_a_namespace_gets_its_record_back_at_the_next_pass() -> None:
    w = await made()
    w.pulsar.namespaces["t/n"]["properties"] = {}
    w.stepping.forward(STALE_SECONDS)
    with w.admin.recording() as written:
        await w.reconcile(Kind.NAMESPACE, "n")
    assert [path for _, path in written if path.endswith("properties")], written
    assert w.pulsar.namespaces["t/n"]["properties"] == {OWNER_PROPERTY: "PulsarNamespace apps/n"}


async def test_a_record_that_is_missing_in_one_of_two_clusters_comes_back() -> None:
    w = await made("a", "b")
    w.pulsar.topic_properties["b", TOPIC] = {}
    await an_hour_later(w)
    assert (record(w, "a"), record(w, "b")) == (MINE, MINE)


@pytest.mark.parametrize("kind", [Kind.TENANT, Kind.RESOURCE_GROUP, Kind.ISOLATION_POLICY, Kind.TOPIC])
async def test_a_node_that_another_client_removes_comes_back(kind: Kind) -> None:
    w = Stored()
    await parents(w, kind)
    if kind is Kind.TOPIC:
        w.topic(persistent=False)
        await w.run()
    else:
        w.declare(kind, "original", 0)
        await w.run()
    before = nodes(w)
    (path,) = [each for each in before if f"/{kind.value}/" in each]
    del w.ensemble.nodes[path]
    await w.run()
    assert path not in nodes(w), "the store is not asked in each pass"
    await an_hour_later(w)
    assert nodes(w) == before


async def test_a_set_writes_the_records_of_its_topics_again() -> None:
    w = await SetWorld.made()
    w.topics("s", names=["x", "y"])
    await w.work()
    w.pulsar.topic_properties["a", TOPIC] = {}
    await w.wait(RECORD_SECONDS - 60)
    assert w.pulsar.topic_properties["a", TOPIC] == {}
    await w.wait(120)
    await w.work()
    assert w.pulsar.topic_properties["a", TOPIC] == {OWNER_PROPERTY: "PulsarTopicSet apps/s"}
    w.restart()
    await w.work()
    w.pulsar.topic_properties["a", "persistent://t/n/y"] = {}
    await w.wait(RECORD_SECONDS + 60)
    await w.work()
    assert w.pulsar.topic_properties["a", "persistent://t/n/y"] == {OWNER_PROPERTY: "PulsarTopicSet apps/s"}


# ------------------------------------------------------------------------------------------------- and what stays


async def test_a_store_that_is_away_changes_nothing_at_rest() -> None:
    w = await made()
    w.ensemble.reachable = False
    await an_hour_later(w)
    assert w.condition(Kind.TENANT, "t")[0] == "True"


async def test_a_record_that_cannot_be_read_stays_as_it_is() -> None:
    w = await made()
    w.pulsar.topic_properties["a", TOPIC] = {OWNER_PROPERTY: "what is this"}
    await an_hour_later(w)
    assert record(w) == "what is this"
    assert w.condition(Kind.TOPIC, "x")[0] == "True"


async def test_a_paused_object_writes_no_record() -> None:
    w = await made(properties=PROPERTIES)
    w.topic(properties=PROPERTIES, annotations=PAUSED)
    w.pulsar.topic_properties["a", TOPIC].pop(OWNER_PROPERTY)
    await an_hour_later(w)
    assert record(w) is None


async def test_a_record_that_names_another_object_that_declares_the_same_is_obeyed() -> None:
    w = await made()
    w.topic("second", name="x")
    await w.run()
    assert w.condition(Kind.TOPIC, "second")[1] == "Duplicate"
    w.pulsar.topic_properties["a", TOPIC] = {OWNER_PROPERTY: "PulsarTopic apps/second"}
    await an_hour_later(w)
    assert w.condition(Kind.TOPIC, "x")[1] == "Duplicate"
    assert w.condition(Kind.TOPIC, "second")[0] == "True"
    assert record(w) == "PulsarTopic apps/second"


async def test_a_record_that_names_an_object_that_cannot_be_read_is_obeyed() -> None:
    w = Stored()
    await parents(w, Kind.NAMESPACE)
    w.declare(Kind.NAMESPACE, "original", 0)
    await w.run()
    w.put(Kind.NAMESPACE, "other", {"tenantRef": {"name": "t"}, "name": "same", "policies": "nonsense"})
    w.pulsar.namespaces["t/same"]["properties"] = {OWNER_PROPERTY: "PulsarNamespace apps/other"}
    await an_hour_later(w)
    assert w.condition(Kind.NAMESPACE, "original")[1] == "Duplicate"


async def test_a_start_does_not_ask_for_all_records_at_once() -> None:
    w = await made()
    w.pulsar.topic_properties["a", TOPIC] = {}
    w.restart()
    mark = len(w.admin.calls)
    await w.reconcile(Kind.TOPIC, "x")
    assert not [call for call in w.admin.calls[mark:] if call.path[-1] == "properties"]
    await w.reconcile(Kind.TOPIC, "x")
    assert record(w) == MINE
