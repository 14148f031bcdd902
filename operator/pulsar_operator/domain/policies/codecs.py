"""Codecs that convert values of policies to and from the format of Pulsar's admin REST. All rows share them.

Source of names and formats: classes of org.apache.pulsar.common.policies.data (Pulsar 4.0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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
    PublishRate,
    Retention,
    SchemaCompatibility,
    StorageBacklogQuota,
    SubscribeRate,
    SubscriptionType,
)
from pulsar_operator.api.v1alpha1.quantities import MEBI

NO_LIMIT = -1
INT32_MAX = 2147483647


@dataclass(frozen=True)
class Codec:
    """The format of a value. The members are those of PolicyRow."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    equal: Callable[[Any, Any], bool] = lambda desired, found: bool(desired == found)


def _whole(live: Any) -> int:
    if isinstance(live, bool) or not isinstance(live, int):
        raise ValueError("not a whole number")
    return live


def _truth(live: Any) -> bool:
    if not isinstance(live, bool):
        raise ValueError("neither true nor false")
    return live


def _limit(live: Any) -> int | None:
    """Returns a limit; None for no limit, which is every value that is not positive for Pulsar."""
    number = _whole(live)
    return number if number > 0 else None


def _or_no_limit(value: int | None) -> int:
    return NO_LIMIT if value is None else value


def _same_members(desired: Any, found: Any) -> bool:
    return set(desired) == set(found)


def words(names: Mapping[Any, str]) -> tuple[Callable[[Any], str], Callable[[Any], Any]]:
    """Returns an encoder and a decoder of an enumeration. The decoder raises KeyError for a value of a newer Pulsar."""
    back = {text: value for value, text in names.items()}
    return names.__getitem__, back.__getitem__


CLUSTER_NAMES = Codec(list, sorted, _same_members)
"""Codec for clusters by their names in Pulsar."""
LIMIT = Codec(
    int,
    _whole,
)
SIZE = Codec(
    int,
    _whole,
)
SECONDS = Codec(
    int,
    _whole,
)
FLAG = Codec(
    bool,
    _truth,
)

_quota_out, _quota_in = words(
    {
        BacklogPolicy.PRODUCER_REQUEST_HOLD: "producer_request_hold",
        BacklogPolicy.PRODUCER_EXCEPTION: "producer_exception",
        BacklogPolicy.CONSUMER_BACKLOG_EVICTION: "consumer_backlog_eviction",
    }
)

STORAGE_QUOTA = Codec(
    lambda quota: {"limitSize": quota.limit, "limitTime": NO_LIMIT, "policy": _quota_out(quota.policy)},
    lambda live: StorageBacklogQuota(limit=live["limitSize"], policy=_quota_in(live["policy"])),
)
AGE_QUOTA = Codec(
    lambda quota: {"limitSize": NO_LIMIT, "limitTime": quota.limit_seconds, "policy": _quota_out(quota.policy)},
    lambda live: AgeBacklogQuota(limit_seconds=live["limitTime"], policy=_quota_in(live["policy"])),
)


def _mebibytes(size: int) -> int:
    """Returns a size in MB of 2^20 bytes, Pulsar's unit (class RetentionPolicies). 0 and no limit are unchanged."""
    return size // MEBI if size > 0 else size


def _of_mebibytes(live: int) -> int:
    return live * MEBI if live > 0 else live


RETENTION = Codec(
    lambda value: {"retentionTimeInMinutes": value.time_minutes, "retentionSizeInMB": _mebibytes(value.size)},
    lambda live: Retention(time_minutes=live["retentionTimeInMinutes"], size=_of_mebibytes(live["retentionSizeInMB"])),
)


def _encode_dispatch(rate: DispatchRate) -> dict[str, Any]:
    return {
        "dispatchThrottlingRateInMsg": _or_no_limit(rate.messages_per_period),
        "dispatchThrottlingRateInByte": _or_no_limit(rate.bytes_per_period),
        "relativeToPublishRate": rate.relative_to_publish_rate,
        "ratePeriodInSecond": rate.period_seconds,
    }


