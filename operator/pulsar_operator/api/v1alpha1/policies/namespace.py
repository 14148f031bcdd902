"""Policies of a namespace; each field, or each member of a group, has one row in domain/policies."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, PulsarName, validations
from pulsar_operator.api.v1alpha1.policies.values import (
    LIST_WORD,
    QUOTA_RULE,
    AutoSubscriptionCreation,
    BacklogQuotas,
    Bytes,
    Count,
    Deduplication,
    DelayedDelivery,
    DispatchRate,
    EntryFilterNames,
    InactiveTopics,
    LedgerPersistence,
    Offload,
    PublishRate,
    Retention,
    SchemaCompatibility,
    SubscribeRate,
    SubscriptionTypes,
)

BookieGroups = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=128, pattern=LIST_WORD)]],
    Field(min_length=1, max_length=32, json_schema_extra={"x-kubernetes-list-type": "set"}),
]


class BookieAffinityGroup(ApiModel):
    """Groups of bookies that store the messages of the namespace (bookie isolation)."""

    primary: BookieGroups
    """Groups that are used while they have enough bookies."""
    secondary: BookieGroups | None = None
    """Groups that are also used if the primary groups do not have enough bookies. If unset, there are none."""


class AutoTopicType(StrEnum):
    """Kind of topics that are created automatically."""

    PARTITIONED = "Partitioned"
    NON_PARTITIONED = "NonPartitioned"


class AutoTopicCreation(ApiModel):
    """Automatic creation of topics."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "self.enabled == has(self.topicType)",
                "autoTopicCreation.topicType is required when enabled is true, and not allowed otherwise",
            ),
            (
                "(has(self.topicType) && self.topicType == 'Partitioned') == has(self.defaultPartitions)",
                "autoTopicCreation.defaultPartitions is required with topicType Partitioned, and not allowed otherwise",
            ),
        )
    )

    enabled: bool
    """Whether a topic that does not exist is created when a client names it."""
    topic_type: AutoTopicType | None = None
    """Whether those topics are partitioned. Required if enabled is true, and not allowed otherwise."""
    default_partitions: Annotated[int, Field(ge=1, le=10000)] | None = None
    """Number of partitions of each of those topics. Required with topicType Partitioned, and not allowed otherwise."""


class NamespaceSchemaPolicies(ApiModel):
    """Schema policies of the topics of a namespace."""

    compatibility_strategy: SchemaCompatibility | None = None
    """Schema compatibility check strategy. Backward: consumers with the new schema can read data of the last one.
    Forward: the reverse. Full: both. The Transitive strategies compare with all earlier schemas. If unset, this object
    does not set it."""
    allow_auto_update: bool | None = None
    """Whether producers may register new schemas. If removed, it is reset to true, Pulsar's default, because Pulsar
    cannot unset it. If unset, this object does not set it."""
    validation_enforced: bool | None = None
    """Whether clients without a schema are rejected on topics that have one. If removed, it is reset to false. If
    unset, this object does not set it."""


class SubscriptionAuthMode(StrEnum):
    """Subscription names that a role may use."""

    NONE = "None"
    PREFIX = "Prefix"


