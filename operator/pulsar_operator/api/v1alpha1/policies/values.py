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
    """What a broker does when a backlog quota is exceeded (Pulsar docs, "Backlog quotas")."""

    PRODUCER_REQUEST_HOLD = "ProducerRequestHold"
    PRODUCER_EXCEPTION = "ProducerException"
    CONSUMER_BACKLOG_EVICTION = "ConsumerBacklogEviction"


class Retention(ApiModel):
    """How long acknowledged messages are kept. Both limits apply; -1 = no limit, both 0 = nothing is kept."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                f"(self.timeMinutes == 0) == ({cel_size('self.size')} == 0)",
                "retention.timeMinutes and retention.size must both be 0 or both be non-zero (-1 = no limit): "
                "with one of them 0 Pulsar keeps nothing",
            ),
        )
    )

    time_minutes: Annotated[int, Field(ge=-1, le=INT32_MAX)]
    """How long acknowledged messages are kept, minutes; -1 = no limit."""
    size: Annotated[int, ByteSize(ge=-1, le=INT32_MAX * MEBI, whole=MEBI)]
    """How much of them each topic, or partition, keeps: bytes, such as 20Gi, in whole Mi; -1 = no limit."""


class StorageBacklogQuota(ApiModel):
    """Quota on the size of the backlog (destination_storage)."""

    limit: Bytes
    """Size of the backlog from which on the policy applies: bytes, such as 256Mi."""
    policy: BacklogPolicy
    """What the broker does then: ProducerRequestHold = producers wait, ProducerException = producers are refused,
    ConsumerBacklogEviction = the oldest unacknowledged messages are dropped."""


class AgeBacklogQuota(ApiModel):
    """Quota on the age of the oldest unacknowledged message (message_age)."""

    limit_seconds: Annotated[int, Field(ge=1, le=INT32_MAX)]
    """Age of the oldest unacknowledged message from which on the policy applies, seconds."""
    policy: BacklogPolicy
    """What the broker does then: ProducerRequestHold = producers wait, ProducerException = producers are refused,
    ConsumerBacklogEviction = the oldest unacknowledged messages are dropped."""


class BacklogQuotas(ApiModel):
    """Backlog quotas by type."""

    destination_storage: StorageBacklogQuota | None = None
    """Limit on the size of a topic's backlog."""
    message_age: AgeBacklogQuota | None = None
    """Limit on the age of a topic's backlog."""


QUOTA_RULE = (
    f"!has(self.retention) || {cel_size('self.retention.size')} <= 0 || !has(self.backlogQuotas) || "
    "!has(self.backlogQuotas.destinationStorage) || "
    f"{cel_size('self.backlogQuotas.destinationStorage.limit')} < {cel_size('self.retention.size')}",
    "retention.size must be larger than backlogQuotas.destinationStorage.limit: "
    "Pulsar refuses a quota that retention would cut first",
)
"""CEL rule of a struct with members retention and backlogQuotas (Pulsar: checkBacklogQuota)."""


class DispatchRate(ApiModel):
    """How fast messages go out. An empty value means no limit, whatever the brokers' own setting."""

    messages_per_period: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Messages in each period; absent = no limit."""
    bytes_per_period: Annotated[int, Field(ge=1, json_schema_extra={"format": "int64"})] | None = None
    """Bytes in each period; absent = no limit."""
    period_seconds: Annotated[int, Field(ge=1, le=INT32_MAX)] = 1
    """Length of a period in seconds."""
    relative_to_publish_rate: bool = False
    """Whether the limits are added to the rate at which messages are published."""


class PublishRate(ApiModel):
    """How fast messages come in, all producers of a topic together. An empty value means no limit."""

    messages_per_second: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Messages; absent = no limit."""
    bytes_per_second: Annotated[int, Field(ge=1, json_schema_extra={"format": "int64"})] | None = None
    """Bytes; absent = no limit."""


class SubscribeRate(ApiModel):
    """How often a consumer may subscribe. An empty value means no limit."""

    subscribes_per_consumer: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = None
    """Times in each period; absent = no limit."""
    period_seconds: Annotated[int, Field(ge=1, le=INT32_MAX)] = 30
    """Length of a period in seconds."""


class LedgerPersistence(ApiModel):
    """How messages are written to bookies. There must be at least as many writable bookies as ensembleSize."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "self.ensembleSize >= self.writeQuorum && self.writeQuorum >= self.ackQuorum",
                "persistence must have ensembleSize >= writeQuorum >= ackQuorum",
            ),
        )
    )

    ensemble_size: Annotated[int, Field(ge=1, le=5)]
    """Bookies each ledger is spread over."""
    write_quorum: Annotated[int, Field(ge=1, le=5)]
    """Copies of each message."""
    ack_quorum: Annotated[int, Field(ge=1, le=5)]
    """Copies that must be stored before the producer is told."""
    max_mark_deletes_per_second: Decimal = 1
    """How often the position of a subscription is stored, at most, such as 1 or "0.5"; 0 = no limit."""
    storage_class: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f]+$")] | None = None
    """Managed ledger storage class of the brokers; absent = their default."""


class AutoSubscriptionCreation(ApiModel):
    """Whether a consumer may create the subscription it names."""

    enabled: bool
    """Whether a subscription that does not exist is made when a consumer names it."""


class Deduplication(ApiModel):
    """Message deduplication: what a producer sends twice is stored once."""

    enabled: bool | None = None
    """Whether messages are deduplicated."""
    snapshot_interval_seconds: Count | None = None
    """Seconds between two snapshots of the producers' sequence ids; 0 = no snapshots by time."""


