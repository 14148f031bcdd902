"""What the job reads from the markers' files about the CPU of brokers."""

from __future__ import annotations

import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pulsar_sizing.arrow import table_schema
from pulsar_sizing.job.inventory import markers
from pulsar_sizing.schema import MARKERS
from pulsar_sizing.store import Store
from tests.support.sizing_store import HOUR

A, B = "a:8080", "b:8080"


def row(broker: str, minute: int, cpu: float | None, **changes: Any) -> dict[str, Any]:
    time = HOUR + timedelta(minutes=minute)
    return {"sample_time": time, "broker": broker, "answered": True, "topics": 3, "cpu": cpu} | changes


def write(path: Path, rows: list[dict[str, Any]], without: tuple[str, ...] = ()) -> None:
    table = pa.Table.from_pylist(rows, table_schema(MARKERS)).drop_columns(list(without))
    pq.write_table(table, path, store_schema=False)  # type: ignore[no-untyped-call]


def test_the_cpu_of_a_broker_is_added_up_each_sample_once(tmp_path: Path) -> None:
    write(tmp_path / "one.parquet", [row(A, 0, 0.25), row(A, 1, 0.5), row(B, 0, 0.125)])
    write(tmp_path / "again.parquet", [row(A, 1, 0.5), row(A, 1, 0.25)])
    found = markers(Store(str(tmp_path)), ["one.parquet", "again.parquet"])
    assert found.cpu == {A: (2, 750_000), B: (1, 125_000)}
    assert found.by_broker == {A: (2, 2), B: (1, 1)}


@pytest.mark.parametrize("cpu", [None, math.nan, math.inf, -math.inf, -0.5, 0.0, -0.0])
def test_a_share_that_is_none_is_not_known(tmp_path: Path, cpu: float | None) -> None:
    write(tmp_path / "one.parquet", [row(A, 0, cpu), row(A, 0, 0.5), row(A, 1, cpu), row(B, 1, cpu)])
    found = markers(Store(str(tmp_path)), ["one.parquet"])
    assert found.cpu == {A: (1, 500_000)}
    assert (found.expected, found.answered, found.rounds) == (3, 3, 2), "they answered all the same"


def test_no_broker_uses_more_than_all_of_its_cpu(tmp_path: Path) -> None:
    write(tmp_path / "one.parquet", [row(A, 0, 1.04)])
    assert markers(Store(str(tmp_path)), ["one.parquet"]).cpu == {A: (1, 1_000_000)}


def test_markers_of_an_older_collector_count_and_tell_no_cpu(tmp_path: Path) -> None:
    write(tmp_path / "old.parquet", [row(A, 0, None), row(B, 0, None)], without=("cpu",))
    write(tmp_path / "new.parquet", [row(A, 1, 0.5)])
    found = markers(Store(str(tmp_path)), ["old.parquet", "new.parquet"])
    assert (found.expected, found.rejected, found.cpu) == (3, {}, {A: (1, 500_000)})
    assert markers(Store(str(tmp_path)), ["old.parquet"]).cpu == {}
