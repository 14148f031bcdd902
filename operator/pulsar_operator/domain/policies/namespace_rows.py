"""Policies of namespaces. All but those with ``own_get`` are read by one ``GET /namespaces/{tenant}/{namespace}``.

Source: class Namespaces of the broker's admin v2 and class Policies of the client admin API (Pulsar 4.0), checked
against a running 4.0.8 by tests/standalone/test_policies_real.py. The order of the rows is that of their first
application.
"""

from __future__ import annotations

from typing import Any

from pulsar_operator.api.v1alpha1.policies import SubscriptionAuthMode
from pulsar_operator.domain.policies import codecs, kept
from pulsar_operator.domain.policies.codecs import Codec
from pulsar_operator.domain.policies.model import CLUSTER, PolicyRow, Scope
from pulsar_operator.domain.policies.offload import NO_DRIVER, OFFLOAD

NO_FILTER = "Entry filter '.*' not found"


def _clusters(field: str, endpoint: str, live: str, **more: Any) -> PolicyRow:
    """Returns the row of a list of clusters. domain/logical/clusters.py decides what may be written: Pulsar deletes the
    namespace's data in a cluster that is in neither list."""
    names = codecs.CLUSTER_NAMES
    return PolicyRow(
        scope=Scope.NAMESPACE,
        field=field,
        endpoint=(endpoint,),
        live=(live,),
        encode=names.encode,
        decode=names.decode,
        equal=names.equal,
        remove=False,
        **more,
    )


REPLICATION_CLUSTERS = _clusters("replicationClusters", "replication", "replication_clusters")
ALLOWED_CLUSTERS = _clusters("allowedClusters", "allowedClusters", "allowed_clusters", unset=[])


def _row(field: str, endpoint: str, codec: Codec, *live: str, **more: Any) -> PolicyRow:
    return PolicyRow(
        scope=Scope.NAMESPACE,
        field=f"policies.{field}",
        endpoint=tuple(endpoint.split("/")),
        encode=codec.encode,
        decode=codec.decode,
        equal=codec.equal,
        live=live,
        **more,
    )


def _quota(field: str, kind: str, codec: Codec, keeps: kept.Keeps) -> PolicyRow:
    query = {"backlogQuotaType": kind}
    return _row(
        f"backlogQuotas.{field}", "backlogQuota", codec, "backlog_quota_map", kind, write_query=query, keeps=keeps
    )