class DelayedDelivery(ApiModel):
    """Messages delivered later than published."""

    enabled: bool
    """Whether producers may delay messages; otherwise they are delivered at once."""
    tick_time_milliseconds: Annotated[int, Field(ge=1, json_schema_extra={"format": "int64"})] = 1000
    """Precision of delayed delivery, milliseconds; not finer than the brokers' delayedDeliveryTickTimeMillis."""
    max_delay_milliseconds: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] = 0
    """Longest delay a producer may ask for, milliseconds; 0 = no limit."""


class InactiveTopicMode(StrEnum):
    """When a topic without traffic counts as inactive."""

    WHEN_NO_SUBSCRIPTIONS = "WhenNoSubscriptions"
    WHEN_SUBSCRIPTIONS_CAUGHT_UP = "WhenSubscriptionsCaughtUp"


class InactiveTopics(ApiModel):
    """Deletion of topics nobody uses. Brokers do it only with brokerDeleteInactiveTopicsEnabled unless set here."""

    delete_while_inactive: bool
    """Whether inactive topics are deleted."""
    delete_mode: InactiveTopicMode
    """When a topic that nobody is connected to counts as inactive: WhenNoSubscriptions = without any subscription,
    WhenSubscriptionsCaughtUp = when its subscriptions have nothing left to read."""
    max_inactive_seconds: Annotated[int, Field(ge=1, le=INT32_MAX)]
    """How long a topic must have been inactive, seconds."""


class SubscriptionType(StrEnum):
    """How messages are shared among the consumers of a subscription."""

    EXCLUSIVE = "Exclusive"
    SHARED = "Shared"
    FAILOVER = "Failover"
    KEY_SHARED = "KeyShared"


SubscriptionTypes = Annotated[
    list[SubscriptionType], Field(min_length=1, max_length=4, json_schema_extra={"x-kubernetes-list-type": "set"})
]


class SchemaCompatibility(StrEnum):
    """Which new schemas a topic takes (Pulsar docs, "Schema evolution and compatibility")."""

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
"""In the order in which they look at a message."""


class OffloadDriver(StrEnum):
    """Where offloaded ledgers are stored."""

    AWS_S3 = "AwsS3"
    S3 = "S3"
    GOOGLE_CLOUD_STORAGE = "GoogleCloudStorage"
    AZURE_BLOB = "AzureBlob"
    ALIYUN_OSS = "AliyunOss"
    FILE_SYSTEM = "FileSystem"


class OffloadReadPriority(StrEnum):
    """Where a ledger that is in both places is read."""

    TIERED_STORAGE_FIRST = "TieredStorageFirst"
    BOOKKEEPER_FIRST = "BookKeeperFirst"


class Offload(ApiModel):
    """Tiered storage. Written as a whole. Credentials are not part of it: brokers take them from their environment."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "self.driver == 'FileSystem' || has(self.bucket)",
                "offload.bucket is required with this driver",
            ),
        )
    )

    driver: OffloadDriver
    """Kind of storage; needed also where the brokers have one configured. They take credentials from their
    environment."""
    bucket: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """Bucket or container; required except for FileSystem."""
    region: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Region of the bucket."""
    service_endpoint: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """URL of the storage service; absent = the provider's own."""
    s3_role: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """ARN of the role brokers assume."""
    s3_role_session_name: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Session name for that role; absent = pulsar-s3-offload."""
    threshold: Annotated[int, ByteSize(ge=-1)] | None = None
    """Offload when a topic has more than this in bookies; 0 = as soon as possible, -1 = never by size."""
    threshold_seconds: Annotated[int, Field(ge=-1, json_schema_extra={"format": "int64"})] | None = None
    """Offload what is older than this; 0 = as soon as possible, -1 = never by age."""
    deletion_lag_milliseconds: Annotated[int, Field(ge=-1, json_schema_extra={"format": "int64"})] | None = None
    """How long an offloaded ledger stays in bookies as well, milliseconds; -1 = for ever."""
    read_priority: OffloadReadPriority | None = None
    """Where a ledger that is in both places is read; absent = TieredStorageFirst."""
    max_block_size: Annotated[int, ByteSize(ge=5 * MEBI, le=INT32_MAX)] | None = None
    """Size of the blocks of a multi-part upload, at least 5 MiB."""
    read_buffer_size: Annotated[int, ByteSize(ge=KIBI, le=INT32_MAX)] | None = None
    """Buffer of each read: bytes, such as 1Mi."""
    max_threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Threads that upload; absent = 2."""
    read_threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Threads that read; absent = 2."""
    prefetch_rounds: Annotated[int, Field(ge=0, le=1024)] | None = None
    """Buffers read ahead; absent = 1."""
