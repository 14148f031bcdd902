"""Which brokers may serve which namespaces, from the isolation policies of a cluster.

If that depends on an expression that cannot be evaluated (domain/expressions.py), or on a policy that cannot be read,
the brokers of the namespace are not known, and its bundles stay where they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pulsar_operator.domain.expressions import Work, covers, unevaluated

EXPRESSIONS = ("namespaces", "primary", "secondary")
"""Fields of a policy that are lists of expressions."""


@dataclass(frozen=True)
class Isolation:
    """The brokers that may serve namespaces."""

    allowed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By namespace, the brokers that may serve it; those that any broker may serve are absent."""
    undecided: frozenset[str] = frozenset()
    """Namespaces whose brokers are not known."""


def host_of(broker: str) -> str:
    """Returns the host of a broker id: placement compares that alone (Pulsar's class
    SimpleResourceAllocationPolicies)."""
    return broker.rsplit(":", 1)[0]


def expressions_of(policy: Any, name: str) -> list[str] | None:
    """Returns one list of expressions of a policy; None where it has no such list that can be read."""
    found = (policy.get(name) or []) if isinstance(policy, Mapping) else None
    return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else None


def isolates(policy: Any, namespace: str, work: Work | None = None) -> bool | None:
    """Whether a policy is for a namespace; None if not known."""
    expressions = expressions_of(policy, "namespaces")
    return covers(expressions, namespace, work) if expressions is not None else None


def unevaluated_in(policies: Mapping[str, Any]) -> dict[str, list[str]]:
    """By name of the policy, the expressions that cannot be evaluated, or fields that cannot be read."""
    found: dict[str, list[str]] = {}
    for name, policy in sorted(policies.items()):
        lists = {each: expressions_of(policy, each) for each in EXPRESSIONS}
        here = [f"({each} is not a list of expressions)" for each, listed in lists.items() if listed is None]
        here += [expression for listed in lists.values() for expression in unevaluated(listed or ())]
        if here:
            found[name] = list(dict.fromkeys(here))
    return found


def shared_brokers(
    brokers: Iterable[str], policies: Mapping[str, Any], work: Work | None = None
) -> frozenset[str] | None:
    """Returns brokers that are primary to no policy: they alone serve the namespaces outside all policies. None where
    that is not known for one of them."""
    primaries = [expressions_of(policy, "primary") for policy in policies.values()]
    known = [each for listed in primaries for each in listed or ()]
    taken = {broker: covers(known, host_of(broker), work) for broker in brokers}
    if any(verdict is None for verdict in taken.values()) or (None in primaries and not all(taken.values())):
        return None
    return frozenset(broker for broker, verdict in taken.items() if not verdict)


def isolation_of(namespaces: Iterable[str], brokers: Collection[str], policies: Mapping[str, Any]) -> Isolation:
    """Returns the brokers that may serve each namespace.

    ``policies`` is the answer of ``GET /clusters/{cluster}/namespaceIsolationPolicies``. A namespace of a policy is
    served by its primary brokers, and by its secondary ones as well while fewer than ``min_limit`` primaries are there;
    any other namespace by brokers that are primary to no policy (classes NamespaceIsolationPolicies and
    IsolationPolicyImpl).
    """
    work = Work()
    everything, shared = frozenset(brokers), shared_brokers(brokers, policies, work)
    by_policy: dict[str, frozenset[str] | None] = {}
    allowed: dict[str, frozenset[str]] = {}
    undecided = set()
    for namespace in namespaces:
        able = shared
        for name, policy in policies.items():
            verdict = isolates(policy, namespace, work)
            if verdict is False:
                continue
            if verdict and name not in by_policy:
                by_policy[name] = _serving(policy, brokers, work)
            able = by_policy[name] if verdict else None
            break
        if able is None:
            undecided.add(namespace)
        elif able != everything:
            allowed[namespace] = able
    return Isolation(allowed, frozenset(undecided))


def _serving(policy: Any, brokers: Collection[str], work: Work) -> frozenset[str] | None:
    """Returns the brokers that serve the namespaces of a policy; None if not known."""
    primary, limit = _matching(policy, "primary", brokers, work), _min_limit(policy)
    if primary is None or limit is None:
        return None
    if len(primary) >= limit:
        return primary
    secondary = _matching(policy, "secondary", brokers, work)
    return primary | secondary if secondary is not None else None


def _matching(policy: Any, name: str, brokers: Collection[str], work: Work) -> frozenset[str] | None:
    expressions = expressions_of(policy, name)
    if expressions is None:
        return None
    verdicts = {broker: covers(expressions, host_of(broker), work) for broker in brokers}
    if any(verdict is None for verdict in verdicts.values()):
        return None
    return frozenset(broker for broker, verdict in verdicts.items() if verdict)


def _min_limit(policy: Any) -> int | None:
    """Primary brokers below which the secondary ones help; 0 where the policy does not say, None where it says
    something else than a number."""
    failover = policy.get("auto_failover_policy") or {}
    parameters = (failover.get("parameters") or {}) if isinstance(failover, Mapping) else None
    text = str(parameters.get("min_limit") or 0) if isinstance(parameters, Mapping) else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 10 else None
