"""spec.namespaceDefaults of a tenant: laid under the policies of each of its namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.namespace import PulsarNamespaceSpec
from pulsar_operator.api.v1alpha1.policies import NamespacePolicies
from pulsar_operator.controllers.core.index import RefIndex, key_of
from pulsar_operator.domain.logical.namespace import desired_policies, digest_of
from pulsar_operator.ports import Key
from tests.support.logical.world import LogicalWorld

RETENTION = {"timeMinutes": 60, "size": "100Mi"}


async def world(defaults: dict[str, Any], **namespace: Any) -> LogicalWorld:
    """A tenant with defaults, and namespaces n, with these fields, and other."""
    w = LogicalWorld()
    w.tenant(namespaceDefaults=defaults)
    w.namespace(**namespace)
    w.namespace("other")
    await w.run()
    return w


def live(w: LogicalWorld, name: str = "n") -> dict[str, Any]:
    """Policies in Pulsar."""
    return w.pulsar.namespaces[f"t/{name}"]


async def test_each_namespace_has_them_unless_it_says_otherwise() -> None:
    defaults = {"messageTTLSeconds": 60, "maxTopics": 10, "retention": RETENTION}
    w = await world(defaults, policies={"messageTTLSeconds": 5, "maxProducersPerTopic": 3})
    assert (live(w)["message_ttl_in_seconds"], live(w, "other")["message_ttl_in_seconds"]) == (5, 60)
    assert live(w)["max_topics_per_namespace"] == live(w, "other")["max_topics_per_namespace"] == 10
    assert live(w)["max_producers_per_topic"] == 3
    assert w.status(Kind.NAMESPACE, "other")["managedFields"] == [
        "policies.maxTopics",
        "policies.messageTTLSeconds",
        "policies.retention",
    ]
    assert w.condition(Kind.NAMESPACE, "other")[0] == "True"
    assert await w.second_pass_writes() == ([], [])


async def test_groups_are_laid_member_by_member() -> None:
    storage = {"limit": 5, "policy": "ProducerException"}
    age = {"limitSeconds": 7, "policy": "ProducerException"}
    w = await world({"backlogQuotas": {"destinationStorage": storage}}, policies={"backlogQuotas": {"messageAge": age}})
    assert set(live(w)["backlog_quota_map"]) == {"destination_storage", "message_age"}
    assert set(live(w, "other")["backlog_quota_map"]) == {"destination_storage"}


@pytest.mark.parametrize("policy", ["Repair", "Report"])
async def test_a_change_of_the_tenant_is_applied_and_is_no_drift(policy: str) -> None:
    w = await world({"messageTTLSeconds": 60, "maxTopics": 10}, driftPolicy=policy)
    w.tenant(namespaceDefaults={"messageTTLSeconds": 90})
    await w.run()
    assert live(w)["message_ttl_in_seconds"] == live(w, "other")["message_ttl_in_seconds"] == 90
    assert "max_topics_per_namespace" not in live(w)
    assert "DriftRepaired" not in w.reasons(Kind.NAMESPACE)
    live(w)["message_ttl_in_seconds"] = 1
    await w.run()
    if policy == "Repair":
        assert live(w)["message_ttl_in_seconds"] == 90
        assert "DriftRepaired" in w.reasons(Kind.NAMESPACE)
    else:
        assert live(w)["message_ttl_in_seconds"] == 1
        assert [each["field"] for each in w.status(Kind.NAMESPACE, "n")["drift"]] == ["policies.messageTTLSeconds"]
    w.tenant()
    await w.run()
    assert "message_ttl_in_seconds" not in live(w)
    assert "appliedDefaults" not in w.status(Kind.NAMESPACE, "n")
    assert w.status(Kind.NAMESPACE, "n").get("managedFields", []) == []
    assert await w.second_pass_writes() == ([], [])


async def test_a_field_that_moves_between_the_two_is_not_reset() -> None:
    w = await world({"messageTTLSeconds": 60})
    with w.admin.recording() as made:
        w.namespace(policies={"messageTTLSeconds": 60})
        await w.run()
        w.tenant()
        await w.run()
    assert [path for _, path in made if "t/n/" in path] == []
    assert live(w)["message_ttl_in_seconds"] == 60
    w.namespace()
    await w.run()
    assert "message_ttl_in_seconds" not in live(w)


async def test_a_refused_default_is_reported_by_the_namespace() -> None:
    w = await world({"resourceGroup": "none", "maxTopics": 10})
    assert live(w)["max_topics_per_namespace"] == 10
    assert "ResourceGroup does not exist" in w.condition(Kind.NAMESPACE, "n", "Accepted")[2]
    assert w.condition(Kind.TENANT, "t")[0] == "True"


async def test_defaults_that_cannot_be_read_stop_the_namespace_only() -> None:
    w = await world({"messageTTLSeconds": 60})
    w.tenant(namespaceDefaults={"messageTTLSeconds": "soon"})
    await w.run()
    assert w.condition(Kind.TENANT, "t")[:2] == ("False", "InvalidSpec")
    assert live(w)["message_ttl_in_seconds"] == 60
    assert w.condition(Kind.NAMESPACE, "n")[0] == "False"


def test_a_namespace_may_have_none_of_what_is_the_default() -> None:
    """A policy that is declared comes first, also as no or 0 (all as defaults: tests/support/mutations/changes.py)."""
    defaults = NamespacePolicies.model_validate({"encryptionRequired": True, "maxTopics": 10})
    policies = {"encryptionRequired": False, "maxTopics": 0}
    own = PulsarNamespaceSpec.model_validate({"tenantRef": {"name": "t"}, "policies": policies})
    assert desired_policies(own, defaults) == desired_policies(own)
    assert digest_of(defaults) not in {digest_of(own.policies), digest_of(None)}


def test_a_change_of_the_tenant_asks_for_its_namespaces() -> None:
    index = RefIndex()
    meta = {"namespace": "apps", "uid": "1", "generation": 1}
    tenant = {"metadata": {**meta, "name": "t"}, "spec": {"instanceRef": {"name": "prod"}}}
    namespace = {"metadata": {**meta, "name": "n", "uid": "2"}, "spec": {"tenantRef": {"name": "t"}}}
    index.update(Kind.TENANT, tenant)
    index.update(Kind.NAMESPACE, namespace)
    changed = {**tenant, "metadata": {**tenant["metadata"], "generation": 2}}
    assert index.update(Kind.TENANT, changed).referrers == {key_of(Kind.NAMESPACE, namespace)}


def _stored(kind: Kind, name: str, spec: dict[str, Any], generation: int = 1) -> tuple[Kind, dict[str, Any]]:
    """An object as a watch delivers it."""
    return kind, {
        "metadata": {"namespace": "apps", "name": name, "uid": f"{kind.value}-{name}", "generation": generation},
        "spec": spec,
    }


def test_a_resource_group_asks_for_the_namespaces_that_have_it_from_their_tenant() -> None:
    """A namespace waits for the group its tenant's defaults name, as for one it names itself."""
    index = RefIndex()
    index.update(*_stored(Kind.NAMESPACE, "n", {"tenantRef": {"name": "t"}}))
    index.update(*_stored(Kind.NAMESPACE, "m", {"tenantRef": {"name": "other"}}))
    tenant = {"instanceRef": {"name": "prod"}, "namespaceDefaults": {"resourceGroup": "gold"}}
    index.update(*_stored(Kind.TENANT, "t", tenant))
    group = _stored(Kind.RESOURCE_GROUP, "g", {"instanceRef": {"name": "prod"}, "name": "gold"})
    waiting = {Key(Kind.NAMESPACE, "apps", "n")}
    assert index.update(*group).referrers == waiting
    made = {**group[1], "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert index.update(Kind.RESOURCE_GROUP, made).referrers == waiting
    changed = {**tenant, "namespaceDefaults": {"resourceGroup": "silver"}}
    assert index.update(*_stored(Kind.TENANT, "t", changed, 2)).referrers == waiting
    assert index.remove(key_of(*group)).referrers == frozenset()
    silver = _stored(Kind.RESOURCE_GROUP, "silver", {"instanceRef": {"name": "prod"}})
    assert index.update(*silver).referrers == waiting


@pytest.mark.parametrize("defaults", [None, "gold", [], {"resourceGroup": {"name": "gold"}}, {"resourceGroup": None}])
def test_malformed_defaults_name_no_group(defaults: Any) -> None:
    index = RefIndex()
    index.update(*_stored(Kind.NAMESPACE, "n", {"tenantRef": {"name": "t"}}))
    index.update(*_stored(Kind.TENANT, "t", {"instanceRef": {"name": "prod"}, "namespaceDefaults": defaults}))
    assert index.update(*_stored(Kind.RESOURCE_GROUP, "gold", {})).referrers == frozenset()


async def test_a_default_group_that_appears_is_joined() -> None:
    w = await world({"resourceGroup": "gold"})
    assert w.condition(Kind.NAMESPACE, "n", "Accepted")[1] == "RejectedByPulsar"
    w.group("gold")
    await w.run()
    assert live(w)["resource_group_name"] == live(w, "other")["resource_group_name"] == "gold"
    w.group("silver")
    w.tenant(namespaceDefaults={"resourceGroup": "silver"})
    await w.run()
    assert live(w)["resource_group_name"] == live(w, "other")["resource_group_name"] == "silver"
    assert "DriftRepaired" not in w.reasons(Kind.NAMESPACE)
