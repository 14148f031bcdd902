"""Reads namespaces: the boundaries of their bundles, anti-affinity groups, and the brokers that may serve them.

A namespace whose boundaries or group Pulsar does not report, for example because of a missing permission, is unknown.
Its bundles count if brokers list them, but are neither moved nor split. The others are balanced if not too much is
unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Protocol

from pulsar_operator.balance.execution.partial import MOST_UNKNOWN
from pulsar_operator.balance.model.isolation import isolation_of, unevaluated_in
from pulsar_operator.balance.model.observation import Observed, boundaries_of
from pulsar_operator.balance.model.pieces import DEFAULT
from pulsar_operator.controllers.core.broker_reads import MOST_BUNDLES, NotReadableError, ask_in_turn, limited
from pulsar_operator.ports import Deps, Json, NotFoundError, PortError


class Get(Protocol):
    """GET request to the admin REST of a cluster."""

    async def __call__(self, *path: str, query: Mapping[str, str] | None = None, text: bool = False) -> Any:
        """Makes the request; see ports.PulsarAdminPort.call."""


@dataclass(frozen=True)
class NamespaceReads:
    """Reads the namespaces of one cluster."""

    deps: Deps
    get: Get
    cluster: str

    async def boundaries(self, namespace: str) -> tuple[int, ...] | None:
        """Returns the live boundaries of a namespace; None if it does not exist. Raises PortError."""
        try:
            found = boundaries_of(await self.get("namespaces", *namespace.split("/", 1), "bundles") or {})
        except NotFoundError:
            return None
        except (AttributeError, TypeError, ValueError):
            raise NotReadableError(f"the answer about bundles of namespace {namespace} has no boundaries") from None
        if len(found) > DEFAULT.bundles:
            raise NotReadableError(f"namespace {namespace} has more than {DEFAULT.bundles} bundles")
        return found

    async def take(self, observed: Observed, with_traffic: Collection[str]) -> None:
        """Adds the boundaries, the group and the permitted brokers of every namespace that has bundles or traffic.

        Raises PortError if the isolation policies cannot be read, or if more than MOST_UNKNOWN of the traffic that
        brokers count is unknown; if they count none, of the namespaces.
        """
        names = sorted({*with_traffic, *(bundle.namespace for bundle in observed.owners)})
        unread: dict[str, PortError] = {}
        ask = limited(self.boundaries, MOST_BUNDLES + len(names), "bundles")
        for name, bounds in (await ask_in_turn(self.deps, names, ask)).items():
            if isinstance(bounds, PortError):
                unread[name] = bounds
            elif bounds is not None:
                observed.boundaries[name] = bounds
        for name, group in (await ask_in_turn(self.deps, list(observed.boundaries), self._group)).items():
            if isinstance(group, PortError):
                unread[name] = group
            elif group:
                observed.anti_affinity[name] = group
        if unread:
            await asyncio.to_thread(_do_without, observed, unread, len(names))
        policies = await self._isolation()
        # In a thread: expressions of others, for every namespace there is.
        isolation = await asyncio.to_thread(isolation_of, list(observed.boundaries), observed.brokers, policies)
        observed.allowed.update(isolation.allowed)
        observed.undecided |= isolation.undecided
        if isolation.undecided:
            observed.unevaluated = unevaluated_in(policies)

    async def prevents(self, namespace: str, brokers: Sequence[str], *, destination: str | None = None) -> str | None:
        """Returns why the current isolation policies do not allow a namespace to be split, or moved to a broker, as a
        message. None if they allow it."""
        policies = await self._isolation()
        found = await asyncio.to_thread(isolation_of, (namespace,), brokers, policies)
        if namespace in found.undecided:
            return f"an isolation policy that may match {namespace} has an expression that the operator cannot evaluate"
        if destination is not None and destination not in found.allowed.get(namespace, brokers):
            return f"an isolation policy no longer allows {destination} to serve {namespace}"
        return None

    async def _group(self, namespace: str) -> str:
        try:
            path = ("namespaces", *namespace.split("/", 1), "antiAffinity")
            return str(await self.get(*path, text=True) or "").strip('"')
        except NotFoundError:
            return ""

    async def _isolation(self) -> dict[str, Json]:
        try:
            found = await self.get("clusters", self.cluster, "namespaceIsolationPolicies") or {}
        except NotFoundError:
            return {}
        if not isinstance(found, Mapping):
            raise NotReadableError("the answer about isolation policies is not a map")
        return dict(found)


def _do_without(observed: Observed, unread: Mapping[str, PortError], number: int) -> None:
    """Takes the bundles of unreported namespaces from the lists of the brokers. Raises one of the errors if more than
    MOST_UNKNOWN is unknown."""
    weights = {name: fsum(cells.cells().weights()) for name, cells in observed.cells.items()}
    for bundle, load in observed.bundles.items():
        weights[bundle.namespace] = weights.get(bundle.namespace, 0.0) + load.weight
    total, unknown = fsum(weights.values()), fsum(weights.get(name, 0.0) for name in unread)
    if (unknown / total if total > 0 else len(unread) / number) > MOST_UNKNOWN:
        raise next(iter(unread.values()))
    edges: dict[str, set[int]] = {name: set() for name in unread}
    for bundle in observed.owners:
        if bundle.namespace in edges:
            edges[bundle.namespace] |= {bundle.lower, bundle.upper}
    for name, error in unread.items():
        observed.unread[name] = str(error)
        observed.boundaries[name] = tuple(sorted(edges[name]))
