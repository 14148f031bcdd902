"""Subscriptions and the schema of a topic, through the controllers."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.policies.model import NOT_SHOWN
from pulsar_operator.ports import CUSTOM, Json
from tests.fakes.pulsar_parts import FakeSubscription
from tests.support.logical.lists import of_users
from tests.support.logical.world import DRY_RUN, NS, LogicalWorld

X = "persistent://t/n/x"
A = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'
A_SPACED = '{"name": "R", "type": "record", "fields": [ {"name": "a", "type": "string"} ]}'
A_AND_B = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"},{"name":"b","type":"int","default":0}]}'
NO_DEFAULT = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"},{"name":"b","type":"int"}]}'


async def world(*clusters: str, **topic: Any) -> LogicalWorld:
    """A tenant, a namespace and topic x with these fields."""
    w = LogicalWorld(*clusters)
    w.tenant()
    w.namespace()
    w.topic(**topic)
    await w.run()
    return w


def held(w: LogicalWorld, cluster: str = "a", name: str = X) -> dict[str, FakeSubscription]:
    """Subscriptions of x in a cluster."""
    return w.pulsar.topics[cluster][name].subscriptions


def managed(w: LogicalWorld) -> list[str]:
    """status.managedFields."""
    return list(w.status(Kind.TOPIC, "x").get("managedFields", []))


SUBSCRIPTIONS: list[Json] = [
    {"name": "audit", "initialPosition": "Earliest", "replicated": True, "properties": {"team": "shop"}},
    {"name": "a/b", "dispatchRate": {"messagesPerPeriod": 10}},
]


@pytest.mark.parametrize("partitions", [None, 2])
async def test_subscriptions_are_made_in_each_cluster(partitions: int | None) -> None:
    kind = {} if partitions is None else {"partitions": partitions}
    w = await world("a", "b", subscriptions=SUBSCRIPTIONS, **kind)
    # Pulsar makes the partitions in one cluster; in the other there is nothing to subscribe to yet.
    places = [("a", f"{X}-partition-{i}") for i in range(2)] if partitions else [("a", X), ("b", X)]
    for cluster, name in places:
        found = held(w, cluster, name)
        assert found["audit"] == FakeSubscription(True, {"team": "shop"}, "earliest")
        assert found["a/b"] == FakeSubscription(False, {}, "latest")
    assert w.pulsar.topic_policies["a", X]["subscriptionRates"]["a/b"]["dispatchThrottlingRateInMsg"] == 10
    fields = [
        "subscriptions[a/b]",
        "subscriptions[a/b].dispatchRate",
        "subscriptions[audit]",
        "subscriptions[audit].properties",
        "subscriptions[audit].replicated",
    ]
    assert [name for name in managed(w) if name != "partitions"] == fields
    if partitions is None:
        assert w.condition(Kind.TOPIC, "x")[0] == "True"
        assert await w.second_pass_writes() == ([], [])


async def test_what_exists_is_never_moved_and_others_stay() -> None:
    w = await world()
    held(w)["audit"] = FakeSubscription(position="earliest")
    held(w)["theirs"] = FakeSubscription()
    w.pulsar.topics["a"][X].backlog["audit"] = 7
    w.topic(subscriptions=[{"name": "audit", "initialPosition": "Latest"}])
    await w.run()
    assert held(w)["audit"] == FakeSubscription(position="earliest")
    assert w.pulsar.topics["a"][X].backlog == {"audit": 7}
    w.topic(deletionPolicy="Delete")
    await w.run()
    assert set(held(w)) == {"audit", "theirs"}, "it has unread messages"


@pytest.mark.parametrize("policy", ["Repair", "Report"])
async def test_drift_of_a_subscription(policy: str) -> None:
    w = await world("a", "b", subscriptions=SUBSCRIPTIONS, driftPolicy=policy)
    held(w, "b")["audit"].replicated = False
    held(w, "b")["audit"].properties = {"team": "other"}
    del held(w)["a/b"]
    w.pulsar.topic_policies["b", X]["subscriptionRates"]["a/b"]["dispatchThrottlingRateInMsg"] = 99
    await w.run()
    if policy == "Repair":
        assert held(w, "b")["audit"] == FakeSubscription(True, {"team": "shop"}, "earliest")
        assert "a/b" in held(w)
        assert w.pulsar.topic_policies["b", X]["subscriptionRates"]["a/b"]["dispatchThrottlingRateInMsg"] == 10
        assert w.reasons(Kind.TOPIC).count("DriftRepaired") == 4
        return
    found = {each["field"]: each["actual"] for each in w.status(Kind.TOPIC, "x")["drift"]}
    assert found.keys() == {
        "subscriptions[a/b]",
        "subscriptions[a/b].dispatchRate",
        "subscriptions[audit].properties",
        "subscriptions[audit].replicated",
    }
    assert found["subscriptions[a/b]"] == "no subscription in cluster a"
    assert found["subscriptions[audit].replicated"] == "false in cluster b"
    assert "a/b" not in held(w)


@pytest.mark.parametrize("policy", ["Retain", "Delete", "ForceDelete"])
async def test_removal_follows_the_deletion_policy(policy: str) -> None:
    w = await world(
        "a", "b", subscriptions=[*SUBSCRIPTIONS, {"name": "busy"}, {"name": "watched"}], deletionPolicy=policy
    )
    w.pulsar.topics["b"][X].backlog["busy"] = 3
    held(w)["watched"].consumers = 2
    w.topic(deletionPolicy=policy)
    await w.run()
    if policy == "Retain":
        assert set(held(w)) == set(held(w, "b")) == {"audit", "a/b", "busy", "watched"}
        assert managed(w) == []
    elif policy == "ForceDelete":
        assert held(w) == held(w, "b") == {}
        assert managed(w) == []
    else:
        assert (set(held(w)), set(held(w, "b"))) == ({"watched"}, {"busy"})
        assert managed(w) == ["subscriptions[busy]", "subscriptions[watched]"]
        status, reason, message = w.condition(Kind.TOPIC, "x", "Accepted")
        assert (status, reason) == ("False", "NotEmpty")
        assert (
            "Subscription busy was removed from spec.subscriptions, but is not deleted in cluster b, because it has "
            "3 unread" in message
        )
        assert "2 connected consumers" in message
        assert (await w.reconcile(Kind.TOPIC, "x")).requeue_after == 30.0
        assert await w.second_pass_writes() == ([], [])
        w.pulsar.topics["b"][X].backlog["busy"] = 0
        held(w)["watched"].consumers = 0
        await w.run()
        assert held(w) == held(w, "b") == {}
        assert managed(w) == []
        assert w.condition(Kind.TOPIC, "x")[0] == "True"
    assert w.pulsar.topic_policies["a", X]["subscriptionRates"] == {}, "a rate is a policy, and is reset"


async def test_with_an_empty_status_no_subscription_is_removed() -> None:
    w = await world(subscriptions=SUBSCRIPTIONS, deletionPolicy="Delete")
    w.kube.set_status(CUSTOM[Kind.TOPIC], NS, "x", {})
    w.topic(deletionPolicy="Delete")
    await w.run()
    assert set(held(w)) == {"audit", "a/b"}


async def test_hostile_names_of_subscriptions() -> None:
    names = ["a%2Fb", "a/b", "50%", "a+b", "a b", "%41", "A", "q?x", "x].dispatchRate"]
    rate = {"dispatchRate": {"messagesPerPeriod": 1}}
    w = await world(subscriptions=[{"name": n, **rate} for n in names], deletionPolicy="Delete")
    assert set(held(w)) == set(names)
    assert set(w.pulsar.topic_policies["a", X]["subscriptionRates"]) == set(names)
    assert await w.second_pass_writes() == ([], [])
    w.topic(subscriptions=[{"name": names[0]}], deletionPolicy="Delete")
    await w.run()
    assert set(held(w)) == {names[0]}
    assert w.pulsar.topic_policies["a", X]["subscriptionRates"] == {}
    assert managed(w) == [f"subscriptions[{names[0]}]"]


async def test_a_partition_that_lost_it_gets_it_again() -> None:
    w = await world(partitions=2, subscriptions=[{"name": "s"}])
    del held(w, "a", f"{X}-partition-1")["s"]
    await w.run()
    assert set(held(w, "a", f"{X}-partition-1")) == {"s"}
    assert "DriftRepaired" in w.reasons(Kind.TOPIC)


# ------------------------------------------------------------------------------------------------------- schemas


def versions(w: LogicalWorld, cluster: str = "a") -> list[tuple[str, str]]:
    """Types and definitions of the versions of x."""
    return [(each["type"], each["data"]) for each in w.pulsar.schemas.get((cluster, "t/n/x"), [])]


def avro(definition: str, **more: Any) -> Json:
    """A schema as in a manifest."""
    return {"type": "Avro", "definition": definition, **more}


async def test_a_schema_is_uploaded_to_each_cluster_once() -> None:
    w = await world("a", "b", schema=avro(A, properties={"team": "shop"}))
    assert versions(w) == versions(w, "b") == [("AVRO", A)]
    assert managed(w) == ["schema"]
    assert w.condition(Kind.TOPIC, "x")[0] == "True"
    assert await w.second_pass_writes() == ([], [])
    w.topic(schema=avro(A_SPACED))
    await w.run()
    assert len(versions(w)) == 1, "equal as JSON is the same"
    w.topic(schema=avro(A_AND_B))
    await w.run()
    assert versions(w, "b") == [("AVRO", A), ("AVRO", A_AND_B)]
    w.topic()
    await w.run()
    assert len(versions(w)) == 2, "no version is ever deleted"
    assert managed(w) == []
    assert not any("schemas" in path and method == "DELETE" for method, path in w.admin.writes)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (avro(NO_DEFAULT), "Unable to read schema"),
        ({"type": "String"}, "exists schema type AVRO"),
        (avro("no json"), "Invalid schema definition"),
    ],
)
async def test_what_is_not_compatible_is_not_uploaded(schema: Json, words: str) -> None:
    w = await world(schema=avro(A))
    with w.admin.recording() as made:
        w.topic(schema=schema, properties={"k": "v"})
        await w.run()
    assert not any(path.endswith("/schema") for _, path in made)
    status, reason, message = w.condition(Kind.TOPIC, "x", "Accepted")
    assert (status, reason) == ("False", "RejectedByPulsar")
    assert "spec.schema is not uploaded to cluster a" in message and words in message
    assert of_users(w.pulsar.topic_properties["a", X]) == {"k": "v"}, "the rest converges"


async def test_a_newer_version_of_another_client_is_reported_and_left() -> None:
    w = await world(schema=avro(A))
    w.pulsar.schema("a", "POST", ("t", "n", "x"), ["schema"], {"type": "AVRO", "schema": A_AND_B, "properties": {}})
    with w.admin.recording() as made:
        await w.run()
    assert made == []
    (entry,) = w.status(Kind.TOPIC, "x")["drift"]
    assert entry["field"] == "schema"
    assert "version 1, which is newer than the declared schema (version 0)" in entry["actual"]
    assert w.condition(Kind.TOPIC, "x", "Drifted")[:2] == ("True", "ImmutableInPulsar")


@pytest.mark.parametrize("policy", ["Repair", "Report"])
async def test_a_deleted_schema_is_drift(policy: str) -> None:
    w = await world(schema=avro(A), driftPolicy=policy)
    w.pulsar.schemas["a", "t/n/x"].clear()
    await w.run()
    if policy == "Repair":
        assert versions(w) == [("AVRO", A)]
        assert "DriftRepaired" in w.reasons(Kind.TOPIC)
    else:
        assert versions(w) == []
        assert [each["field"] for each in w.status(Kind.TOPIC, "x")["drift"]] == ["schema"]


async def test_properties_of_a_version_cannot_change() -> None:
    w = await world(schema=avro(A, properties={"a": "1"}))
    w.topic(schema=avro(A, properties={"a": "2"}))
    await w.run()
    (entry,) = w.status(Kind.TOPIC, "x")["drift"]
    assert (entry["field"], entry["desired"]) == ("schema.properties", f'{{"a": "{NOT_SHOWN}"}}')
    assert await w.second_pass_writes() == ([], [])


def key_value(definition: str, **more: Any) -> Json:
    """Text keys and values of a definition."""
    value = {"type": "Avro", "definition": definition}
    return {"type": "KeyValue", "key": {"type": "String"}, "value": value, **more}


async def test_a_schema_of_keys_and_values() -> None:
    w = await world(schema=key_value(A, encoding="Separated", properties={"team": "shop"}))
    (held_version,) = w.pulsar.schemas["a", "t/n/x"]
    assert held_version["properties"] == {
        "team": "shop",
        "key.schema.type": "STRING",
        "value.schema.type": "AVRO",
        "kv.encoding.type": "SEPARATED",
    }
    assert await w.second_pass_writes() == ([], [])
    w.topic(schema=key_value(A_SPACED, encoding="Separated"))
    await w.run()
    assert len(versions(w)) == 1, "equal as JSON is the same"
    w.topic(schema=key_value(A))
    await w.run()
    (entry,) = w.status(Kind.TOPIC, "x")["drift"]
    assert (entry["field"], entry["desired"]) == ("schema.properties", '{"kv.encoding.type": "INLINE"}')
    assert w.condition(Kind.TOPIC, "x", "Drifted")[:2] == ("True", "ImmutableInPulsar")
    assert await w.second_pass_writes() == ([], []), "Pulsar would answer with the version it has"
    w.topic(schema=key_value(A_AND_B, encoding="Separated"))
    await w.run()
    assert len(versions(w)) == 2
    w.topic(schema=key_value(NO_DEFAULT.replace('"b"', '"c"'), encoding="Separated"))
    await w.run()
    assert w.condition(Kind.TOPIC, "x", "Accepted")[1] == "RejectedByPulsar"
    assert len(versions(w)) == 2


async def test_dry_run_shows_subscriptions_and_schemas() -> None:
    w = await world()
    w.topic(subscriptions=[{"name": "s"}], schema=avro(A), annotations=DRY_RUN)
    await w.run()
    assert held(w) == {} and versions(w) == []
    pending = w.status(Kind.TOPIC, "x")["pendingActions"]
    assert pending[0].startswith("Set spec.schema to Avro ")
    assert pending[1] == "Set spec.subscriptions[s] to a subscription from Latest (was no subscription in cluster a)"


async def test_a_topic_without_parts_costs_no_call_for_them() -> None:
    w = await world()
    start = len(w.admin.calls)
    await w.reconcile(Kind.TOPIC, "x")
    assert [c.path[-1] for c in w.admin.calls[start:]] == ["n", "partitions"]


async def test_a_silent_cluster_keeps_its_subscriptions_in_mind() -> None:
    w = await world("a", "b", subscriptions=SUBSCRIPTIONS, deletionPolicy="ForceDelete")
    w.admin.down = {"b"}
    w.topic(deletionPolicy="ForceDelete")
    await w.run()
    assert held(w) == {}
    assert {"subscriptions[audit]", "subscriptions[a/b].dispatchRate"} <= set(managed(w))
    w.admin.down = set()
    await w.run()
    assert held(w, "b") == {}
    assert managed(w) == []
