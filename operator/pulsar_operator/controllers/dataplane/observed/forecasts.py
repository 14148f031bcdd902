"""Reads recorded traffic for the decisions on brokers, at its own interval: a result changes once an hour.

The result stays in memory, and counts until it is too old: a short outage of the service changes nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.balance.autoscaling.outlook import Outlook, Read, outlook_of
from pulsar_operator.controllers.core.clusters import pulsar_name
from pulsar_operator.controllers.core.traffic import results_url
from pulsar_operator.domain.texts import without_login
from pulsar_operator.ports import Deps, Json, PortError

EVERY_SECONDS: Final = 600.0
RETRY_SECONDS: Final = 120.0
"""Seconds until the next attempt after a failure."""
READ_SECONDS: Final = 3.0
"""Deadline in seconds, since a pass must not wait for a service that does not answer."""
FORGOTTEN_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class _Known:
    url: str
    asked: datetime
    read: Read


class Forecasts:
    """Recorded traffic of all clusters of one operator."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._known: dict[str, _Known] = {}
        """By the UID of a cluster."""

    async def read(self, uid: str, obj: Json, spec: PulsarClusterSpec) -> Read | None:
        """Returns the recorded traffic of a cluster; None if its brokers do not use it. Never raises PortError, and
        takes READ_SECONDS at most."""
        now = self._deps.clock.now()
        self._forget(now)
        limits = spec.broker.autoscaling if spec.broker is not None else None
        if limits is None or limits.forecast is None:
            self._known.pop(uid, None)
            return None
        url = results_url(obj, limits.forecast.sizing)
        known = self._known.get(uid)
        if known is not None and known.url != url:
            known = None
        if known is None or not 0 <= (now - known.asked).total_seconds() < _pace(known.read):
            last = known.read.outlook if known is not None else None
            known = _Known(url, now, await self._ask(url, pulsar_name(obj), last))
            self._known[uid] = known
        return known.read

    async def _ask(self, url: str, cluster: str, last: Outlook | None) -> Read:
        where = f"the sizing service at {without_login(url)}"
        if self._deps.sizing is None:
            return Read(problem="this operator reads no sizing results")
        try:
            async with asyncio.timeout(READ_SECONDS):
                result = await self._deps.sizing.outlook(url, cluster)
        except TimeoutError:
            return Read(last, f"{where} did not answer within {READ_SECONDS:.0f} s")
        except PortError as error:
            return Read(last, str(error))
        if result is None:
            return Read(None, f"{where} has no result for cluster {cluster} yet")
        return Read(outlook_of(result))

    def _forget(self, now: datetime) -> None:
        """Discards the results of clusters that are no longer read: they are deleted."""
        for uid, known in list(self._known.items()):
            if (now - known.asked).total_seconds() > FORGOTTEN_SECONDS:
                del self._known[uid]


def _pace(read: Read) -> float:
    return RETRY_SECONDS if read.problem else EVERY_SECONDS
