"""Resource groups, isolation policies and failure domains of the in-memory Pulsar, as seen on Pulsar 4.0.8."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.answers import EMPTY, NO_CONTENT, Answer, RefusalError
from tests.fakes.jsoncopy import deepcopy

LIMITS = ("publishRateInMsgs", "publishRateInBytes", "dispatchRateInMsgs", "dispatchRateInBytes")
UNLOAD_SCOPES = ("all_matching", "none", "changed")
UNOWNED = "Failed to find ownership for topic"
"""How Pulsar's answer begins when no broker has or may have a topic (412)."""


@dataclass
class FakeClusters:
    """What the configuration store has beside tenants and namespaces."""

    resource_groups: set[str] = field(default_factory=set)
    group_limits: dict[str, dict[str, int]] = field(default_factory=dict)
    """Limits by resource group; a group that is not here has none."""
    isolation: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """Isolation policies by cluster and name."""
    domains: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Brokers by cluster and failure domain."""
    dynamic: dict[str, dict[str, str]] = field(default_factory=dict)
    """Dynamic settings of the brokers, by cluster."""
    unowned: set[str] = field(default_factory=set)
    """Topics whose bundle no broker has at the moment, with their domain."""
    live_brokers: dict[str, list[str]] = field(default_factory=dict)
    """Ids of live brokers by cluster; a cluster that is not here has one."""

    def stored(self) -> Any:
        """What a test compares."""
        groups = {name: self._group(name) for name in sorted(self.resource_groups)}
        policies = {cluster: held for cluster, held in self.isolation.items() if held}
        return groups, policies, {cluster: held for cluster, held in self.domains.items() if held}

    def brokers_of(self, cluster: str) -> list[str]:
        """Ids of the live brokers of a cluster."""
        default = [f"{cluster}-broker-0.{cluster}-broker-headless.pulsar.svc.cluster.local:8080"]
        return self.live_brokers.get(cluster, default)

    def need_owner(self, cluster: str, domain: str, namespace: str, topic: str) -> None:
        """Refuse what a topic's owner has to answer where nobody may own it."""
        full = f"{domain}://{namespace}/{topic}"
        hosts = {broker.rsplit(":", 1)[0] for broker in self.brokers_of(cluster)}
        policies = self.isolation.get(cluster, {}).values()
        mine = [each for each in policies if any(re.fullmatch(e, namespace) for e in each["namespaces"])]
        served = not mine or any(_is(host, e) for host in hosts for e in mine[0]["primary"] + mine[0]["secondary"])
        if full in self.unowned or not served:
            raise RefusalError(412, f"{UNOWNED}:{full}")

    def brokers(self, cluster: str, method: str, path: list[str]) -> Answer:
        """Answer a request about the brokers of an idle cluster (a busy one: tests/fakes/pulsar_brokers.py)."""
        dynamic = self.dynamic.setdefault(cluster, {})
        match method, path:
            case "GET", ["brokers"]:
                return 200, self.brokers_of(cluster)
            case "GET", ["brokers", _, _, "ownedNamespaces"] | ["broker-stats", "topics"]:
                return 200, {}
            case "GET", ["brokers", "configuration", "values" | "runtime"]:
                return 200, dict(dynamic)
            case "POST", ["brokers", "configuration", name, value]:
                dynamic[name] = value
                return NO_CONTENT
            case "DELETE", ["brokers", "configuration", name]:
                dynamic.pop(name, None)
                return NO_CONTENT
        return 404, None

    def in_configuration_store(
        self,
        method: str,
        path: list[str],
        body: Any,
        clusters: Collection[str],
        namespaces: Mapping[str, Mapping[str, Any]],
    ) -> Answer:
        """Answer a request below /brokers, /clusters or /resourcegroups."""
        match path:
            case ["brokers", cluster] if method == "GET":
                return 200, self.brokers_of(cluster)
            case ["resourcegroups"] if method == "GET":
                return 200, sorted(self.resource_groups)
            case ["resourcegroups", name]:
                used = any(policies.get("resource_group_name") == name for policies in namespaces.values())
                return self._resource_group(method, name, body, used=used)
            case ["clusters", cluster, "namespaceIsolationPolicies", *rest]:
                if cluster not in clusters:
                    raise RefusalError(404 if method == "GET" else 412, f"Cluster {cluster} does not exist.")
                return self._isolation(method, cluster, rest, body)
            case ["clusters", cluster, "failureDomains", *rest]:
                if cluster not in clusters and method != "GET":
                    raise RefusalError(412, f"Cluster {cluster} does not exist.")
                return self._domain(method, cluster, rest, body)
        return 404, None

    def _group(self, name: str) -> dict[str, int]:
        return dict.fromkeys(LIMITS, -1) | self.group_limits.get(name, {})

    def _resource_group(self, method: str, name: str, body: Any, *, used: bool) -> Answer:
        if method == "PUT":
            self.resource_groups.add(name)
            given = {key: value for key, value in body.items() if key in LIMITS and value is not None}
            self.group_limits[name] = self._group(name) | given
            return NO_CONTENT
        if name not in self.resource_groups:
            if method == "DELETE":
                raise RefusalError(500, f"KeeperErrorCode = NoNode for /admin/resourcegroups/{name}")
            raise RefusalError(404, "ResourceGroup does not exist")
        if method == "GET":
            return 200, self._group(name)
        if used:
            raise RefusalError(412, "ResourceGroup is in use")
        self.resource_groups.discard(name)
        self.group_limits.pop(name, None)
        return NO_CONTENT

    def _isolation(self, method: str, cluster: str, rest: list[str], body: Any) -> Answer:
        held = self.isolation.get(cluster)
        if method == "GET" and held is None:
            raise RefusalError(404, f"NamespaceIsolationPolicies for cluster {cluster} does not exist")
        held = self.isolation.setdefault(cluster, {})
        match method, rest:
            case "GET", []:
                return 200, deepcopy(held)
            case "GET", ["brokers"]:
                return 200, [_matched(broker, held) for broker in self.brokers_of(cluster)]
            case "GET", ["brokers", broker]:
                return 200, _matched(broker, held)
            case "GET", [name]:
                if name not in held:
                    raise RefusalError(404, f"Cannot find NamespaceIsolationPolicy {name} for cluster {cluster}")
                return 200, deepcopy(held[name])
            case "POST", [name]:
                held[name] = _policy(name, body)
                return NO_CONTENT
            case "DELETE", [name]:
                held.pop(name, None)
                return NO_CONTENT
        return 404, None

    def _domain(self, method: str, cluster: str, rest: list[str], body: Any) -> Answer:
        held = self.domains.setdefault(cluster, {})
        match method, rest:
            case "GET", []:
                return 200, {name: {"brokers": brokers} if brokers else {} for name, brokers in held.items()}
            case "GET", [name]:
                if name not in held:
                    raise RefusalError(404, f"Domain {name} for cluster {cluster} does not exist")
                return 200, {"brokers": held[name]} if held[name] else {}
            case "POST", [name]:
                brokers = sorted(set(body.get("brokers") or ()))
                for other, its in held.items():
                    if other != name and set(its) & set(brokers):
                        raise RefusalError(409, f"{sorted(set(its) & set(brokers))} already exists in {other}")
                held[name] = brokers
                return NO_CONTENT
            case "DELETE", [name]:
                if held.pop(name, None) is None:
                    raise RefusalError(404, f"Domain-name {name} or cluster {cluster} does not exist")
                return EMPTY
        return 404, None


