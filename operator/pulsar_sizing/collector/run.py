"""The processes behind ``collect``, ``expire`` and ``serve``: wiring, the loops, signals, exit codes."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from pulsar_sizing import layout
from pulsar_sizing.arrow import parquet
from pulsar_sizing.collector.client import Target
from pulsar_sizing.collector.metrics import CollectorMetrics
from pulsar_sizing.collector.rounds import Limits, Round, Sampler
from pulsar_sizing.collector.serve import Server, alive_problem, round_status
from pulsar_sizing.schema import MARKERS, SCHEMA_VERSION
from pulsar_sizing.settings import Settings
from pulsar_sizing.store import Store, StoreError
from pulsar_sizing.upkeep import Report, maintain

EXIT_OK = 0
EXIT_FAILED = 1
ROUND_INTERVALS = 2.0
"""Intervals that a round may take before the brokers left are given up: liveness fails after three."""
STATUS_HOURS = 2
"""How far back ``serve`` alone looks for the last round."""

log = logging.getLogger(__name__)


def system_now() -> datetime:
    """Current time, UTC, aware."""
    return datetime.now(UTC)


def targets(settings: Settings) -> list[Target]:
    """The clusters to sample."""
    return [
        Target(
            cluster,
            urls,
            settings.broker_url.replace("{cluster}", cluster) if settings.broker_url else None,
            settings.file(settings.token_file, cluster),
            settings.file(settings.ca_file, cluster),
            tuple(host.replace("{cluster}", cluster) for host in settings.token_host),
        )
        for cluster, urls in settings.clusters().items()
    ]


class Collector:
    """Samples every cluster at each interval and deletes old days."""

    def __init__(self, settings: Settings, store: Store, *, now: Callable[[], datetime] = system_now) -> None:
        self._settings = settings
        self._store = store
        self._now = now
        self.metrics = CollectorMetrics()
        limits = Limits(
            interval=settings.interval,
            deadline=settings.deadline,
            round_seconds=ROUND_INTERVALS * settings.interval,
            concurrency=settings.concurrency,
        )
        self._samplers = [Sampler(settings.instance, t, store, self.metrics, limits) for t in targets(settings)]
        self._rounds: dict[str, Round] = {}
        self._ended = {sampler.target.cluster: now() for sampler in self._samplers}
        """When the last round of each cluster ended; at first, when this process began."""

    async def once(self) -> list[Round]:
        """One round of every cluster, at the same sample time."""
        moment = self._now()
        return list(await asyncio.gather(*(self._sample(sampler, moment) for sampler in self._samplers)))

    async def _sample(self, sampler: Sampler, moment: datetime) -> Round:
        done = await sampler.sample(moment)
        self._rounds[done.cluster] = done
        self._ended[done.cluster] = self._now()
        return done

    async def run(self) -> None:
        """Rounds and upkeep until cancelled. Each cluster keeps its own time: a slow one delays no other."""
        async with asyncio.TaskGroup() as group:
            for sampler in self._samplers:
                group.create_task(self._rounds_of(sampler))
            group.create_task(self._upkeep())

    async def _rounds_of(self, sampler: Sampler) -> None:
        while True:
            await self._sample(sampler, self._now())
            await asyncio.sleep(until_next(self._now(), self._settings.interval))

    async def _upkeep(self) -> None:
        while True:
            try:
                report = await asyncio.to_thread(
                    maintain, self._store, self._settings.instance, self._now(), self._settings.retention_days
                )
                log_report(report, self.metrics)
            except (OSError, pa.ArrowException, StoreError) as error:
                log.warning("upkeep of the store failed", extra={"problem": str(error).partition("\n")[0]})
                self.metrics.upkeep("failed", 1)
            await asyncio.sleep(self._settings.upkeep_seconds)

    def alive(self) -> str | None:
        """See :func:`serve.alive_problem`."""
        return alive_problem(self._ended, self._now(), self._settings.interval)

    async def status(self) -> dict[str, Any]:
        """The last round of each cluster; None if none has ended yet."""
        return {
            "instance": self._settings.instance,
            "intervalSeconds": self._settings.interval,
            "clusters": {
                name: round_status(self._rounds[name]) if name in self._rounds else None for name in sorted(self._ended)
            },
        }


def until_next(now: datetime, interval: float) -> float:
    """Seconds to the next multiple of the interval since 1970: rounds keep their beat over restarts."""
    return interval - now.timestamp() % interval


def log_report(report: Report, metrics: CollectorMetrics) -> None:
    """Log and count what upkeep deleted, if anything."""
    counts = {"days_deleted": report.days, "leftovers_deleted": report.leftovers}
    for what, count in counts.items():
        metrics.upkeep(what, count)
    if any(counts.values()):
        log.info("upkeep of the store", extra=counts)


async def collect(settings: Settings, *, once: bool) -> int:
    """Sample until a signal comes, or once. Returns 0; with ``once`` 1 unless every broker was recorded.

    Raises StoreError for an unusable root, OSError when the port is taken.
    """
    # Arrow's own allocator keeps what batches no longer use.
    pa.set_memory_pool(pa.system_memory_pool())
    store = Store(settings.root, s3=settings.s3)
    collector = Collector(settings, store)
    if once:
        rounds = await collector.once()
        print(json.dumps({"rounds": [round_status(done) for done in rounds]}, indent=2))
        return EXIT_OK if all(done.complete and done.brokers for done in rounds) else EXIT_FAILED
    server = Server(
        store=store,
        instance=settings.instance,
        status=collector.status,
        alive=collector.alive,
        metrics=collector.metrics.render,
    )
    return await _until_signal(server, settings, collector.run())


async def serve(settings: Settings) -> int:
    """Results and the last recorded round from the store alone, until a signal comes. Raises as :func:`collect`."""
    store = Store(settings.root, s3=settings.s3)

    async def status() -> dict[str, Any]:
        return await asyncio.to_thread(recorded_status, store, settings.instance, system_now())

    server = Server(
        store=store,
        instance=settings.instance,
        status=status,
        alive=lambda: None,
        metrics=CollectorMetrics().render,
    )
    return await _until_signal(server, settings, asyncio.Event().wait())


def expire(settings: Settings) -> int:
    """One upkeep; prints what it deleted. Returns 0."""
    store = Store(settings.root, s3=settings.s3)
    report = maintain(store, settings.instance, system_now(), settings.retention_days)
    print(json.dumps(asdict(report), indent=2))
    return EXIT_OK


def recorded_status(store: Store, instance: str, now: datetime) -> dict[str, Any]:
    """Returns the last round of each cluster from its markers, of the last two hours. Blocks."""
    clusters: dict[str, Any] = {}
    for folder in store.folders(f"{MARKERS}/v{SCHEMA_VERSION}/{layout.partition('instance', instance)}"):
        name = layout.partition_value(folder)
        rows: list[dict[str, Any]] = []
        hour = now.replace(minute=0, second=0, microsecond=0)
        for back in range(STATUS_HOURS):
            begin = hour - timedelta(hours=back)
            for path in store.recorded_paths(instance, name, begin, begin + timedelta(hours=1), table=MARKERS):
                with store.open(path) as stream:
                    rows += parquet.read_table(stream).to_pylist()
            if rows:
                break
        newest = max((row["sample_time"] for row in rows), default=None)
        clusters[name] = newest and {
            "cluster": name,
            "sampleTime": newest.isoformat(timespec="milliseconds"),
            "brokers": [
                {key: row[key] for key in ("broker", "answered", "topics", "error")}
                for row in sorted(rows, key=lambda r: str(r["broker"]))
                if row["sample_time"] == newest
            ],
        }
    return {"instance": instance, "clusters": clusters}


async def _until_signal(server: Server, settings: Settings, work: Any) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    task = asyncio.ensure_future(work)
    stopping = asyncio.create_task(stopped.wait())
    try:
        await server.start(*settings.address())
        log.info("listening", extra={"port": server.port})
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        return EXIT_OK
    finally:
        for one in (task, stopping):
            one.cancel()
            with suppress(asyncio.CancelledError):
                await one
        await server.close()
