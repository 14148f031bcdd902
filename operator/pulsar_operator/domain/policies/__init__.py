"""The policy table: one row per policy of a namespace or topic. To add a policy, add its typed field and its row."""

from __future__ import annotations

from pulsar_operator.domain.policies.model import (
    Call,
    Merged,
    PolicyRow,
    Scope,
    Undecodable,
    describe,
    lookup,
    too_old,
)
from pulsar_operator.domain.policies.namespace_rows import NAMESPACE_POLICIES

TOPIC_POLICIES: tuple[PolicyRow, ...] = ()
"""Policies of topics; each is read with a GET of its own and ``applied=false``."""

POLICIES: tuple[PolicyRow, ...] = NAMESPACE_POLICIES + TOPIC_POLICIES

__all__ = [
    "NAMESPACE_POLICIES",
    "POLICIES",
    "TOPIC_POLICIES",
    "Call",
    "Merged",
    "PolicyRow",
    "Scope",
    "Undecodable",
    "describe",
    "lookup",
    "too_old",
]
