"""Helpers for tests of the files of the collector: rows, files with them, and what a reader sees."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pulsar_sizing.arrow import table_schema
from pulsar_sizing.schema import TRAFFIC
from pulsar_sizing.store import Store, recorded_files

NOW = datetime.now(UTC).replace(microsecond=0)
HOUR = NOW.replace(minute=0, second=0) - timedelta(hours=3)
"""A closed hour. Real time, since the age of a file is the file system's."""

BROKERS = ("broker-0.svc:8080", "broker-1.svc:8080")


def now() -> datetime:
    """Current time."""
    return datetime.now(UTC)


def rows_of(broker: str, moment: datetime, topics: int = 3) -> Any:
    """Samples of so many topics of a broker."""
    values: dict[str, list[Any]] = {
        "sample_time": [moment] * topics,
        "broker": [broker] * topics,
        "namespace": ["t/ns"] * topics,
        "bundle": ["0x00000000_0xffffffff"] * topics,
        "topic": [f"persistent://t/ns/{broker}-{i}" for i in range(topics)],
        "position": list(range(topics)),
        **{name: [1.5] * topics for name in ("messages_in", "messages_out", "bytes_in", "bytes_out")},
        **{name: [1] * topics for name in ("producers", "consumers", "subscriptions", "backlog", "storage_bytes")},
    }
    return pa.table(values, schema=table_schema(TRAFFIC))


def add(store: Store, broker: str, moment: datetime, topics: int = 3) -> None:
    """One file with them."""
    upload = store.upload(TRAFFIC, "i", "c", moment, broker)
    upload.write(rows_of(broker, moment, topics))
    upload.commit()


def fill(root: Path, hour: datetime = HOUR) -> Store:
    """Files of each broker from two moments of an hour."""
    store = Store(str(root))
    for minute in (0, 1):
        for broker in BROKERS:
            add(store, broker, hour + timedelta(minutes=minute))
    return store


def seen(root: Path, start: datetime = HOUR - timedelta(days=2), end: datetime = NOW) -> Counter[Any]:
    """How often each topic sample is recorded."""
    found: Counter[Any] = Counter()
    for path in recorded_files(str(root), "i", "c", start, end):
        for row in pq.read_table(path, partitioning=None).to_pylist():
            found[(row["topic"], row["sample_time"])] += 1
    return found


def files(root: Path) -> list[str]:
    """Every file below a folder."""
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
