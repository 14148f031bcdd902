"""Subscriptions and schemas in an export: declared as they are, and nothing to do when applied."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pulsar_operator.api.v1alpha1.topic_parts import SchemaType
from pulsar_operator.domain.export.parts import durable_subscriptions, with_schema
from tests.fakes.admin import FakeAdmin
from tests.fakes.pulsar_parts import FakeSubscription
from tests.support.export.memory import ExportPulsar, dry_run, exported, manifests, notes, plain, rebuilt, text_of

DEFINITION = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]})
NEWER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "int", "default": 0}],
    }
)
START = {"ledgerId": -1, "entryId": -1}
X = "persistent://t/n/x"


@pytest.fixture
async def admin() -> FakeAdmin:
    """A topic and a partitioned one, with subscriptions and schemas."""
    found = FakeAdmin(ExportPulsar(clusters=["a"]))
    await plain(found, "PUT", "tenants", "t", body={"adminRoles": [], "allowedClusters": ["a"]})
    await plain(found, "PUT", "namespaces", "t", "n")
    await plain(found, "PUT", "persistent", "t", "n", "x")
    await plain(found, "PUT", "persistent", "t", "n", "p", "partitions", body=2)
    for topic in ("x", "p"):
        for name, properties in (("orders", {}), ("a%2Fb", {"team": "shop"}), ("__compaction", {})):
            body = {**START, "properties": properties}
            await plain(found, "PUT", "persistent", "t", "n", topic, "subscription", name, body=body)
    await plain(
        found, "POST", "persistent", "t", "n", "p", "subscription", "orders", "replicatedSubscriptionStatus", body=True
    )
    rate = {"dispatchThrottlingRateInMsg": 5, "dispatchThrottlingRateInByte": -1}
    rate |= {"relativeToPublishRate": False, "ratePeriodInSecond": 1}
    await plain(found, "POST", "persistent", "t", "n", "x", "orders", "dispatchRate", body=rate)
    for definition in (DEFINITION, NEWER):
        body = {"type": "AVRO", "schema": definition, "properties": {"owner": "shop"}}
        await plain(found, "POST", "schemas", "t", "n", "x", "schema", body=body)
    await plain(
        found, "POST", "schemas", "t", "n", "p", "schema", body={"type": "INT64", "schema": "", "properties": {}}
    )
    return found


async def test_they_are_declared_and_applied_they_change_nothing(admin: FakeAdmin) -> None:
    found = await exported(admin)
    assert notes(found) == []
    specs = {m["metadata"]["name"]: m["spec"] for m in manifests(found)}
    assert specs["t.n.x"]["subscriptions"] == [
        {"name": "a/b", "properties": {"team": "shop"}},
        {
            "name": "orders",
            "dispatchRate": {"messagesPerPeriod": 5, "periodSeconds": 1, "relativeToPublishRate": False},
        },
    ]
    assert specs["t.n.p"]["subscriptions"] == [
        {"name": "a/b", "properties": {"team": "shop"}},
        {"name": "orders", "replicated": True},
    ]
    assert specs["t.n.x"]["schema"] == {"type": "Avro", "definition": NEWER, "properties": {"owner": "shop"}}
    assert specs["t.n.p"]["schema"] == {"type": "Int64"}
    writes = list(admin.writes)
    assert await dry_run(admin, found, "a") == []
    assert admin.writes == writes
    again = await exported(FakeAdmin(await rebuilt(found, "a")))
    assert text_of(again) == text_of(found), "an empty Pulsar comes out the same"


async def test_they_can_be_left_out(admin: FakeAdmin) -> None:
    start = len(admin.calls)
    found = await exported(admin, subscriptions=False, schemas=False)
    asked = {call.path[-1] for call in admin.calls[start:]} | {call.path[0] for call in admin.calls[start:]}
    assert not asked & {"stats", "partitioned-stats", "schemas"}
    assert not any({"subscriptions", "schema"} & set(m["spec"]) for m in manifests(found))
    assert "# These data were not read: subscriptions, schemas, properties of topics" in text_of(found)
    assert "# These data were not read: properties of topics" in text_of(await exported(admin))


async def test_what_functions_subscribed_is_named_and_left_out_unless_asked_for(admin: FakeAdmin) -> None:
    admin.pulsar.topics["a"][X].subscriptions["shop/apps/enrich"] = FakeSubscription()
    found = await exported(admin)
    assert notes(found) == [
        f'topic {X}: subscriptions: "shop/apps/enrich" are not exported, because they are named like the '
        "subscriptions that functions create"
    ]
    assert not found.failed
    specs = {m["metadata"]["name"]: m["spec"] for m in manifests(await exported(admin, exclude_system=False))}
    assert [each["name"] for each in specs["t.n.x"]["subscriptions"]] == ["a/b", "orders", "shop/apps/enrich"]


async def test_what_cannot_be_declared_is_named(admin: FakeAdmin) -> None:
    parts = [admin.pulsar.topics["a"][f"persistent://t/n/p-partition-{i}"].subscriptions for i in (0, 1)]
    parts[0]["only-one"] = FakeSubscription()
    parts[0]["orders"].replicated = False
    parts[0]["a/b"].properties = {"other": "1"}
    held = admin.pulsar.topics["a"][X].subscriptions
    held |= {f"s{number:03}": FakeSubscription() for number in range(70)}
    held["orders"].properties = {"api-token": "s3cr3t"}
    held[".."] = FakeSubscription()
    admin.pulsar.schemas["a", "t/n/p"][-1]["type"] = "KEY_VALUE_OF_A_NEWER_PULSAR"
    found = await exported(admin)
    p, said = "topic persistent://t/n/p: ", notes(found)
    assert f'{p}subscriptions["only-one"] is not exported, because it is missing in 1 of the partitions' in said
    assert f'{p}subscriptions["orders"].replicated is not exported, because it differs between the partitions' in said
    assert f'{p}subscriptions["a/b"].properties are not exported, because they differ between the partitions' in said
    assert any(
        "KEY_VALUE_OF_A_NEWER_PULSAR is not exported, because the field has no such type" in note for note in said
    )
    assert len([note for note in said if "the API server would refuse " in note]) == 70 + 3 - 64
    assert any(
        'subscriptions["orders"].properties are not exported, because these values may be secret: "api-token"' in note
        for note in said
    )
    assert "s3cr3t" not in text_of(found) and not found.failed
    assert await dry_run(admin, found, "a") == []


def test_readers_are_no_subscriptions() -> None:
    stats = {"subscriptions": {"reader-1": {"isDurable": False}, "s": {"isDurable": True}, "old": {}}}
    assert list(durable_subscriptions(stats, partitioned=False)) == ["old", "s"]
    whole = {"partitions": {"p-0": stats, "p-1": {"subscriptions": {"s": {"durable": True}}}}}
    assert {name: one.missing for name, one in durable_subscriptions(whole, partitioned=True).items()} == {
        "old": 1,
        "s": 0,
    }


@pytest.mark.parametrize("kind", SchemaType)
def test_every_type_of_schema_is_exported_or_said_to_be_left_out(kind: SchemaType) -> None:
    spec = {"namespaceRef": {"name": "t.n"}}
    for definition in ("", DEFINITION):
        answer: Any = {"version": 3, "type": kind.name, "data": definition, "properties": {}}
        found, said = with_schema(spec, answer)
        assert ("schema" in found) is not bool(said), (found, said)
        if "schema" in found:
            assert found["schema"] == {"type": kind.value, **({"definition": definition} if definition else {})}


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"password": "x"}, 'schema.properties: "password" is not exported, because its value may be secret'),
        ({f"p{number}": "" for number in range(17)}, "the API server would refuse them"),
    ],
)
def test_a_schema_keeps_its_definition_when_its_properties_cannot_be_declared(
    properties: dict[str, str], said: str
) -> None:
    answer = {"version": 0, "type": "JSON", "data": DEFINITION, "properties": properties}
    found, notes = with_schema({"namespaceRef": {"name": "t.n"}}, answer)
    assert found["schema"] == {"type": "Json", "definition": DEFINITION}
    assert len(notes) == 1 and said in notes[0][0] and notes[0][1] is False
