"""Policies of namespaces. All are read by one ``GET /namespaces/{tenant}/{namespace}``.

Source: class Namespaces of the broker's admin v2 and class Policies of the client admin API (Pulsar 4.0), checked
against a running 4.0.8 by e2e/tests/test_policies_real.py. Rows are in the order in which they are first applied.
"""

from __future__ import annotations

from typing import Any

from pulsar_operator.api.v1alpha1.policies import AgeBacklogQuota, BacklogPolicy, Retention, StorageBacklogQuota
from pulsar_operator.domain.policies.model import Merged, PolicyRow, Scope

_QUOTA_POLICIES = {
    BacklogPolicy.PRODUCER_REQUEST_HOLD: "producer_request_hold",
    BacklogPolicy.PRODUCER_EXCEPTION: "producer_exception",
    BacklogPolicy.CONSUMER_BACKLOG_EVICTION: "consumer_backlog_eviction",
}
_QUOTA_NAMES = {text: policy for policy, text in _QUOTA_POLICIES.items()}


def _encode_storage(quota: StorageBacklogQuota) -> dict[str, Any]:
    return {"limitSize": quota.limit_bytes, "limitTime": -1, "policy": _QUOTA_POLICIES[quota.policy]}


def _decode_storage(live: dict[str, Any]) -> StorageBacklogQuota:
    return StorageBacklogQuota(limit_bytes=live["limitSize"], policy=_QUOTA_NAMES[live["policy"]])


def _encode_age(quota: AgeBacklogQuota) -> dict[str, Any]:
    return {"limitSize": -1, "limitTime": quota.limit_seconds, "policy": _QUOTA_POLICIES[quota.policy]}


def _decode_age(live: dict[str, Any]) -> AgeBacklogQuota:
    return AgeBacklogQuota(limit_seconds=live["limitTime"], policy=_QUOTA_NAMES[live["policy"]])


def _encode_retention(retention: Retention) -> dict[str, Any]:
    return {
        "retentionTimeInMinutes": retention.time_minutes,
        "retentionSizeInMB": retention.size_megabytes,
    }


def _decode_retention(live: dict[str, Any]) -> Retention:
    return Retention(time_minutes=live["retentionTimeInMinutes"], size_megabytes=live["retentionSizeInMB"])


def _grow_only(live: Any, wanted: Any) -> Merged:
    """Clusters may join; leaving makes that cluster's brokers delete the data there at once (seen on 4.0.8)."""
    found = list(live) if isinstance(live, list) else []
    leaving = sorted(set(found) - set(wanted))
    refusal = None
    if leaving:
        names = ", ".join(leaving)
        refusal = (
            f"spec.replicationClusters leaves out {names}, which holds the namespace: Pulsar would delete all of its "
            f"topics and messages in {names} at once. Put {names} back into the list; this version does not remove "
            "a cluster from a namespace"
        )
    return Merged(sorted(set(found) | set(wanted)), refusal)


NAMESPACE_POLICIES: tuple[PolicyRow, ...] = (
    PolicyRow(
        scope=Scope.NAMESPACE,
        field="replicationClusters",
        endpoint=("replication",),
        live=("replication_clusters",),
        encode=list,
        decode=sorted,
        equal=lambda wanted, found: set(wanted) == set(found),
        merge=_grow_only,
        remove=False,
        examples=(["{cluster}"], ["{cluster}", "{other}"]),
    ),
    # Pulsar compares retention with the storage quota (checkBacklogQuota), and with the broker's default quota while
    # the namespace has only a quota on age: the storage quota goes first, retention last.
    PolicyRow(
        scope=Scope.NAMESPACE,
        field="policies.backlogQuotas.destinationStorage",
        endpoint=("backlogQuota",),
        query={"backlogQuotaType": "destination_storage"},
        live=("backlog_quota_map", "destination_storage"),
        encode=_encode_storage,
        decode=_decode_storage,
        examples=(
            StorageBacklogQuota(limit_bytes=1048576, policy=BacklogPolicy.PRODUCER_EXCEPTION),
            StorageBacklogQuota(limit_bytes=5 * 2**40, policy=BacklogPolicy.PRODUCER_REQUEST_HOLD),
            StorageBacklogQuota(limit_bytes=0, policy=BacklogPolicy.CONSUMER_BACKLOG_EVICTION),
        ),
    ),
    PolicyRow(
        scope=Scope.NAMESPACE,
        field="policies.backlogQuotas.messageAge",
        endpoint=("backlogQuota",),
        query={"backlogQuotaType": "message_age"},
        live=("backlog_quota_map", "message_age"),
        encode=_encode_age,
        decode=_decode_age,
        examples=(
            AgeBacklogQuota(limit_seconds=3600, policy=BacklogPolicy.CONSUMER_BACKLOG_EVICTION),
            AgeBacklogQuota(limit_seconds=2147483647, policy=BacklogPolicy.PRODUCER_EXCEPTION),
        ),
    ),
    PolicyRow(
        scope=Scope.NAMESPACE,
        field="policies.retention",
        endpoint=("retention",),
        live=("retention_policies",),
        encode=_encode_retention,
        decode=_decode_retention,
        examples=(
            Retention(time_minutes=1440, size_megabytes=-1),
            Retention(time_minutes=-1, size_megabytes=-1),
            Retention(time_minutes=0, size_megabytes=0),
            Retention(time_minutes=60, size_megabytes=20480),
        ),
    ),
    PolicyRow(
        scope=Scope.NAMESPACE,
        field="policies.messageTTLSeconds",
        endpoint=("messageTTL",),
        live=("message_ttl_in_seconds",),
        encode=int,
        decode=int,
        examples=(3600, 0, 2147483647),
    ),
)
