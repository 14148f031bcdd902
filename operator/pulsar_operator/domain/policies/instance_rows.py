"""The fields of resource groups and of namespace isolation policies.

Source: classes ResourceGroups and Clusters of the broker's admin v2, ResourceGroup and NamespaceIsolationDataImpl of
Pulsar 4.0, checked against a running 4.0.8 by tests/standalone/test_instance_contract_real.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulsar_operator.api.v1alpha1.isolation_policy import AutoFailover, AutoFailoverType, UnloadScope
from pulsar_operator.domain.policies.model import PolicyRow, Scope

NO_LIMIT = -1


def _limit(found: Any) -> int | None:
    """Returns a limit; None for no limit. Pulsar stores -1 for no limit, and treats any other number below 1 the
    same."""
    value = int(found)
    return value if value >= 1 else None


def _group(field: str, key: str) -> PolicyRow:
    """Returns a row for one limit. PUT changes only the members it contains, and no call unsets one."""
    return PolicyRow(
        scope=Scope.RESOURCE_GROUP,
        field=f"limits.{field}",
        endpoint=(),
        live=(key,),
        encode=lambda value: {key: value},
        decode=_limit,
        set_method="PUT",
        remove_body={key: NO_LIMIT},
    )


RESOURCE_GROUP_LIMITS: tuple[PolicyRow, ...] = (
    _group("publishRate.messagesPerSecond", "publishRateInMsgs"),
    _group("publishRate.bytesPerSecond", "publishRateInBytes"),
    _group("dispatchRate.messagesPerSecond", "dispatchRateInMsgs"),
    _group("dispatchRate.bytesPerSecond", "dispatchRateInBytes"),
)


_FAILOVER_TYPES = {AutoFailoverType.MIN_AVAILABLE: "min_available"}
_UNLOAD_SCOPES = {
    UnloadScope.ALL_MATCHING: "all_matching",
    UnloadScope.NONE: "none",
    UnloadScope.CHANGED: "changed",
}


def _encode_failover(value: AutoFailover) -> dict[str, Any]:
    return {
        "policy_type": _FAILOVER_TYPES[value.type],
        "parameters": {"min_limit": str(value.min_limit), "usage_threshold": str(value.usage_threshold_percent)},
    }


def _decode_failover(found: Mapping[str, Any]) -> AutoFailover:
    kinds = {text: kind for kind, text in _FAILOVER_TYPES.items()}
    parameters = dict(found["parameters"])
    value = AutoFailover(
        type=kinds[found["policy_type"]],
        min_limit=int(parameters.pop("min_limit")),
        usage_threshold_percent=int(parameters.pop("usage_threshold")),
    )
    if parameters:
        raise ValueError(f"unknown parameters {', '.join(sorted(parameters))}")
    return value


def _same_entries(desired: Any, found: Any) -> bool:
    return set(desired) == set(found)


def _isolation(field: str, key: str, encode: Any, decode: Any, **more: Any) -> PolicyRow:
    return PolicyRow(
        scope=Scope.ISOLATION_POLICY,
        field=field,
        endpoint=(),
        live=(key,),
        encode=encode,
        decode=decode,
        per_cluster=True,
        **more,
    )


ISOLATION_FIELDS: tuple[PolicyRow, ...] = (
    _isolation("namespaces", "namespaces", list, list, equal=_same_entries),
    _isolation("primary", "primary", list, list, equal=_same_entries),
    _isolation("secondary", "secondary", list, list, equal=_same_entries, unset=[]),
    _isolation(
        "autoFailover",
        "auto_failover_policy",
        _encode_failover,
        _decode_failover,
        unset=AutoFailover(),
    ),
    _isolation(
        "unloadScope",
        "unload_scope",
        _UNLOAD_SCOPES.__getitem__,
        {text: scope for scope, text in _UNLOAD_SCOPES.items()}.__getitem__,
    ),
)
"""Fields of an isolation policy, which Pulsar stores as one value that every write replaces. ``unset`` is the value
that a policy must have if the spec does not declare the field; otherwise the field is left out."""
