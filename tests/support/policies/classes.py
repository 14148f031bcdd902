"""Fields of Pulsar's own classes of policies (4.0.8 and 4.2.0), and the rows that cover them."""

from __future__ import annotations

from collections.abc import Iterable

from pulsar_operator.domain.policies import LOCAL_POLICIES, NAMESPACE_POLICIES, UNMANAGED_KEYS, UNMANAGED_MEMBERS
from pulsar_operator.domain.policies.entry_rows import NAMESPACE_ENTRIES
from pulsar_operator.domain.policies.topic_rows import CLUSTERS

POLICIES_CLASS = "org.apache.pulsar.common.policies.data.Policies"
LOCAL_POLICIES_CLASS = "org.apache.pulsar.common.policies.data.LocalPolicies"
TOPIC_POLICIES_CLASS = "org.apache.pulsar.common.policies.data.TopicPolicies"

NAMESPACE_FIELDS = frozenset(
    [
        "auth_policies",
        "replication_clusters",
        "allowed_clusters",
        "bundles",
        "backlog_quota_map",
        "clusterDispatchRate",
        "topicDispatchRate",
        "subscriptionDispatchRate",
        "replicatorDispatchRate",
        "clusterSubscribeRate",
        "persistence",
        "deduplicationEnabled",
        "autoTopicCreationOverride",
        "autoSubscriptionCreationOverride",
        "publishMaxMessageRate",
        "latency_stats_sample_rate",
        "message_ttl_in_seconds",
        "subscription_expiration_time_minutes",
        "retention_policies",
        "deleted",
        "encryption_required",
        "delayed_delivery_policies",
        "inactive_topic_policies",
        "subscription_auth_mode",
        "max_producers_per_topic",
        "max_consumers_per_topic",
        "max_consumers_per_subscription",
        "max_unacked_messages_per_consumer",
        "max_unacked_messages_per_subscription",
        "max_subscriptions_per_topic",
        "compaction_threshold",
        "offload_threshold",
        "offload_threshold_in_seconds",
        "offload_deletion_lag_ms",
        "max_topics_per_namespace",
        "schema_auto_update_compatibility_strategy",
        "schema_compatibility_strategy",
        "is_allow_auto_update_schema",
        "schema_validation_enforced",
        "offload_policies",
        "deduplicationSnapshotIntervalSeconds",
        "subscription_types_enabled",
        "properties",
        "resource_group_name",
        "migrated",
        "dispatcherPauseOnAckStatePersistentEnabled",
        "entryFilters",
        "allowed_topic_property_keys_for_metrics",  # from 4.2.0
    ]
)
"""Class Policies: what the configuration store keeps of a namespace."""

LOCAL_FIELDS = {
    "bundles": None,
    "bookieAffinityGroup": "policies.bookieAffinityGroup",
    "namespaceAntiAffinityGroup": "policies.antiAffinityGroup",
    "migrated": None,
}
"""Class LocalPolicies: what each cluster keeps of a namespace, and the row; None = UNMANAGED_KEYS says why."""

TOPIC_FIELDS: dict[str, tuple[str, ...]] = {
    "backLogQuotaMap": ("backlogQuotas.destinationStorage", "backlogQuotas.messageAge"),
    "subscriptionTypesEnabled": ("subscriptionTypesEnabled",),
    "shadowTopics": ("shadowTopics",),
    "persistence": ("persistence",),
    "retentionPolicies": ("retention",),
    "deduplicationEnabled": ("deduplication.enabled",),
    "deduplicationSnapshotIntervalSeconds": ("deduplication.snapshotIntervalSeconds",),
    "messageTTLInSeconds": ("messageTTLSeconds",),
    "maxProducerPerTopic": ("maxProducers",),
    "maxConsumerPerTopic": ("maxConsumers",),
    "maxConsumersPerSubscription": ("maxConsumersPerSubscription",),
    "maxUnackedMessagesOnConsumer": ("maxUnackedMessagesPerConsumer",),
    "maxUnackedMessagesOnSubscription": ("maxUnackedMessagesPerSubscription",),
    "delayedDeliveryTickTimeMillis": ("delayedDelivery",),
    "delayedDeliveryEnabled": ("delayedDelivery",),
    "delayedDeliveryMaxDelayInMillis": ("delayedDelivery",),
    "dispatcherPauseOnAckStatePersistentEnabled": ("dispatcherPauseOnAckStatePersistent",),
    "offloadPolicies": ("offload",),
    "inactiveTopicPolicies": ("inactiveTopics",),
    "dispatchRate": ("dispatchRate",),
    "subscriptionDispatchRate": ("subscriptionDispatchRate",),
    "replicatorDispatchRate": ("replicatorDispatchRate",),
    "compactionThreshold": ("compactionThreshold",),
    "publishRate": ("publishRate",),
    "subscribeRate": ("subscribeRate",),
    "maxMessageSize": ("maxMessageSize",),
    "maxSubscriptionsPerTopic": ("maxSubscriptions",),
    "schemaCompatibilityStrategy": ("schema.compatibilityStrategy",),
    "schemaValidationEnforced": ("schema.validationEnforced",),
    "entryFilters": ("entryFilters",),
    "autoSubscriptionCreationOverride": ("autoSubscriptionCreation",),
    "replicationClusters": ("replicationClusters",),
    "subscriptionExpirationTimeInMinutes": ("subscriptionExpirationMinutes",),  # from 4.2.0
}
"""Class TopicPolicies: its fields but those of UNMANAGED_MEMBERS,
and their rows below spec.policies, but CLUSTERS, which is beside it."""


def unknown_of_namespace(names: Iterable[str]) -> set[str]:
    """Fields of class Policies, or keys of GET namespace, that no row reads and no reason excuses."""
    return set(names) - keys_read() - set(UNMANAGED_KEYS)


def keys_read() -> set[str]:
    """Keys of GET namespace that some row reads."""
    return {row.live[0] for row in NAMESPACE_POLICIES if row.live} | {row.live[0] for row in NAMESPACE_ENTRIES}


def unknown_local(names: Iterable[str]) -> set[str]:
    """Fields of class LocalPolicies nobody has thought of."""
    return set(names) - set(LOCAL_FIELDS)


def unknown_of_topic(names: Iterable[str]) -> set[str]:
    """Fields of class TopicPolicies nobody has thought of."""
    return set(names) - set(TOPIC_FIELDS) - set(UNMANAGED_MEMBERS)


def rows_without_field() -> set[str]:
    """Rows of topics that stand for no field of the class."""
    covered = {path if path == CLUSTERS else f"policies.{path}" for paths in TOPIC_FIELDS.values() for path in paths}
    return covered ^ {row.path for row in LOCAL_POLICIES}
