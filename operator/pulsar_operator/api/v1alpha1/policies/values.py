"""Values of policies that namespaces and topics have in common.

Ranges and rules are those of Pulsar's admin REST (classes NamespacesBase, PersistentTopicsBase and PolicyName's values,
4.0), seen on a running 4.0.8; values that Pulsar takes and then misreads are refused here as well.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, validations
from pulsar_operator.api.v1alpha1.quantities import KIBI, MEBI, ByteSize, cel_size

INT32_MAX = 2147483647

Count = Annotated[int, Field(ge=0, le=INT32_MAX)]
"""A limit; 0 = no limit."""
Bytes = Annotated[int, ByteSize(ge=0)]
Decimal = Annotated[
    str | int,
    Field(
        json_schema_extra={
            "x-kubernetes-int-or-string": True,
            "pattern": r"^[0-9]{1,9}(\.[0-9]{1,3})?$",
            "maxLength": 13,
        }
    ),
]
"""A number with up to three decimal places; floating point has no place in a Kubernetes API."""


class BacklogPolicy(StrEnum):
    """Action of a broker when a backlog quota is exceeded (Pulsar docs, "Backlog quotas")."""

    PRODUCER_REQUEST_HOLD = "ProducerRequestHold"
    PRODUCER_EXCEPTION = "ProducerException"
    CONSUMER_BACKLOG_EVICTION = "ConsumerBacklogEviction"


class Retention(ApiModel):
    """Retention of acknowledged messages. Both limits apply. -1 means no limit, and 0 for both means that nothing is
    kept."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                f"(self.timeMinutes == 0) == ({cel_size('self.size')} == 0)",
                "retention.timeMinutes and retention.size must both be 0 or both be non-zero (-1 means no "
                "limit), because Pulsar keeps nothing if one of them is 0",
            ),
        )
    )

    time_minutes: Annotated[int, Field(ge=-1, le=INT32_MAX)]
    """Minutes for which acknowledged messages are kept. -1 means no limit."""
    size: Annotated[int, ByteSize(ge=-1, le=INT32_MAX * MEBI, whole=MEBI)]
    """Bytes of acknowledged messages that each topic or partition keeps, such as 20Gi, as a multiple of 1Mi. -1 means
    no limit."""


class StorageBacklogQuota(ApiModel):
    """Quota of the size of the backlog (destination_storage)."""

    limit: Bytes
    """Size of the backlog in bytes, such as 256Mi, above which the policy applies."""
    policy: BacklogPolicy
    """Action of the broker when the limit is exceeded. ProducerRequestHold lets producers wait, ProducerException
    rejects them, and ConsumerBacklogEviction drops the oldest unacknowledged messages."""


class AgeBacklogQuota(ApiModel):
    """Quota of the age of the oldest unacknowledged message (message_age)."""

    limit_seconds: Annotated[int, Field(ge=1, le=INT32_MAX)]
    """Age of the oldest unacknowledged message in seconds, above which the policy applies."""
    policy: BacklogPolicy
    """Action of the broker when the limit is exceeded. ProducerRequestHold lets producers wait, ProducerException
    rejects them, and ConsumerBacklogEviction drops the oldest unacknowledged messages."""


class BacklogQuotas(ApiModel):
    """Backlog quotas by type."""

    destination_storage: StorageBacklogQuota | None = None
    """Quota of the size of a topic's backlog. If unset, this object does not set the policy."""
    message_age: AgeBacklogQuota | None = None
    """Quota of the age of a topic's oldest unacknowledged message. If unset, this object does not set the policy."""


QUOTA_RULE = (
    f"!has(self.retention) || {cel_size('self.retention.size')} <= 0 || !has(self.backlogQuotas) || "
    "!has(self.backlogQuotas.destinationStorage) || "
    f"{cel_size('self.backlogQuotas.destinationStorage.limit')} < {cel_size('self.retention.size')}",
    "retention.size must be larger than backlogQuotas.destinationStorage.limit, because Pulsar refuses a quota "
    "that exceeds the retention",
)
"""CEL rule of a struct with members retention and backlogQuotas (Pulsar: checkBacklogQuota)."""


