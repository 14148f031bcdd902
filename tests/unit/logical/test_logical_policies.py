"""Policies through the controllers: topic policies in both scopes, what each cluster keeps, refusals, late answers."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_operator.api.constants import Kind
from pulsar_operator.domain.policies import LOCAL_POLICIES
from pulsar_operator.ports import CUSTOM, RefusedError
from tests.fakes.admin import AdminCall
from tests.fakes.pulsar_clusters import UNOWNED
from tests.fakes.pulsar_topics import GLOBAL
from tests.support.logical.world import DRY_RUN, NS, LogicalWorld

X = "persistent://t/n/x"
ENDPOINTS = {row.endpoint[-1] for row in LOCAL_POLICIES} | {"backlogQuotaMap"}
RETENTION = {"timeMinutes": 60, "size": "100Mi"}
RATE = {"messagesPerPeriod": 10}


async def world(*clusters: str, **topic: Any) -> LogicalWorld:
    """A tenant, a namespace and topic x with these fields."""
    w = LogicalWorld(*clusters)
    w.tenant()
    w.namespace()
    w.topic(**topic)
    await w.run()
    return w


def stored(w: LogicalWorld, where: str = "a") -> dict[str, Any]:
    """What a cluster, or GLOBAL, keeps of x."""
    held = w.pulsar.topic_policies.get((where, X), {})
    return {name: value for name, value in held.items() if value not in ({}, [], False)}


def policy_reads(w: LogicalWorld, since: int) -> list[str]:
    """Topic policies that were asked for."""
    return [c.path[-1] for c in w.admin.calls[since:] if c.method == "GET" and c.path[-1] in ENDPOINTS]


async def test_a_topic_policy_is_set_in_each_cluster_and_a_second_pass_writes_nothing() -> None:
    w = await world("a", "b", policies={"maxProducers": 3, "retention": RETENTION, "messageTTLSeconds": 0})
    wanted = {
        "maxProducers": 3,
        "retention": {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100},
        "messageTTL": 0,
    }
    assert {c: stored(w, c) | {"messageTTL": 0} for c in ("a", "b")} == {"a": wanted, "b": wanted}
    assert stored(w, GLOBAL) == {}
    assert w.condition(Kind.TOPIC, "x")[:2] == ("True", "Ready")
    fields = ["policies.maxProducers", "policies.messageTTLSeconds", "policies.retention"]
    assert w.status(Kind.TOPIC, "x")["managedFields"] == fields
    assert await w.second_pass_writes() == ([], [])


async def test_only_managed_policies_are_read() -> None:
    """One GET for each, whatever else Pulsar has."""
    w = await world(partitions=2)
    start = len(w.admin.calls)
    await w.reconcile(Kind.TOPIC, "x")
    assert policy_reads(w, start) == []
    quotas = {"messageAge": {"limitSeconds": 5, "policy": "ProducerException"}}
    quotas["destinationStorage"] = {"limit": 5, "policy": "ProducerException"}
    w.topic(partitions=2, policies={"maxProducers": 3, "backlogQuotas": quotas})
    await w.run()
    start = len(w.admin.calls)
    await w.reconcile(Kind.TOPIC, "x")
    assert sorted(policy_reads(w, start)) == ["backlogQuotaMap", "maxProducers"], "both quotas are in one answer"


async def test_a_removed_topic_policy_is_reset_and_undeclared_ones_stay() -> None:
    w = await world(policies={"maxProducers": 3, "schema": {"validationEnforced": True}})
    w.pulsar.topic_policies["a", X]["maxConsumers"] = 9
    w.topic(policies={})
    await w.run()
    assert stored(w) == {"maxConsumers": 9}
    assert "managedFields" not in w.status(Kind.TOPIC, "x") or w.status(Kind.TOPIC, "x")["managedFields"] == []
    assert w.condition(Kind.TOPIC, "x")[0] == "True"


async def test_with_an_empty_status_no_topic_policy_is_reset() -> None:
    w = await world(policies={"maxProducers": 3})
    w.kube.set_status(CUSTOM[Kind.TOPIC], NS, "x", {})
    w.topic(policies={})
    await w.run()
    assert stored(w) == {"maxProducers": 3}


async def test_a_change_of_scope_moves_the_policies_without_a_gap() -> None:
    policies = {"maxProducers": 3, "dispatchRate": RATE, "schema": {"compatibilityStrategy": "Full"}}
    w = await world("a", "b", policies=policies)
    with w.admin.recording() as made:
        w.topic(policies=policies, policyScope="Global")
        await w.run()
    assert sorted(stored(w, GLOBAL)) == ["dispatchRate", "maxProducers"]
    assert stored(w, "a") == stored(w, "b") == {"schemaCompatibilityStrategy": "FULL"}, "Pulsar has no global one"
    assert [method for method, _ in made] == ["POST"] * 2 + ["DELETE"] * 4
    assert w.status(Kind.TOPIC, "x")["managedFields"] == [
        "policies.dispatchRate@Global",
        "policies.maxProducers@Global",
        "policies.schema.compatibilityStrategy",
    ]
    assert await w.second_pass_writes() == ([], [])
    w.topic(policies=policies)
    await w.run()
    assert stored(w, GLOBAL) == {}
    assert sorted(stored(w, "b")) == ["dispatchRate", "maxProducers", "schemaCompatibilityStrategy"]


@pytest.mark.parametrize("policy", ["Repair", "Report"])
@pytest.mark.parametrize("scope", ["Local", "Global"])
async def test_drift_of_a_topic_policy(policy: str, scope: str) -> None:
    w = await world("a", "b", policies={"maxProducers": 3}, driftPolicy=policy, policyScope=scope)
    where = GLOBAL if scope == "Global" else "b"
    w.pulsar.topic_policies[where, X]["maxProducers"] = 8
    await w.run()
    if policy == "Repair":
        assert stored(w, where)["maxProducers"] == 3
        assert "DriftRepaired" in w.reasons(Kind.TOPIC)
        return
    assert stored(w, where)["maxProducers"] == 8
    (entry,) = w.status(Kind.TOPIC, "x")["drift"]
    name = "policies.maxProducers" + ("@Global" if scope == "Global" else "")
    assert (entry["field"], entry["desired"]) == (name, "3")
    assert entry["actual"] == ("8 in cluster a" if scope == "Global" else "8 in cluster b")
    assert w.condition(Kind.TOPIC, "x", "Drifted")[1] == "DriftDetected"


async def test_what_arrives_late_is_waited_for_ever_more_rarely() -> None:
    w = await world(policies={"maxConsumers": 1})
    w.topic(policies={"maxConsumers": 1, "maxProducers": 3})
    w.pulsar.late["maxProducers"] = [None] * 6
    first = await w.reconcile(Kind.TOPIC, "x")
    assert (first.requeue_after, first.backoff) == (2.0, False)
    assert w.condition(Kind.TOPIC, "x")[:2] == ("False", "Pending")
    assert "policies.maxProducers" in w.status(Kind.TOPIC, "x")["managedFields"], "before the first write"
    assert (await w.reconcile(Kind.TOPIC, "x")).backoff
    w.pulsar.late.clear()
    outcome = await w.reconcile(Kind.TOPIC, "x")
    assert (outcome.requeue_after, outcome.backoff) == (None, False)
    assert w.condition(Kind.TOPIC, "x")[0] == "True"
    assert "DriftRepaired" not in w.reasons(Kind.TOPIC), "late is no drift"


async def test_a_refused_topic_policy_does_not_stop_the_others() -> None:
    w = await world(policies={"entryFilters": ["none"], "maxProducers": 3, "schema": {"validationEnforced": True}})
    assert stored(w) == {"maxProducers": 3, "schemaValidationEnforced": True}
    status, reason, message = w.condition(Kind.TOPIC, "x", "Accepted")
    assert (status, reason) == ("False", "RejectedByPulsar")
    assert "spec.policies.entryFilters" in message
    assert "Entry filter 'none' not found" in message
    assert w.status(Kind.TOPIC, "x")["refusedFields"] == ["policies.entryFilters"]
    assert "policies.entryFilters" not in w.status(Kind.TOPIC, "x")["managedFields"]
    with w.admin.recording() as made:
        assert ((await w.reconcile(Kind.TOPIC, "x")).requeue_after or 0) >= 2
    assert [path.rsplit("/", 1)[1] for _, path in made] == ["entryFilters"], "only what was refused is tried again"


@pytest.mark.parametrize("cluster", ["a", "b"])
async def test_a_refusal_of_one_cluster_is_not_lost_in_the_consent_of_another(cluster: str) -> None:
    w = await world("a", "b")

    def refuse(call: AdminCall) -> None:
        if call.is_write and call.cluster == cluster and call.path[-1] == "maxProducers":
            raise RefusedError(f"not in {cluster}", status=412)

    w.admin.before.append(refuse)
    w.topic(policies={"maxProducers": 3, "maxConsumers": 4})
    await w.run()
    assert stored(w, cluster) == {"maxConsumers": 4}
    assert stored(w, "b" if cluster == "a" else "a") == {"maxConsumers": 4, "maxProducers": 3}
    status, _, message = w.condition(Kind.TOPIC, "x", "Accepted")
    assert (status, f"not in {cluster}" in message) == ("False", True)
    del w.admin.before[:]
    w.topic(policies={"maxConsumers": 4})
    await w.run()
    assert stored(w, "a") == stored(w, "b") == {"maxConsumers": 4}


async def test_a_topic_that_no_broker_has_just_now_is_waited_for_and_not_refused() -> None:
    """Pulsar's 412 of a bundle that is on its way to another broker says nothing about the specification."""
    w = await world(policies={"maxProducers": 3})
    w.pulsar.unowned.add(X)
    w.topic(policies={"maxProducers": 4})
    outcome = await w.reconcile(Kind.TOPIC, "x")
    assert outcome.requeue_after == 15.0
    status, reason, message = w.condition(Kind.TOPIC, "x")
    assert (status, reason) == ("Unknown", "AdminUnreachable")
    assert f"unknown (a: GET /persistent/t/n/x/maxProducers: HTTP 412: {UNOWNED}:{X}" in message
    assert w.condition(Kind.TOPIC, "x", "Accepted")[0] == "True"
    assert w.status(Kind.TOPIC, "x").get("refusedFields", []) == []
    assert "RejectedByPulsar" not in w.reasons(Kind.TOPIC)
    w.pulsar.unowned.clear()
    await w.run()
    assert w.condition(Kind.TOPIC, "x")[:2] == ("True", "Ready")
    assert stored(w) == {"maxProducers": 4}