def _policy(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """NamespaceIsolationDataImpl.validate; an unload scope Pulsar does not know is dropped."""
    try:
        failover = body["auto_failover_policy"]
        parameters = failover["parameters"]
        int(parameters["min_limit"]), int(parameters["usage_threshold"])
        for key in ("namespaces", "primary", "secondary"):
            for expression in body[key]:
                re.compile(expression)
        ok = bool(body["namespaces"]) and bool(body["primary"]) and failover["policy_type"] == "min_available"
    except (KeyError, TypeError, ValueError, re.error):
        ok = False
    if not ok:
        raise RefusalError(400, f"Invalid format of input policy data. policy: {name}; data: {{")
    kept = {key: deepcopy(body[key]) for key in ("namespaces", "primary", "secondary", "auto_failover_policy")}
    scope = body.get("unload_scope")
    return kept | ({"unload_scope": scope} if scope in UNLOAD_SCOPES else {})


def _matched(broker: str, policies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """As Pulsar tells it: the namespaces of all policies that match, and the name of the last of these."""
    found: dict[str, Any] = {"brokerName": broker, "namespaceRegex": [], "primary": False}
    for name, policy in policies.items():
        primary, secondary = (any(_is(broker, each) for each in policy[kind]) for kind in ("primary", "secondary"))
        if primary or secondary:
            found["namespaceRegex"] += policy["namespaces"]
            found |= {"primary": primary, "policyName": name}
    return found


def _is(broker: str, expression: str) -> bool:
    """NamespaceIsolationPolicyImpl.isPrimaryBroker: the whole of what is asked for, be it an id or a host."""
    return re.fullmatch(expression, broker) is not None
