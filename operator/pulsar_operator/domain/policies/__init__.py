"""The policy table: one row per policy of a namespace or topic. To add a policy, add its typed field and its row."""

from __future__ import annotations

from pulsar_operator.domain.policies.model import (
    NOTHING,
    OLDEST,
    Call,
    PolicyRow,
    Scope,
    Undecodable,
    Unreadable,
    concealed,
    describe,
    encoded_again,
    lookup,
    lookup_each,
    too_old,
)
from pulsar_operator.domain.policies.namespace_rows import NAMESPACE_POLICIES, UNMANAGED_KEYS
from pulsar_operator.domain.policies.topic_rows import (
    GLOBAL_POLICIES,
    LOCAL_POLICIES,
    TOPIC_POLICIES,
    UNMANAGED_MEMBERS,
    declared_in,
)

POLICIES: tuple[PolicyRow, ...] = NAMESPACE_POLICIES + TOPIC_POLICIES

__all__ = [
    "GLOBAL_POLICIES",
    "LOCAL_POLICIES",
    "NAMESPACE_POLICIES",
    "NOTHING",
    "OLDEST",
    "POLICIES",
    "TOPIC_POLICIES",
    "UNMANAGED_KEYS",
    "UNMANAGED_MEMBERS",
    "Call",
    "PolicyRow",
    "Scope",
    "Undecodable",
    "Unreadable",
    "concealed",
    "declared_in",
    "describe",
    "encoded_again",
    "lookup",
    "lookup_each",
    "too_old",
]
