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
    """Groups that are also used if the primary groups do not have enough bookies. If unset, no such groups exist."""


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
                "autoTopicCreation.topicType is required when enabled is true, and must not be set otherwise",
            ),
            (
                "(has(self.topicType) && self.topicType == 'Partitioned') == has(self.defaultPartitions)",
                "autoTopicCreation.defaultPartitions is required with topicType Partitioned, and must not be set "
                "otherwise",
            ),
        )
    )

    enabled: bool
    """Whether a topic that does not exist is created when a client names it."""
    topic_type: AutoTopicType | None = None
    """Whether the created topics are partitioned. Required if enabled is true, and must not be set otherwise."""
    default_partitions: Annotated[int, Field(ge=1, le=10000)] | None = None
    """Number of partitions of each topic that is created. Required with topicType Partitioned, and must not be set
    otherwise."""


class NamespaceSchemaPolicies(ApiModel):
    """Schema policies of the topics of a namespace."""

    compatibility_strategy: SchemaCompatibility | None = None
    """Strategy for checking whether a new schema is compatible. Backward: consumers with the new schema can read data
    written with the previous one. Forward: consumers with the previous schema can read data written with the new one.
    Full: Backward and Forward. The Transitive strategies check against all earlier schemas. AlwaysCompatible accepts
    every schema. AlwaysIncompatible rejects every change. If unset, this object does not set the policy."""
    allow_auto_update: bool | None = None
    """Whether producers may register new schemas. If removed, the policy is reset to true, Pulsar's default, because
    Pulsar cannot unset the policy. If unset, this object does not set the policy."""
    validation_enforced: bool | None = None
    """Whether clients without a schema are rejected on topics that have one. If removed, the policy is reset to false.
    If unset, this object does not set the policy."""


class SubscriptionAuthMode(StrEnum):
    """Subscription names that a role may use."""

    NONE = "None"
    PREFIX = "Prefix"