NAMESPACE_POLICIES: tuple[PolicyRow, ...] = (
    REPLICATION_CLUSTERS,
    ALLOWED_CLUSTERS,
    # Pulsar compares retention with the storage quota (checkBacklogQuota), and with the broker's default quota while
    # the namespace has only a quota on age: the storage quota goes first, retention last.
    _quota("destinationStorage", "destination_storage", codecs.STORAGE_QUOTA, kept.STORAGE_QUOTA),
    _quota("messageAge", "message_age", codecs.AGE_QUOTA, kept.AGE_QUOTA),
    _row("retention", "retention", codecs.RETENTION, "retention_policies", keeps=kept.RETENTION),
    _row("messageTTLSeconds", "messageTTL", codecs.SECONDS, "message_ttl_in_seconds", keeps=kept.TTL),
    _row(
        "subscriptionExpirationMinutes",
        "subscriptionExpirationTime",
        codecs.SECONDS,
        "subscription_expiration_time_minutes",
        keeps=kept.SUBSCRIPTION_EXPIRATION,
    ),
    _row("compactionThreshold", "compactionThreshold", codecs.SIZE, "compaction_threshold", set_method="PUT"),
    # Rates are kept by cluster: the cluster that answers writes its own.
    _row("publishRate", "publishRate", codecs.PUBLISH_RATE, "publishMaxMessageRate", CLUSTER, per_cluster=True),
    _row("dispatchRate", "dispatchRate", codecs.DISPATCH_RATE, "topicDispatchRate", CLUSTER, per_cluster=True),
    _row(
        "subscriptionDispatchRate",
        "subscriptionDispatchRate",
        codecs.DISPATCH_RATE,
        "subscriptionDispatchRate",
        CLUSTER,
        per_cluster=True,
    ),
    _row(
        "replicatorDispatchRate",
        "replicatorDispatchRate",
        codecs.DISPATCH_RATE,
        "replicatorDispatchRate",
        CLUSTER,
        per_cluster=True,
    ),
    _row("subscribeRate", "subscribeRate", codecs.SUBSCRIBE_RATE, "clusterSubscribeRate", CLUSTER, per_cluster=True),
    _row("persistence", "persistence", codecs.PERSISTENCE, "persistence"),
    _row("bookieAffinityGroup", "persistence/bookieAffinity", codecs.BOOKIE_AFFINITY, own_get=True, per_cluster=True),
    _row("antiAffinityGroup", "antiAffinity", codecs.TEXT, own_get=True, per_cluster=True, text=True),
    _row(
        "offload",
        "offloadPolicies",
        OFFLOAD,
        "offload_policies",
        remove_endpoint=("removeOffloadPolicies",),
        unavailable=NO_DRIVER,
        keeps=kept.OFFLOAD,
    ),
    _row("deduplication.enabled", "deduplication", codecs.FLAG, "deduplicationEnabled"),
    _row(
        "deduplication.snapshotIntervalSeconds",
        "deduplicationSnapshotInterval",
        codecs.SECONDS,
        "deduplicationSnapshotIntervalSeconds",
        remove_body=None,
    ),
    _row("delayedDelivery", "delayedDelivery", codecs.DELAYED_DELIVERY, "delayed_delivery_policies"),
    _row("autoTopicCreation", "autoTopicCreation", codecs.AUTO_TOPIC_CREATION, "autoTopicCreationOverride"),
    _row(
        "autoSubscriptionCreation",
        "autoSubscriptionCreation",
        codecs.AUTO_SUBSCRIPTION_CREATION,
        "autoSubscriptionCreationOverride",
    ),
    _row(
        "inactiveTopics",
        "inactiveTopicPolicies",
        codecs.INACTIVE_TOPICS,
        "inactive_topic_policies",
        keeps=kept.INACTIVE_TOPICS,
    ),
    _row("maxTopics", "maxTopicsPerNamespace", codecs.LIMIT, "max_topics_per_namespace"),
    _row("maxProducersPerTopic", "maxProducersPerTopic", codecs.LIMIT, "max_producers_per_topic"),
    _row("maxConsumersPerTopic", "maxConsumersPerTopic", codecs.LIMIT, "max_consumers_per_topic"),
    _row("maxConsumersPerSubscription", "maxConsumersPerSubscription", codecs.LIMIT, "max_consumers_per_subscription"),
    _row("maxSubscriptionsPerTopic", "maxSubscriptionsPerTopic", codecs.LIMIT, "max_subscriptions_per_topic"),
    _row(
        "maxUnackedMessagesPerConsumer",
        "maxUnackedMessagesPerConsumer",
        codecs.LIMIT,
        "max_unacked_messages_per_consumer",
    ),
    _row(
        "maxUnackedMessagesPerSubscription",
        "maxUnackedMessagesPerSubscription",
        codecs.LIMIT,
        "max_unacked_messages_per_subscription",
    ),
    _row(
        "schema.compatibilityStrategy",
        "schemaCompatibilityStrategy",
        codecs.SCHEMA_COMPATIBILITY,
        "schema_compatibility_strategy",
        set_method="PUT",
        remove_body=codecs.UNDEFINED,
    ),
    _row(
        "schema.allowAutoUpdate",
        "isAllowAutoUpdateSchema",
        codecs.FLAG,
        "is_allow_auto_update_schema",
        remove_body=True,
        unset=True,
    ),
    _row(
        "schema.validationEnforced",
        "schemaValidationEnforced",
        codecs.FLAG,
        "schema_validation_enforced",
        remove_body=False,
        unset=False,
    ),
    _row(
        "subscriptionTypesEnabled", "subscriptionTypesEnabled", codecs.SUBSCRIPTION_TYPES, "subscription_types_enabled"
    ),
    _row(
        "subscriptionAuthMode",
        "subscriptionAuthMode",
        Codec(str, SubscriptionAuthMode),
        "subscription_auth_mode",
        remove_body="None",
        unset=SubscriptionAuthMode.NONE,
    ),
    _row(
        "encryptionRequired", "encryptionRequired", codecs.FLAG, "encryption_required", remove_body=False, unset=False
    ),
    _row(
        "resourceGroup",
        "resourcegroup",
        codecs.NAME,
        "resource_group_name",
        value_in_path=True,
    ),
    _row("entryFilters", "entryFilters", codecs.ENTRY_FILTERS, "entryFilters", refused_without=NO_FILTER),
    # Pulsar takes no body here: POST means true, DELETE means false.
    _row(
        "dispatcherPauseOnAckStatePersistent",
        "dispatcherPauseOnAckStatePersistent",
        Codec(lambda _: None, codecs.FLAG.decode),
        "dispatcherPauseOnAckStatePersistentEnabled",
        set_by_delete=False,
        unset=False,
    ),
    _row(
        "allowedTopicPropertyKeysForMetrics",
        "allowedTopicPropertyKeysForMetrics",
        codecs.PROPERTY_KEYS,
        "allowed_topic_property_keys_for_metrics",
        since_version="4.2.0",
    ),
)

UNMANAGED_KEYS = {
    "bundles": "spec.bundles declares the bundles of a new namespace, and later splits are not declared",
    "clusterDispatchRate": "Pulsar writes it together with topicDispatchRate",
    "latency_stats_sample_rate": "no endpoint writes it and no broker reads it",
    "deleted": "Pulsar sets it while it deletes the namespace",
    "offload_threshold": "the endpoint writes offload_policies, which spec.policies.offload.threshold declares",
    "offload_threshold_in_seconds": "the endpoint writes offload_policies instead",
    "offload_deletion_lag_ms": "the endpoint writes offload_policies instead",
    "schema_auto_update_compatibility_strategy": "schema_compatibility_strategy has replaced it",
    "migrated": "Pulsar's cluster migration sets it",
    "clusterThatCanDeleteNamespace": "Pulsar computes it",
}
"""Keys of GET namespace (class Policies) that no row reads, with the reason."""
