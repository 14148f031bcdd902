"""Permissions and properties in an export: declared as they are, and nothing to do when applied."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.admin import FakeAdmin
from tests.support.export.memory import ExportPulsar, dry_run, exported, manifests, notes, rebuilt, text_of


async def plain(admin: FakeAdmin, method: str, *path: str, body: Any = None) -> None:
    """A plain admin call."""
    status, answer = admin.pulsar.handle("a", method, path, {}, body)
    assert status < 300, answer


@pytest.fixture
async def admin() -> FakeAdmin:
    """A namespace with two topics, and lists on all of them."""
    found = FakeAdmin(ExportPulsar(clusters=["a"]))
    await plain(found, "PUT", "tenants", "t", body={"adminRoles": ["boss"], "allowedClusters": ["a"]})
    namespace = ("namespaces", "t", "n")
    await plain(found, "PUT", *namespace)
    await plain(found, "PUT", "persistent", "t", "n", "x")
    await plain(found, "PUT", "persistent", "t", "n", "p", "partitions", body=2)
    for role in ("app", "a/b", "a: b", "yes"):
        await plain(found, "POST", *namespace, "permissions", role, body=["produce", "consume"])
    await plain(found, "POST", *namespace, "permissions", "subscription", "s/1", body=["app", "a/b"])
    await plain(found, "PUT", *namespace, "properties", body={"team": "shop", "no": "1", "empty": ""})
    # What a topic without partitions has is only looked at where topics have policies.
    await plain(found, "POST", "persistent", "t", "n", "x", "maxProducers", body=3)
    for topic in ("x", "p"):
        await plain(found, "POST", "persistent", "t", "n", topic, "permissions", "one", body=["functions"])
        await plain(found, "PUT", "persistent", "t", "n", topic, "properties", body={"a/b": "c"})
    return found


async def test_lists_are_declared_and_applied_they_change_nothing(admin: FakeAdmin) -> None:
    found = await exported(admin)
    assert notes(found) == []
    specs = {m["metadata"]["name"]: m["spec"] for m in manifests(found)}
    assert specs["t.n"]["permissions"] == [
        {"role": role, "actions": ["Consume", "Produce"]} for role in ("a/b", "a: b", "app", "yes")
    ]
    assert specs["t.n"]["subscriptionPermissions"] == [{"subscription": "s/1", "roles": ["a/b", "app"]}]
    assert specs["t.n"]["properties"] == {"empty": "", "no": "1", "team": "shop"}
    for name in ("t.n.x", "t.n.p"):
        assert specs[name]["permissions"] == [{"role": "one", "actions": ["Functions"]}]
        assert specs[name]["properties"] == {"a/b": "c"}
    assert await dry_run(admin, found, "a") == []


async def test_applied_to_an_empty_pulsar_the_lists_are_there(admin: FakeAdmin) -> None:
    found = await exported(admin)
    other = await rebuilt(found, "a")
    again = await exported(FakeAdmin(other))
    assert text_of(again) == text_of(found)
    assert set(other.namespaces["t/n"]["auth_policies"]["namespace_auth"]) == {"app", "a/b", "a: b", "yes"}


async def test_more_entries_than_a_list_takes_are_named(admin: FakeAdmin) -> None:
    held = admin.pulsar.namespaces["t/n"]["auth_policies"]["namespace_auth"]
    held |= {f"r{n:03}": ["produce"] for n in range(200)}
    found = await exported(admin)
    spec = next(m["spec"] for m in manifests(found) if m["metadata"]["name"] == "t.n")
    assert len(spec["permissions"]) == 128
    assert len([note for note in notes(found) if "permissions: entry" in note]) == 204 - 128
    assert await dry_run(admin, found, "a") == []


async def test_a_property_that_sounds_like_a_secret_is_named_only(admin: FakeAdmin) -> None:
    await plain(admin, "PUT", "namespaces", "t", "n", "properties", body={"db-password": "s3cr3t"})
    found = await exported(admin)
    assert "s3cr3t" not in text_of(found)
    assert [note for note in notes(found) if "db-password" in note and "may be secret" in note]
