"""Kubernetes events: written in the background, aggregated, limited in number. A lost event never fails a reconcile.

The name of an Event is derived from (object UID, type, reason, message), so repeats, even after a restart of the
operator, increase the count of one Event instead of creating many. Called by kube.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime

from pulsar_operator.adapters.kube_http import MERGE_TYPE, KubeClient, resource_path
from pulsar_operator.domain.texts import visible
from pulsar_operator.ports import EVENTS, Clock, ConflictError, Json, MetricsPort, NotFoundError, PortError

log = logging.getLogger(__name__)

COMPONENT = "pulsar-operator"
MESSAGE_LIMIT = 1024
"""Maximum length of a message that the API server accepts for core/v1 Events."""
REPEAT_SECONDS = 60.0
"""Repeats within this time are counted and written once."""
CAPACITY = 1000
"""Maximum number of distinct events waiting to be written. Further ones are dropped and counted."""
REMEMBERED = 4096
"""Number of distinct events remembered for aggregation."""


@dataclass
class _Series:
    """One Event object and the repeats that are not written yet."""

    name: str
    involved: Json
    kind: str
    reason: str
    message: str
    first: datetime
    last: datetime
    unwritten: int = 0
    written_at: datetime | None = None
    queued: bool = False


class EventRecorder:
    """Collects events and writes them in one background task."""

    def __init__(
        self, client: KubeClient, metrics: MetricsPort, clock: Clock, *, reporter: str, capacity: int = CAPACITY
    ) -> None:
        """``reporter`` is the name of this operator's pod."""
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self._reporter = reporter
        self._series: OrderedDict[str, _Series] = OrderedDict()
        self._queue: asyncio.Queue[str] = asyncio.Queue(maxsize=capacity)
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0
        """Number of events that were not recorded because too many were waiting."""

    def start(self) -> None:
        """Starts the writer. Must be called once, inside the event loop."""
        self._task = asyncio.create_task(self._write_forever(), name="event recorder")

    async def close(self, *, deadline: float = 2.0) -> None:
        """Writes waiting events, for at most ``deadline`` seconds, and stops."""
        if self._task is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline):
                await self._queue.join()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._task = None

    def record(self, involved: Json, *, kind: str, reason: str, message: str) -> None:
        """Records an event. Never raises, never waits."""
        try:
            self._record(involved, kind, reason, visible(message)[:MESSAGE_LIMIT])
        except Exception:
            log.exception("An event could not be recorded", extra={"reason": reason})

    def _record(self, involved: Json, kind: str, reason: str, message: str) -> None:
        now = self._clock.now()
        meta = involved["metadata"]
        digest = hashlib.sha256("\0".join([meta.get("uid", ""), kind, reason, message]).encode()).hexdigest()[:16]
        name = f"{meta['name'][:200].rstrip('.-')}.{digest}"
        key = f"{meta['namespace']}/{name}"
        series = self._series.get(key)
        if series is None:
            reference = {
                "apiVersion": involved["apiVersion"],
                "kind": involved["kind"],
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta.get("uid", ""),
            }
            series = _Series(name, reference, kind, reason, message, first=now, last=now)
            self._series[key] = series
            while len(self._series) > REMEMBERED:
                self._series.popitem(last=False)
        self._series.move_to_end(key)
        series.last = now
        series.unwritten += 1
        recent = series.written_at is not None and (now - series.written_at).total_seconds() < REPEAT_SECONDS
        if series.queued or recent:
            return
        try:
            self._queue.put_nowait(key)
            series.queued = True
        except asyncio.QueueFull:
            self.dropped += 1

    async def _write_forever(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                series = self._series.get(key)
                if series is not None:
                    series.queued = False
                    await self._write(series)
            except PortError as error:
                # An Event is a courtesy: one attempt, then the log has it.
                log.warning("An event could not be written: %s", error)
            except Exception:
                log.exception("An event could not be written")
            finally:
                self._queue.task_done()

    async def _write(self, series: _Series) -> None:
        count, series.unwritten = series.unwritten, 0
        series.written_at = self._clock.now()
        path = resource_path(EVENTS, series.involved["namespace"])
        if count == 0:
            return
        try:
            await self._client.request("POST", path, body=self._manifest(series, count))
        except ConflictError:
            await self._raise_count(series, count)
        self._metrics.kube_write("event", "Event")

    async def _raise_count(self, series: _Series, count: int) -> None:
        path = resource_path(EVENTS, series.involved["namespace"], series.name)
        try:
            stored = await self._client.request("GET", path)
        except NotFoundError:
            return  # it expired between the two calls; the next repeat creates it again
        total = int(stored.get("count") or 0) + count
        body = {"count": total, "lastTimestamp": _seconds(series.last)}
        await self._client.request("PATCH", path, body=body, content_type=MERGE_TYPE)

    def _manifest(self, series: _Series, count: int) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": series.involved["namespace"]},
            "involvedObject": series.involved,
            "type": series.kind,
            "reason": series.reason,
            "message": series.message,
            "count": count,
            "firstTimestamp": _seconds(series.first),
            "lastTimestamp": _seconds(series.last),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._reporter,
        }


def _seconds(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
