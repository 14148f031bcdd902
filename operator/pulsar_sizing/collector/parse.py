"""From the pieces of a broker-stats/topics document to Arrow record batches, with the memory of one batch.

The document itself is read by pulsar_operator/balance/model/topic_statistics.py, as the operator reads it.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import ijson
import pyarrow as pa

from pulsar_operator.balance.model.observation import cpu_share
from pulsar_operator.balance.model.pieces import FormatError, first_line, position_of
from pulsar_operator.balance.model.topic_statistics import TopicFigures, TopicsReader
from pulsar_sizing.arrow import schema_of
from pulsar_sizing.schema import TRAFFIC_COLUMNS

BATCH_ROWS = 10_000
BROKER_OWN = re.compile(r"pulsar/(?:[^/]+/)?[^:/]+:\d+|sla-monitor/[^/]+/[^:/]+:\d+")
"""Namespaces of health checks: bound to their broker and never moved or split (Pulsar's class NamespaceService,
HEARTBEAT_NAMESPACE_PATTERN, HEARTBEAT_NAMESPACE_PATTERN_V2, SLA_NAMESPACE_PATTERN)."""


class TopicsParser:
    """Feed it the document piece by piece, take the batches that are full in between."""

    def __init__(self, broker: str, sample_time: datetime, *, batch_rows: int = BATCH_ROWS) -> None:
        """``broker`` and ``sample_time`` go into each row."""
        self._broker = broker
        self._sample_time = sample_time
        self._batch_rows = batch_rows
        self._schema = schema_of(TRAFFIC_COLUMNS)
        self._rows: list[tuple[Any, ...]] = []
        self._batches: list[Any] = []
        self._reader = TopicsReader(self._row, lambda name: BROKER_OWN.fullmatch(name) is not None)
        self.rows = 0
        """Topics taken."""
        self.incomplete = 0
        """Topics left out because their rates are not there."""

    @property
    def size(self) -> int:
        """Bytes fed by now."""
        return self._reader.size

    def feed(self, data: bytes) -> None:
        """Parse the next piece. Raises FormatError."""
        self._reader.feed(data)

    def end(self) -> None:
        """The document ended. Raises FormatError if it is cut, empty or too strange for the columns."""
        self._reader.end()
        self._flush()

    def take(self) -> list[Any]:
        """The pyarrow.RecordBatches that are ready."""
        batches, self._batches = self._batches, []
        return batches

    def _flush(self) -> None:
        rows = len(self._rows)
        if not rows:
            return
        arrays = [
            pa.repeat(pa.scalar(self._sample_time, self._schema.field("sample_time").type), rows),
            pa.repeat(pa.scalar(self._broker), rows),
        ]
        try:
            arrays += [
                pa.array(values, column.type)
                for column, values in zip(list(self._schema)[2:], zip(*self._rows, strict=True), strict=True)
            ]
        except (pa.ArrowException, OverflowError) as error:
            raise FormatError(f"a value does not fit its column: {first_line(error)}") from None
        self._batches.append(pa.record_batch(arrays, schema=self._schema))
        self._rows.clear()

    def _row(self, namespace: str, bundle: str, topic: str, figures: TopicFigures) -> None:
        rates = figures[:4]
        if None in rates:
            self.incomplete += 1
            return
        clients = (figures.producers, figures.consumers, figures.subscriptions)
        name = (namespace, bundle, topic, position_of(topic))
        self._rows.append((*name, *rates, *clients, figures.backlog, figures.storage_bytes))
        self.rows += 1
        if len(self._rows) >= self._batch_rows:
            self._flush()


class CpuReader:
    """Feed it a broker-stats/metrics document piece by piece; it holds one of its items, of which many brokers have
    one for each namespace."""

    def __init__(self) -> None:
        self._items: Any = ijson.sendable_list()
        self._events = ijson.items_coro(self._items, "item", use_float=True)
        self.share: float | None = None
        """Of its CPU that the broker uses, as far as it was read; None if it does not say."""

    def feed(self, data: bytes) -> None:
        """Parse the next piece. Raises FormatError. A document that is cut says no less than up to there."""
        try:
            self._events.send(data)
        except ijson.JSONError as error:
            raise FormatError(f"not JSON: {first_line(error)}") from None
        shares = [share for share in (self.share, cpu_share(list(self._items))) if share is not None]
        self.share = max(shares, default=None)
        del self._items[:]