async def test_a_topic_that_no_broker_has_when_it_is_written_to_is_waited_for() -> None:
    """It left its broker after it was read."""
    w = await world(policies={"maxProducers": 3})

    def leaves(call: AdminCall) -> None:
        if call.is_write:
            w.pulsar.unowned.add(X)

    w.admin.before.append(leaves)
    w.topic(policies={"maxProducers": 4})
    outcome = await w.reconcile(Kind.TOPIC, "x")
    assert outcome.backoff
    for which in ("Ready", "Accepted"):
        status, reason, message = w.condition(Kind.TOPIC, "x", which)
        assert (status, reason) == ("Unknown", "AdminUnreachable")
        assert f"HTTP 412: {UNOWNED}:{X}" in message
    assert w.status(Kind.TOPIC, "x").get("refusedFields", []) == []
    assert "RejectedByPulsar" not in w.reasons(Kind.TOPIC)
    w.admin.before.clear()
    w.pulsar.unowned.clear()
    await w.run()
    assert w.condition(Kind.TOPIC, "x")[:2] == ("True", "Ready")
    assert stored(w) == {"maxProducers": 4}


async def test_a_refusal_that_may_come_from_late_policies_is_checked_again() -> None:
    """Retention is judged by the quota Pulsar has seen so far."""
    w = LogicalWorld()
    w.tenant()
    w.namespace()
    w.topic(policies={"retention": RETENTION, "entryFilters": ["none"]})
    await w.reconcile(Kind.TENANT, "t")
    await w.reconcile(Kind.NAMESPACE, "n")
    outcomes = [await w.reconcile(Kind.TOPIC, "x") for _ in range(40)]
    assert outcomes[0].requeue_after == 2.0
    assert (outcomes[-1].requeue_after or 0) > 10, "ever more rarely"


