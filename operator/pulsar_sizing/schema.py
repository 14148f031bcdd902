"""The one description of what the collector writes and the Spark job reads: one row a topic and sample.

Files lie at ``<root>/traffic/v1/instance=<i>/cluster=<c>/day=YYYY-MM-DD/hour=HH/<broker>-<sample time>-<id>.parquet``,
times in UTC. The version in the path is that of the schema: columns may be added under it, never renamed or retyped;
anything else is a new version beside the old one. A sample of a broker that did not answer is no file: missing is not
zero. ``markers/`` beside them says which brokers were expected and which answered, one row a broker and sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SCHEMA_VERSION: Final = 1
TRAFFIC: Final = "traffic"
MARKERS: Final = "markers"


@dataclass(frozen=True)
class Column:
    """One column: name, Arrow type, meaning. Types are those that Parquet, Arrow and Spark agree on."""

    name: str
    type: str
    description: str
    required: bool = True


TRAFFIC_COLUMNS: Final[tuple[Column, ...]] = (
    Column("sample_time", "timestamp[ms, UTC]", "when the collector asked, the same for all brokers of one round"),
    Column("broker", "string", "id of the broker that answered, host:webPort"),
    Column("namespace", "string", "tenant/namespace"),
    Column("bundle", "string", "range of the bundle at that time, 0x%08x_0x%08x"),
    Column("topic", "string", "full name with domain and partition suffix"),
    Column("position", "int64", "CRC-32 of the full name, 0 to 2^32 - 1"),
    Column("messages_in", "float64", "messages published a second"),
    Column("messages_out", "float64", "messages dispatched a second, all subscriptions and replicators"),
    Column("bytes_in", "float64", "bytes published a second"),
    Column("bytes_out", "float64", "bytes dispatched a second"),
    Column("producers", "int32", "producers connected"),
    Column("consumers", "int32", "consumers connected, all subscriptions"),
    Column("subscriptions", "int32", "subscriptions"),
    Column("backlog", "int64", "messages not acknowledged, all subscriptions"),
    Column("storage_bytes", "int64", "bytes stored"),
)

MARKER_COLUMNS: Final[tuple[Column, ...]] = (
    Column("sample_time", "timestamp[ms, UTC]", "as in traffic"),
    Column("broker", "string", "id of a broker that was registered at that time"),
    Column("answered", "bool", "false = its traffic of this sample is Unknown, not zero"),
    Column("topics", "int64", "topics in its answer"),
    Column("error", "string", "what went wrong, without addresses of secrets", required=False),
    Column("cpu", "float64", "share of its CPU that the broker uses, 1 = all of it; null = not known", required=False),
    Column("interval_seconds", "float64", "seconds between two rounds, as the collector is set", required=False),
)
