"""Reads statistics of any size from single brokers, each at its own address, a few brokers at a time.

Brokers of a large cluster answer with tens of megabytes each. Each answer is parsed as a stream
(balance/model/statistics.py), so that the memory of an observation is that of its result.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Protocol, TypeVar
from uuid import UUID

from pulsar_operator.balance.model.cells import CellBuffer
from pulsar_operator.balance.model.cluster import BundleId
from pulsar_operator.balance.model.load import CostModel
from pulsar_operator.balance.model.observation import BundleLoad, Usage, usage_of
from pulsar_operator.balance.model.pieces import FormatError, TopicNames
from pulsar_operator.balance.model.statistics import BundleTraffic, TopicTraffic, TopicTrafficByBundle, UsageFigures
from pulsar_operator.controllers.core.clusters import broker_endpoint
from pulsar_operator.ports import (
    AdminEndpoint,
    DeadlineError,
    Deps,
    NotFoundError,
    PortError,
    RefusedError,
    UnavailableError,
)

STATS_DEADLINE_SECONDS = 150.0
"""Seconds for one broker's statistics of all topics, from the request to the last byte: 1.4 KB per topic, 70 MB for
50,000. A broker that sends nothing times out long before."""
READ_ALL_SECONDS = 180.0
"""Seconds for reading all brokers: 50 of 28 MB each that send 1 MB/s take 110 s. A pass (engine.PASS_SECONDS) is
stopped after 300 s in any case."""
AT_ONCE = 16
"""Number of brokers, or namespaces, that are read concurrently. The deadline of the others does not run while they
wait."""
MOST_BROKERS = 1024
"""Maximum number of brokers of a cluster, the same as of entries in status.capacities of a PulsarRebalance."""
MOST_BUNDLES = 500_000
"""Maximum number of bundles of a cluster. Owners, boundaries and their model take about 1 KB each."""
REPORTS_NOTHING = 500
"""HTTP status of ``broker-stats/load-report`` with the extensible load manager (Pulsar's class
ExtensibleLoadManagerWrapper)."""

T = TypeVar("T")
SizedT = TypeVar("SizedT", bound=Sized | None)


class NotReadableError(UnavailableError):
    """An answer does not have the requested format. The message says how it differs."""


class Reader(Protocol):
    """Parses a document piece by piece (balance/model/statistics.py)."""

    def feed(self, data: bytes) -> None:
        """Parses the next piece. Raises FormatError."""

    def end(self) -> None:
        """Ends the document. Raises FormatError if it is incomplete."""


async def ask_in_turn(
    deps: Deps, things: Sequence[str], ask: Callable[[str], Awaitable[T]]
) -> dict[str, T | PortError]:
    """Returns the same as ask_each, but starts at a random item. Otherwise the last items would never be read if the
    others always take all the time."""
    start = UUID(deps.entropy.uuid()).int % len(things) if len(things) > AT_ONCE else 0
    return await ask_each(things, ask, start=start)


async def ask_each(
    things: Sequence[str], ask: Callable[[str], Awaitable[T]], *, start: int = 0
) -> dict[str, T | PortError]:
    """Returns the answer, or the error, for each item, in their order. The item at ``start`` is requested first.

    At most AT_ONCE requests are concurrent, and all end within READ_ALL_SECONDS. Raises errors other than PortError.
    """
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(thing: str) -> T:
        async with slots:
            return await ask(thing)

    tasks = {thing: asyncio.create_task(one(thing)) for thing in (*things[start:], *things[:start])}
    try:
        if tasks:
            await asyncio.wait(tasks.values(), timeout=READ_ALL_SECONDS)
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
    found: dict[str, T | PortError] = {}
    for thing in things:
        task = tasks[thing]
        if task.cancelled():
            found[thing] = DeadlineError(
                f"the broker did not answer within the {READ_ALL_SECONDS:g} s in which all brokers are read"
            )
        elif isinstance(error := task.exception(), PortError):
            found[thing] = error
        else:
            found[thing] = task.result()
    return found


def limited(ask: Callable[[str], Awaitable[SizedT]], most: int, what: str) -> Callable[[str], Awaitable[SizedT]]:
    """Returns ``ask`` with a limit on the total length of all answers. An answer beyond the limit raises
    NotReadableError."""
    left = most

    async def asked(thing: str) -> SizedT:
        nonlocal left
        found = await ask(thing)
        left -= len(found) if found is not None else 0
        if left < 0:
            raise NotReadableError(f"the cluster has more than {most} {what}")
        return found

    return asked


@dataclass(frozen=True)
class BrokerReads:
    """Reads single brokers of one cluster."""

    deps: Deps
    endpoint: AdminEndpoint
    """The admin endpoint of the cluster."""
    cost: CostModel

    async def topics(self, broker: str, skips: Callable[[str], bool]) -> dict[str, CellBuffer]:
        """Returns the traffic that a broker counts by topic, grouped by namespace, without skipped ones. Raises
        PortError."""
        reader = TopicTraffic(self.cost, skips)
        await self._of(broker, "topics", reader)
        return reader.namespaces

    async def bundles(self, broker: str, skips: Callable[[str], bool]) -> dict[BundleId, BundleLoad]:
        """Returns the traffic that a broker counts by bundle. Raises PortError.

        It is read from the broker's load report, which has a hundredth of the size of its topic statistics, and from
        these if the broker has no such report, as with the extensible load manager.
        """
        report = BundleTraffic(self.cost, skips)
        try:
            await self._of(broker, "load-report", report)
        except (NotReadableError, NotFoundError, RefusedError):
            pass
        except UnavailableError as error:
            if error.status != REPORTS_NOTHING:
                raise
        else:
            return report.bundles
        reader = TopicTrafficByBundle(self.cost, skips)
        await self._of(broker, "topics", reader)
        return reader.bundles

    async def usage(self, broker: str) -> Usage | None:
        """Returns the most used resource of a broker; None if it does not report one. Raises PortError."""
        reader = UsageFigures()
        await self._of(broker, "metrics", reader, short=True)
        return usage_of(reader.report)

    async def positions(self, domain: str, namespace: str, span: str | None = None) -> array[int]:
        """Returns the hash positions of the existing topics of a namespace, or of its bundle with the range ``span``,
        whether or not they are loaded. Raises PortError."""
        names = TopicNames()
        query = {"includeSystemTopic": "true"} | ({"bundle": span} if span else {})
        path = (domain, *namespace.split("/", 1))
        await self._read(self.endpoint, path, names, STATS_DEADLINE_SECONDS, query)
        return names.positions

    async def _of(self, broker: str, statistics: str, reader: Reader, *, short: bool = False) -> None:
        path = ("broker-stats", statistics)
        deadline = None if short else STATS_DEADLINE_SECONDS
        await self._read(broker_endpoint(self.endpoint, broker), path, reader, deadline)

    async def _read(
        self,
        endpoint: AdminEndpoint,
        path: Sequence[str],
        reader: Reader,
        deadline: float | None,
        query: Mapping[str, str] | None = None,
    ) -> None:
        try:
            await self.deps.admin.stream(endpoint, path, reader.feed, query=query, deadline=deadline)
            reader.end()
        except FormatError as error:
            raise NotReadableError(f"the answer of the broker is {error}") from None
