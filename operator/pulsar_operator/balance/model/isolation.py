"""Which brokers may serve which namespaces, from the isolation policies of a cluster."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=4096)
def _pattern(regex: str) -> re.Pattern[str] | None:
    try:
        return re.compile(regex)
    except re.error:
        return None


def matches(regexes: Iterable[str], text: str) -> bool:
    """Whether one of the expressions covers the whole text; one that Python cannot read matches nothing."""
    return any(p.fullmatch(text) is not None for p in map(_pattern, regexes) if p is not None)


def host_of(broker: str) -> str:
    """The host of a broker id: placement compares that alone (Pulsar's class SimpleResourceAllocationPolicies)."""
    return broker.rsplit(":", 1)[0]


def shared_brokers(brokers: Collection[str], policies: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Brokers that are primary to no policy: they alone serve the namespaces outside all policies."""
    expressions = [each for policy in policies.values() for each in policy.get("primary") or ()]
    return frozenset(b for b in brokers if not matches(expressions, host_of(b)))


def allowed_brokers(
    namespaces: Iterable[str], brokers: Collection[str], policies: Mapping[str, Mapping[str, Any]]
) -> dict[str, frozenset[str]]:
    """Per namespace, the brokers that may serve it; namespaces that any broker may serve are absent.

    ``policies`` is the answer of ``GET /clusters/{cluster}/namespaceIsolationPolicies``. A namespace of a policy is
    served by its primary brokers, and by its secondary ones as well while fewer than ``min_limit`` primaries are there;
    any other namespace by brokers that are primary to no policy (classes NamespaceIsolationPolicies and
    IsolationPolicyImpl).
    """
    shared = shared_brokers(brokers, policies)
    everything = frozenset(brokers)
    found: dict[str, frozenset[str]] = {}
    for namespace in namespaces:
        policy = next((p for p in policies.values() if matches(p.get("namespaces") or (), namespace)), None)
        if policy is None:
            able = shared
        else:
            able = frozenset(b for b in brokers if matches(policy.get("primary") or (), host_of(b)))
            parameters = (policy.get("auto_failover_policy") or {}).get("parameters") or {}
            if len(able) < int(parameters.get("min_limit") or 0):
                able |= frozenset(b for b in brokers if matches(policy.get("secondary") or (), host_of(b)))
        if able != everything:
            found[namespace] = able
    return found
