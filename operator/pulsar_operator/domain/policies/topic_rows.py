"""Policies of topics. Each has its own GET with ``applied=false``, so only managed ones are read.

Source: class PersistentTopics of the broker's admin v2 and class TopicPolicies (Pulsar 4.0), checked against a running
4.0.8 by tests/standalone/test_policies_real.py. The order of the rows is that of their first application.

Pulsar has two sets of topic policies: the local one, which is specific to each cluster and takes precedence, and the
global one, which is replicated to all clusters of the namespace. Each has its own row, marked by "@Global".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pulsar_operator.api.v1alpha1.policies import PolicyScope
from pulsar_operator.domain.policies import codecs, kept
from pulsar_operator.domain.policies.codecs import Codec
from pulsar_operator.domain.policies.model import PolicyRow, Scope
from pulsar_operator.domain.policies.namespace_rows import NO_FILTER
from pulsar_operator.domain.policies.offload import NO_DRIVER, OFFLOAD

IS_GLOBAL = "isGlobal"
CLUSTERS = "replicationClusters"
"""The row that is not a member of spec.policies, but of spec, as for namespaces."""


def _row(field: str, endpoint: str, codec: Codec, **more: Any) -> PolicyRow:
    """Returns a row of the local set. A ``query`` without isGlobal means that Pulsar has only one set for it."""
    return PolicyRow(
        scope=Scope.TOPIC,
        field=field if field == CLUSTERS else f"policies.{field}",
        endpoint=(endpoint,),
        encode=codec.encode,
        decode=codec.decode,
        equal=codec.equal,
        own_get=True,
        per_cluster=True,
        **{"query": {IS_GLOBAL: "false"}, **more},
    )


def _with_itself(desired: Sequence[str], cluster: str | None) -> list[str]:
    """Returns the list if it contains the cluster, otherwise the cluster alone, so that it keeps the topic for itself.

    Pulsar accepts no local list without its own cluster, and a broker deletes the topic if the effective list lacks its
    cluster (class PersistentTopic, checkReplication).
    """
    return list(desired) if cluster is None or cluster in desired else [cluster]


def _quota(field: str, kind: str, codec: Codec, keeps: kept.Keeps) -> PolicyRow:
    return _row(
        f"backlogQuotas.{field}",
        "backlogQuota",
        codec,
        read_endpoint=("backlogQuotaMap",),
        live=(kind,),
        write_query={"backlogQuotaType": kind},
        keeps=keeps,
    )


LOCAL_POLICIES: tuple[PolicyRow, ...] = (
    # Pulsar compares retention with the quotas of the topic, or with the namespace's where the topic has none.
    _quota("destinationStorage", "destination_storage", codecs.STORAGE_QUOTA, kept.STORAGE_QUOTA),
    _quota("messageAge", "message_age", codecs.AGE_QUOTA, kept.AGE_QUOTA),
    _row("retention", "retention", codecs.RETENTION, keeps=kept.RETENTION),
    _row("messageTTLSeconds", "messageTTL", codecs.SECONDS, value_in_query="messageTTL", keeps=kept.TTL),
    _row("compactionThreshold", "compactionThreshold", codecs.SIZE),
    _row("publishRate", "publishRate", codecs.PUBLISH_RATE),
    _row("dispatchRate", "dispatchRate", codecs.DISPATCH_RATE),
    _row("subscriptionDispatchRate", "subscriptionDispatchRate", codecs.DISPATCH_RATE),
    _row("replicatorDispatchRate", "replicatorDispatchRate", codecs.DISPATCH_RATE),
    _row("subscribeRate", "subscribeRate", codecs.SUBSCRIBE_RATE),
    _row("persistence", "persistence", codecs.PERSISTENCE),
    _row("offload", "offloadPolicies", OFFLOAD, unavailable=NO_DRIVER, keeps=kept.OFFLOAD),
    _row("deduplication.enabled", "deduplicationEnabled", codecs.FLAG),
    _row("deduplication.snapshotIntervalSeconds", "deduplicationSnapshotInterval", codecs.SECONDS),
    _row("delayedDelivery", "delayedDelivery", codecs.DELAYED_DELIVERY),
    _row(
        "autoSubscriptionCreation",
        "autoSubscriptionCreation",
        codecs.AUTO_SUBSCRIPTION_CREATION,
        set_decodes_twice=True,
    ),
    _row("inactiveTopics", "inactiveTopicPolicies", codecs.INACTIVE_TOPICS, keeps=kept.INACTIVE_TOPICS),
    _row("maxProducers", "maxProducers", codecs.LIMIT),
    _row("maxConsumers", "maxConsumers", codecs.LIMIT),
    _row("maxConsumersPerSubscription", "maxConsumersPerSubscription", codecs.LIMIT),
    _row("maxSubscriptions", "maxSubscriptionsPerTopic", codecs.LIMIT),
    _row("maxUnackedMessagesPerConsumer", "maxUnackedMessagesOnConsumer", codecs.LIMIT),
    _row("maxUnackedMessagesPerSubscription", "maxUnackedMessagesOnSubscription", codecs.LIMIT),
    _row("maxMessageSize", "maxMessageSize", codecs.LIMIT),
    # Pulsar ignores isGlobal for the schema policies and for shadow topics (seen on 4.0.8).
    _row(
        "schema.compatibilityStrategy",
        "schemaCompatibilityStrategy",
        codecs.SCHEMA_COMPATIBILITY,
        set_method="PUT",
        query={},
    ),
    _row(
        "schema.validationEnforced",
        "schemaValidationEnforced",
        codecs.FLAG,
        remove_body=False,
        unset=False,
        query={},
    ),
    _row("subscriptionTypesEnabled", "subscriptionTypesEnabled", codecs.SUBSCRIPTION_TYPES),
    _row("entryFilters", "entryFilters", codecs.ENTRY_FILTERS, refused_without=NO_FILTER),
    _row(
        "dispatcherPauseOnAckStatePersistent",
        "dispatcherPauseOnAckStatePersistent",
        Codec(lambda _: None, codecs.FLAG.decode),
        set_by_delete=False,
        unset=False,
    ),
    _row("shadowTopics", "shadowTopics", codecs.SHADOW_TOPICS, set_method="PUT", query={}),
    _row(
        "subscriptionExpirationMinutes",
        "subscriptionExpirationTime",
        codecs.SECONDS,
        value_in_query="subscriptionExpirationTime",
        keeps=kept.SUBSCRIPTION_EXPIRATION,
        since_version="4.2.0",
    ),
    _row(CLUSTERS, "replication", codecs.CLUSTER_NAMES, unset=[], value_in=_with_itself),
)


def _global(row: PolicyRow) -> PolicyRow:
    return replace(
        row,
        field=f"{row.field}@{PolicyScope.GLOBAL}",
        query={**row.query, IS_GLOBAL: "true"},
        per_cluster=False,
        value_in=lambda desired, _: desired,
    )


GLOBAL_POLICIES: tuple[PolicyRow, ...] = tuple(_global(row) for row in LOCAL_POLICIES if IS_GLOBAL in row.query)
TOPIC_POLICIES = LOCAL_POLICIES + GLOBAL_POLICIES


def declared_in(row: PolicyRow, scope: PolicyScope) -> bool:
    """Whether a row gets its value from a specification with that spec.policyScope."""
    return IS_GLOBAL not in row.query or (row.query[IS_GLOBAL] == "true") == (scope is PolicyScope.GLOBAL)


UNMANAGED_MEMBERS = {
    "isGlobal": "spec.policyScope",
    "subscriptionPolicies": "dispatchRate of an entry of spec.subscriptions",
}
"""Members of class TopicPolicies that no row reads, with the reason."""
