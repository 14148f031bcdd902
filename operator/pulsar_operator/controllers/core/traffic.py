"""Reads what the planner needs of one cluster: brokers, bundles, owners, traffic, and restrictions of the placement.

A broker that does not answer is a missing fact, never an idle broker: the observation names it. The caller decides
whether a plan is possible without it (balance/execution/partial.py).

**Requests of an observation**: the brokers, and for each of them the bundles it owns; for each namespace its boundaries
and its anti-affinity group; the isolation policies. With live traffic, for each broker the statistics of its topics, or
its load report if the plan splits no bundle. With recorded traffic, for each namespace of the result the names of its
topics, at most twice (persistent topics, and non-persistent ones if not all were found; of a very large namespace
MOST_PARTS bundles), and statistics only if the record contains topics that do not exist. A split requests the names in
its bundle, at most twice.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pulsar_operator.api.v1alpha1.rebalance import SizingSource
from pulsar_operator.balance.execution.steps import SPLIT_ALGORITHM, Ownership
from pulsar_operator.balance.model.cells import sorted_positions
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.load import CostModel
from pulsar_operator.balance.model.observation import (
    SYSTEM_NAMESPACE,
    Observed,
    Usage,
    full_bundle,
    is_own,
)
from pulsar_operator.balance.model.pieces import DEFAULT
from pulsar_operator.balance.sizing.presence import MOST_LISTED, Listed, Present, parting, present, remade, to_list
from pulsar_operator.balance.sizing.result import NamespaceSizing, SizingResult
from pulsar_operator.controllers.core.broker_reads import (
    MOST_BROKERS,
    MOST_BUNDLES,
    BrokerReads,
    NotReadableError,
    ask_in_turn,
    limited,
)
from pulsar_operator.controllers.core.clusters import broker_endpoint
from pulsar_operator.controllers.core.namespace_reads import NamespaceReads
from pulsar_operator.ports import (
    AdminEndpoint,
    Deps,
    Json,
    NotFoundError,
    PortError,
    RefusedError,
    UnavailableError,
)

log = logging.getLogger(__name__)

UNLOAD_DEADLINE_SECONDS = 75.0
"""Seconds. Pulsar waits at most namespaceBundleUnloadingTimeoutMs = 60 s for topics to close."""
SPLIT_DEADLINE_SECONDS = 60.0
DEFAULT_STATS_PERIOD_SECONDS = 60
"""Default of Pulsar's statsUpdateFrequencyInSecs and statsUpdateInitialDelayInSecs, in seconds."""
DOMAINS = ("persistent", "non-persistent")
"""Domains of topics, in the order of the requests. Persistent topics are in the metadata store, also while unloaded.
Non-persistent topics only exist where they are loaded, and Pulsar asks the broker of every bundle for them."""
LISTINGS = 2
"""Number of namespaces whose topics are listed concurrently. A very large list has tens of megabytes."""
SHOWN = 3
"""Maximum number of namespaces that a message names."""


def results_url(cluster: Json, source: SizingSource | None) -> str:
    """Returns the URL of a cluster's sizing results: the one in ``source``, otherwise the Service that chart pulsar
    creates for its instance."""
    if source is not None and source.url:
        return source.url
    ref = (cluster.get("spec") or {}).get("instanceRef") or {}
    namespace = ref.get("namespace") or cluster["metadata"]["namespace"]
    return sizing_url({"metadata": {"name": ref.get("name"), "namespace": namespace}})


def sizing_url(instance: Json) -> str:
    """Returns the default URL of the sizing results of an instance: the Service of chart pulsar."""
    meta = instance["metadata"]
    return f"http://{meta['name']}-sizing.{meta['namespace']}:8080"