def _decode_dispatch(live: Mapping[str, Any]) -> DispatchRate:
    return DispatchRate(
        messages_per_period=_limit(live["dispatchThrottlingRateInMsg"]),
        bytes_per_period=_limit(live["dispatchThrottlingRateInByte"]),
        relative_to_publish_rate=_truth(live["relativeToPublishRate"]),
        period_seconds=live["ratePeriodInSecond"],
    )


DISPATCH_RATE = Codec(
    _encode_dispatch,
    _decode_dispatch,
)
PUBLISH_RATE = Codec(
    lambda rate: {
        "publishThrottlingRateInMsg": _or_no_limit(rate.messages_per_second),
        "publishThrottlingRateInByte": _or_no_limit(rate.bytes_per_second),
    },
    lambda live: PublishRate(
        messages_per_second=_limit(live["publishThrottlingRateInMsg"]),
        bytes_per_second=_limit(live["publishThrottlingRateInByte"]),
    ),
)
SUBSCRIBE_RATE = Codec(
    lambda rate: {
        "subscribeThrottlingRatePerConsumer": _or_no_limit(rate.subscribes_per_consumer),
        "ratePeriodInSecond": rate.period_seconds,
    },
    lambda live: SubscribeRate(
        subscribes_per_consumer=_limit(live["subscribeThrottlingRatePerConsumer"]),
        period_seconds=live["ratePeriodInSecond"],
    ),
)


def _encode_persistence(value: LedgerPersistence) -> dict[str, Any]:
    body = {
        "bookkeeperEnsemble": value.ensemble_size,
        "bookkeeperWriteQuorum": value.write_quorum,
        "bookkeeperAckQuorum": value.ack_quorum,
        "managedLedgerMaxMarkDeleteRate": float(value.max_mark_deletes_per_second),
    }
    return body | ({"managedLedgerStorageClassName": value.storage_class} if value.storage_class else {})


def _decode_persistence(live: Mapping[str, Any]) -> LedgerPersistence:
    rate = float(live["managedLedgerMaxMarkDeleteRate"])
    return LedgerPersistence(
        ensemble_size=live["bookkeeperEnsemble"],
        write_quorum=live["bookkeeperWriteQuorum"],
        ack_quorum=live["bookkeeperAckQuorum"],
        max_mark_deletes_per_second=int(rate) if rate.is_integer() else str(rate),
        storage_class=live.get("managedLedgerStorageClassName") or None,
    )


PERSISTENCE = Codec(
    _encode_persistence,
    _decode_persistence,
    equal=lambda desired, found: _encode_persistence(desired) == _encode_persistence(found),
)
BOOKIE_AFFINITY = Codec(
    lambda value: {
        "bookkeeperAffinityGroupPrimary": ",".join(value.primary),
        **({"bookkeeperAffinityGroupSecondary": ",".join(value.secondary)} if value.secondary else {}),
    },
    lambda live: BookieAffinityGroup(
        primary=live["bookkeeperAffinityGroupPrimary"].split(","),
        secondary=(live.get("bookkeeperAffinityGroupSecondary") or "").split(",")
        if live.get("bookkeeperAffinityGroupSecondary")
        else None,
    ),
    equal=lambda desired, found: (
        _same_members(desired.primary, found.primary) and _same_members(desired.secondary or (), found.secondary or ())
    ),
)
TEXT = Codec(
    lambda text: text.encode(),
    str,
)
NAME = Codec(
    str,
    str,
)

_topic_type_out, _topic_type_in = words(
    {AutoTopicType.PARTITIONED: "partitioned", AutoTopicType.NON_PARTITIONED: "non-partitioned"}
)


def _encode_auto_topic(value: AutoTopicCreation) -> dict[str, Any]:
    body: dict[str, Any] = {"allowAutoTopicCreation": value.enabled}
    if value.topic_type is not None:
        body["topicType"] = _topic_type_out(value.topic_type)
    if value.default_partitions is not None:
        body["defaultNumPartitions"] = value.default_partitions
    return body


