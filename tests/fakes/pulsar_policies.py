"""Policies of the in-memory Pulsar: which endpoint keeps what, and what it refuses, as seen on Pulsar 4.0.8."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakes.answers import EMPTY, NO_CONTENT, Answer, RefusalError, Text
from tests.fakes.jsoncopy import deepcopy

Check = Callable[[Any], None]
LIMIT_UNSET = 0
MEBIBYTE = 1024 * 1024
BROKER_MESSAGE_BYTES = 5 * MEBIBYTE
DRIVERS = ("S3", "aws-s3", "google-cloud-storage", "filesystem", "azureblob", "aliyun-oss")
OFFLOAD_DEFAULTS = {
    "offloadersDirectory": "./offloaders",
    "managedLedgerOffloadMaxThreads": 2,
    "managedLedgerOffloadReadThreads": 2,
    "managedLedgerOffloadPrefetchRounds": 1,
    "managedLedgerExtraConfigurations": {},
    "s3ManagedLedgerOffloadMaxBlockSizeInBytes": 67108864,
    "s3ManagedLedgerOffloadReadBufferSizeInBytes": 1048576,
    "s3ManagedLedgerOffloadRoleSessionName": "pulsar-s3-offload",
}


def _need(ok: bool, status: int, reason: str) -> None:
    if not ok:
        raise RefusalError(status, reason)


def _anything(_: Any) -> None:
    """Pulsar looks at nothing."""


def _not_negative(body: Any) -> None:
    _need(body is None or body >= 0, 412, "must be 0 or more")


def _ledgers(body: Mapping[str, Any]) -> None:
    values = [body[name] for name in ("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum")]
    _need(all(0 < v <= 5 for v in values), 400, "Bookkeeper-Ensemble must be <= 5 and > 0.")
    ensemble, write, ack = values
    text = f"Bookkeeper Ensemble ({ensemble}) >= WriteQuorum ({write}) >= AckQuorum ({ack})"
    _need(ensemble >= write >= ack, 400, text)


def _auto_topic(body: Mapping[str, Any]) -> None:
    kind, count = body.get("topicType"), body.get("defaultNumPartitions")
    if body["allowAutoTopicCreation"]:
        ok = (kind == "partitioned" and (count or 0) >= 1) or (kind == "non-partitioned" and count is None)
        _need(ok, 412, "Invalid configuration for autoTopicCreationOverride.")


def _offload(body: Mapping[str, Any]) -> None:
    driver = body.get("managedLedgerOffloadDriver")
    _need(driver in DRIVERS, 412, f"The driver is not supported, support value: {','.join(DRIVERS)}")
    ok = driver == "filesystem" or bool(body.get("managedLedgerOffloadBucket"))
    _need(ok, 412, "The bucket must be specified for namespace offload.")


def _filters(body: Mapping[str, Any]) -> None:
    raise RefusalError(400, f"Entry filter '{body['entryFilterNames'].split(',')[0]}' not found")


def _retention(body: Mapping[str, Any]) -> None:
    ok = (body["retentionTimeInMinutes"] == 0) == (body["retentionSizeInMB"] == 0)
    _need(ok, 400, "Invalid retention policy: Setting a single time or size limit to 0 is invalid")


def _message_size(body: int) -> None:
    text = "topic-level maxMessageSize must be greater than or equal to 0 and must be smaller than that in the broker"
    _need(0 <= body <= BROKER_MESSAGE_BYTES, 412, text)


@dataclass(frozen=True)
class Kept:
    """One value that an endpoint keeps."""

    key: str
    check: Check = _anything
    method: str = "POST"
    deletable: bool = True
    null_unsets: bool = False
    unset: Any = None
    """What is shown where it is not set; None = the key is absent."""
    by_cluster: bool = False
    flag: bool = False
    """POST without a body means true, DELETE means false."""
    fill: Mapping[str, Any] | None = None
    """What Pulsar fills in."""


NAMESPACE: Mapping[str, Kept] = {
    "messageTTL": Kept("message_ttl_in_seconds", _not_negative),
    "subscriptionExpirationTime": Kept("subscription_expiration_time_minutes", _not_negative),
    "compactionThreshold": Kept("compaction_threshold", _not_negative, "PUT"),
    "publishRate": Kept("publishMaxMessageRate", by_cluster=True),
    "dispatchRate": Kept("topicDispatchRate", by_cluster=True),
    "subscriptionDispatchRate": Kept("subscriptionDispatchRate", by_cluster=True),
    "replicatorDispatchRate": Kept("replicatorDispatchRate", by_cluster=True),
    "subscribeRate": Kept("clusterSubscribeRate", by_cluster=True),
    "persistence": Kept("persistence", _ledgers),
    "offloadPolicies": Kept("offload_policies", _offload, deletable=False, fill=OFFLOAD_DEFAULTS),
    "deduplication": Kept("deduplicationEnabled"),
    "deduplicationSnapshotInterval": Kept(
        "deduplicationSnapshotIntervalSeconds", _not_negative, deletable=False, null_unsets=True
    ),
    "delayedDelivery": Kept("delayed_delivery_policies"),
    "autoTopicCreation": Kept("autoTopicCreationOverride", _auto_topic),
    "autoSubscriptionCreation": Kept("autoSubscriptionCreationOverride"),
    "inactiveTopicPolicies": Kept("inactive_topic_policies"),
    "maxTopicsPerNamespace": Kept("max_topics_per_namespace", _not_negative),
    "maxProducersPerTopic": Kept("max_producers_per_topic", _not_negative),
    "maxConsumersPerTopic": Kept("max_consumers_per_topic", _not_negative),
    "maxConsumersPerSubscription": Kept("max_consumers_per_subscription", _not_negative),
    "maxSubscriptionsPerTopic": Kept("max_subscriptions_per_topic", _not_negative),
    "maxUnackedMessagesPerConsumer": Kept("max_unacked_messages_per_consumer", _not_negative),
    "maxUnackedMessagesPerSubscription": Kept("max_unacked_messages_per_subscription", _not_negative),
    "schemaCompatibilityStrategy": Kept(
        "schema_compatibility_strategy", method="PUT", deletable=False, unset="UNDEFINED"
    ),
    "isAllowAutoUpdateSchema": Kept("is_allow_auto_update_schema", deletable=False, unset=True),
    "schemaValidationEnforced": Kept("schema_validation_enforced", deletable=False, unset=False),
    "subscriptionTypesEnabled": Kept("subscription_types_enabled", unset=[]),
    "subscriptionAuthMode": Kept("subscription_auth_mode", deletable=False, unset="None"),
    "encryptionRequired": Kept("encryption_required", deletable=False, unset=False),
    "entryFilters": Kept("entryFilters", _filters),
    "allowedTopicPropertyKeysForMetrics": Kept("allowed_topic_property_keys_for_metrics"),
    "dispatcherPauseOnAckStatePersistent": Kept("dispatcherPauseOnAckStatePersistentEnabled", flag=True),
}
_PLAIN: Mapping[str, Callable[[Any], None]] = {
    "compactionThreshold": _not_negative,
    "publishRate": _anything,
    "dispatchRate": _anything,
    "subscriptionDispatchRate": _anything,
    "replicatorDispatchRate": _anything,
    "subscribeRate": _anything,
    "persistence": _ledgers,
    "deduplicationEnabled": _anything,
    "deduplicationSnapshotInterval": _not_negative,
    "delayedDelivery": _anything,
    "autoSubscriptionCreation": _anything,
    "inactiveTopicPolicies": _anything,
    "maxProducers": _not_negative,
    "maxConsumers": _not_negative,
    "maxConsumersPerSubscription": _not_negative,
    "maxSubscriptionsPerTopic": _not_negative,
    "maxUnackedMessagesOnConsumer": _not_negative,
    "maxUnackedMessagesOnSubscription": _not_negative,
    "maxMessageSize": _message_size,
    "entryFilters": _filters,
}
TOPIC: Mapping[str, Kept] = {name: Kept(name, check) for name, check in _PLAIN.items()} | {
    "offloadPolicies": Kept("offloadPolicies", _offload, fill=OFFLOAD_DEFAULTS),
    "schemaCompatibilityStrategy": Kept("schemaCompatibilityStrategy", method="PUT"),
    "schemaValidationEnforced": Kept("schemaValidationEnforced", deletable=False, unset=False),
    "subscriptionTypesEnabled": Kept("subscriptionTypesEnabled", unset=[]),
    "dispatcherPauseOnAckStatePersistent": Kept("dispatcherPauseOnAckStatePersistent", flag=True, unset=False),
    "shadowTopics": Kept("shadowTopics", method="PUT"),
    "replication": Kept("replication"),
}
IN_QUERY = frozenset({"messageTTL", "subscriptionExpirationTime"})
"""Policies of topics whose value is a query parameter."""
NEWER: Mapping[tuple[str, str], tuple[int, ...]] = {
    ("namespaces", "allowedTopicPropertyKeysForMetrics"): (4, 2),
    ("persistent", "subscriptionExpirationTime"): (4, 2),
}
"""First version by first and last segment of the path; from the client of Pulsar 4.2.0, not seen on a broker."""
UNSCOPED = frozenset({"schemaCompatibilityStrategy", "schemaValidationEnforced", "shadowTopics"})
"""Endpoints that ignore isGlobal."""


def new_namespace() -> dict[str, Any]:
    """Policies nobody has set, as GET namespace shows them."""
    shown = {kept.key: deepcopy(kept.unset) for kept in NAMESPACE.values() if kept.unset is not None}
    maps: dict[str, Any] = {kept.key: {} for kept in NAMESPACE.values() if kept.by_cluster}
    access: dict[str, Any] = {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}}
    rest = {"backlog_quota_map": {}, "properties": {}, "offload_threshold": -1, "deleted": False}
    return {**shown, **maps, **rest, "auth_policies": access}


def change(store: dict[str, Any], kept: Kept, name: str, method: str, body: Any, cluster: str) -> Answer:
    """Set or unset one value of a namespace or topic."""
    if method == "DELETE" and not kept.deletable:
        raise RefusalError(412, f"Invalid bundle range: {name}")
    if method not in {kept.method, "DELETE"}:
        return 405, None
    if kept.flag:
        store[kept.key] = method != "DELETE"
    elif method == "DELETE" or (body is None and kept.null_unsets):
        target = store[kept.key] if kept.by_cluster else store
        target.pop(cluster if kept.by_cluster else kept.key, None)
        if kept.unset is not None:
            store[kept.key] = deepcopy(kept.unset)
    else:
        kept.check(body)
        value = {**kept.fill, **body} if kept.fill is not None else body
        if kept.by_cluster:
            store[kept.key][cluster] = value
        else:
            store[kept.key] = value
    return NO_CONTENT


def quota_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """A backlog quota as it is shown."""
    limit = body.get("limitSize", LIMIT_UNSET)
    return {
        "limit": limit,
        "limitSize": limit,
        "limitTime": body.get("limitTime", LIMIT_UNSET),
        "policy": body["policy"],
    }


def quota_fits(quota: Mapping[str, Any], retention: Mapping[str, Any] | None) -> bool:
    """AdminResource.checkBacklogQuota."""
    if retention is None:
        return True
    size, minutes = retention["retentionSizeInMB"], retention["retentionTimeInMinutes"]
    if size > 0 and quota["limitSize"] >= size * MEBIBYTE:
        return False
    return not (minutes > 0 and quota["limitTime"] >= minutes * 60)


def local_policy(store: dict[str, Any], name: str, method: str, body: Any) -> Answer:
    """Bookie affinity and anti-affinity group, which each cluster keeps for itself."""
    if method == "GET":
        found = store.get(name)
        if found is None:
            return NO_CONTENT
        return 200, Text(found) if isinstance(found, str) else deepcopy(found)
    if method == "DELETE":
        store.pop(name, None)
        return NO_CONTENT
    _need(bool(body) or name != "antiAffinity", 412, "antiAffinityGroup can't be empty")
    store[name] = body
    return NO_CONTENT


def topic_policy(
    store: dict[str, Any],
    namespace: Mapping[str, Any],
    name: str,
    method: str,
    query: Mapping[str, str],
    body: Any,
) -> Answer:
    """One policy of a topic; ``store`` is the local or the global set."""
    quotas = store.setdefault("backlogQuotaMap", {})
    if method == "GET":
        kept = TOPIC.get(name)
        found = store.get(name, kept.unset if kept is not None else None)
        return EMPTY if found is None else (200, deepcopy(found))
    if name in IN_QUERY:
        if method == "DELETE":
            store.pop(name, None)
        else:
            _not_negative(int(query[name]))
            store[name] = int(query[name])
        return NO_CONTENT
    if name == "backlogQuota":
        kind = query["backlogQuotaType"]
        if method == "DELETE":
            quotas.pop(kind, None)
            return NO_CONTENT
        retention = store.get("retention") or namespace.get("retention_policies")
        text = "Backlog Quota exceeds configured retention quota for topic."
        _need(quota_fits(quota_of(body), retention), 412, text)
        quotas[kind] = quota_of(body)
        return NO_CONTENT
    if name == "retention":
        if method == "DELETE":
            store.pop(name, None)
            return NO_CONTENT
        _retention(body)
        looked_at = {**namespace.get("backlog_quota_map", {}), **quotas}
        text = (
            "Retention Quota must exceed configured backlog quota for topic. Please increase retention quota and retry"
        )
        _need(all(quota_fits(quota, body) for quota in looked_at.values()), 412, text)
        store[name] = dict(body)
        return NO_CONTENT
    if name not in TOPIC:
        return 404, None
    if method == "DELETE" and not TOPIC[name].deletable:
        return 405, None
    return change(store, TOPIC[name], name, method, body, "")


check_retention = _retention
