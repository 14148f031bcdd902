"""A cluster of several brokers in memory: bundles, owners, splits, unloads, statistics, dynamic settings.

Speaks the part of the admin REST that balancing uses (ports.PulsarAdminPort); held to the real one by the contract in
tests/support/contracts/balancing.py. As with the modular load manager, an unloaded bundle has no owner until somebody
asks for one of its topics: ``settle`` plays the clients.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from zlib import crc32

from pulsar_operator.ports import AdminEndpoint, ConflictError, NotFoundError, RefusedError, UnavailableError
from tests.fakes.streams import Streaming

Range = tuple[int, int]


@dataclass
class FakeBrokers(Streaming):
    """Tests change the fields to play clients, other writers and failures."""

    brokers: list[str] = field(default_factory=lambda: ["b0.x:8080", "b1.x:8080", "b2.x:8080"])
    leader: str | None = None
    """Who leads; None while nobody does."""
    boundaries: dict[str, list[int]] = field(default_factory=dict)
    owners: dict[tuple[str, int, int], str] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    """Messages a second of 1 kB, in and out, by full topic name."""
    unloaded: set[str] = field(default_factory=set)
    """Full names of topics that nobody uses: they exist, and no broker counts them."""
    dynamic: dict[str, str] = field(default_factory=dict)
    isolation: dict[str, Any] = field(default_factory=dict)
    stats_period: str | None = "60"
    groups: dict[str, str] = field(default_factory=dict)
    mute: set[str] = field(default_factory=set)
    """Brokers that do not answer; they stay registered."""
    usage: dict[str, float] = field(default_factory=dict)
    _looks: count[int] = field(default_factory=count)
    """Share of its CPU that a broker uses; 0.05 where it is not here."""
    unreachable: bool = False
    clients: bool = True
    """Whether somebody asks for the topics of a bundle as soon as it has no owner."""
    lose_hints: bool = False
    """Unloaded bundles come back to where they were."""
    extensible: bool = False
    """Whether the extensible load manager runs, which has no load reports."""
    elsewhere: dict[str, int] = field(default_factory=dict)
    """By broker: so many unloaded bundles come to it, whatever was asked."""
    split_nothing: bool = False
    """Splits answer and do nothing, as for a bundle with one topic."""
    writes: list[str] = field(default_factory=list)
    before: list[Callable[[str], None]] = field(default_factory=list)
    """Called with each write in words before it takes effect."""
    after: list[Callable[[str], None]] = field(default_factory=list)
    hints: dict[tuple[str, int, int], str] = field(default_factory=dict)

    def namespace(self, name: str, boundaries: Sequence[int], owner: str | Sequence[str]) -> None:
        """A namespace with its bundles at one broker, or at one each."""
        self.boundaries[name] = list(boundaries)
        for index, (lower, upper) in enumerate(itertools.pairwise(boundaries)):
            self.owners[name, lower, upper] = owner if isinstance(owner, str) else owner[index]

    async def call(
        self,
        endpoint: AdminEndpoint,
        method: str,
        path: Sequence[str],
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        deadline: float | None = None,
        text: bool = False,
    ) -> Any:
        """See ports.PulsarAdminPort."""
        asked = endpoint.url.removeprefix("http://")
        if self.unreachable or asked in self.mute:
            raise UnavailableError(f"{method} /{'/'.join(path)}: no answer from {asked}")
        words = f"{method} /{'/'.join(path)}"
        if method != "GET":
            for hook in self.before:
                hook(words)
        answer = self._answer(asked, method, list(path), dict(query or {}), body)
        if method != "GET":
            self.writes.append(words)
            for hook in self.after:
                hook(words)
        return answer

    def _answer(self, asked: str, method: str, path: list[str], query: dict[str, str], body: Any) -> Any:
        match method, path:
            case "GET", ["brokers"]:
                return list(self.brokers)
            case "GET", ["brokers", "leaderBroker"] if self.leader is not None:
                return {"brokerId": self.leader, "serviceUrl": f"http://{self.leader}"}
            case _, ["brokers", "configuration", *rest]:
                return self._configuration(method, rest)
            case "GET", ["brokers", _, broker, "ownedNamespaces"]:
                owned = (key for key, owner in self.owners.items() if owner == broker)
                state = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
                return {f"{ns}/0x{low:08x}_0x{up:08x}": dict(state) for ns, low, up in owned}
            case "GET", ["broker-stats", "topics"]:
                return self._stats(asked)
            case "GET", ["broker-stats", "load-report"]:
                if self.extensible:
                    raise UnavailableError("HTTP 500: java.lang.UnsupportedOperationException", status=500)
                return self._load_report(asked)
            case "GET", ["broker-stats", "metrics"]:
                # No processor is as busy as a minute ago to the last digit.
                breath = 1 + 1e-9 * next(self._looks)
                cpu = {"brk_lb_cpu_usage": 100.0 * self.usage.get(asked, 0.05) * breath}
                used = {**cpu, "brk_lb_bandwidth_in_usage": 1e-5, "brk_lb_memory_usage": 90.0}
                dimensions = {"broker": asked.partition(":")[0], "metric": "loadBalancing"}
                return [
                    {"metrics": {"brk_active_connections": 3}, "dimensions": {"broker": asked}},
                    {"metrics": used, "dimensions": dimensions},
                ]
            case "GET", ["persistent" | "non-persistent" as domain, tenant, name]:
                self._need(f"{tenant}/{name}")
                found_topics = [t for t in self._topics(f"{tenant}/{name}") if t.startswith(f"{domain}://")]
                if (span := query.get("bundle")) is None:
                    return found_topics
                return [t for t in found_topics if self._bundle(f"{tenant}/{name}", crc32(t.encode())) == _range(span)]
            case "GET", ["namespaces", tenant, name, "bundles"]:
                found = self._need(f"{tenant}/{name}")
                return {"boundaries": [f"0x{b:08x}" for b in found], "numBundles": len(found) - 1}
            case "GET", ["namespaces", tenant, name, "antiAffinity"]:
                return self.groups.get(f"{tenant}/{name}")
            case "GET", ["clusters", _, "namespaceIsolationPolicies"]:
                if not self.isolation:
                    raise NotFoundError("NamespaceIsolationPolicies do not exist")
                return dict(self.isolation)
            case "GET", ["clusters", _, "failureDomains"]:
                return {}
            case "PUT", ["namespaces", tenant, name, span, "split"]:
                return self._split(f"{tenant}/{name}", _range(span), body)
            case "PUT", ["namespaces", tenant, name, span, "unload"]:
                return self._unload(f"{tenant}/{name}", _range(span), query.get("destinationBroker"))
        raise NotFoundError(f"{method} /{'/'.join(path)}")

    def _need(self, namespace: str) -> list[int]:
        if namespace not in self.boundaries:
            raise NotFoundError(f"Namespace {namespace} does not exist")
        return self.boundaries[namespace]

    def _configuration(self, method: str, rest: list[str]) -> Any:
        match method, rest:
            case "GET", ["values"]:
                return dict(self.dynamic)
            case "GET", ["runtime"]:
                return {"statsUpdateFrequencyInSecs": self.stats_period}
            case "POST", [name, value]:
                self.dynamic[name] = value
                return None
            case "DELETE", [name]:
                self.dynamic.pop(name, None)
                return None
        raise NotFoundError("/".join(rest))

    def _stats(self, broker: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for topic, rate in self.rates.items():
            namespace = "/".join(topic.split("://", 1)[1].split("/")[:2])
            low, up = self._bundle(namespace, crc32(topic.encode()))
            if self.owners.get((namespace, low, up)) != broker:
                continue
            entry = {
                "msgRateIn": rate,
                "msgRateOut": rate,
                "msgThroughputIn": rate * 1000,
                "msgThroughputOut": rate * 1000,
                "producerCount": 1,
                "subscriptions": {"s": {"consumers": [{}]}},
                "replication": {},
            }
            spans = out.setdefault(namespace, {}).setdefault(f"0x{low:08x}_0x{up:08x}", {"persistent": {}})
            spans["persistent"][topic] = entry
        return out

    def _load_report(self, broker: str) -> dict[str, Any]:
        """As Pulsar's class LocalBrokerData is written, of which a few fields."""
        counted: dict[str, dict[str, float]] = {}
        for namespace, spans in self._stats(broker).items():
            for span, domains in spans.items():
                topics = [topic for domain in domains.values() for topic in domain.values()]
                rates = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
                counted[f"{namespace}/{span}"] = {
                    **{name: sum(topic[name] for topic in topics) for name in rates},
                    "producerCount": sum(topic["producerCount"] for topic in topics),
                    "consumerCount": len(topics),
                    "topics": len(topics),
                    "cacheSize": 0,
                }
        cpu = {"usage": 100.0 * self.usage.get(broker, 0.05), "limit": 100.0}
        return {"webServiceUrl": f"http://{broker}", "cpu": cpu, "lastStats": counted, "bundles": sorted(counted)}

    def _bundle(self, namespace: str, position: int) -> Range:
        bounds = self.boundaries[namespace]
        for lower, upper in itertools.pairwise(bounds):
            if lower <= position < upper or (upper == bounds[-1] and position == upper):
                return lower, upper
        raise AssertionError(f"no bundle of {namespace} holds {position:#x}")

    def _split(self, namespace: str, span: Range, body: Any) -> None:
        bounds = self._need(namespace)
        if span not in itertools.pairwise(bounds):
            raise RefusedError("Invalid upper boundary for bundle", status=412)
        cuts = sorted(c for c in body or () if span[0] < c < span[1])
        inside = sum(self._bundle(namespace, crc32(t.encode())) == span for t in self._topics(namespace))
        if self.split_nothing or not cuts or inside < 2:
            return
        owner = self.owners.pop((namespace, *span), self.brokers[0])
        for lower, upper in zip([span[0], *cuts], [*cuts, span[1]], strict=True):
            self.owners[namespace, lower, upper] = owner
        self.boundaries[namespace] = sorted({*bounds, *cuts})

    def _topics(self, namespace: str) -> list[str]:
        return [t for t in (*self.rates, *self.unloaded) if t.split("://", 1)[1].startswith(f"{namespace}/")]

    def _unload(self, namespace: str, span: Range, destination: str | None) -> None:
        bounds = self._need(namespace)
        if span not in itertools.pairwise(bounds):
            raise RefusedError("Invalid upper boundary for bundle", status=412)
        if destination is not None and destination not in self.brokers:
            raise ConflictError(f"Destination broker {destination} is not active")
        key = (namespace, *span)
        before = self.owners.pop(key, None)
        if before is None:
            return
        if destination is not None:
            self.hints[key] = before if self.lose_hints else destination
            for broker, times in self.elsewhere.items():
                if times and broker not in (before, destination):
                    self.elsewhere[broker] -= 1
                    self.hints[key] = broker
        if self.clients:
            self.settle()

    def settle(self) -> None:
        """Clients ask for the topics of every bundle without owner."""
        for namespace, bounds in self.boundaries.items():
            for lower, upper in itertools.pairwise(bounds):
                key = (namespace, lower, upper)
                if key not in self.owners:
                    self.owners[key] = self.hints.pop(key, self.brokers[0])

    def load(self) -> dict[str, float]:
        """Messages a second by broker."""
        out = dict.fromkeys(self.brokers, 0.0)
        for topic, rate in self.rates.items():
            namespace = "/".join(topic.split("://", 1)[1].split("/")[:2])
            owner = self.owners.get((namespace, *self._bundle(namespace, crc32(topic.encode()))))
            if owner in out:
                out[owner] += rate
        return out


def _range(text: str) -> Range:
    lower, _, upper = text.partition("_")
    return int(lower, 16), int(upper, 16)
