"""From the pieces of a broker-stats/topics document to Arrow record batches, with the memory of one batch.

The document nests namespace, bundle, domain, topic (Pulsar's classes PulsarStats, PersistentTopic.updateRates and
NonPersistentTopic.updateRates): ``{ns: {range: {"persistent": {topic: {...}}, "non-persistent": {topic: {...}}}}}``.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from datetime import datetime
from typing import Any

import ijson
import pyarrow as pa

from pulsar_operator.balance.model.hashing import topic_hash
from pulsar_operator.balance.model.observation import cpu_share
from pulsar_sizing.arrow import schema_of
from pulsar_sizing.schema import TRAFFIC_COLUMNS

BATCH_ROWS = 10_000
BROKER_OWN = re.compile(r"pulsar/(?:[^/]+/)?[^:/]+:\d+|sla-monitor/[^/]+/[^:/]+:\d+")
"""Namespaces of health checks: bound to their broker and never moved or split (Pulsar's class NamespaceService,
HEARTBEAT_NAMESPACE_PATTERN, HEARTBEAT_NAMESPACE_PATTERN_V2, SLA_NAMESPACE_PATTERN)."""
RATES = ("msgRateIn", "msgRateOut", "msgThroughputIn", "msgThroughputOut")
"""Every topic has them; their absence means that the broker failed while it wrote this topic."""


class FormatError(ValueError):
    """The answer is no broker-stats/topics document; the message says where it ends to be one."""


class TopicsParser:
    """Feed it the document piece by piece, take the batches that are full in between."""

    def __init__(self, broker: str, sample_time: datetime, *, batch_rows: int = BATCH_ROWS) -> None:
        """``broker`` and ``sample_time`` go into each row."""
        self._broker = broker
        self._sample_time = sample_time
        self._batch_rows = batch_rows
        self._schema = schema_of(TRAFFIC_COLUMNS)
        self._columns: dict[str, list[Any]] = {c.name: [] for c in TRAFFIC_COLUMNS[2:]}
        self._batches: list[Any] = []
        self._events = ijson.basic_parse_coro(self._document(), use_float=True)
        self.bytes = 0
        self.rows = 0
        """Topics taken."""
        self.incomplete = 0
        """Topics left out because their rates are not there."""

    def feed(self, data: bytes) -> None:
        """Parse the next piece. Raises FormatError."""
        self.bytes += len(data)
        try:
            self._events.send(data)
        except ijson.JSONError as error:
            raise FormatError(f"not JSON after {self.bytes} bytes: {_first_line(error)}") from None

    def end(self) -> None:
        """The document ended. Raises FormatError if it is cut, empty or too strange for the columns."""
        if not self.bytes:
            raise FormatError("empty: the broker has no statistics yet (they are made once a minute)")
        try:
            self._events.close()
        except ijson.JSONError as error:
            raise FormatError(f"not whole, {self.bytes} bytes: {_first_line(error)}") from None
        self._flush()

    def take(self) -> list[Any]:
        """The pyarrow.RecordBatches that are ready."""
        batches, self._batches = self._batches, []
        return batches

    def _flush(self) -> None:
        rows = len(self._columns["topic"])
        if not rows:
            return
        arrays = [
            pa.repeat(pa.scalar(self._sample_time, self._schema.field("sample_time").type), rows),
            pa.repeat(pa.scalar(self._broker), rows),
        ]
        try:
            arrays += [pa.array(values, self._schema.field(name).type) for name, values in self._columns.items()]
        except (pa.ArrowException, OverflowError) as error:
            raise FormatError(f"a value does not fit its column: {_first_line(error)}") from None
        self._batches.append(pa.record_batch(arrays, schema=self._schema))
        for values in self._columns.values():
            values.clear()

    def _row(self, place: tuple[str, str, str], fields: dict[str, Any], counts: tuple[int, int, int]) -> None:
        namespace, bundle, topic = place
        try:
            messages_in, messages_out, bytes_in, bytes_out = (fields[name] for name in RATES)
        except KeyError:
            self.incomplete += 1
            return
        consumers, subscriptions, backlog = counts
        add = self._columns
        add["namespace"].append(namespace)
        add["bundle"].append(bundle)
        add["topic"].append(topic)
        add["position"].append(topic_hash(topic))
        add["messages_in"].append(messages_in)
        add["messages_out"].append(messages_out)
        add["bytes_in"].append(bytes_in)
        add["bytes_out"].append(bytes_out)
        add["producers"].append(fields.get("producerCount", 0))
        add["consumers"].append(consumers)
        add["subscriptions"].append(subscriptions)
        add["backlog"].append(backlog)
        add["storage_bytes"].append(fields.get("storageSize", 0))
        self.rows += 1
        if len(add["topic"]) >= self._batch_rows:
            self._flush()

    @ijson.coroutine  # type: ignore[untyped-decorator]
    def _document(self) -> Generator[None, tuple[str, Any], None]:
        """Target of ijson's events. Depth is the number of maps and lists around the value:

        1 namespaces, 2 bundles, 3 domains, 4 topics, 5 fields of a topic, 6 subscriptions, 7 fields of a subscription,
        8 its consumers. What lies elsewhere (publishers, replication) is skipped.
        """
        depth = consumers = subscriptions = backlog = 0
        namespace = bundle = topic = field = detail = ""
        skip = False
        fields: dict[str, Any] = {}
        while True:
            event, value = yield
            if event == "map_key":
                if depth == 5:
                    field = value
                elif depth == 7:
                    detail = value
                elif depth == 6:
                    if field == "subscriptions":
                        subscriptions += 1
                elif depth == 4:
                    topic = value
                elif depth == 2:
                    bundle = value
                elif depth == 1:
                    namespace = value
                    skip = BROKER_OWN.fullmatch(namespace) is not None
            elif event == "number":
                if depth == 5:
                    fields[field] = value
                elif depth == 7 and detail == "msgBacklog" and field == "subscriptions":
                    backlog += value
                elif depth < 5:
                    raise FormatError(_misplaced(depth, event))
            elif event == "start_map":
                if depth == 4:
                    consumers = subscriptions = backlog = 0
                    fields = {}
                elif depth == 8 and detail == "consumers" and field == "subscriptions":
                    consumers += 1
                depth += 1
            elif event in ("end_map", "end_array"):
                depth -= 1
                if depth == 4 and not skip:
                    self._row((namespace, bundle, topic), fields, (consumers, subscriptions, backlog))
            elif event == "start_array":
                if depth < 5:
                    raise FormatError(_misplaced(depth, event))
                depth += 1
            elif depth < 5:
                raise FormatError(_misplaced(depth, event))


class CpuReader:
    """Feed it a broker-stats/metrics document piece by piece; it holds one of its items, of which many brokers have
    one for each namespace."""

    def __init__(self) -> None:
        self._items: Any = ijson.sendable_list()
        self._events = ijson.items_coro(self._items, "item", use_float=True)
        self.share: float | None = None
        """Of its CPU that the broker uses, as far as it was read; None = it does not say."""

    def feed(self, data: bytes) -> None:
        """Parse the next piece. Raises FormatError. A document that is cut says no less than up to there."""
        try:
            self._events.send(data)
        except ijson.JSONError as error:
            raise FormatError(f"not JSON: {_first_line(error)}") from None
        told = [share for share in (self.share, cpu_share(list(self._items))) if share is not None]
        self.share = max(told, default=None)
        del self._items[:]


def _misplaced(depth: int, event: str) -> str:
    where = ("at the top", "for a namespace", "for a bundle", "for a domain", "for a topic")[depth]
    return f"no broker-stats/topics document: {event.replace('start_', '')} {where} where a map belongs"


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
