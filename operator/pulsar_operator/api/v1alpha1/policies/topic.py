"""Policies of a topic; each field, or each member of a group, has one row in domain/policies."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, validations
from pulsar_operator.api.v1alpha1.policies.values import (
    INT32_MAX,
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
from pulsar_operator.api.v1alpha1.quantities import ByteSize

SHADOW_TOPIC = r"^persistent://[^/\x00-\x1f\x7f]+/[^/\x00-\x1f\x7f]+/[^/\x00-\x1f\x7f]*[^/\x00-\x20\x7f]$"
"""A full name without control characters: a broker repeats the name in the status line of its refusal, which makes an
answer that no proxy understands. And without a space at its end, which brokers cut off: they would make the topic of
the shorter name and fill that one (class ShadowReplicator)."""


class PolicyScope(StrEnum):
    """Scope of the policies of a topic."""

    LOCAL = "Local"
    GLOBAL = "Global"


class TopicSchemaPolicies(ApiModel):
    """Schema policies of a topic. They are set in each cluster, because Pulsar has no global form of them."""

    compatibility_strategy: SchemaCompatibility | None = None
    """Strategy for checking whether a new schema is compatible. Backward: consumers with the new schema can read data
    written with the previous one. Forward: consumers with the previous schema can read data written with the new one.
    Full: Backward and Forward. The Transitive strategies check against all earlier schemas. AlwaysCompatible accepts
    every schema. AlwaysIncompatible rejects every change. If unset, this object does not set the policy."""
    validation_enforced: bool | None = None
    """Whether clients without a schema are rejected once the topic has one. If removed, the policy is reset to false.
    If unset, this object does not set the policy."""


class TopicPolicies(ApiModel):
    """Policies of a topic. Only fields that are set are managed. A field that is removed is reset."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            QUOTA_RULE,
            (
                "!has(self.retention) || self.retention.timeMinutes <= 0 || !has(self.backlogQuotas) || "
                "!has(self.backlogQuotas.messageAge) || "
                "self.backlogQuotas.messageAge.limitSeconds < self.retention.timeMinutes * 60",
                "retention.timeMinutes must be longer than backlogQuotas.messageAge.limitSeconds, because Pulsar "
                "refuses a quota that exceeds the retention",
            ),
        )
    )

    retention: Retention | None = None
    """Retention of acknowledged messages. If unset, this object does not set the policy."""
    message_ttl_seconds: Count | None = Field(default=None, alias="messageTTLSeconds")
    """Seconds after which the broker acknowledges unacknowledged messages. 0 means never. If unset, this object does
    not set the policy."""
    backlog_quotas: BacklogQuotas | None = None
    """Quotas of unacknowledged messages. If unset, this object does not set the policy."""
    subscription_expiration_minutes: Count | None = None
    """Minutes without a consumer after which a subscription is deleted. 0 means never. The policy requires Pulsar 4.2.
    If unset, this object does not set the policy."""
    compaction_threshold: Bytes | None = None
    """Bytes of messages since the last compaction after which the topic is compacted. With 0, size triggers no
    compaction. If unset, this object does not set the policy."""

    publish_rate: PublishRate | None = None
    """Maximum rate at which producers publish to the topic. An empty value lifts the limit of the brokers. If unset,
    this object does not set the policy."""
    dispatch_rate: DispatchRate | None = None
    """Maximum rate at which the topic delivers to all its consumers. An empty value lifts the limit of the brokers. If
    unset, this object does not set the policy."""
    subscription_dispatch_rate: DispatchRate | None = None
    """Maximum rate at which each subscription is delivered to. An empty value lifts the limit of the brokers. If unset,
    this object does not set the policy."""
    replicator_dispatch_rate: DispatchRate | None = None
    """Maximum rate at which the topic is replicated to another cluster. An empty value lifts the limit of the brokers.
    If unset, this object does not set the policy."""
    subscribe_rate: SubscribeRate | None = None
    """Maximum rate at which a consumer subscribes. An empty value lifts the limit of the brokers. If unset, this object
    does not set the policy."""

    persistence: LedgerPersistence | None = None
    """Quorums of new ledgers, and how often positions of subscriptions are stored. If unset, this object does not set
    the policy."""
    offload: Offload | None = None
    """Tiered storage: where and when ledgers are offloaded. The operator refuses this field in this version, because no
    image has an offload driver. If unset, this object does not set the policy."""

    deduplication: Deduplication | None = None
    """Message deduplication: a message that a producer sends twice is stored once. If unset, this object does not set
    the policy."""
    delayed_delivery: DelayedDelivery | None = None
    """Delivery of messages later than they were published. If unset, this object does not set the policy."""
    auto_subscription_creation: AutoSubscriptionCreation | None = None
    """Whether consumers create subscriptions by naming them. If unset, this object does not set the policy."""
    inactive_topics: InactiveTopics | None = None
    """Deletion of the topic when it is inactive. If unset, this object does not set the policy."""

    max_producers: Count | None = None
    """Maximum number of connected producers. 0 means no limit. If unset, this object does not set the policy."""
    max_consumers: Count | None = None
    """Maximum number of connected consumers. 0 means no limit. If unset, this object does not set the policy."""
    max_consumers_per_subscription: Count | None = None
    """Maximum number of connected consumers of a subscription. 0 means no limit. If unset, this object does not set the
    policy."""
    max_subscriptions: Count | None = None
    """Maximum number of subscriptions. 0 means no limit. If unset, this object does not set the policy."""
    max_unacked_messages_per_consumer: Count | None = None
    """Maximum number of unacknowledged messages of a consumer. At this number, brokers stop delivering messages to the
    consumer until it acknowledges some. 0 means no limit. If unset, this object does not set the policy."""
    max_unacked_messages_per_subscription: Count | None = None
    """Maximum number of unacknowledged messages of a shared subscription. At this number, brokers stop delivering
    messages to the subscription until consumers acknowledge some. 0 means no limit. If unset, this object does not set
    the policy."""
    max_message_size: Annotated[int, ByteSize(ge=0, le=INT32_MAX)] | None = None
    """Maximum size of a message, which does not exceed the limit of the brokers. With 0, only the limit of the brokers
    applies. If unset, this object does not set the policy."""

    # "schema" itself would hide a method of the model base.
    schema_policies: TopicSchemaPolicies | None = Field(default=None, alias="schema")
    """Schema policies of the topic. If unset, this object does not set the policy."""
    subscription_types_enabled: SubscriptionTypes | None = None
    """Subscription types that consumers may use. If unset, this object does not set the policy."""
    entry_filters: EntryFilterNames | None = None
    """Entry filters that are installed in the brokers, in the order in which they process a message. Brokers apply them
    only with allowOverrideEntryFilters=true. If unset, this object does not set the policy."""
    dispatcher_pause_on_ack_state_persistent: bool | None = None
    """Whether delivery pauses while too many acknowledgments are not stored. If removed, the policy is reset to false.
    If unset, this object does not set the policy."""
    shadow_topics: (
        Annotated[
            list[Annotated[str, Field(min_length=1, max_length=512, pattern=SHADOW_TOPIC)]],
            Field(min_length=1, max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Shadow topics of the topic, by full name. The shadow topics must exist. If unset, this object does not set the
    policy."""
