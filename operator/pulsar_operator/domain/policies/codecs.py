"""How values of policies are written to and read from Pulsar's admin REST, with examples; shared by all rows.

Source of names and forms: classes of org.apache.pulsar.common.policies.data (Pulsar 4.0).
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
    """A form of value; the members are those of PolicyRow."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    examples: tuple[Any, ...]
    equal: Callable[[Any, Any], bool] = lambda wanted, found: bool(wanted == found)


def _whole(live: Any) -> int:
    if isinstance(live, bool) or not isinstance(live, int):
        raise ValueError("not a whole number")
    return live


def _truth(live: Any) -> bool:
    if not isinstance(live, bool):
        raise ValueError("neither true nor false")
    return live


def _limit(live: Any) -> int | None:
    """Pulsar means "no limit" with every value that is not positive."""
    number = _whole(live)
    return number if number > 0 else None


def _or_no_limit(value: int | None) -> int:
    return NO_LIMIT if value is None else value


def _same_members(wanted: Any, found: Any) -> bool:
    return set(wanted) == set(found)


def words(names: Mapping[Any, str]) -> tuple[Callable[[Any], str], Callable[[Any], Any]]:
    """Encoder and decoder of an enumeration; the decoder raises KeyError for what a newer Pulsar has."""
    back = {text: value for value, text in names.items()}
    return names.__getitem__, back.__getitem__


CLUSTER_NAMES = Codec(list, sorted, (["{cluster}"], ["{cluster}", "{other}"]), _same_members)
"""Clusters by their names inside Pulsar."""
LIMIT = Codec(int, _whole, (7, 0, INT32_MAX))
SIZE = Codec(int, _whole, (1048576, 0, 2**53 + 1))
SECONDS = Codec(int, _whole, (3600, 0, INT32_MAX))
FLAG = Codec(bool, _truth, (True, False))

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
    (
        StorageBacklogQuota(limit=1048576, policy=BacklogPolicy.PRODUCER_EXCEPTION),
        StorageBacklogQuota(limit=5 * 2**40, policy=BacklogPolicy.PRODUCER_REQUEST_HOLD),
        StorageBacklogQuota(limit=0, policy=BacklogPolicy.CONSUMER_BACKLOG_EVICTION),
    ),
)
AGE_QUOTA = Codec(
    lambda quota: {"limitSize": NO_LIMIT, "limitTime": quota.limit_seconds, "policy": _quota_out(quota.policy)},
    lambda live: AgeBacklogQuota(limit_seconds=live["limitTime"], policy=_quota_in(live["policy"])),
    (
        AgeBacklogQuota(limit_seconds=3600, policy=BacklogPolicy.CONSUMER_BACKLOG_EVICTION),
        AgeBacklogQuota(limit_seconds=INT32_MAX, policy=BacklogPolicy.PRODUCER_EXCEPTION),
    ),
)


def _mebibytes(size: int) -> int:
    """What Pulsar keeps in MB, of 2^20 bytes (class RetentionPolicies); 0 and no limit stay."""
    return size // MEBI if size > 0 else size


def _of_mebibytes(live: int) -> int:
    return live * MEBI if live > 0 else live


RETENTION = Codec(
    lambda value: {"retentionTimeInMinutes": value.time_minutes, "retentionSizeInMB": _mebibytes(value.size)},
    lambda live: Retention(time_minutes=live["retentionTimeInMinutes"], size=_of_mebibytes(live["retentionSizeInMB"])),
    (
        Retention(time_minutes=1440, size=-1),
        Retention(time_minutes=-1, size=-1),
        Retention(time_minutes=0, size=0),
        Retention(time_minutes=60, size=20480 * MEBI),
    ),
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
    (
        DispatchRate(messages_per_period=100),
        DispatchRate(bytes_per_period=2**40, period_seconds=60, relative_to_publish_rate=True),
        DispatchRate(),
    ),
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
    (PublishRate(messages_per_second=100), PublishRate(bytes_per_second=2**40), PublishRate()),
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
    (SubscribeRate(subscribes_per_consumer=5), SubscribeRate(subscribes_per_consumer=1, period_seconds=7)),
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
    (
        LedgerPersistence(ensemble_size=3, write_quorum=2, ack_quorum=1),
        LedgerPersistence(ensemble_size=1, write_quorum=1, ack_quorum=1, max_mark_deletes_per_second="0.5"),
        LedgerPersistence(ensemble_size=5, write_quorum=5, ack_quorum=5, max_mark_deletes_per_second="2.0"),
        LedgerPersistence(
            ensemble_size=2, write_quorum=2, ack_quorum=2, max_mark_deletes_per_second=0, storage_class="bookkeeper"
        ),
    ),
    equal=lambda wanted, found: _encode_persistence(wanted) == _encode_persistence(found),
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
    (BookieAffinityGroup(primary=["fast"]), BookieAffinityGroup(primary=["b", "a"], secondary=["c"])),
    equal=lambda wanted, found: (
        _same_members(wanted.primary, found.primary) and _same_members(wanted.secondary or (), found.secondary or ())
    ),
)
TEXT = Codec(lambda text: text.encode(), str, ("group-1", "Group.2"))
NAME = Codec(str, str, ("{group}", "{other_group}"))

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
    (
        AutoTopicCreation(enabled=False),
        AutoTopicCreation(enabled=True, topic_type=AutoTopicType.PARTITIONED, default_partitions=3),
        AutoTopicCreation(enabled=True, topic_type=AutoTopicType.NON_PARTITIONED),
    ),
)
AUTO_SUBSCRIPTION_CREATION = Codec(
    lambda value: {"allowAutoSubscriptionCreation": value.enabled},
    lambda live: AutoSubscriptionCreation(enabled=_truth(live["allowAutoSubscriptionCreation"])),
    (AutoSubscriptionCreation(enabled=False), AutoSubscriptionCreation(enabled=True)),
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
    (
        DelayedDelivery(enabled=False),
        DelayedDelivery(enabled=True, tick_time_milliseconds=500, max_delay_milliseconds=2**40),
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
    (
        InactiveTopics(
            delete_while_inactive=False, delete_mode=InactiveTopicMode.WHEN_NO_SUBSCRIPTIONS, max_inactive_seconds=60
        ),
        InactiveTopics(
            delete_while_inactive=True,
            delete_mode=InactiveTopicMode.WHEN_SUBSCRIPTIONS_CAUGHT_UP,
            max_inactive_seconds=INT32_MAX,
        ),
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
    ([SubscriptionType.SHARED], [SubscriptionType.KEY_SHARED, SubscriptionType.EXCLUSIVE], [*SubscriptionType]),
    equal=_same_members,
)

UNDEFINED = "UNDEFINED"
"""What Pulsar shows for a namespace without a strategy of its own."""
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
    tuple(SchemaCompatibility),
)
ENTRY_FILTERS = Codec(
    lambda names: {"entryFilterNames": ",".join(names)},
    lambda live: [name for name in live["entryFilterNames"].split(",") if name] or None,
    (["filter-one"], ["filter-two", "filter-one"]),
)
PROPERTY_KEYS = Codec(list, lambda live: sorted(live) or None, (["team"], ["cost center", "team"]), _same_members)
SHADOW_TOPICS = Codec(list, sorted, (["{shadow}"], ["{shadow}", "{other_shadow}"]), equal=_same_members)