async def test_refused_namespace_policies_do_not_stop_the_others() -> None:
    w = LogicalWorld()
    w.tenant()
    policies = {
        "resourceGroup": "none",
        "entryFilters": ["none"],
        "antiAffinityGroup": "g",
        "encryptionRequired": True,
        "dispatcherPauseOnAckStatePersistent": True,
    }
    w.namespace(policies=policies)
    await w.run()
    live = w.pulsar.namespaces["t/n"]
    assert live["encryption_required"] is True
    assert live["dispatcherPauseOnAckStatePersistentEnabled"] is True
    assert w.pulsar.local["a"]["t/n"] == {"antiAffinity": "g"}
    message = w.condition(Kind.NAMESPACE, "n", "Accepted")[2]
    assert "ResourceGroup does not exist" in message
    assert "Entry filter 'none' not found" in message
    w.pulsar.resource_groups.add("none")
    w.namespace(policies={k: v for k, v in policies.items() if k != "entryFilters"})
    await w.run()
    assert live["resource_group_name"] == "none"
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"
    w.namespace(policies={})
    await w.run()
    assert "resource_group_name" not in live
    assert live["encryption_required"] is False
    assert live["dispatcherPauseOnAckStatePersistentEnabled"] is False
    assert w.pulsar.local["a"]["t/n"] == {}
    assert await w.second_pass_writes() == ([], [])


