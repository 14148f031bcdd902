"""Messages of the logical plane: each obstacle names an object or field, and what somebody does about it.

The scenarios play what leads to a reason, so that the messages are those of the code. A reason of the logical plane
that is in neither table fails ``test_every_reason_is_in_a_table``.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pulsar_operator import controllers, domain
from pulsar_operator.api.constants import Kind, Reason
from pulsar_operator.api.v1alpha1 import MODELS
from pulsar_operator.ports import CUSTOM
from tests.fakes.pulsar_parts import FakeTopic
from tests.support.logical.isolation import B
from tests.support.logical.topic_sets import SetWorld, count
from tests.support.logical.world import DRY_RUN, NS, PAUSED, LogicalWorld

X = "persistent://t/n/x"
OBJECT = re.compile(
    r"spec\.[a-zA-Z]+|Pulsar[A-Z]\w+ [\w-]+/[\w-]+|kubectl -n \S+ [-\w ]+ pulsar\w+/\S+|\bt/n\b|cluster \w+|topic \w+"
)
REMEDY = re.compile(
    r"kubectl -n \S+ (?:patch|annotate|describe|delete)|pulsar-admin \w+|\b(?:[Aa]dd|[Cc]onfirm|[Cc]orrect"
    r"|[Cc]onsume|[Cc]reate|[Dd]eclare|[Dd]elete|[Rr]emove|[Rr]eplace|[Rr]estart|[Ss]et|[Ss]tart|[Ss]top|[Tt]ake|[Uu]pgrade"
    r"|[Ww]ait until|[Uu]se|[Cc]hange) "
)
PLAIN = frozenset(
    {
        Reason.READY, Reason.VALID, Reason.IN_SYNC, Reason.BROKERS_SHARED, Reason.NOT_APPLICABLE,
        Reason.CREATED, Reason.CHANGED, Reason.ADOPTED, Reason.REPAIRED, Reason.DRIFT_REPAIRED, Reason.DELETED,
        Reason.FINALIZER_RELEASED, Reason.HANDED_OVER, Reason.COMPACTION_TRIGGERED,
        # The operator goes on, and nobody need do anything.
        Reason.PENDING, Reason.DELETING, Reason.WAITING_FOR_CLUSTERS,
        # An event about an object that is let go: there is nothing left to act on.
        Reason.PARENT_DELETED,
    }
)  # fmt: skip
"""Reasons of what is well, or goes on without anybody."""

Scenario = Callable[[], Awaitable[LogicalWorld]]


async def _made(*clusters: str, **namespace: Any) -> LogicalWorld:
    w = LogicalWorld(*clusters)
    w.tenant()
    w.namespace(**namespace)
    await w.run()
    return w


async def _invalid() -> LogicalWorld:
    w = LogicalWorld()
    w.put(Kind.TENANT, "t", {"adminRoles": 3})
    return w


async def _unknown_cluster() -> LogicalWorld:
    w = await _made("a")
    w.namespace(replicationClusters=["a", "wset"])
    return w


async def _no_reference() -> LogicalWorld:
    w = LogicalWorld()
    w.namespace(tenant="nobody")
    return w


async def _not_allowed() -> LogicalWorld:
    w = LogicalWorld()
    w.put(Kind.TENANT, "t", {"instanceRef": {"name": "prod", "namespace": NS}}, ns="other")
    return w


async def _parent() -> LogicalWorld:
    w = LogicalWorld()
    w.put(Kind.TENANT, "t", {"adminRoles": 3})
    w.namespace()
    return w


async def _duplicate() -> LogicalWorld:
    w = LogicalWorld()
    w.tenant()
    await w.run()
    w.tenant("second", name="t")
    return w


async def _paused() -> LogicalWorld:
    w = LogicalWorld()
    w.tenant(annotations=PAUSED)
    return w


async def _dry_run() -> LogicalWorld:
    w = LogicalWorld()
    w.tenant(annotations=DRY_RUN)
    return w


async def _store_away() -> LogicalWorld:
    w = LogicalWorld()
    away = {"type": "ConfigurationStoreAvailable", "status": "False", "reason": "X", "message": "no answer"}
    ready = {"type": "ConfigurationStoreReady", "status": "False", "reason": "X", "message": "no answer"}
    w.kube.set_status(CUSTOM[Kind.INSTANCE], NS, "prod", {"conditions": [away, ready]})
    w.tenant()
    return w


async def _silent() -> LogicalWorld:
    w = await _made("a", "b")
    w.admin.down = {"b"}
    w.topic()
    return w


async def _deletion_of_silent() -> LogicalWorld:
    w = await _made("a", "b", deletionPolicy="Delete")
    w.cluster_status("b", ready=False)
    w.delete(Kind.NAMESPACE, "n")
    return w


async def _refused() -> LogicalWorld:
    w = LogicalWorld("a", "b")
    w.tenant(allowedClusters=["a"])
    w.namespace(replicationClusters=["a"])
    await w.run()
    w.namespace(replicationClusters=["a", "b"])
    return w


async def _not_supported() -> LogicalWorld:
    return await _made(policies={"offload": {"driver": "AwsS3", "bucket": "b"}})


async def _not_empty() -> LogicalWorld:
    w = await _made(deletionPolicy="Delete")
    w.pulsar.topics.setdefault("a", {})[X] = FakeTopic()
    w.delete(Kind.NAMESPACE, "n")
    return w


async def _tenant_not_empty() -> LogicalWorld:
    w = LogicalWorld()
    w.tenant(deletionPolicy="Delete")
    await w.run()
    w.pulsar.namespaces["t/other"] = {"replication_clusters": ["a"]}
    w.delete(Kind.TENANT, "t")
    return w


async def _dependents() -> LogicalWorld:
    w = await _made(deletionPolicy="ForceDelete")
    w.topic()
    await w.run()
    w.delete(Kind.NAMESPACE, "n")
    return w


async def _in_use() -> LogicalWorld:
    w = LogicalWorld()
    w.group(limits={"publishRate": {"messagesPerSecond": 3}}, deletionPolicy="Delete")
    w.tenant()
    w.namespace(policies={"resourceGroup": "g"})
    await w.run()
    w.delete(Kind.RESOURCE_GROUP, "g")
    return w


async def _unfinished() -> LogicalWorld:
    w = await _made()
    w.pulsar.namespaces["t/n"]["deleted"] = True
    return w


async def _fenced() -> LogicalWorld:
    w = await _made()
    w.topic(deletionPolicy="Delete")
    await w.run()
    w.pulsar.fenced = {X}
    w.delete(Kind.TOPIC, "x")
    return w


async def _immutable() -> LogicalWorld:
    w = await _made()
    w.pulsar.partitioned[X] = 3
    w.topic()
    return w


async def _shrunk() -> LogicalWorld:
    w = await _made()
    w.topic(partitions=2)
    await w.run()
    w.pulsar.partitioned[X] = 9
    return w


async def _reported() -> LogicalWorld:
    w = await _made(policies={"maxTopics": 3}, driftPolicy="Report")
    w.pulsar.namespaces["t/n"]["max_topics_per_namespace"] = 4
    return w


async def _fought() -> LogicalWorld:
    w = await _made(policies={"maxTopics": 3})
    for _ in range(6):
        w.pulsar.namespaces["t/n"]["max_topics_per_namespace"] = 4
        await w.reconcile(Kind.NAMESPACE, "n")
    return w


async def _leaves() -> LogicalWorld:
    w = await _made("a", "b", replicationClusters=["a", "b"], allowedClusters=["a", "b"])
    w.namespace(replicationClusters=["a"], allowedClusters=["a"])
    return w


async def _undelivered() -> LogicalWorld:
    w = await _made("a", "b", replicationClusters=["a", "b"], allowedClusters=["a", "b"])
    w.pulsar.topics.setdefault("a", {})[X] = FakeTopic(entries=100, undelivered={"b": 12})
    w.namespace(replicationClusters=["a"], allowedClusters=["a", "b"])
    return w


async def _many_leave() -> LogicalWorld:
    w = await SetWorld.made()
    w.topics("s", **count(300, deletionPolicy="Delete"))
    await w.work()
    w.topics("s", **count(20, deletionPolicy="Delete"))
    await w.work()
    return w


async def _no_match() -> LogicalWorld:
    w = LogicalWorld()
    w.isolation(namespaces=["shop/.*"], primary=["a-broker-7.*"])
    return w


async def _none_for_others() -> LogicalWorld:
    w = LogicalWorld()
    w.pulsar.tenants["bank"] = {"adminRoles": [], "allowedClusters": ["a"]}
    w.pulsar.namespaces["bank/x"] = {"replication_clusters": ["a"]}
    w.pulsar.live_brokers["a"] = B[:2]
    w.isolation(namespaces=["shop/.*"], primary=[".*"])
    return w


async def _unevaluated() -> LogicalWorld:
    w = LogicalWorld()
    w.pulsar.live_brokers["a"] = B[:2]
    w.pulsar.isolation["a"] = {"other": {"namespaces": ["(?!bank/).*"], "primary": ["x.*"], "secondary": []}}
    w.isolation(namespaces=["shop/.*"], primary=["b-0.*"])
    return w


TABLE: list[tuple[Reason, Scenario]] = [
    (Reason.INVALID_SPEC, _invalid),
    (Reason.INVALID_SPEC, _unknown_cluster),
    (Reason.REFERENCE_NOT_FOUND, _no_reference),
    (Reason.REFERENCE_NOT_ALLOWED, _not_allowed),
    (Reason.PARENT_NOT_READY, _parent),
    (Reason.DUPLICATE, _duplicate),
    (Reason.PAUSED, _paused),
    (Reason.DRY_RUN, _dry_run),
    (Reason.CONFIGURATION_STORE_UNAVAILABLE, _store_away),
    (Reason.ADMIN_UNREACHABLE, _silent),
    (Reason.ADMIN_UNREACHABLE, _deletion_of_silent),
    (Reason.REJECTED_BY_PULSAR, _refused),
    (Reason.NOT_SUPPORTED, _not_supported),
    (Reason.NOT_EMPTY, _not_empty),
    (Reason.NOT_EMPTY, _tenant_not_empty),
    (Reason.DEPENDENTS_EXIST, _dependents),
    (Reason.IN_USE, _in_use),
    (Reason.DELETION_UNFINISHED, _unfinished),
    (Reason.TOPIC_FENCED, _fenced),
    (Reason.IMMUTABLE_IN_PULSAR, _immutable),
    (Reason.IMMUTABLE_IN_PULSAR, _shrunk),
    (Reason.DRIFT_DETECTED, _reported),
    (Reason.CONFLICTING_WRITER, _fought),
    (Reason.CONFIRMATION_REQUIRED, _leaves),
    (Reason.WAITING_FOR_REPLICATION, _undelivered),
    (Reason.WAITING_FOR_CONFIRMATION, _many_leave),
    (Reason.NO_BROKER_MATCHES, _no_match),
    (Reason.NO_BROKERS_FOR_OTHERS, _none_for_others),
    (Reason.EXPRESSION_NOT_EVALUATED, _unevaluated),
]


def _messages(w: LogicalWorld, reason: Reason) -> set[str]:
    """Of all conditions with the reason."""
    found: set[str] = set()
    for kind in MODELS:
        for obj in w.kube.all(CUSTOM[kind]):
            conditions = (obj.get("status") or {}).get("conditions") or []
            found |= {each["message"] for each in conditions if each.get("reason") == reason.value}
    return found


@pytest.mark.parametrize(("reason", "scenario"), TABLE, ids=[f"{r.value}{f.__name__}" for r, f in TABLE])
async def test_a_message_names_what_is_in_the_way_and_what_helps(reason: Reason, scenario: Scenario) -> None:
    w = await scenario()
    await w.run()
    messages = _messages(w, reason)
    assert messages
    for message in messages:
        assert OBJECT.search(message), message
        assert REMEDY.search(message), message


def test_every_reason_is_in_a_table() -> None:
    folders = [(controllers, "logical"), (controllers, "topicset"), (domain, "logical")]
    files = [f for package, name in folders for f in (Path(package.__path__[0]) / name).glob("*.py")]
    files.append(Path(controllers.__path__[0]) / "core" / "reconcile.py")
    used = {Reason[name] for f in files for name in re.findall(r"\bReason\.([A-Z_]+)", f.read_text(encoding="utf-8"))}
    assert used == PLAIN | {reason for reason, _ in TABLE}


async def test_a_deletion_names_the_cluster_that_it_waits_for_and_how_to_end_it() -> None:
    w = await _deletion_of_silent()
    await w.run()
    status, reason, message = w.condition(Kind.NAMESPACE, "n", "DeletionBlocked")
    assert (status, reason) == ("True", "AdminUnreachable")
    assert (
        message.startswith("The deletion waits until cluster b answers. ")
        and "Cluster b has no ready brokers" in message
    )
    assert f"kubectl -n {NS} describe pulsarcluster/b" in message
    assert """-p '{"spec":{"deletionPolicy":"Retain"}}'""" in message


@pytest.mark.parametrize("declared", [["a"], None])
async def test_a_cluster_that_the_tenant_may_not_use_names_the_tenant(declared: list[str] | None) -> None:
    w = LogicalWorld("a", "b")
    w.put(Kind.INSTANCE, "prod", {**INSTANCE, "allowedKubernetesNamespaces": ["platform"]})
    w.put(Kind.TENANT, "t", {**_tenant_spec(declared), "allowedKubernetesNamespaces": [NS]}, ns="platform")
    w.put(Kind.NAMESPACE, "n", {"tenantRef": {"name": "t", "namespace": "platform"}, "replicationClusters": ["a"]})
    await w.run()
    w.pulsar.tenants["t"]["allowedClusters"] = ["a"]
    w.put(Kind.NAMESPACE, "n", {"tenantRef": {"name": "t", "namespace": "platform"}, "replicationClusters": ["a", "b"]})
    await w.reconcile(Kind.NAMESPACE, "n")
    status, reason, message = w.condition(Kind.NAMESPACE, "n", "Accepted")
    assert (status, reason) == ("False", "RejectedByPulsar")
    assert "PulsarTenant platform/t" in message
    patch = """kubectl -n platform patch pulsartenant/t --type merge -p '{"spec":{"allowedClusters":["a","b"]}}'"""
    assert (patch in message) is (declared is not None)
    assert ("describe pulsartenant/t" in message) is (declared is None)


PROD = {"name": "prod", "namespace": NS}
INSTANCE = {"configurationStore": {"external": {"servers": "zk:2181"}}}


def _tenant_spec(declared: list[str] | None) -> dict[str, Any]:
    return {"instanceRef": PROD} | ({"allowedClusters": declared} if declared else {})


async def test_a_cluster_of_the_namespace_that_is_none_of_the_instance_is_called_that() -> None:
    w = await _made("a")
    w.pulsar.namespaces["t/n"]["replication_clusters"] = ["a", "west"]
    w.topic()
    await w.reconcile(Kind.TOPIC, "x")
    _, reason, message = w.condition(Kind.TOPIC, "x")
    assert reason == "AdminUnreachable" and "not asked" not in message
    assert f"west is not one of the clusters of PulsarInstance {NS}/prod (a)." in message
    assert "a PulsarCluster whose spec.clusterName is west" in message


@pytest.mark.parametrize("kind", list(MODELS))
def test_no_rule_says_to_delete_an_object_without_keeping_its_data(kind: Kind) -> None:
    text = str(MODELS[kind].spec.model_json_schema())
    assert "delete and recreate" not in text
    for message in re.findall(r"is immutable \([^)]*\): ([^'\"]*)", text):
        assert "Retain, delete the object" in message or "create another" in message, message
