"""Tables that the benchmark makes without landing files are those that the job makes from landing files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from benchmarks.spark import history
from pulsar_sizing.job.snapshot import CARRIED, DAILY, NAMESPACES

Labs = Callable[..., Any]
Answer = Callable[[Any], dict[str, Any]]
NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)


def rows(one: Any, table: str) -> list[tuple[Any, ...]]:
    """Rows of a table in order, with the day or hour of their folders."""
    folder = one.root / one.tables.folder / table
    found = []
    for path in folder.rglob("*.parquet"):
        part = path.parent.name
        found += [(part, *row.values()) for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted(found, key=str)


def schema(one: Any, table: str) -> set[str]:
    """The schemas of a table's files, with those of Spark."""
    paths = (one.root / one.tables.folder / table).rglob("*.parquet")
    return {str(pq.read_schema(path)) for path in paths}


@pytest.mark.slow
def test_generated_tables_are_those_of_the_job(lab: Labs, answer: Answer, spark: Any, tmp_path: Path) -> None:
    made, recorded = lab("made"), lab("recorded")
    for one in (made, recorded):
        one.recording = replace(one.recording, days=2, dearest=3.0)
    recorded.record(0, 48)
    wanted = recorded.run()
    snapshot = history.write(spark, made.root, made.recording, tmp_path / "scratch", NOW)
    for table in (DAILY, NAMESPACES, CARRIED):
        assert schema(made, table) == schema(recorded, table)
        assert rows(made, table) == rows(recorded, table)
    apart = {"digest", "batch", "placed"}
    assert [hour.model_dump(exclude=apart) for hour in snapshot.hours.values()] == [
        hour.model_dump(exclude=apart) for hour in wanted.snapshot.hours.values()
    ]
    found = made.run()
    assert found.hours_made == 0
    assert answer(found) == answer(wanted)
    assert found.result.cost is not None and found.result.cost.factors