async def test_what_a_cluster_keeps_is_set_in_each_and_a_silent_one_is_not_forgotten() -> None:
    w = LogicalWorld("a", "b")
    w.tenant()
    w.namespace(policies={"dispatchRate": RATE, "antiAffinityGroup": "g"})
    await w.run()
    assert set(w.pulsar.namespaces["t/n"]["topicDispatchRate"]) == {"a", "b"}
    assert [w.pulsar.local[c]["t/n"] for c in ("a", "b")] == [{"antiAffinity": "g"}] * 2
    assert await w.second_pass_writes() == ([], [])
    w.admin.down = {"b"}
    w.namespace(policies={})
    await w.run()
    assert set(w.pulsar.namespaces["t/n"]["topicDispatchRate"]) == {"b"}
    status, reason, message = w.condition(Kind.NAMESPACE, "n")
    assert (status, reason) == ("Unknown", "AdminUnreachable")
    assert "its state in the other clusters is unknown (b: " in message
    assert w.status(Kind.NAMESPACE, "n")["managedFields"] == ["policies.antiAffinityGroup", "policies.dispatchRate"]
    w.admin.down = set()
    await w.run()
    assert w.pulsar.namespaces["t/n"]["topicDispatchRate"] == {}
    assert w.pulsar.local["b"]["t/n"] == {}
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"


async def test_topic_policies_that_are_switched_off_are_reported() -> None:
    w = await world(policies={"maxConsumers": 1})
    w.pulsar.refuse_reads["maxProducers"] = "Topic level policies is disabled"
    w.topic(policies={"maxConsumers": 2, "maxProducers": 3})
    await w.run()
    assert stored(w) == {"maxConsumers": 2}
    status, _, message = w.condition(Kind.TOPIC, "x", "Accepted")
    assert status == "False"
    assert "spec.policies.maxProducers cannot be read" in message
    assert "Topic level policies is disabled" in message


async def test_dry_run_names_topic_policies() -> None:
    w = await world()
    w.topic(policies={"maxProducers": 3}, annotations=DRY_RUN)
    await w.run()
    assert stored(w) == {}
    assert w.status(Kind.TOPIC, "x")["pendingActions"] == [
        "Set spec.policies.maxProducers to 3 (was not set in cluster a)"
    ]


