"""No planted secret is in an export, wherever it was planted; its place is told."""

from __future__ import annotations

import json

import pytest

from pulsar_operator.domain.export.parts import with_schema
from tests.fakes.admin import FakeAdmin
from tests.fakes.pulsar_parts import FakeSubscription
from tests.support.export.memory import ExportPulsar, exported, manifests, notes, plain, text_of
from tests.support.secrets.corpus import INNOCENT, PLANTED, RANDOM, Planted

X = "persistent://t/n/x"


async def pulsar() -> FakeAdmin:
    """A Pulsar with a tenant, a namespace and a topic."""
    admin = FakeAdmin(ExportPulsar())
    await plain(admin, "PUT", "tenants", "t", body={"adminRoles": [], "allowedClusters": ["a"]})
    await plain(admin, "PUT", "namespaces", "t", "n")
    await plain(admin, "PUT", "persistent", "t", "n", "x")
    return admin


@pytest.mark.parametrize("planted", [*PLANTED, *RANDOM], ids=lambda p: f"{p.name}={p.value[:30]}")
async def test_a_planted_secret_is_not_exported(planted: Planted) -> None:
    admin = await pulsar()
    properties = {planted.name: planted.value, "team": "billing"}
    admin.pulsar.namespaces["t/n"]["properties"] = dict(properties)
    admin.pulsar.topic_properties["*", X] = dict(properties)
    admin.pulsar.topic_properties["a", X] = dict(properties)
    admin.pulsar.topics["a"][X].subscriptions["s"] = FakeSubscription(properties=dict(properties))
    found = await exported(admin)
    assert planted.secret not in text_of(found)
    specs = {m["metadata"]["name"]: m["spec"] for m in manifests(found)}
    assert specs["t.n"]["properties"] == {"team": "billing"}, "the rest is exported"
    assert len([note for note in notes(found) if json.dumps(planted.name) in note]) >= 2, "their places are told"


async def test_what_is_no_secret_is_exported() -> None:
    admin = await pulsar()
    admin.pulsar.namespaces["t/n"]["properties"] = dict(INNOCENT)
    found = await exported(admin)
    specs = {m["metadata"]["name"]: m["spec"] for m in manifests(found)}
    assert specs["t.n"]["properties"] == dict(INNOCENT)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda p: f"{p.name}={p.value[:30]}")
def test_a_planted_secret_of_a_schema_is_not_exported(planted: Planted) -> None:
    answer = {"version": 0, "type": "STRING", "data": "", "properties": {planted.name: planted.value}}
    found, told = with_schema({"namespaceRef": {"name": "t.n"}}, answer)
    assert planted.secret not in json.dumps([found, told], ensure_ascii=False) and told


def test_a_definition_with_a_secret_is_not_exported_and_one_with_fields_for_secrets_is() -> None:
    for doc, kept in (("see https://a:planted-1@wiki/x", False), ("key and token of a client", True)):
        fields = [{"name": "password", "type": "string", "doc": doc}]
        data = json.dumps({"type": "record", "name": "R", "fields": fields})
        found, told = with_schema({"namespaceRef": {"name": "t.n"}}, {"type": "JSON", "data": data, "properties": {}})
        assert ("schema" in found) is kept and bool(told) is not kept
        assert "planted-1" not in json.dumps([found, told])
