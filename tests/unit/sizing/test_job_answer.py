"""The answer of a state in several files: what shards come to together, hot topics with all their partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest

from pulsar_sizing.job import answer, weights
from pulsar_sizing.job.costs import Factors
from pulsar_sizing.job.rows import TOPICS_SCHEMA
from pulsar_sizing.job.state import SUMMARY, HourState, Manifest, State
from pulsar_sizing.store import Store, Upload

BUSY, NEWEST = 24 * 20_000 + 14, 24 * 20_000 + 15
MIDDLE = 1 << 31
HOT = "persistent://acme/shop/h.t+"
CONTENT = {
    BUSY: {
        **{f"persistent://acme/shop/quiet-{n}": 100 for n in range(20)},
        f"{HOT}-partition-0": 500,
        f"{HOT}-partition-1": 120,
        f"{HOT}-partition-x": 120,
        "persistent://acme/shop/hot+": 110,
    },
    NEWEST: {f"{HOT}-partition-0": 10, f"{HOT}-partition-2": 130, HOT: 90, "persistent://acme/shop/new": 140},
}


def written(root: Path) -> tuple[Store, State, Manifest]:
    """A topic a row, with a bucket that holds all its samples; two files an hour, three topics a row group."""
    store = Store(str(root))
    state = State(store, "demo", "east")
    for unit, content in CONTENT.items():
        rows = sorted((crc32(topic.encode()), topic, bucket) for topic, bucket in content.items())
        for low, high in ((0, MIDDLE), (MIDDLE, 1 << 32)):
            path = f"{state.segment('run', SUMMARY)}/unit={unit}/{low:09x}-{high:09x}-0.parquet"
            upload = Upload(store, path, TOPICS_SCHEMA)
            mine = [row for row in rows if low <= row[0] < high]
            for start in range(0, len(mine), 3):
                upload.write(table(mine[start : start + 3]))
            upload.commit()
    hours = {unit: HourState(digest="", segment="run", samples=len(c), rounds=1) for unit, c in CONTENT.items()}
    return store, state, Manifest(hours=hours)


def table(rows: list[tuple[int, str, int]]) -> Any:
    columns = {
        field.name: pa.array([[9]] * len(rows) if pa.types.is_list(field.type) else [0] * len(rows), field.type)
        for field in TOPICS_SCHEMA
        if field.name not in ("topic", "position", "buckets")
    }
    positions, names, buckets = ([row[n] for row in rows] for n in range(3))
    columns |= {"topic": names, "position": positions, "buckets": [[bucket] for bucket in buckets]}
    return pa.table({name: columns[name] for name in TOPICS_SCHEMA.names}, TOPICS_SCHEMA)


@pytest.mark.parametrize("topics", [4, 16_384])
def test_a_hot_topic_comes_with_all_its_partitions(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topics: int
) -> None:
    monkeypatch.setattr(answer, "SHARD_TOPICS", topics)
    store, state, manifest = written(tmp_path)
    shards = answer.shards(store, state, manifest, [BUSY], NEWEST)
    assert len(shards) == (6 if topics == 4 else 1)
    found = answer.heaviest(spark.sparkContext, store, shards, 95.0, 1.0, {}, 3, Factors())
    buckets = CONTENT[NEWEST] | CONTENT[BUSY]
    assert found.hot == sorted(
        (topic, weight_of(buckets[topic])) for topic in (HOT, *(f"{HOT}-partition-{n}" for n in range(3)))
    )
    top = found.namespaces["acme/shop"]
    assert (top.topic, top.topics) == (f"{HOT}-partition-0", len(buckets))
    assert top.cells.positions.tolist() == sorted(crc32(topic.encode()) for topic in buckets)
    assert top.total == sum(map(weight_of, buckets.values())) == int(top.cells.weights.sum())


def weight_of(bucket: int) -> int:
    busy = pa.table([["t"], [1], [[bucket]], [[1]]], schema=answer.READ_SCHEMA)
    return int(weights.topic_weights(busy, answer.READ_SCHEMA.empty_table(), 50.0, 1.0).weights[0])