async def test_a_policy_of_a_newer_pulsar_is_refused_by_name() -> None:
    w = LogicalWorld()
    w.tenant()
    w.namespace(policies={"allowedTopicPropertyKeysForMetrics": ["team"], "maxTopics": 3})
    w.topic(policies={"subscriptionExpirationMinutes": 5, "maxProducers": 3})
    await w.run()
    for kind, name, field in (
        (Kind.NAMESPACE, "n", "allowedTopicPropertyKeysForMetrics"),
        (Kind.TOPIC, "x", "subscriptionExpirationMinutes"),
    ):
        status, reason, message = w.condition(kind, name, "Accepted")
        assert (status, reason) == ("False", "RejectedByPulsar")
        assert (
            f"spec.policies.{field} is not applied, because it requires Pulsar 4.2.0 or later and the cluster runs "
            "4.0.8" in message
        )
    assert w.pulsar.namespaces["t/n"]["max_topics_per_namespace"] == 3, "the rest converges"
    assert w.pulsar.topic_policies["a", "persistent://t/n/x"]["maxProducers"] == 3


OFFLOAD = {"driver": "AwsS3", "bucket": "b"}
NO_DRIVER = "is not applied, because no image of this version has an offload driver, which tiered storage requires"


async def test_offload_is_refused_and_the_other_policies_are_applied() -> None:
    """With a driver that no broker has, Pulsar would take the policy, and topics could not be loaded any more."""
    w = LogicalWorld()
    w.tenant()
    w.namespace(policies={"offload": OFFLOAD, "maxTopics": 7})
    w.topic(policies={"offload": OFFLOAD, "maxProducers": 3})
    await w.run()
    for kind, name in ((Kind.NAMESPACE, "n"), (Kind.TOPIC, "x")):
        status, reason, message = w.condition(kind, name, "Accepted")
        assert (status, reason) == ("False", "NotSupported")
        assert f"spec.policies.offload {NO_DRIVER}. Remove the field" in message
    assert w.pulsar.namespaces["t/n"]["max_topics_per_namespace"] == 7
    assert "offload_policies" not in w.pulsar.namespaces["t/n"]
    assert stored(w) == {"maxProducers": 3}
    assert await w.second_pass_writes() == ([], [])


async def test_offload_in_the_defaults_of_a_tenant_is_refused_at_its_namespaces() -> None:
    w = LogicalWorld()
    w.tenant(namespaceDefaults={"offload": OFFLOAD, "maxTopics": 7})
    w.namespace()
    await w.run()
    assert NO_DRIVER in w.condition(Kind.NAMESPACE, "n", "Accepted")[2]
    assert w.pulsar.namespaces["t/n"]["max_topics_per_namespace"] == 7
    assert "offload_policies" not in w.pulsar.namespaces["t/n"]


async def test_an_offload_policy_from_before_goes_with_the_field() -> None:
    """An older operator wrote it; it stays while it is declared, since nobody asked for its end."""
    w = LogicalWorld()
    w.tenant()
    w.namespace(policies={"maxTopics": 7})
    await w.run()
    live = {"managedLedgerOffloadDriver": "aws-s3", "managedLedgerOffloadBucket": "b"}
    w.pulsar.namespaces["t/n"]["offload_policies"] = dict(live)
    found = w.get(Kind.NAMESPACE, "n")
    assert found is not None
    status = {**found["status"], "managedFields": ["policies.maxTopics", "policies.offload"]}
    w.kube.set_status(CUSTOM[Kind.NAMESPACE], NS, "n", status)
    w.namespace(policies={"maxTopics": 8, "offload": OFFLOAD})
    await w.run()
    assert w.pulsar.namespaces["t/n"]["offload_policies"] == live
    assert w.pulsar.namespaces["t/n"]["max_topics_per_namespace"] == 8
    assert "policies.offload" in w.status(Kind.NAMESPACE, "n")["managedFields"]
    w.namespace(policies={"maxTopics": 8})
    await w.run()
    assert not w.pulsar.namespaces["t/n"].get("offload_policies")
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"
