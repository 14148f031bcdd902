"""Reads single brokers, each at its own address: statistics of any size, a few brokers at a time.

Brokers of a large cluster answer tens of megabytes each. Every answer is read piece by piece into what is kept of it
(balance/model/statistics.py): the memory of an observation is that of its result.
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
"""For one broker's statistics of all topics, from the request to the last byte: 1.4 KB a topic, 70 MB of 50,000. One
that sends nothing is given up long before."""
READ_ALL_SECONDS = 180.0
"""For all brokers to be read: 50 of 28 MB each that send 1 MB a second take 110 s. A pass (engine.PASS_SECONDS) is
stopped after 300 s, whatever was read."""
AT_ONCE = 16
"""Brokers, or namespaces, that are asked at the same time. The deadline of the others does not run while they wait."""
MOST_BROKERS = 1024
"""Of a cluster; as many as status.capacities of a PulsarRebalance has room for."""
MOST_BUNDLES = 500_000
"""Of a cluster: owners, boundaries and the model of them take some 1 KB each."""
REPORTS_NOTHING = 500
"""HTTP status of ``broker-stats/load-report`` under the extensible load manager (Pulsar's class
ExtensibleLoadManagerWrapper)."""

T = TypeVar("T")
SizedT = TypeVar("SizedT", bound=Sized | None)


class NotReadableError(UnavailableError):
    """An answer is no such document as was asked for; the message says how it differs."""


class Reader(Protocol):
    """Takes a document piece by piece (balance/model/statistics.py)."""

    def feed(self, data: bytes) -> None:
        """Take the next piece. Raises FormatError."""

    def end(self) -> None:
        """The document ended. Raises FormatError."""


async def ask_in_turn(
    deps: Deps, things: Sequence[str], ask: Callable[[str], Awaitable[T]]
) -> dict[str, T | PortError]:
    """Returns as ask_each, but starts at another one each time: otherwise those at the end of the list would never be
    read where others take all the time."""
    start = UUID(deps.entropy.uuid()).int % len(things) if len(things) > AT_ONCE else 0
    return await ask_each(things, ask, start=start)


async def ask_each(
    things: Sequence[str], ask: Callable[[str], Awaitable[T]], *, start: int = 0
) -> dict[str, T | PortError]:
    """Returns the answer for each of some things, or the error, in their order; the one at ``start`` is asked first.

    AT_ONCE of them are asked at the same time, and all within READ_ALL_SECONDS, whichever do not answer. Raises other
    errors than PortError.
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
            found[thing] = DeadlineError(f"it was not read within the {READ_ALL_SECONDS:g} s for all of them")
        elif isinstance(error := task.exception(), PortError):
            found[thing] = error
        else:
            found[thing] = task.result()
    return found


def limited(ask: Callable[[str], Awaitable[SizedT]], most: int, what: str) -> Callable[[str], Awaitable[SizedT]]:
    """Returns the question with a limit on the members of all answers together: answers beyond it are errors."""
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
    """The cluster's."""
    cost: CostModel

    async def topics(self, broker: str, skips: Callable[[str], bool]) -> dict[str, CellBuffer]:
        """Returns the traffic that a broker counts by topic, by namespace, without skipped ones. Raises PortError."""
        reader = TopicTraffic(self.cost, skips)
        await self._of(broker, "topics", reader)
        return reader.namespaces

    async def bundles(self, broker: str, skips: Callable[[str], bool]) -> dict[BundleId, BundleLoad]:
        """Returns the same by bundle, from the broker's load report, which is a hundredth of the statistics of its
        topics; from these where it has no such report, as under the extensible load manager. Raises PortError."""
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
        """Returns positions of the topics of a namespace, or of its bundle with a range, that exist, loaded or not.
        Raises PortError."""
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
            raise NotReadableError(f"its answer is {error}") from None