AUTO_TOPIC_CREATION = Codec(
    _encode_auto_topic,
    lambda live: AutoTopicCreation(
        enabled=_truth(live["allowAutoTopicCreation"]),
        topic_type=_topic_type_in(live["topicType"]) if live.get("topicType") else None,
        default_partitions=live.get("defaultNumPartitions"),
    ),
)
AUTO_SUBSCRIPTION_CREATION = Codec(
    lambda value: {"allowAutoSubscriptionCreation": value.enabled},
    lambda live: AutoSubscriptionCreation(enabled=_truth(live["allowAutoSubscriptionCreation"])),
)
DELAYED_DELIVERY = Codec(
    lambda value: {
        "active": value.enabled,
        "tickTime": value.tick_time_milliseconds,
        "maxDeliveryDelayInMillis": value.max_delay_milliseconds,
    },
    lambda live: DelayedDelivery(
        enabled=_truth(live["active"]),
        tick_time_milliseconds=live["tickTime"],
        max_delay_milliseconds=live["maxDeliveryDelayInMillis"],
    ),
)

_inactive_out, _inactive_in = words(
    {
        InactiveTopicMode.WHEN_NO_SUBSCRIPTIONS: "delete_when_no_subscriptions",
        InactiveTopicMode.WHEN_SUBSCRIPTIONS_CAUGHT_UP: "delete_when_subscriptions_caught_up",
    }
)

INACTIVE_TOPICS = Codec(
    lambda value: {
        "inactiveTopicDeleteMode": _inactive_out(value.delete_mode),
        "maxInactiveDurationSeconds": value.max_inactive_seconds,
        "deleteWhileInactive": value.delete_while_inactive,
    },
    lambda live: InactiveTopics(
        delete_mode=_inactive_in(live["inactiveTopicDeleteMode"]),
        max_inactive_seconds=live["maxInactiveDurationSeconds"],
        delete_while_inactive=_truth(live["deleteWhileInactive"]),
    ),
)

_subscription_out, _subscription_in = words(
    {
        SubscriptionType.EXCLUSIVE: "Exclusive",
        SubscriptionType.SHARED: "Shared",
        SubscriptionType.FAILOVER: "Failover",
        SubscriptionType.KEY_SHARED: "Key_Shared",
    }
)

SUBSCRIPTION_TYPES = Codec(
    lambda types: [_subscription_out(each) for each in types],
    lambda live: [_subscription_in(each) for each in live] or None,
    equal=_same_members,
)

UNDEFINED = "UNDEFINED"
"""Pulsar's value for a namespace without its own strategy."""
_compatibility_out, _compatibility_in = words(
    {
        SchemaCompatibility.ALWAYS_INCOMPATIBLE: "ALWAYS_INCOMPATIBLE",
        SchemaCompatibility.ALWAYS_COMPATIBLE: "ALWAYS_COMPATIBLE",
        SchemaCompatibility.BACKWARD: "BACKWARD",
        SchemaCompatibility.FORWARD: "FORWARD",
        SchemaCompatibility.FULL: "FULL",
        SchemaCompatibility.BACKWARD_TRANSITIVE: "BACKWARD_TRANSITIVE",
        SchemaCompatibility.FORWARD_TRANSITIVE: "FORWARD_TRANSITIVE",
        SchemaCompatibility.FULL_TRANSITIVE: "FULL_TRANSITIVE",
    }
)

SCHEMA_COMPATIBILITY = Codec(
    _compatibility_out,
    lambda live: None if live == UNDEFINED else _compatibility_in(live),
)
ENTRY_FILTERS = Codec(
    lambda names: {"entryFilterNames": ",".join(names)},
    lambda live: [name for name in live["entryFilterNames"].split(",") if name] or None,
)
PROPERTY_KEYS = Codec(list, lambda live: sorted(live) or None, _same_members)
SHADOW_TOPICS = Codec(list, sorted, equal=_same_members)
