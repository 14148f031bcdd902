"""One round: every broker of a cluster is asked once, what it says is recorded, and who did not answer is marked.

When all were asked they are asked for the CPU that they use, in what is left of the time: that may fail without a loss.
A broker that fails in any way (no connection, an error, a cut or empty answer, a full store) leaves no row: its traffic
of that sample is unknown, which its marker says. The markers are written last, so they commit the round.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import pyarrow as pa

from pulsar_operator.balance.model.pieces import FormatError
from pulsar_sizing.arrow import table_schema
from pulsar_sizing.collector.client import BrokerClient, CollectError, Target, broker_order, connect
from pulsar_sizing.collector.metrics import CollectorMetrics
from pulsar_sizing.collector.parse import BATCH_ROWS, TopicsParser
from pulsar_sizing.schema import MARKERS, TRAFFIC
from pulsar_sizing.store import Store, Upload

ATTEMPTS = 2
"""Requests to a broker whose connection failed or that was busy."""
NOT_ASKED = "not asked or not answered: the time of the round was over"

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class BrokerSample:
    """How one broker's sample went."""

    broker: str
    answered: bool
    topics: int = 0
    """Topics recorded, without those of health checks."""
    bytes: int = 0
    """Bytes of its answer."""
    stored_bytes: int = 0
    seconds: float = 0.0
    error: str | None = None
    cpu: float | None = None
    """Share of its CPU that it uses; None if not known."""


@dataclass(frozen=True)
class Round:
    """One round of one cluster."""

    cluster: str
    sample_time: datetime
    brokers: tuple[BrokerSample, ...]
    seconds: float = 0.0
    error: str | None = None
    """Why there is no list of brokers, or why the markers could not be stored."""

    @property
    def complete(self) -> bool:
        """Whether every broker was recorded and the markers say so."""
        return self.error is None and all(sample.answered for sample in self.brokers)


@dataclass(frozen=True)
class Limits:
    """What a round may take, and when the next one is due."""

    interval: float | None = None
    """Seconds between two rounds; None if not known."""
    deadline: float = 30.0
    """Seconds for one request, until its last byte."""
    round_seconds: float = 120.0
    """Seconds for all brokers of a cluster; who was not asked by then is missing."""
    cpu_seconds: float = 10.0
    """Seconds within which all brokers must report their CPU use."""
    concurrency: int = 4
    """Brokers asked at the same time; each holds one batch of rows in memory."""
    batch_rows: int = BATCH_ROWS


