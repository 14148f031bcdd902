"""Recorded traffic made up by a seed, in the very layout that the collector writes: for tests, benchmarks and demos.

Topics have Zipf-distributed rates and partitioned names, since CRC-32 spreads partitions in its own way; each namespace
has its own busy time of day; every sample is noisy. ``python -m benchmarks.spark.traffic --help`` writes some.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pulsar_sizing.arrow import table_schema
from pulsar_sizing.collector.parse import BATCH_ROWS
from pulsar_sizing.job.weights import partitioned_name
from pulsar_sizing.layout import hour_folder, sample_file
from pulsar_sizing.schema import MARKERS, TRAFFIC
from pulsar_sizing.store import file_options

PARTITIONS = (1, 1, 1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Recording:
    """What to make up. The same value gives the same rows, whatever is asked for first."""

    instance: str = "demo"
    cluster: str = "east"
    start: date = date(2026, 3, 2)
    days: int = 7
    topics: int = 200
    namespaces: int = 4
    brokers: int = 3
    bundles: int = 16
    """Even bundles of each namespace."""
    interval_seconds: int = 60
    zipf: float = 1.0
    bytes_per_second: float = 200e6
    """Of the whole cluster, published, on average."""
    noise: float = 0.2
    """Sigma of the log-normal factor of every sample."""
    dearest: float = 0.0
    """What the topic with the busiest partition costs brokers, times what its traffic says; their CPU is then recorded.
    0 = it is not."""
    seed: int = 7

    @property
    def hours(self) -> list[datetime]:
        """Start of every hour recorded."""
        first = datetime(self.start.year, self.start.month, self.start.day, tzinfo=UTC)
        return [first + timedelta(hours=n) for n in range(24 * self.days)]


@dataclass(frozen=True)
class Topics:
    """The topics and what does not change about them, one entry each."""

    names: list[str]
    namespaces: list[str]
    positions: np.ndarray
    bundles: list[str]
    owners: np.ndarray
    """Index of the broker."""
    rates: np.ndarray
    """Bytes published a second, on average."""
    sizes: np.ndarray
    """Bytes a message."""
    peaks: np.ndarray
    """Busiest hour of the day."""
    fan_out: np.ndarray


def broker_names(recording: Recording) -> list[str]:
    """Ids of the brokers."""
    return [f"{recording.cluster}-broker-{n}:8080" for n in range(recording.brokers)]


def topics_of(recording: Recording) -> Topics:
    """The topics of a recording."""
    rng = np.random.default_rng(recording.seed)
    names: list[str] = []
    owners_of: list[int] = []
    while len(names) < recording.topics:
        namespace = int(rng.integers(recording.namespaces))
        base = f"persistent://tenant-{namespace % 3}/namespace-{namespace}/orders-{len(names)}"
        count = min(int(rng.choice(PARTITIONS)), recording.topics - len(names))
        names += [base] if count == 1 else [f"{base}-partition-{n}" for n in range(count)]
        owners_of += [namespace] * count
    positions = np.array([crc32(name.encode()) for name in names], dtype=np.int64)
    width = (1 << 32) // recording.bundles
    index = np.minimum(positions // width, recording.bundles - 1)
    edges = [n * width for n in range(recording.bundles)] + [0xFFFFFFFF]
    rates = (np.arange(1, recording.topics + 1) ** -recording.zipf)[rng.permutation(recording.topics)]
    return Topics(
        names,
        [f"tenant-{n % 3}/namespace-{n}" for n in owners_of],
        positions,
        [f"0x{edges[n]:08x}_0x{edges[n + 1]:08x}" for n in index],
        (index + np.array(owners_of)) % recording.brokers,
        rates / rates.sum() * recording.bytes_per_second,
        np.exp(rng.normal(np.log(800), 0.8, recording.topics)),
        np.array([(14 + 3 * n) % 24 for n in owners_of]),
        rng.integers(1, 4, recording.topics),
    )


def rounds(recording: Recording, topics: Topics, hour: datetime) -> Iterator[tuple[datetime, pa.Table]]:
    """Every round of an hour: its time and the rows of all brokers."""
    rng = np.random.default_rng([recording.seed, int(hour.timestamp()) // 3600])
    angle = 2 * np.pi * (hour.hour - topics.peaks) / 24
    level = topics.rates * (1 + 0.6 * np.cos(angle))
    brokers = pa.array(broker_names(recording))
    names, namespaces, bundles = (_dictionary(v) for v in (topics.names, topics.namespaces, topics.bundles))
    owners = pa.DictionaryArray.from_arrays(pa.array(topics.owners, pa.int32()), brokers)
    n = len(topics.names)
    for second in range(0, 3600, recording.interval_seconds):
        time = hour + timedelta(seconds=second)
        bytes_in = level * np.exp(rng.normal(0, recording.noise, n))
        columns: dict[str, Any] = {
            "sample_time": pa.array(np.full(n, int(time.timestamp() * 1000)), pa.timestamp("ms", tz="UTC")),
            "broker": owners,
            "namespace": namespaces,
            "bundle": bundles,
            "topic": names,
            "position": pa.array(topics.positions),
            "messages_in": pa.array(bytes_in / topics.sizes),
            "messages_out": pa.array(bytes_in / topics.sizes * topics.fan_out),
            "bytes_in": pa.array(bytes_in),
            "bytes_out": pa.array(bytes_in * topics.fan_out),
            "producers": pa.array(topics.fan_out, pa.int32()),
            "consumers": pa.array(topics.fan_out * 2, pa.int32()),
            "subscriptions": pa.array(topics.fan_out, pa.int32()),
            "backlog": pa.array((bytes_in / 100).astype(np.int64)),
            "storage_bytes": pa.array((topics.rates * 3600).astype(np.int64)),
        }
        yield time, pa.table(columns)


def write(recording: Recording, root: Path, *, per_round: bool = False, hours: Sequence[datetime] | None = None) -> int:
    """Write traffic and markers below a folder; the number of traffic rows.

    With ``per_round`` a file for every broker and sample, as the collector first writes them; else one an hour, as they
    are after compaction.
    """
    topics = topics_of(recording)
    names = broker_names(recording)
    factors = factors_of(recording, topics)
    documents = dict(zip(names, documents_of(recording, topics), strict=True))
    written = 0
    for hour in recording.hours if hours is None else hours:
        traffic = folder(root, TRAFFIC, recording, hour)
        tables = []
        cpus: list[Sequence[float | None]] = []
        for time, table in rounds(recording, topics, hour):
            cpus.append(cpu_of(recording, topics, table, factors))
            written += table.num_rows
            if per_round:
                for name, mine in documents.items():
                    save_collected(table.take(mine), traffic / sample_file(name, time))
            else:
                tables.append(table)
        if not per_round:
            # Compaction sorts by position, topic and time.
            count = len(topics.names)
            sorted_topics = np.lexsort((np.array(topics.names), topics.positions))
            order = sorted_topics[:, None] + count * np.arange(len(tables))[None, :]
            together = pa.concat_tables(tables).combine_chunks().take(pa.array(order.ravel()))
            save(together, traffic / sample_file("hour", hour))
        save_markers(recording, topics, root, hour, cpus)
    return written


def save_markers(
    recording: Recording, topics: Topics, root: Path, hour: datetime, cpus: Sequence[Sequence[float | None]]
) -> Path:
    """Write the markers of an hour in which all brokers answered. `cpus` has those of all brokers for each round."""
    names = broker_names(recording)
    counts = np.bincount(topics.owners, minlength=recording.brokers).tolist()
    markers = [
        {
            "sample_time": hour + timedelta(seconds=number * recording.interval_seconds),
            "broker": name,
            "answered": True,
            "topics": count,
            "error": None,
            "cpu": cpu,
        }
        for number, of_round in enumerate(cpus)
        for name, count, cpu in zip(names, counts, of_round, strict=True)
    ]
    path = folder(root, MARKERS, recording, hour) / sample_file("round", hour)
    save(pa.Table.from_pylist(markers, table_schema(MARKERS)), path)
    return path


def documents_of(recording: Recording, topics: Topics) -> list[Any]:
    """Returns the rows of each broker in the order of its statistics document: by namespace, bundle and topic."""
    order = np.lexsort((np.array(topics.names), np.array(topics.bundles), np.array(topics.namespaces), topics.owners))
    ends = np.cumsum(np.bincount(topics.owners, minlength=recording.brokers))
    return [pa.array(rows) for rows in np.split(order, ends[:-1])]


def factors_of(recording: Recording, topics: Topics) -> np.ndarray:
    """Returns what each topic costs brokers, times what its traffic says."""
    bases = [partitioned_name(name) for name in topics.names]
    dearest = bases[int(topics.rates.argmax())]
    return np.array([recording.dearest if base == dearest else 1.0 for base in bases])


def cpu_of(recording: Recording, topics: Topics, table: pa.Table, factors: np.ndarray) -> list[float | None]:
    """Share of its CPU that each broker uses: 5 % at rest, about 6 % more by mean traffic: all far below the limit."""
    if not recording.dearest:
        return [None] * recording.brokers
    moved = table["bytes_in"].to_numpy() + table["bytes_out"].to_numpy()
    messages = table["messages_in"].to_numpy() + table["messages_out"].to_numpy()
    loads = np.bincount(topics.owners, (moved + 1024 * messages) * factors, minlength=recording.brokers)
    usual = recording.bytes_per_second * 7 / recording.brokers
    found: list[float | None] = (0.05 + 0.06 * loads / usual).tolist()
    return found


def folder(root: Path, kind: str, recording: Recording, hour: datetime) -> Path:
    """Where the files of an hour lie."""
    return root / hour_folder(kind, recording.instance, recording.cluster, hour)


def save(table: pa.Table, path: Path) -> None:
    """Write one file with the types of the schema."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd", store_schema=False)  # type: ignore[no-untyped-call]


def save_collected(table: pa.Table, path: Path) -> None:
    """Write one landing file as the collector does: the same encodings, and the same number of rows in a row group."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = table.cast(table_schema(TRAFFIC))
    pq.write_table(rows, path, row_group_size=BATCH_ROWS, **file_options(TRAFFIC))  # type: ignore[no-untyped-call]


def traffic_table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Rows as the table of a traffic file; a missing column is null."""
    return pa.Table.from_pylist(list(rows), pa.schema([f.with_nullable(True) for f in table_schema(TRAFFIC)]))


def _dictionary(values: list[str]) -> pa.DictionaryArray:
    return pa.array(values).dictionary_encode()


def main(argv: Sequence[str] | None = None) -> int:
    """Write a recording."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.traffic", description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--per-round", action="store_true", help="a file for every broker and sample, not compacted")
    for name, default in vars(Recording()).items():
        if name != "start":
            parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    options = vars(parser.parse_args(argv))
    root, per_round = options.pop("root"), options.pop("per_round")
    print(f"{write(Recording(**options), root, per_round=per_round)} rows below {root}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
