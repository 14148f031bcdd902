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
    """Where the policies of a topic count."""

    LOCAL = "Local"
    GLOBAL = "Global"


class TopicSchemaPolicies(ApiModel):
    """Schemas of the topic. Pulsar has no global form of these: they are set in each cluster, whatever the scope."""

    compatibility_strategy: SchemaCompatibility | None = None
    """Which new schemas the topic takes: Backward = consumers with the new one can read what was written with the last,
    Forward = the reverse, Full = both; Transitive = with all before, not only the last."""
    validation_enforced: bool | None = None
    """Whether clients without a schema are refused once the topic has one. Removed, it is set to false."""


class TopicPolicies(ApiModel):
    """Policies of a topic. A field that is set is managed; a field that is removed is reset to inherit."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            QUOTA_RULE,
            (
                "!has(self.retention) || self.retention.timeMinutes <= 0 || !has(self.backlogQuotas) || "
                "!has(self.backlogQuotas.messageAge) || "
                "self.backlogQuotas.messageAge.limitSeconds < self.retention.timeMinutes * 60",
                "retention.timeMinutes must be longer than backlogQuotas.messageAge.limitSeconds: "
                "Pulsar refuses a quota that retention would cut first",
            ),
        )
    )

    retention: Retention | None = None
    """How long acknowledged messages are kept."""
    message_ttl_seconds: Count | None = Field(default=None, alias="messageTTLSeconds")
    """Unacknowledged messages older than this are acknowledged by the broker; 0 = never."""
    backlog_quotas: BacklogQuotas | None = None
    """Limits of unacknowledged data."""
    subscription_expiration_minutes: Count | None = None
    """Subscriptions without a consumer for this long are deleted; 0 = never; needs Pulsar 4.2."""
    compaction_threshold: Bytes | None = None
    """The topic is compacted when it has more than this behind the last compaction; 0 = never by itself."""

    publish_rate: PublishRate | None = None
    """How fast producers may publish; an empty value lifts the brokers' own limit."""
    dispatch_rate: DispatchRate | None = None
    """How fast the topic may deliver to all its consumers; an empty value lifts the brokers' own limit."""
    subscription_dispatch_rate: DispatchRate | None = None
    """How fast each subscription may be delivered to; an empty value lifts the brokers' own limit."""
    replicator_dispatch_rate: DispatchRate | None = None
    """How fast the topic may be replicated to another cluster; an empty value lifts the brokers' own limit."""
    subscribe_rate: SubscribeRate | None = None
    """How often a consumer may subscribe; an empty value lifts the brokers' own limit."""

    persistence: LedgerPersistence | None = None
    """How messages are written to bookies; counts for new ledgers."""
    offload: Offload | None = None
    """Tiered storage: when ledgers move there, and where it is. Written as a whole."""

    deduplication: Deduplication | None = None
    """Message deduplication: what a producer sends twice is stored once."""
    delayed_delivery: DelayedDelivery | None = None
    """Messages delivered later than published."""
    auto_subscription_creation: AutoSubscriptionCreation | None = None
    """Whether consumers may create the subscriptions they name."""
    inactive_topics: InactiveTopics | None = None
    """Deletion of the topic when nobody uses it."""

    max_producers: Count | None = None
    """How many producers it may have at a time; 0 = no limit."""
    max_consumers: Count | None = None
    """How many consumers it may have at a time; 0 = no limit."""
    max_consumers_per_subscription: Count | None = None
    """How many consumers each subscription may have at a time; 0 = no limit."""
    max_subscriptions: Count | None = None
    """How many subscriptions it may have; 0 = no limit."""
    max_unacked_messages_per_consumer: Count | None = None
    """Delivered and unacknowledged messages of a consumer; at the limit delivery to it stops; 0 = no limit."""
    max_unacked_messages_per_subscription: Count | None = None
    """Delivered and unacknowledged messages of a shared subscription; at the limit delivery stops; 0 = no limit."""
    max_message_size: Annotated[int, ByteSize(ge=0, le=INT32_MAX)] | None = None
    """Size of a message, at most the brokers' own limit; 0 = no limit but theirs."""

    # "schema" itself would hide a method of the model base.
    schema_policies: TopicSchemaPolicies | None = Field(default=None, alias="schema")
    """Schemas of the topic."""
    subscription_types_enabled: SubscriptionTypes | None = None
    """Subscription types consumers may use; absent = all."""
    entry_filters: EntryFilterNames | None = None
    """Entry filters installed in the brokers, in the order in which they look at a message. Brokers go by them with
    allowOverrideEntryFilters=true."""
    dispatcher_pause_on_ack_state_persistent: bool | None = None
    """Whether delivery pauses while too many acknowledgements are not stored. Removed, it is set to false."""
    shadow_topics: (
        Annotated[
            list[Annotated[str, Field(min_length=1, max_length=512, pattern=SHADOW_TOPIC)]],
            Field(min_length=1, max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
        ]
        | None
    ) = None
    """Shadow topics of this topic, by full name; they must exist."""
