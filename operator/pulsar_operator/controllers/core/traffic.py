"""Reading what the planner needs of one cluster: brokers, bundles, owners, traffic, and what restricts placement.

A broker that does not answer is a missing fact, never an idle broker: the observation says so and no proposal is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pulsar_operator.balance.execution.steps import SPLIT_ALGORITHM
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.isolation import allowed_brokers
from pulsar_operator.balance.model.load import CostModel
from pulsar_operator.balance.model.observation import Observed, Usage, boundaries_of, full_bundle, is_own, usage_of
from pulsar_operator.balance.sizing.result import SizingResult
from pulsar_operator.controllers.core.clusters import broker_endpoint
from pulsar_operator.ports import AdminEndpoint, Deps, Json, NotFoundError, PortError, UnavailableError

STATS_DEADLINE_SECONDS = 60.0
"""For one broker's statistics of all topics: tens of megabytes on a large broker."""
DEFAULT_STATS_PERIOD_SECONDS = 60
"""Pulsar's statsUpdateFrequencyInSecs, and its statsUpdateInitialDelayInSecs."""


def sizing_url(instance: Json) -> str:
    """Where the sizing results of an instance are, unless somebody says otherwise: the Service of chart pulsar."""
    meta = instance["metadata"]
    return f"http://{meta['name']}-sizing.{meta['namespace']}:8080"


