"""Values of each policy for tests: at least two different ones, each of which must survive encode, REST and decode.

Words in braces stand for things that a test makes first, see tests/standalone/test_policies_real.py. Whoever adds a row
to the policy table adds its values here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pulsar_operator.api.v1alpha1.isolation_policy import AutoFailover, UnloadScope
from pulsar_operator.api.v1alpha1.policies import (
    AgeBacklogQuota,
    AutoSubscriptionCreation,
    AutoTopicCreation,
    AutoTopicType,
    BacklogPolicy,
    BookieAffinityGroup,
    DelayedDelivery,
    DispatchRate,
    InactiveTopicMode,
    InactiveTopics,
    LedgerPersistence,
    Offload,
    OffloadDriver,
    OffloadReadPriority,
    PublishRate,
    Retention,
    SchemaCompatibility,
    StorageBacklogQuota,
    SubscribeRate,
    SubscriptionAuthMode,
    SubscriptionType,
)
from pulsar_operator.api.v1alpha1.quantities import MEBI
from pulsar_operator.domain.policies import PolicyRow
from pulsar_operator.domain.policies.codecs import INT32_MAX
from pulsar_operator.domain.policies.entry_rows import EntryRow

_CLUSTER_NAMES = (["{cluster}"], ["{cluster}", "{other}"])
_LIMIT = (7, 0, INT32_MAX)
_SIZE = (1048576, 0, 2**53 + 1)
_SECONDS = (3600, 0, INT32_MAX)
_FLAG = (True, False)
_STORAGE_QUOTA = (
    StorageBacklogQuota(limit=1048576, policy=BacklogPolicy.PRODUCER_EXCEPTION),
    StorageBacklogQuota(limit=5 * 2**40, policy=BacklogPolicy.PRODUCER_REQUEST_HOLD),
    StorageBacklogQuota(limit=0, policy=BacklogPolicy.CONSUMER_BACKLOG_EVICTION),
)
_AGE_QUOTA = (
    AgeBacklogQuota(limit_seconds=3600, policy=BacklogPolicy.CONSUMER_BACKLOG_EVICTION),
    AgeBacklogQuota(limit_seconds=INT32_MAX, policy=BacklogPolicy.PRODUCER_EXCEPTION),
)
_RETENTION = (
    Retention(time_minutes=1440, size=-1),
    Retention(time_minutes=-1, size=-1),
    Retention(time_minutes=0, size=0),
    Retention(time_minutes=60, size=20480 * MEBI),
)
_DISPATCH_RATE = (
    DispatchRate(messages_per_period=100),
    DispatchRate(bytes_per_period=2**40, period_seconds=60, relative_to_publish_rate=True),
    DispatchRate(),
)
_PUBLISH_RATE = (PublishRate(messages_per_second=100), PublishRate(bytes_per_second=2**40), PublishRate())
_SUBSCRIBE_RATE = (SubscribeRate(subscribes_per_consumer=5), SubscribeRate(subscribes_per_consumer=1, period_seconds=7))
_PERSISTENCE = (
    LedgerPersistence(ensemble_size=3, write_quorum=2, ack_quorum=1),
    LedgerPersistence(ensemble_size=1, write_quorum=1, ack_quorum=1, max_mark_deletes_per_second="0.5"),
    LedgerPersistence(ensemble_size=5, write_quorum=5, ack_quorum=5, max_mark_deletes_per_second="2.0"),
    LedgerPersistence(
        ensemble_size=2, write_quorum=2, ack_quorum=2, max_mark_deletes_per_second=0, storage_class="bookkeeper"
    ),
)
_BOOKIE_AFFINITY = (BookieAffinityGroup(primary=["fast"]), BookieAffinityGroup(primary=["b", "a"], secondary=["c"]))
_TEXT = ("group-1", "Group.2")
_NAME = ("{group}", "{other_group}")
_AUTO_TOPIC_CREATION = (
    AutoTopicCreation(enabled=False),
    AutoTopicCreation(enabled=True, topic_type=AutoTopicType.PARTITIONED, default_partitions=3),
    AutoTopicCreation(enabled=True, topic_type=AutoTopicType.NON_PARTITIONED),
)
_AUTO_SUBSCRIPTION_CREATION = (AutoSubscriptionCreation(enabled=False), AutoSubscriptionCreation(enabled=True))
_DELAYED_DELIVERY = (
    DelayedDelivery(enabled=False),
    DelayedDelivery(enabled=True, tick_time_milliseconds=500, max_delay_milliseconds=2**40),
)
_INACTIVE_TOPICS = (
    InactiveTopics(
        delete_while_inactive=False, delete_mode=InactiveTopicMode.WHEN_NO_SUBSCRIPTIONS, max_inactive_seconds=60
    ),
    InactiveTopics(
        delete_while_inactive=True,
        delete_mode=InactiveTopicMode.WHEN_SUBSCRIPTIONS_CAUGHT_UP,
        max_inactive_seconds=INT32_MAX,
    ),
)
_SUBSCRIPTION_TYPES = (
    [SubscriptionType.SHARED],
    [SubscriptionType.KEY_SHARED, SubscriptionType.EXCLUSIVE],
    [*SubscriptionType],
)
_SCHEMA_COMPATIBILITY = tuple(SchemaCompatibility)
_ENTRY_FILTERS = (["filter-one"], ["filter-two", "filter-one"])
_PROPERTY_KEYS = (["team"], ["cost center", "team"])
_SHADOW_TOPICS = (["{shadow}"], ["{shadow}", "{other_shadow}"])
_OFFLOAD = (
    Offload(driver=OffloadDriver.FILE_SYSTEM, threshold=10 * 2**30),
    Offload(driver=OffloadDriver.GOOGLE_CLOUD_STORAGE, bucket="b", region="r", max_threads=2),
    Offload(driver=OffloadDriver.AZURE_BLOB, bucket="b", deletion_lag_milliseconds=-1, threshold=-1),
    Offload(driver=OffloadDriver.ALIYUN_OSS, bucket="b", service_endpoint="https://oss.example"),
    Offload(driver=OffloadDriver.S3, bucket="b", service_endpoint="http://minio:9000", threshold_seconds=0),
    Offload(
        driver=OffloadDriver.AWS_S3,
        bucket="b",
        region="eu-west-1",
        service_endpoint="https://s3.example",
        s3_role="arn:aws:iam::1:role/x",
        s3_role_session_name="pulsar",
        threshold=0,
        threshold_seconds=86400,
        deletion_lag_milliseconds=3600000,
        read_priority=OffloadReadPriority.BOOKKEEPER_FIRST,
        max_block_size=5242880,
        read_buffer_size=65536,
        max_threads=4,
        read_threads=4,
        prefetch_rounds=0,
    ),
)

_VALUES: Final[Mapping[str, tuple[Any, ...]]] = {
    "allowedClusters": _CLUSTER_NAMES,
    "autoFailover": (AutoFailover(min_limit=2), AutoFailover(min_limit=0, usage_threshold_percent=100)),
    "limits.dispatchRate.bytesPerSecond": (1000, INT32_MAX),
    "limits.dispatchRate.messagesPerSecond": (1000, INT32_MAX),
    "limits.publishRate.bytesPerSecond": (1000, INT32_MAX),
    "limits.publishRate.messagesPerSecond": (1000, INT32_MAX),
    "namespaces": (["t/a"], ["t/b", "t/c.*"]),
    "policies.allowedTopicPropertyKeysForMetrics": _PROPERTY_KEYS,
    "policies.antiAffinityGroup": _TEXT,
    "policies.autoSubscriptionCreation": _AUTO_SUBSCRIPTION_CREATION,
    "policies.autoTopicCreation": _AUTO_TOPIC_CREATION,
    "policies.backlogQuotas.destinationStorage": _STORAGE_QUOTA,
    "policies.backlogQuotas.messageAge": _AGE_QUOTA,
    "policies.bookieAffinityGroup": _BOOKIE_AFFINITY,
    "policies.compactionThreshold": _SIZE,
    "policies.deduplication.enabled": _FLAG,
    "policies.deduplication.snapshotIntervalSeconds": _SECONDS,
    "policies.delayedDelivery": _DELAYED_DELIVERY,
    "policies.dispatchRate": _DISPATCH_RATE,
    "policies.dispatcherPauseOnAckStatePersistent": _FLAG,
    "policies.encryptionRequired": _FLAG,
    "policies.entryFilters": _ENTRY_FILTERS,
    "policies.inactiveTopics": _INACTIVE_TOPICS,
    "policies.maxConsumers": _LIMIT,
    "policies.maxConsumersPerSubscription": _LIMIT,
    "policies.maxConsumersPerTopic": _LIMIT,
    "policies.maxMessageSize": (1024, 0, 1048576),
    "policies.maxProducers": _LIMIT,
    "policies.maxProducersPerTopic": _LIMIT,
    "policies.maxSubscriptions": _LIMIT,
    "policies.maxSubscriptionsPerTopic": _LIMIT,
    "policies.maxTopics": _LIMIT,
    "policies.maxUnackedMessagesPerConsumer": _LIMIT,
    "policies.maxUnackedMessagesPerSubscription": _LIMIT,
    "policies.messageTTLSeconds": _SECONDS,
    "policies.offload": _OFFLOAD,
    "policies.persistence": _PERSISTENCE,
    "policies.publishRate": _PUBLISH_RATE,
    "policies.replicatorDispatchRate": _DISPATCH_RATE,
    "policies.resourceGroup": _NAME,
    "policies.retention": _RETENTION,
    "policies.schema.allowAutoUpdate": _FLAG,
    "policies.schema.compatibilityStrategy": _SCHEMA_COMPATIBILITY,
    "policies.schema.validationEnforced": _FLAG,
    "policies.shadowTopics": _SHADOW_TOPICS,
    "policies.subscribeRate": _SUBSCRIBE_RATE,
    "policies.subscriptionAuthMode": tuple(SubscriptionAuthMode),
    "policies.subscriptionDispatchRate": _DISPATCH_RATE,
    "policies.subscriptionExpirationMinutes": _SECONDS,
    "policies.subscriptionTypesEnabled": _SUBSCRIPTION_TYPES,
    "primary": (["x"], ["y", "z.*"]),
    "replicationClusters": _CLUSTER_NAMES,
    "secondary": (["x"], ["y", "z.*"]),
    "unloadScope": tuple(UnloadScope),
}

HOSTILE = ("a/b", "a%2Fb", "..a", "50%", "a+b", "q?x=1&y", "h#f", "semi;colon", "sp ace", "\u00fc-\u03bb", "a]b[c")
"""Keys that would change a path if they were not encoded."""
_ENTRIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "permissions": {
        "app": {"actions": ["Produce", "Consume"]},
        "ops": {"actions": ["Functions", "Sources", "Sinks", "Packages"]},
        "subscription": {"actions": ["Consume"]},  # also a segment of other endpoints
        **{key: {"actions": ["Produce"]} for key in HOSTILE},
    },
    "subscriptionPermissions": {
        "s": {"roles": ["app", "a/b"]},
        "subscription": {"roles": ["subscription"]},
        **{key: {"roles": [key, "app"]} for key in HOSTILE},
    },
    "properties": {"team": "shop", "empty": "", "x" * 256: "v" * 4096, **{key: f"<{key}>" for key in HOSTILE}},
}


def values_of(row: PolicyRow) -> tuple[Any, ...]:
    """Values of a row's field, as in a spec."""
    return _VALUES[row.path]


def entries_of(row: EntryRow) -> Mapping[str, Any]:
    """At least two entries of a row's list as in a manifest, by key, hostile keys among them."""
    return _ENTRIES[row.field]
