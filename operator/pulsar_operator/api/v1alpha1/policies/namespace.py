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
    """Groups of bookies the namespace's messages are written to (bookie isolation)."""

    primary: BookieGroups
    """Groups that are used as long as they have enough bookies."""
    secondary: BookieGroups | None = None
    """Groups that are used besides when they do not."""


class AutoTopicType(StrEnum):
    """Kind of the topics that are created on use."""

    PARTITIONED = "Partitioned"
    NON_PARTITIONED = "NonPartitioned"


class AutoTopicCreation(ApiModel):
    """Whether clients may create the topics they name."""

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
    """Whether a topic that does not exist is made when a client names it."""
    topic_type: AutoTopicType | None = None
    """Whether those topics are partitioned."""
    default_partitions: Annotated[int, Field(ge=1, le=10000)] | None = None
    """How many partitions each of those topics has."""


class NamespaceSchemaPolicies(ApiModel):
    """Schemas of the namespace's topics."""

    compatibility_strategy: SchemaCompatibility | None = None
    """Which new schemas a topic takes: Backward = consumers with the new one can read what was written with the last,
    Forward = the reverse, Full = both; Transitive = with all before, not only the last."""
    allow_auto_update: bool | None = None
    """Whether producers may register new schemas. Pulsar cannot unset it: removed, it is set to true, its default."""
    validation_enforced: bool | None = None
    """Whether clients without a schema are refused on topics that have one. Removed, it is set to false."""


class SubscriptionAuthMode(StrEnum):
    """Which subscription names a role may use."""

    NONE = "None"
    PREFIX = "Prefix"


class NamespacePolicies(ApiModel):
    """Policies of a namespace. A field that is set is managed; a field that is removed is reset to inherit."""

    model_config = ConfigDict(json_schema_extra=validations(QUOTA_RULE))

    retention: Retention | None = None
    """How long acknowledged messages are kept."""
    message_ttl_seconds: Count | None = Field(default=None, alias="messageTTLSeconds")
    """Unacknowledged messages older than this are acknowledged by the broker; 0 = never."""
    backlog_quotas: BacklogQuotas | None = None
    """Limits of unacknowledged data."""
    subscription_expiration_minutes: Count | None = None
    """Subscriptions without a consumer for this long are deleted; 0 = never."""
    compaction_threshold: Bytes | None = None
    """Topics with more than this behind the last compaction are compacted; 0 = never by themselves."""

    publish_rate: PublishRate | None = None
    """How fast producers may publish to each topic; an empty value lifts the brokers' own limit."""
    dispatch_rate: DispatchRate | None = None
    """How fast each topic may deliver to all its consumers; an empty value lifts the brokers' own limit."""
    subscription_dispatch_rate: DispatchRate | None = None
    """How fast each subscription may be delivered to; an empty value lifts the brokers' own limit."""
    replicator_dispatch_rate: DispatchRate | None = None
    """How fast each topic may be replicated to another cluster; an empty value lifts the brokers' own limit."""
    subscribe_rate: SubscribeRate | None = None
    """How often a consumer may subscribe; an empty value lifts the brokers' own limit."""

    persistence: LedgerPersistence | None = None
    """How messages are written to bookies; counts for new ledgers."""
    bookie_affinity_group: BookieAffinityGroup | None = None
    """Bookies the messages are written to; set in each cluster of the namespace."""
    anti_affinity_group: Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9][-_.A-Za-z0-9]*$")] | None = None
    """Namespaces of the same group are kept on different brokers; set in each cluster of the namespace."""
    offload: Offload | None = None
    """Tiered storage: when ledgers move there, and where it is. Written as a whole."""

    deduplication: Deduplication | None = None
    """Message deduplication: what a producer sends twice is stored once."""
    delayed_delivery: DelayedDelivery | None = None
    """Messages delivered later than published."""
    auto_topic_creation: AutoTopicCreation | None = None
    """Whether clients may create the topics they name."""
    auto_subscription_creation: AutoSubscriptionCreation | None = None
    """Whether consumers may create the subscriptions they name."""
    inactive_topics: InactiveTopics | None = None
    """Deletion of topics nobody uses."""

    max_topics: Count | None = None
    """How many topics the namespace may have, partitions counted each; 0 = no limit."""
    max_producers_per_topic: Count | None = None
    """How many producers a topic may have at a time; 0 = no limit."""
    max_consumers_per_topic: Count | None = None
    """How many consumers a topic may have at a time; 0 = no limit."""
    max_consumers_per_subscription: Count | None = None
    """How many consumers a subscription may have at a time; 0 = no limit."""
    max_subscriptions_per_topic: Count | None = None
    """How many subscriptions a topic may have; 0 = no limit."""
    max_unacked_messages_per_consumer: Count | None = None
    """Delivered and unacknowledged messages of a consumer; at the limit delivery to it stops; 0 = no limit."""
    max_unacked_messages_per_subscription: Count | None = None
    """Delivered and unacknowledged messages of a shared subscription; at the limit delivery stops; 0 = no limit."""

    # "schema" itself would hide a method of the model base.
    schema_policies: NamespaceSchemaPolicies | None = Field(default=None, alias="schema")
    """Schemas of the namespace's topics."""
    subscription_types_enabled: SubscriptionTypes | None = None
    """Subscription types consumers may use; absent = all."""
    subscription_auth_mode: SubscriptionAuthMode | None = None
    """Prefix = a role may only use subscriptions whose names start with its own. Removed, it is set to None."""
    encryption_required: bool | None = None
    """Whether only encrypted messages are taken. Removed, it is set to false."""
    resource_group: PulsarName | None = None
    """Name of a resource group, which must exist in Pulsar, whose limits the namespace shares."""
    entry_filters: EntryFilterNames | None = None
    """Entry filters installed in the brokers, in the order in which they look at a message. Brokers go by them with
    allowOverrideEntryFilters=true."""
    dispatcher_pause_on_ack_state_persistent: bool | None = None
    """Whether delivery pauses while too many acknowledgements are not stored. Removed, it is set to false."""
    allowed_topic_property_keys_for_metrics: (
        Annotated[
            list[Annotated[str, Field(min_length=1, max_length=256)]],
            Field(min_length=1, max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Keys of topic properties that become labels of the topics' metrics; needs Pulsar 4.2."""