class DispatchRate(ApiModel):
    """A rate of outgoing messages. An empty value means no limit, whatever the setting of the brokers is."""

    messages_per_period: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Maximum number of messages per period. If unset, there is no limit."""
    bytes_per_period: Annotated[int, Field(ge=1, json_schema_extra={"format": "int64"})] | None = None
    """Maximum number of bytes per period. If unset, there is no limit."""
    period_seconds: Annotated[int, Field(ge=1, le=INT32_MAX)] = 1
    """Length of a period in seconds."""
    relative_to_publish_rate: bool = False
    """Whether the limits are added to the rate at which messages are published."""


class PublishRate(ApiModel):
    """A rate of incoming messages, over all producers of a topic. An empty value means no limit."""

    messages_per_second: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Maximum number of messages per second. If unset, there is no limit."""
    bytes_per_second: Annotated[int, Field(ge=1, json_schema_extra={"format": "int64"})] | None = None
    """Maximum number of bytes per second. If unset, there is no limit."""


class SubscribeRate(ApiModel):
    """A rate of subscribe requests of a consumer. An empty value means no limit."""

    subscribes_per_consumer: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Maximum number of subscribe requests of a consumer per period. If unset, there is no limit."""
    period_seconds: Annotated[int, Field(ge=1, le=INT32_MAX)] = 30
    """Length of a period in seconds."""


class LedgerPersistence(ApiModel):
    """Quorums of new ledgers. At least ensembleSize bookies must be writable."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "self.ensembleSize >= self.writeQuorum && self.writeQuorum >= self.ackQuorum",
                "persistence must have ensembleSize >= writeQuorum >= ackQuorum",
            ),
        )
    )

    ensemble_size: Annotated[int, Field(ge=1, le=5)]
    """Number of bookies over which the entries of a ledger are spread."""
    write_quorum: Annotated[int, Field(ge=1, le=5)]
    """Number of copies of each message that are written."""
    ack_quorum: Annotated[int, Field(ge=1, le=5)]
    """Number of copies that must be stored before the producer gets its acknowledgment."""
    max_mark_deletes_per_second: Decimal = 1
    """Maximum number of times per second that the position of a subscription is stored, such as 1 or "0.5". 0 means no
    limit."""
    storage_class: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")] | None = None
    """Managed ledger storage class that the brokers use. If unset, the default of the brokers applies."""


class AutoSubscriptionCreation(ApiModel):
    """Automatic creation of subscriptions."""

    enabled: bool
    """Whether a subscription that does not exist is created when a consumer names it."""


class Deduplication(ApiModel):
    """Message deduplication: a message that a producer sends twice is stored once."""

    enabled: bool | None = None
    """Whether messages are deduplicated. If unset, this object does not set the policy."""
    snapshot_interval_seconds: Count | None = None
    """Seconds between two snapshots of the producers' sequence IDs. With 0, time triggers no snapshots. If unset, this
    object does not set the policy."""