class NamespacePolicies(ApiModel):
    """Policies of a namespace. Only fields that are set are managed. A field that is removed is reset."""

    model_config = ConfigDict(json_schema_extra=validations(QUOTA_RULE))

    retention: Retention | None = None
    """Retention of acknowledged messages. If unset, this object does not set the policy."""
    message_ttl_seconds: Count | None = Field(default=None, alias="messageTTLSeconds")
    """Seconds after which the broker acknowledges unacknowledged messages. 0 means never. If unset, this object does
    not set the policy."""
    backlog_quotas: BacklogQuotas | None = None
    """Quotas of unacknowledged messages. If unset, this object does not set the policy."""
    subscription_expiration_minutes: Count | None = None
    """Minutes without a consumer after which a subscription is deleted. 0 means never. If unset, this object does not
    set the policy."""
    compaction_threshold: Bytes | None = None
    """Bytes of messages since the last compaction after which each topic is compacted. With 0, size triggers no
    compaction. If unset, this object does not set the policy."""

    publish_rate: PublishRate | None = None
    """Maximum rate at which producers publish to each topic. An empty value lifts the limit of the brokers. If unset,
    this object does not set the policy."""
    dispatch_rate: DispatchRate | None = None
    """Maximum rate at which each topic delivers to all its consumers. An empty value lifts the limit of the brokers. If
    unset, this object does not set the policy."""
    subscription_dispatch_rate: DispatchRate | None = None
    """Maximum rate at which each subscription is delivered to. An empty value lifts the limit of the brokers. If unset,
    this object does not set the policy."""
    replicator_dispatch_rate: DispatchRate | None = None
    """Maximum rate at which each topic is replicated to another cluster. An empty value lifts the limit of the brokers.
    If unset, this object does not set the policy."""
    subscribe_rate: SubscribeRate | None = None
    """Maximum rate at which a consumer subscribes. An empty value lifts the limit of the brokers. If unset, this object
    does not set the policy."""

    persistence: LedgerPersistence | None = None
    """Quorums of new ledgers, and how often positions of subscriptions are stored. If unset, this object does not set
    the policy."""
    bookie_affinity_group: BookieAffinityGroup | None = None
    """Groups of bookies that store the messages, which are set in each cluster of the namespace. If unset, this object
    does not set the policy."""
    anti_affinity_group: Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9][-_.A-Za-z0-9]*$")] | None = None
    """Group of namespaces that are served by different brokers. The group is set in each cluster of the namespace. If
    unset, this object does not set the policy."""
    offload: Offload | None = None
    """Tiered storage: where and when ledgers are offloaded. The operator refuses this field in this version, because no
    image has an offload driver. If unset, this object does not set the policy."""

    deduplication: Deduplication | None = None
    """Message deduplication: a message that a producer sends twice is stored once. If unset, this object does not set
    the policy."""
    delayed_delivery: DelayedDelivery | None = None
    """Delivery of messages later than they were published. If unset, this object does not set the policy."""
    auto_topic_creation: AutoTopicCreation | None = None
    """Whether clients create topics by naming them. If unset, this object does not set the policy."""
    auto_subscription_creation: AutoSubscriptionCreation | None = None
    """Whether consumers create subscriptions by naming them. If unset, this object does not set the policy."""
    inactive_topics: InactiveTopics | None = None
    """Deletion of inactive topics. If unset, this object does not set the policy."""

    max_topics: Count | None = None
    """Maximum number of topics in the namespace, where each partition counts. 0 means no limit. If unset, this object
    does not set the policy."""
    max_producers_per_topic: Count | None = None
    """Maximum number of connected producers of a topic. 0 means no limit. If unset, this object does not set the
    policy."""
    max_consumers_per_topic: Count | None = None
    """Maximum number of connected consumers of a topic. 0 means no limit. If unset, this object does not set the
    policy."""
    max_consumers_per_subscription: Count | None = None
    """Maximum number of connected consumers of a subscription. 0 means no limit. If unset, this object does not set the
    policy."""
    max_subscriptions_per_topic: Count | None = None
    """Maximum number of subscriptions of a topic. 0 means no limit. If unset, this object does not set the policy."""
    max_unacked_messages_per_consumer: Count | None = None
    """Maximum number of unacknowledged messages of a consumer. At this number, brokers stop delivering messages to the
    consumer until it acknowledges some. 0 means no limit. If unset, this object does not set the policy."""
    max_unacked_messages_per_subscription: Count | None = None
    """Maximum number of unacknowledged messages of a shared subscription. At this number, brokers stop delivering
    messages to the subscription until consumers acknowledge some. 0 means no limit. If unset, this object does not set
    the policy."""

    # "schema" itself would hide a method of the model base.
    schema_policies: NamespaceSchemaPolicies | None = Field(default=None, alias="schema")
    """Schema policies of the topics. If unset, this object does not set the policy."""
    subscription_types_enabled: SubscriptionTypes | None = None
    """Subscription types that consumers may use. If unset, this object does not set the policy."""
    subscription_auth_mode: SubscriptionAuthMode | None = None
    """With Prefix, a role may use only subscriptions whose names start with its own name. If removed, the policy is
    reset to None. If unset, this object does not set the policy."""
    encryption_required: bool | None = None
    """Whether only encrypted messages are accepted. If removed, the policy is reset to false. If unset, this object
    does not set the policy."""
    resource_group: PulsarName | None = None
    """Resource group whose limits the namespace shares. The resource group must exist in Pulsar. If unset, this object
    does not set the policy."""
    entry_filters: EntryFilterNames | None = None
    """Entry filters that are installed in the brokers, in the order in which they process a message. Brokers apply them
    only with allowOverrideEntryFilters=true. If unset, this object does not set the policy."""
    dispatcher_pause_on_ack_state_persistent: bool | None = None
    """Whether delivery pauses while too many acknowledgments are not stored. If removed, the policy is reset to false.
    If unset, this object does not set the policy."""
    allowed_topic_property_keys_for_metrics: (
        Annotated[
            list[Annotated[str, Field(min_length=1, max_length=256)]],
            Field(min_length=1, max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Keys of topic properties that become labels of the metrics of topics. The policy requires Pulsar 4.2. If unset,
    this object does not set the policy."""