class NamespacePolicies(ApiModel):
    """Policies of a namespace. Only fields that are set are managed. A field that is removed is reset."""

    model_config = ConfigDict(json_schema_extra=validations(QUOTA_RULE))

    retention: Retention | None = None
    """Retention of acknowledged messages. If unset, this object does not set it."""
    message_ttl_seconds: Count | None = Field(default=None, alias="messageTTLSeconds")
    """Seconds after which the broker acknowledges unacknowledged messages. 0 means never. If unset, this object does
    not set it."""
    backlog_quotas: BacklogQuotas | None = None
    """Quotas of unacknowledged messages. If unset, this object does not set it."""
    subscription_expiration_minutes: Count | None = None
    """Minutes without a consumer after which a subscription is deleted. 0 means never. If unset, this object does not
    set it."""
    compaction_threshold: Bytes | None = None
    """Bytes of messages since the last compaction after which each topic is compacted. With 0, size triggers no
    compaction. If unset, this object does not set it."""

    publish_rate: PublishRate | None = None
    """Maximum rate at which producers publish to each topic. An empty value lifts the limit of the brokers. If unset,
    this object does not set it."""
    dispatch_rate: DispatchRate | None = None
    """Maximum rate at which each topic delivers to all its consumers. An empty value lifts the limit of the brokers. If
    unset, this object does not set it."""
    subscription_dispatch_rate: DispatchRate | None = None
    """Maximum rate at which each subscription is delivered to. An empty value lifts the limit of the brokers. If unset,
    this object does not set it."""
    replicator_dispatch_rate: DispatchRate | None = None
    """Maximum rate at which each topic is replicated to another cluster. An empty value lifts the limit of the brokers.
    If unset, this object does not set it."""
    subscribe_rate: SubscribeRate | None = None
    """Maximum rate at which a consumer subscribes. An empty value lifts the limit of the brokers. If unset, this object
    does not set it."""

    persistence: LedgerPersistence | None = None
    """Quorums of new ledgers, and how often positions of subscriptions are stored. If unset, this object does not set
    it."""
    bookie_affinity_group: BookieAffinityGroup | None = None
    """Groups of bookies that store the messages, which are set in each cluster of the namespace. If unset, this object
    does not set it."""
    anti_affinity_group: Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9][-_.A-Za-z0-9]*$")] | None = None
    """Group of namespaces that are served by different brokers. It is set in each cluster of the namespace. If unset,
    this object does not set it."""
    offload: Offload | None = None
    """Tiered storage: where and when ledgers are offloaded. The operator refuses this field in this version, because no
    image has an offload driver. If unset, this object does not set it."""

    deduplication: Deduplication | None = None
    """Message deduplication: a message that a producer sends twice is stored once. If unset, this object does not set
    it."""
    delayed_delivery: DelayedDelivery | None = None
    """Delivery of messages later than they were published. If unset, this object does not set it."""
    auto_topic_creation: AutoTopicCreation | None = None
    """Whether clients create topics by naming them. If unset, this object does not set it."""
    auto_subscription_creation: AutoSubscriptionCreation | None = None
    """Whether consumers create subscriptions by naming them. If unset, this object does not set it."""
    inactive_topics: InactiveTopics | None = None
    """Deletion of inactive topics. If unset, this object does not set it."""

    max_topics: Count | None = None
    """Maximum number of topics in the namespace, where each partition counts. 0 means no limit. If unset, this object
    does not set it."""
    max_producers_per_topic: Count | None = None
    """Maximum number of connected producers of a topic. 0 means no limit. If unset, this object does not set it."""
    max_consumers_per_topic: Count | None = None
    """Maximum number of connected consumers of a topic. 0 means no limit. If unset, this object does not set it."""
    max_consumers_per_subscription: Count | None = None
    """Maximum number of connected consumers of a subscription. 0 means no limit. If unset, this object does not set it.
    """
    max_subscriptions_per_topic: Count | None = None
    """Maximum number of subscriptions of a topic. 0 means no limit. If unset, this object does not set it."""
    max_unacked_messages_per_consumer: Count | None = None
    """Maximum number of delivered and unacknowledged messages of a consumer, at which delivery to it stops. 0 means no
    limit. If unset, this object does not set it."""
    max_unacked_messages_per_subscription: Count | None = None
    """Maximum number of delivered and unacknowledged messages of a shared subscription, at which its delivery stops. 0
    means no limit. If unset, this object does not set it."""

    # "schema" itself would hide a method of the model base.
    schema_policies: NamespaceSchemaPolicies | None = Field(default=None, alias="schema")
    """Schema policies of the topics. If unset, this object does not set it."""
    subscription_types_enabled: SubscriptionTypes | None = None
    """Subscription types that consumers may use. If unset, this object does not set it."""
    subscription_auth_mode: SubscriptionAuthMode | None = None
    """With Prefix, a role may use only subscriptions whose names start with its own name. If removed, it is reset to
    None. If unset, this object does not set it."""
    encryption_required: bool | None = None
    """Whether only encrypted messages are accepted. If removed, it is reset to false. If unset, this object does not
    set it."""
    resource_group: PulsarName | None = None
    """Resource group whose limits the namespace shares. It must exist in Pulsar. If unset, this object does not set it.
    """
    entry_filters: EntryFilterNames | None = None
    """Entry filters that are installed in the brokers, in the order in which they process a message. Brokers apply them
    only with allowOverrideEntryFilters=true. If unset, this object does not set it."""
    dispatcher_pause_on_ack_state_persistent: bool | None = None
    """Whether delivery pauses while too many acknowledgments are not stored. If removed, it is reset to false. If
    unset, this object does not set it."""
    allowed_topic_property_keys_for_metrics: (
        Annotated[
            list[Annotated[str, Field(min_length=1, max_length=256)]],
            Field(min_length=1, max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Keys of topic properties that become labels of the metrics of topics. It requires Pulsar 4.2. If unset, this
    object does not set it."""