@dataclass
class Traffic:
    """The brokers of one cluster, reached through its Service or one of them, and each by its id."""

    deps: Deps
    endpoint: AdminEndpoint
    cost: CostModel = field(default_factory=CostModel)
    _heard: str | None = None
    """A broker that answered; None if none has answered yet."""
    _direct: bool = False
    """Whether requests go to that broker because the Service did not answer."""

    @property
    def reads(self) -> BrokerReads:
        """Returns the reads of single brokers."""
        return BrokerReads(self.deps, self.endpoint, self.cost)

    @property
    def namespaces(self) -> NamespaceReads:
        """Returns the reads of namespaces."""
        return NamespaceReads(self.deps, self.get, self.endpoint.cluster)

    async def get(self, *path: str, query: Mapping[str, str] | None = None, text: bool = False) -> Any:
        """Sends a GET through the cluster's Service; if that fails, to a broker that answered before. Raises
        PortError."""
        if not self._direct:
            try:
                return await self.deps.admin.call(self.endpoint, "GET", path, query=query, text=text)
            except UnavailableError:
                if self._heard is None:
                    raise
                self._direct = True
        assert self._heard is not None
        endpoint = broker_endpoint(self.endpoint, self._heard)
        return await self.deps.admin.call(endpoint, "GET", path, query=query, text=text)

    async def _map(self, *path: str) -> Mapping[str, Any]:
        """Returns the answer to a GET that must be a map. Raises PortError, also if it is not."""
        found = await self.get(*path) or {}
        if not isinstance(found, Mapping):
            raise NotReadableError(f"the answer about {'/'.join(path)} is not a map")
        return found

    async def brokers(self) -> tuple[str, ...]:
        """Returns the ids of the registered brokers. Raises PortError."""
        found = await self.get("brokers") or []
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise NotReadableError("the answer about brokers is not a list of names")
        if len(found) > MOST_BROKERS:
            raise NotReadableError(f"the cluster has more than {MOST_BROKERS} brokers")
        return tuple(sorted(set(found)))

    async def leader(self) -> str | None:
        """Returns the id of the leader broker; None if there is none. Raises PortError."""
        try:
            return str((await self._map("brokers", "leaderBroker")).get("brokerId") or "") or None
        except NotFoundError:
            return None

    async def boundaries(self, namespace: str) -> tuple[int, ...] | None:
        """Returns the live boundaries of a namespace; None if it does not exist. Raises PortError."""
        return await self.namespaces.boundaries(namespace)

    async def stats_period(self) -> int:
        """Returns the seconds between two updates of the brokers' rates (statsUpdateFrequencyInSecs)."""
        return await self._seconds("statsUpdateFrequencyInSecs")

    async def first_statistics(self) -> int:
        """Returns the seconds after its start at which a broker first updates its statistics
        (statsUpdateInitialDelayInSecs)."""
        return await self._seconds("statsUpdateInitialDelayInSecs")

    async def _seconds(self, setting: str) -> int:
        settings = await self._map("brokers", "configuration", "runtime")
        text = str(settings.get(setting) or "")
        known = text.isascii() and text.isdecimal() and len(text) < 10
        return int(text) if known else DEFAULT_STATS_PERIOD_SECONDS

    async def owned(self, broker: str) -> set[BundleId]:
        """Returns the bundles that a broker owns, without those of its internal namespaces. Raises PortError."""
        path = ("brokers", self.endpoint.cluster, broker, "ownedNamespaces")
        answer = await self.deps.admin.call(broker_endpoint(self.endpoint, broker), "GET", path) or {}
        if not isinstance(answer, Mapping) or not all(isinstance(name, str) for name in answer):
            raise NotReadableError(f"the answer of broker {broker} about its bundles is not a map of bundles")
        if len(answer) > DEFAULT.bundles:
            raise NotReadableError(f"broker {broker} has more than {DEFAULT.bundles} bundles")
        found = (full_bundle(name) for name in answer)
        return {each for each in found if each is not None and not is_own(each.namespace, (broker,))}

    async def owner(self, bundle: BundleId, first: Sequence[str], brokers: Sequence[str]) -> Ownership:
        """Returns which of the live ``brokers`` owns a bundle. The ``first`` are asked before the others. A dead broker
        owns none.

        Raises PortError if one of the ``first`` does not list its bundles.
        """
        live = set(brokers)
        for broker in [b for b in first if b in live]:
            if bundle in await self.owned(broker):
                return Ownership(broker)
        others = await ask_in_turn(self.deps, [b for b in brokers if b not in first], self.owned)
        for broker, found in others.items():
            if not isinstance(found, PortError) and bundle in found:
                return Ownership(broker)
        return Ownership(None, tuple(broker for broker, found in others.items() if isinstance(found, PortError)))

    async def observe(self) -> Observed:
        """Observes the cluster, with the traffic that the brokers count by topic. Raises PortError if the brokers
        cannot be listed."""
        observed, answered = await self._observe_inventory()
        await self._take_stats(observed, answered)
        await self.namespaces.take(observed, observed.cells)
        return observed

    async def observe_bundles(self) -> Observed:
        """Observes the cluster, with the traffic of whole bundles, for a plan that moves bundles and splits none."""
        observed, answered = await self._observe_inventory()
        skips = partial(is_own, brokers=frozenset(observed.brokers))
        for broker, found in (await ask_in_turn(self.deps, answered, partial(self.reads.bundles, skips=skips))).items():
            if isinstance(found, PortError):
                observed.silent[broker] = f"the statistics of broker {broker} cannot be used ({found})"
            else:
                observed.take_bundles(found)
        await self.namespaces.take(observed, {bundle.namespace for bundle in observed.bundles})
        return observed

    async def observe_with(self, result: SizingResult) -> Observed:
        """Observes the cluster, with the weights and splits of a sizing result instead of the brokers' own figures.

        The result only counts for topics that exist. For a namespace that was deleted and created again, or that now
        has other topics, the brokers' figures count, and the splits of the result are not made (the log says why).
        """
        observed, answered = await self._observe_inventory()
        observed.cuts = {}
        await self.namespaces.take(observed, {each.namespace for each in result.namespaces})
        reported = observed.boundaries.keys() - observed.unread.keys()
        there = [each for each in result.namespaces if each.namespace in reported]
        limit = asyncio.Semaphore(LISTINGS)
        known = (self._present(each, observed.boundaries[each.namespace], limit) for each in there)
        unread = {each.namespace for each in result.namespaces} & observed.unread.keys()
        unused = {name: f"Pulsar does not return its bundles: {observed.unread[name]}" for name in unread}
        for each, found in zip(there, await asyncio.gather(*known, return_exceptions=True), strict=True):
            name = each.namespace
            if isinstance(found, PortError):
                unused[name] = f"the topics of the namespace are not known: {found}"
            elif isinstance(found, BaseException):
                raise found
            elif isinstance(found, str):
                unused[name] = found
            else:
                observed.cuts[name] = await asyncio.to_thread(_take_recorded, observed, each, found)
        if unused:
            log.debug("cluster %s: recorded traffic that does not count: %s", self.endpoint.cluster, unused)
        if all(each.namespace in unused or each.namespace == SYSTEM_NAMESPACE for each in there):
            observed.missing.append(_of_nothing(result, unused))
        elif unused and not observed.missing:
            await self._take_stats(observed, answered, unused)
        return observed

    async def _present(
        self, recorded: NamespaceSizing, boundaries: Sequence[int], limit: asyncio.Semaphore
    ) -> Present | str:
        """Returns the record of the topics that exist, or a message that says why it does not count."""
        name = recorded.namespace
        if why := remade(recorded, boundaries):
            return f"the namespace was deleted and created again after the recording: {why}"
        if name == SYSTEM_NAMESPACE or not any(cell.weight > 0 for cell in recorded.cells):
            return Present(recorded.cells, 1.0)  # never cut nor moved; nothing that anything could be cut or moved for
        async with limit:
            bundles = to_list(recorded, boundaries)
            if bundles == []:
                return f"each bundle of the namespace has more than {MOST_LISTED} topics, which are too many to list"
            parts = [(each.lower, each.upper) for each in bundles or ()]
            positions = array("I")
            for domain in DOMAINS:
                for span in (None,) if bundles is None else [each.range for each in bundles]:
                    positions.extend(await self.reads.positions(domain, name, span))
                found = await asyncio.to_thread(_present_of, recorded, positions, parts)
                if found.whole:
                    break
        if found.of_another:
            return f"{1 - found.share:.0%} of the recorded traffic belongs to topics that no longer exist"
        return found

    async def _take_stats(
        self, observed: Observed, answered: Sequence[str], only: Collection[str] | None = None
    ) -> None:
        """Adds the traffic counted by the brokers that answered before, of all namespaces or of those in ``only``."""
        own = frozenset(observed.brokers)

        def skips(namespace: str) -> bool:
            return is_own(namespace, own) or (only is not None and namespace not in only)

        for broker, found in (await ask_in_turn(self.deps, answered, partial(self.reads.topics, skips=skips))).items():
            if isinstance(found, PortError):
                observed.silent[broker] = f"the statistics of broker {broker} cannot be used ({found})"
            else:
                observed.take_cells(found)

    async def _observe_inventory(self) -> tuple[Observed, list[str]]:
        """Returns the brokers and the owners of bundles, and the brokers that answered. Only those are asked
        further."""
        observed = Observed(await self.brokers())
        answered: list[str] = []
        ask = limited(self.owned, MOST_BUNDLES, "bundles")
        for broker, found in (await ask_in_turn(self.deps, observed.brokers, ask)).items():
            if isinstance(found, PortError):
                observed.silent[broker] = f"the bundles of broker {broker} cannot be used ({found})"
                observed.unlisted.add(broker)
            else:
                observed.owners.update(dict.fromkeys(found, broker))
                answered.append(broker)
        self._heard = next(iter(answered), None)
        return observed, answered

    async def usages(self, brokers: Sequence[str]) -> dict[str, Usage]:
        """Returns the most used resource of each broker that reports it. The others are left out."""
        found = await ask_in_turn(self.deps, brokers, self.reads.usage)
        return {broker: used for broker, used in found.items() if isinstance(used, Usage)}

    async def prevents(self, namespace: str, brokers: Sequence[str], *, destination: str | None = None) -> str | None:
        """Returns why the current isolation policies do not allow a namespace to be split, or moved to a broker, as a
        message. None if they allow it."""
        return await self.namespaces.prevents(namespace, brokers, destination=destination)

    async def domains(self) -> dict[str, str]:
        """Returns the failure domain of each broker that is in one. Raises PortError."""
        try:
            found = await self._map("clusters", self.endpoint.cluster, "failureDomains")
        except NotFoundError:
            return {}
        try:
            return {broker: name for name, domain in sorted(found.items()) for broker in domain.get("brokers") or ()}
        except (AttributeError, TypeError):
            raise NotReadableError("the answer about failure domains has no lists of brokers") from None

    async def split(self, bundle: BundleId, boundary: int) -> None:
        """Splits a bundle at one position. The parts stay on their broker.

        The caller reads the boundaries afterwards, since Pulsar also answers with success if it did nothing (class
        NamespaceService, splitAndOwnBundleOnceAndRetry). A split cannot be undone, so RefusedError is raised if all
        topics are on one side of it.
        """
        if bundle.lower < boundary < bundle.upper:
            await self._need_both_sides(bundle, boundary)
        await self.deps.admin.call(
            self.endpoint,
            "PUT",
            ("namespaces", *bundle.namespace.split("/", 1), bundle.range, "split"),
            query={"unload": "false", "splitAlgorithmName": SPLIT_ALGORITHM},
            body=[boundary],
            deadline=SPLIT_DEADLINE_SECONDS,
        )

    async def _need_both_sides(self, bundle: BundleId, boundary: int) -> None:
        positions = array("I")
        for domain in DOMAINS:
            positions.extend(await self.reads.positions(domain, bundle.namespace, bundle.range))
            if positions and min(positions) < boundary <= max(positions):
                return
        side = "from" if positions and max(positions) < boundary else "below"
        gone = f"no topic {side} {boundary:#010x} exists any longer"
        raise RefusedError(f"the split is not requested, because {gone} and a split cannot be undone")

    async def move(self, bundle: BundleId, destination: str) -> None:
        """Unloads a bundle towards a broker. The modular load manager assigns it at the next lookup of a topic."""
        await self.deps.admin.call(
            self.endpoint,
            "PUT",
            ("namespaces", *bundle.namespace.split("/", 1), bundle.range, "unload"),
            query={"destinationBroker": destination},
            deadline=UNLOAD_DEADLINE_SECONDS,
        )


def _present_of(recorded: NamespaceSizing, positions: array[int], parts: Sequence[tuple[int, int]]) -> Present:
    ascending = sorted_positions(positions)
    return present(recorded.cells, Listed(ascending, parts) if parts else Listed(ascending))


def _take_recorded(observed: Observed, recorded: NamespaceSizing, found: Present) -> frozenset[int]:
    """Adds the recorded traffic. Returns the splits that the result requests and that separate existing topics."""
    for cell in found.cells:
        observed.add(recorded.namespace, cell.position, cell.weight, cell.topics)
    return parting(recorded.boundaries, observed.boundaries[recorded.namespace], found.cells)


def _of_nothing(result: SizingResult, unused: Mapping[str, str]) -> str:
    """Returns why nothing of a result counts, as a message."""
    if not result.namespaces:
        return f"the sizing result has no recommendation: {result.verdict.reason}"
    if not unused:
        return "none of the namespaces with recorded traffic exists now, except Pulsar's own"
    named = "; ".join(f"{name}: {why}" for name, why in list(unused.items())[:SHOWN])
    more = f"; and {len(unused) - SHOWN} more" if len(unused) > SHOWN else ""
    return f"no recorded traffic matches the existing namespaces ({named}{more})"