@dataclass
class Traffic:
    """One cluster's brokers, reached through one of them or its Service, and each by its id."""

    deps: Deps
    endpoint: AdminEndpoint
    cost: CostModel = field(default_factory=CostModel)

    async def get(self, *path: str, query: Mapping[str, str] | None = None) -> Any:
        """GET through the cluster's Service."""
        return await self.deps.admin.call(self.endpoint, "GET", path, query=query)

    async def brokers(self) -> tuple[str, ...]:
        """Ids of the registered brokers."""
        return tuple(sorted(await self.get("brokers") or ()))

    async def boundaries(self, namespace: str) -> tuple[int, ...] | None:
        """Live boundaries of a namespace; None when it does not exist."""
        try:
            return boundaries_of(await self.get("namespaces", *namespace.split("/", 1), "bundles") or {})
        except NotFoundError:
            return None

    async def stats_period(self) -> int:
        """Seconds between two updates of the brokers' rates (statsUpdateFrequencyInSecs)."""
        return await self._seconds("statsUpdateFrequencyInSecs")

    async def first_statistics(self) -> int:
        """Seconds after its start at which a broker says for the first time what it carries."""
        return await self._seconds("statsUpdateInitialDelayInSecs")

    async def _seconds(self, setting: str) -> int:
        settings = await self.get("brokers", "configuration", "runtime") or {}
        text = str(settings.get(setting) or "")
        return int(text) if text.isdigit() else DEFAULT_STATS_PERIOD_SECONDS

    async def owned(self, broker: str) -> set[BundleId]:
        """Bundles a broker owns, its own namespaces left out."""
        path = ("brokers", self.endpoint.cluster, broker, "ownedNamespaces")
        answer = await self.deps.admin.call(broker_endpoint(self.endpoint, broker), "GET", path) or {}
        found = (full_bundle(name) for name in answer)
        return {each for each in found if each is not None and not is_own(each.namespace, (broker,))}

    async def owner(self, bundle: BundleId, first: Sequence[str], brokers: Sequence[str]) -> str | None:
        """The broker that has a bundle; ``first`` are asked before the others. A dead broker has nothing."""
        live = set(brokers)
        for broker in [b for b in first if b in live] + [b for b in brokers if b not in first]:
            if bundle in await self.owned(broker):
                return broker
        return None

    async def observe(self) -> Observed:
        """Everything now, with the traffic the brokers count. Raises PortError when not even the brokers are known."""
        observed = await self._frame()
        results = await asyncio.gather(*(self._stats(b) for b in observed.brokers), return_exceptions=True)
        for broker, result in zip(observed.brokers, results, strict=True):
            if isinstance(result, PortError):
                observed.missing.append(f"statistics of broker {broker} ({result})")
            elif isinstance(result, BaseException):
                raise result
            else:
                observed.take_stats(_without_own(result, observed.brokers), self.cost)
        await self._namespaces(observed, set(observed.cells))
        return observed

    async def observe_with(self, result: SizingResult) -> Observed:
        """Everything now, with the weights and the cuts of a sizing result in place of the brokers' own figures."""
        observed = await self._frame()
        observed.cuts = {
            each.namespace: frozenset(int(point, 16) for point in each.boundaries) for each in result.namespaces
        }
        for namespace in result.namespaces:
            for cell in namespace.cells:
                observed.add(namespace.namespace, cell.position, cell.weight, cell.topics)
        await self._namespaces(observed, set(observed.cells))
        for gone in set(observed.cells) - set(observed.boundaries):
            del observed.cells[gone]  # recorded, and deleted since
        return observed

    async def _frame(self) -> Observed:
        observed = Observed(await self.brokers())
        results = await asyncio.gather(*(self.owned(b) for b in observed.brokers), return_exceptions=True)
        for broker, result in zip(observed.brokers, results, strict=True):
            if isinstance(result, PortError):
                observed.missing.append(f"bundles of broker {broker} ({result})")
            elif isinstance(result, BaseException):
                raise result
            else:
                observed.owners.update(dict.fromkeys(result, broker))
        return observed

    async def _stats(self, broker: str) -> Json:
        answer = await self.deps.admin.call(
            broker_endpoint(self.endpoint, broker), "GET", ("broker-stats", "topics"), deadline=STATS_DEADLINE_SECONDS
        )
        if not isinstance(answer, dict):
            raise UnavailableError(f"broker {broker} answered no statistics")
        return answer

    async def usages(self, brokers: Sequence[str]) -> dict[str, Usage]:
        """The most used resource of each broker that says it; one that does not is left out."""
        path = ("broker-stats", "metrics")
        calls = (self.deps.admin.call(broker_endpoint(self.endpoint, each), "GET", path) for each in brokers)
        found: dict[str, Usage] = {}
        for broker, answer in zip(brokers, await asyncio.gather(*calls, return_exceptions=True), strict=True):
            if isinstance(answer, BaseException) and not isinstance(answer, PortError):
                raise answer
            if (used := usage_of(answer)) is not None:
                found[broker] = used
        return found

    async def _namespaces(self, observed: Observed, with_traffic: set[str]) -> None:
        """Boundaries, anti-affinity group and permitted brokers of every namespace that has bundles or traffic."""
        names = sorted(with_traffic | {bundle.namespace for bundle in observed.owners})
        for name, found in zip(names, await asyncio.gather(*map(self.boundaries, names)), strict=True):
            if found is not None:
                observed.boundaries[name] = found
        groups = await asyncio.gather(*map(self._group, observed.boundaries))
        observed.anti_affinity.update(
            {name: group for name, group in zip(observed.boundaries, groups, strict=True) if group}
        )
        policies = await self._isolation()
        observed.allowed.update(allowed_brokers(observed.boundaries, observed.brokers, policies))

    async def _group(self, namespace: str) -> str:
        path = ("namespaces", *namespace.split("/", 1), "antiAffinity")
        try:
            return str(await self.deps.admin.call(self.endpoint, "GET", path, text=True) or "").strip('"')
        except NotFoundError:
            return ""

    async def _isolation(self) -> dict[str, Json]:
        try:
            return dict(await self.get("clusters", self.endpoint.cluster, "namespaceIsolationPolicies") or {})
        except NotFoundError:
            return {}

    async def permits(self, namespace: str, broker: str, brokers: Sequence[str]) -> bool:
        """Whether the isolation policies of now let a broker serve a namespace."""
        allowed = allowed_brokers((namespace,), brokers, await self._isolation())
        return namespace not in allowed or broker in allowed[namespace]

    async def domains(self) -> dict[str, str]:
        """Failure domain of each broker that is in one."""
        try:
            found = await self.get("clusters", self.endpoint.cluster, "failureDomains") or {}
        except NotFoundError:
            return {}
        return {broker: name for name, domain in sorted(found.items()) for broker in domain.get("brokers") or ()}

    async def split(self, bundle: BundleId, boundary: int) -> None:
        """Cut a bundle at one position; the pieces stay where they are. Read the boundaries afterwards: Pulsar answers
        with success as well when it did nothing (class NamespaceService, splitAndOwnBundleOnceAndRetry)."""
        await self.deps.admin.call(
            self.endpoint,
            "PUT",
            ("namespaces", *bundle.namespace.split("/", 1), bundle.range, "split"),
            query={"unload": "false", "splitAlgorithmName": SPLIT_ALGORITHM},
            body=[boundary],
            deadline=STATS_DEADLINE_SECONDS,
        )

    async def move(self, bundle: BundleId, destination: str) -> None:
        """Unload a bundle towards a broker; the modular load manager assigns it at the next look-up of a topic."""
        await self.deps.admin.call(
            self.endpoint,
            "PUT",
            ("namespaces", *bundle.namespace.split("/", 1), bundle.range, "unload"),
            query={"destinationBroker": destination},
            deadline=STATS_DEADLINE_SECONDS + 15,
        )


def _without_own(document: Json, brokers: Sequence[str]) -> Json:
    return {namespace: bundles for namespace, bundles in document.items() if not is_own(namespace, brokers)}