@dataclass
class Sampler:
    """Samples one cluster."""

    instance: str
    target: Target
    store: Store
    metrics: CollectorMetrics
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], float] = monotonic
    _known: tuple[str, ...] = ()
    """Brokers of the last list: when the next one cannot be had, they are what is missing."""
    _turn: int = 0

    async def sample(self, now: datetime) -> Round:
        """One round. ``now`` is its sample time. Never raises for what a broker, the network or the store does."""
        began = self.clock()
        sample_time = now.astimezone(UTC).replace(microsecond=now.microsecond // 1000 * 1000)
        problem: str | None = None
        listed = True
        try:
            async with connect(self.target, deadline=self.limits.deadline) as client:
                self._known = tuple(await client.brokers())
                samples = await self._ask_all(client, sample_time)
                left = min(self.limits.round_seconds - (self.clock() - began), self.limits.cpu_seconds)
                samples = await self._with_cpu(client, samples, max(left, 0.0))
        except CollectError as error:
            listed, problem = False, str(error)
            samples = [BrokerSample(broker, False, error=problem) for broker in self._known]
        self._turn += 1
        stored = await asyncio.to_thread(self._mark, sample_time, samples)
        done = Round(
            self.target.cluster,
            sample_time,
            tuple(sorted(samples, key=lambda s: s.broker)),
            self.clock() - began,
            problem or stored,
        )
        self._log_round(done, listed)
        return done

    async def _ask_all(self, client: BrokerClient, sample_time: datetime) -> list[BrokerSample]:
        order = broker_order(self._known, self._turn)
        ask = partial(self._sample_broker, client, sample_time)
        results = await self._each(order, ask, self.limits.round_seconds)
        return [results.get(broker, BrokerSample(broker, False, error=NOT_ASKED)) for broker in self._known]

    async def _with_cpu(
        self, client: BrokerClient, samples: Sequence[BrokerSample], seconds: float
    ) -> list[BrokerSample]:
        """The samples with the CPU that the brokers of those that answered use, as far as they say it in time."""
        order = broker_order([sample.broker for sample in samples if sample.answered], self._turn)
        cpus = await self._each(order, partial(_cpu, client), seconds)
        return [_completed(each, *cpus.get(each.broker, (None, None))) for each in samples]

    async def _each(
        self, brokers: Sequence[str], ask: Callable[[str], Coroutine[Any, Any, T]], seconds: float
    ) -> dict[str, T]:
        """Returns the answer of each broker, with a limited number of concurrent requests; those without one in time
        are left out."""
        slots = asyncio.Semaphore(self.limits.concurrency)
        results: dict[str, T] = {}

        async def one(broker: str) -> None:
            async with slots:
                results[broker] = await ask(broker)

        tasks = [asyncio.create_task(one(broker)) for broker in brokers]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=seconds)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        return results

    async def _sample_broker(self, client: BrokerClient, sample_time: datetime, broker: str) -> BrokerSample:
        began = self.clock()
        error = ""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                sample = await self._record(client, broker, sample_time)
                return replace(sample, seconds=self.clock() - began)
            except CollectError as failure:
                error = str(failure)
                if not failure.again or attempt == ATTEMPTS:
                    break
            except FormatError as failure:
                error = f"its answer is {failure}"
                break
            except _StoreFailedError as failure:
                error = f"its sample could not be stored: {failure}"
                break
        return BrokerSample(broker, False, seconds=self.clock() - began, error=error)

    async def _record(self, client: BrokerClient, broker: str, sample_time: datetime) -> BrokerSample:
        """Stream one broker's answer into its file. The file is there only if the whole answer is."""
        parser = TopicsParser(broker, sample_time, batch_rows=self.limits.batch_rows)
        uploads: list[Upload] = []

        async def write(batches: list[Any]) -> None:
            for batch in batches:
                if not uploads:
                    uploads.append(await _in_thread(self._begin, broker, sample_time))
                await _in_thread(uploads[0].write, batch)

        async def consume(pieces: AsyncIterator[bytes]) -> None:
            async for piece in pieces:
                parser.feed(piece)
                await write(parser.take())
            parser.end()
            await write(parser.take())

        try:
            await client.read_topics(broker, consume)
            stored = await _in_thread(uploads[0].commit) if uploads else 0
        except BaseException:
            for upload in uploads:
                await _in_thread(upload.abort)
            raise
        self.metrics.recorded(
            self.target.cluster, rows=parser.rows, incomplete=parser.incomplete, received=parser.size, stored=stored
        )
        note = f"{parser.incomplete} topics left out: the broker gave no rates for them" if parser.incomplete else None
        return BrokerSample(broker, True, parser.rows, parser.size, stored, error=note)

    def _begin(self, broker: str, sample_time: datetime) -> Upload:
        return self.store.upload(TRAFFIC, self.instance, self.target.cluster, sample_time, broker)

    def _mark(self, sample_time: datetime, samples: list[BrokerSample]) -> str | None:
        """Write the markers; returns what went wrong. A round that knows of no broker has none to write."""
        if not samples:
            return None
        rows = {
            "sample_time": [sample_time] * len(samples),
            "broker": [s.broker for s in samples],
            "answered": [s.answered for s in samples],
            "topics": [s.topics for s in samples],
            "error": [s.error for s in samples],
            "cpu": [s.cpu for s in samples],
            "interval_seconds": [self.limits.interval] * len(samples),
        }
        try:
            upload = self.store.upload(MARKERS, self.instance, self.target.cluster, sample_time, "markers")
            try:
                upload.write(pa.table(rows, schema=table_schema(MARKERS)))
                upload.commit()
            except BaseException:
                upload.abort()
                raise
        except (OSError, pa.ArrowException) as error:
            return f"the markers could not be stored: {_short(error)}"
        return None

    def _log_round(self, done: Round, listed: bool) -> None:
        answered = sum(s.answered for s in done.brokers)
        self.metrics.round_ended(
            done.cluster,
            sampled=done.sample_time.timestamp(),
            seconds=done.seconds,
            answered=answered,
            missing=len(done.brokers) - answered,
            listed=listed,
        )
        extra = {
            "cluster": done.cluster,
            "brokers": len(done.brokers),
            "answered": answered,
            "topics": sum(s.topics for s in done.brokers),
            "seconds": round(done.seconds, 3),
            "problem": done.error,
        }
        log.log(logging.INFO if done.complete else logging.WARNING, "round ended", extra=extra)
        for sample in done.brokers:
            if sample.error is not None and done.error is None:
                log.warning(
                    "broker sampled in part" if sample.answered else "broker did not answer",
                    extra={"cluster": done.cluster, "broker": sample.broker, "problem": sample.error},
                )


async def _cpu(client: BrokerClient, broker: str) -> tuple[float | None, str | None]:
    """Share of its CPU, and what went wrong."""
    try:
        return await client.cpu(broker), None
    except CollectError as error:
        return None, f"its CPU is not known: {error}"


def _completed(sample: BrokerSample, cpu: float | None, problem: str | None) -> BrokerSample:
    return replace(sample, cpu=cpu, error="; ".join(filter(None, (sample.error, problem))) or None)


class _StoreFailedError(Exception):
    """The store failed, not the broker: kept apart from the errors of the connection that it interrupts."""


async def _in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a blocking call of the store to its end, also when the round is cancelled: a file has one user at a time."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise
    except (OSError, pa.ArrowException) as error:
        raise _StoreFailedError(_short(error)) from error


def _short(error: BaseException) -> str:
    return str(error).partition("\n")[0][:300]