class DelayedDelivery(ApiModel):
    """Delivery of messages later than they were published."""

    enabled: bool
    """Whether producers may delay messages. If false, messages are delivered immediately."""
    tick_time_milliseconds: Annotated[int, Field(ge=1, json_schema_extra={"format": "int64"})] = 1000
    """Precision of delayed delivery in milliseconds. The precision is not finer than delayedDeliveryTickTimeMillis of
    the brokers."""
    max_delay_milliseconds: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Maximum delay in milliseconds that a producer may request. 0 means no limit."""


class InactiveTopicMode(StrEnum):
    """Criterion by which a topic is inactive."""

    WHEN_NO_SUBSCRIPTIONS = "WhenNoSubscriptions"
    WHEN_SUBSCRIPTIONS_CAUGHT_UP = "WhenSubscriptionsCaughtUp"


class InactiveTopics(ApiModel):
    """Deletion of inactive topics. If unset, brokers delete them only with brokerDeleteInactiveTopicsEnabled."""

    delete_while_inactive: bool
    """Whether inactive topics are deleted."""
    delete_mode: InactiveTopicMode
    """Criterion by which a topic without connected clients is inactive. WhenNoSubscriptions means that it has no
    subscription. WhenSubscriptionsCaughtUp means that its subscriptions have no unread messages."""
    max_inactive_seconds: Annotated[int, Field(ge=1, le=INT32_MAX)]
    """Seconds for which a topic must be inactive before it is deleted."""


class SubscriptionType(StrEnum):
    """Type of a subscription."""

    EXCLUSIVE = "Exclusive"
    SHARED = "Shared"
    FAILOVER = "Failover"
    KEY_SHARED = "KeyShared"


SubscriptionTypes = Annotated[
    list[SubscriptionType], Field(min_length=1, max_length=4, json_schema_extra={"x-kubernetes-list-type": "set"})
]


class SchemaCompatibility(StrEnum):
    """Schema compatibility check strategy (Pulsar docs, "Schema evolution and compatibility")."""

    ALWAYS_INCOMPATIBLE = "AlwaysIncompatible"
    ALWAYS_COMPATIBLE = "AlwaysCompatible"
    BACKWARD = "Backward"
    FORWARD = "Forward"
    FULL = "Full"
    BACKWARD_TRANSITIVE = "BackwardTransitive"
    FORWARD_TRANSITIVE = "ForwardTransitive"
    FULL_TRANSITIVE = "FullTransitive"


LIST_WORD = r"^[^,\x00-\x20\x7f]+$"
"""A member of what Pulsar keeps as one text with commas; no space, no control character. A broker repeats the name of a
filter in the status line of its refusal, and with a control character that is an answer no proxy understands."""

EntryFilterNames = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=128, pattern=LIST_WORD)]],
    Field(min_length=1, max_length=32, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
]
"""In the order in which they process a message."""


class OffloadDriver(StrEnum):
    """Storage of offloaded ledgers."""

    AWS_S3 = "AwsS3"
    S3 = "S3"
    GOOGLE_CLOUD_STORAGE = "GoogleCloudStorage"
    AZURE_BLOB = "AzureBlob"
    ALIYUN_OSS = "AliyunOss"
    FILE_SYSTEM = "FileSystem"


class OffloadReadPriority(StrEnum):
    """Storage from which a ledger is read that is in both."""

    TIERED_STORAGE_FIRST = "TieredStorageFirst"
    BOOKKEEPER_FIRST = "BookKeeperFirst"


class Offload(ApiModel):
    """Tiered storage, written as a whole. It has no credentials, because brokers take them from their environment."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "self.driver == 'FileSystem' || has(self.bucket)",
                "offload.bucket is required with this driver",
            ),
        )
    )

    driver: OffloadDriver
    """Driver of the storage. The driver is required even if the brokers have a driver configured. Brokers take
    credentials from their environment."""
    bucket: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """Bucket or container that stores the ledgers. Required unless the driver is FileSystem."""
    region: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Region of the bucket. If unset, Pulsar's default applies."""
    service_endpoint: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """URL of the storage service. If unset, the URL of the provider is used."""
    s3_role: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """ARN of the role that brokers assume. If unset, brokers assume no role."""
    s3_role_session_name: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Session name that is used with the role. If unset, Pulsar uses pulsar-s3-offload."""
    threshold: Annotated[int, ByteSize(ge=-1)] | None = None
    """Size in bytes above which the ledgers of a topic are offloaded. With 0, ledgers are offloaded as soon as
    possible, and with -1 size triggers no offload. If unset, Pulsar's default applies."""
    threshold_seconds: Annotated[int, Field(ge=-1, json_schema_extra={"format": "int64"})] | None = None
    """Age in seconds above which ledgers are offloaded. With 0, ledgers are offloaded as soon as possible, and with -1
    age triggers no offload. If unset, Pulsar's default applies."""
    deletion_lag_milliseconds: Annotated[int, Field(ge=-1, json_schema_extra={"format": "int64"})] | None = None
    """Milliseconds for which an offloaded ledger also stays in bookies. With -1, an offloaded ledger is never deleted
    from the bookies. If unset, Pulsar's default applies."""
    read_priority: OffloadReadPriority | None = None
    """Storage from which a ledger is read that is in both. If unset, Pulsar uses TieredStorageFirst."""
    max_block_size: Annotated[int, ByteSize(ge=5 * MEBI, le=INT32_MAX)] | None = None
    """Size of the blocks of a multi-part upload, which is at least 5 MiB. If unset, Pulsar's default applies."""
    read_buffer_size: Annotated[int, ByteSize(ge=KIBI, le=INT32_MAX)] | None = None
    """Size of the buffer of each read in bytes, such as 1Mi. If unset, Pulsar's default applies."""
    max_threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Number of threads that upload. If unset, Pulsar uses 2."""
    read_threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Number of threads that read. If unset, Pulsar uses 2."""
    prefetch_rounds: Annotated[int, Field(ge=0, le=1024)] | None = None
    """Number of buffers that are read ahead. If unset, Pulsar uses 1."""
