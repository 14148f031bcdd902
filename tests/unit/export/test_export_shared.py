"""Resource groups, isolation policies and failure domains in an export."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.fakes.admin import FakeAdmin
from tests.support.export.memory import ExportPulsar, dry_run, exported, manifests, notes, plain, rebuilt, text_of

FAILOVER = {"policy_type": "min_available", "parameters": {"min_limit": "2", "usage_threshold": "70"}}
POLICY: dict[str, Any] = {
    "namespaces": ["t/n"],
    "primary": ["no-such-broker"],
    "secondary": [".*"],
    "auto_failover_policy": FAILOVER,
    "unload_scope": "changed",
}


@pytest.fixture
async def admin() -> FakeAdmin:
    """Two tenants, of which one uses a group and has an isolation policy."""
    found = FakeAdmin(ExportPulsar(clusters=["a"]))
    for tenant in ("t", "u"):
        await plain(found, "PUT", "tenants", tenant, body={"adminRoles": [], "allowedClusters": ["a"]})
        await plain(found, "PUT", "namespaces", tenant, "n")
    await plain(found, "PUT", "resourcegroups", "gold", body={"publishRateInMsgs": 50, "dispatchRateInBytes": 9})
    await plain(found, "PUT", "resourcegroups", "Big_Group", body={})
    await plain(found, "POST", "namespaces", "t", "n", "resourcegroup", "gold")
    where = ("clusters", "a", "namespaceIsolationPolicies")
    await plain(found, "POST", *where, "i", body=POLICY)
    await plain(found, "POST", *where, "others", body={**POLICY, "namespaces": ["z/.*"], "secondary": [".*", "x"]})
    for name, brokers in (("d1", ["b-0.h:8080"]), ("d2", ["b-2.h:8080", "b-1.h:8080"])):
        await plain(found, "POST", "clusters", "a", "failureDomains", name, body={"brokers": brokers})
    return found


async def test_they_are_declared_and_applied_they_change_nothing(admin: FakeAdmin) -> None:
    found = await exported(admin)
    assert notes(found) == []
    specs = {(m["kind"], m["spec"].get("name", m["metadata"]["name"])): m["spec"] for m in manifests(found)}
    assert specs["PulsarResourceGroup", "gold"] == {
        "instanceRef": {"name": "prod"},
        "limits": {"publishRate": {"messagesPerSecond": 50}, "dispatchRate": {"bytesPerSecond": 9}},
    }
    assert specs["PulsarResourceGroup", "Big_Group"].keys() == {"instanceRef", "name"}
    assert specs["PulsarIsolationPolicy", "i"] == {
        "instanceRef": {"name": "prod"},
        "clusters": ["a"],
        "namespaces": ["t/n"],
        "primary": ["no-such-broker"],
        "secondary": [".*"],
        "autoFailover": {"type": "MinAvailable", "minLimit": 2, "usageThresholdPercent": 70},
        "unloadScope": "Changed",
    }
    assert specs["PulsarIsolationPolicy", "failure-domains.a"]["failureDomains"] == [
        {"name": "d1", "brokers": ["b-0.h:8080"]},
        {"name": "d2", "brokers": ["b-1.h:8080", "b-2.h:8080"]},
    ]
    writes = list(admin.writes)
    assert await dry_run(admin, found, "a") == []
    assert admin.writes == writes
    other = await rebuilt(found, "a")
    assert other.stored() == admin.pulsar.stored()
    assert text_of(await exported(FakeAdmin(other))) == text_of(found)


async def test_with_chosen_tenants_there_is_what_their_namespaces_have(admin: FakeAdmin) -> None:
    async def names(tenants: str) -> set[str]:
        found = await exported(admin, tenants=re.compile(tenants))
        assert not found.failed
        kinds = ("PulsarResourceGroup", "PulsarIsolationPolicy")
        return {m["metadata"]["name"] for m in manifests(found) if m["kind"] in kinds}

    assert await names("t") == {"gold", "i"}
    assert await names("u") == set()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"primary": ["b-0.h:8080"]}, 'primary: "b-0.h:8080" contains a port'),
        ({"namespaces": ["t/(?!x).*"]}, 'namespaces: "t/(?!x).*" is not an expression of RE2'),
        ({"secondary": ["(?P<host>b).*"]}, "is not an expression of RE2"),
        ({"secondary": ["b*+"]}, "is not an expression of RE2"),
        ({"primary": []}, "primary"),
        ({"unload_scope": "sideways"}, 'unloadScope is "sideways" in Pulsar, which the field cannot express'),
        ({"auto_failover_policy": {"policy_type": "other", "parameters": {}}}, "autoFailover"),
    ],
)
async def test_a_policy_that_would_not_be_admitted_is_named(
    admin: FakeAdmin, change: dict[str, Any], said: str
) -> None:
    admin.pulsar.isolation["a"]["i"] = {**POLICY, **change}
    found = await exported(admin)
    (note,) = notes(found)
    assert note.startswith("isolation policy i of cluster a: ") and said in note
    assert "i" not in {m["metadata"]["name"] for m in manifests(found)} and not found.failed
    assert await dry_run(admin, found, "a") == []


async def test_a_domain_that_cannot_be_declared_is_named(admin: FakeAdmin) -> None:
    admin.pulsar.domains["a"] |= {"empty": [], "odd": ["no port"]}
    found = await exported(admin)
    about = "failure domains of cluster a: failureDomains"
    assert [note.split("]")[0] for note in notes(found)] == [f'{about}["empty"', f'{about}["odd"']
    assert await dry_run(admin, found, "a") == []
