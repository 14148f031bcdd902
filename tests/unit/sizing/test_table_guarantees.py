"""What the tables promise: late files, deleted landing files, a lost snapshot, and what the snapshot costs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import floor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from pulsar_sizing.arrow import table_schema
from pulsar_sizing.job.hours import BrokerHour, HourState
from pulsar_sizing.job.snapshot import HOURLY, WEIGHTS, DayState, Snapshot
from pulsar_sizing.schema import TRAFFIC

Labs = Callable[..., Any]
Answer = Callable[[Any], dict[str, Any]]
NOW = datetime(2026, 3, 13, 12, tzinfo=UTC)
DAYS = {"days": 11}
DOCUMENT = Path(__file__).resolve().parents[3] / "docs/sizing.md"


def rows_by_duckdb(one: Any, snapshot: Snapshot) -> tuple[int, int]:
    """Samples and cost of the hours that a snapshot names, read by DuckDB."""
    folders = one.tables.hours(snapshot, HOURLY, snapshot.hours)
    paths = [f"{one.root}/{folder}/*.parquet" for folder in folders]
    found = duckdb.sql(f"select sum(samples)::bigint, sum(cost)::bigint from read_parquet({paths})").fetchone()
    assert found is not None
    return found[0], found[1]


def test_a_file_that_is_ten_days_late_makes_one_hour_again(lab: Labs, answer: Answer) -> None:
    one, whole = lab("late"), lab("whole")
    for each in (one, whole):
        each.record(14, 16, **DAYS)
        each.record(11 * 24 - 10, 11 * 24 - 8, **DAYS)
    held = one.files()[0]
    away = one.root.parent / "held.parquet"
    shutil.move(held, away)
    question = {"window_days": 30}
    early = one.run(NOW, **question)
    shutil.move(away, held)
    late = one.run(NOW, **question)
    assert late.hours_made == 1
    assert late.result.samples > early.result.samples
    assert answer(late) == answer(whole.run(NOW, **question))
    total = (
        sum(hour.samples for hour in late.snapshot.hours.values()),
        sum(h.cost for h in late.snapshot.hours.values()),
    )
    assert rows_by_duckdb(one, late.snapshot) == total


def test_the_tables_keep_what_retention_deletes_from_the_landing_files(lab: Labs, answer: Answer) -> None:
    one = lab()
    one.record(0, 2, days=2)
    one.record(24, 26, days=2)
    before = one.run()
    for table in ("traffic", "markers"):
        first = min((one.root / table).rglob("day=*"))
        shutil.rmtree(first)
    after = one.run()
    assert (after.hours_made, answer(after)) == (0, answer(before))
    assert rows_by_duckdb(one, after.snapshot)[0] == before.result.samples


def test_a_lost_snapshot_makes_all_hours_again(lab: Labs, answer: Answer) -> None:
    one = lab()
    one.record(0, 3)
    before = one.run()
    for path in (one.root / one.tables.folder).glob("snapshot-*.json"):
        path.unlink()
    after = one.run()
    assert (after.hours_made, answer(after)) == (3, answer(before))


def test_nullable_columns_beside_required_ones_fail_no_run(lab: Labs, answer: Answer) -> None:
    """Other writers than the collector declare no column as required."""
    one = lab()
    one.record(0, 2)
    before = one.run()
    required, nullable = one.files()[:2]
    for path, may in ((required, False), (nullable, True)):
        schema = pa.schema([field.with_nullable(may) for field in table_schema(TRAFFIC)])
        pq.write_table(pq.ParquetFile(path).read().cast(schema), path)
        assert {field.nullable for field in pq.read_schema(path)} == {may}
    after = one.run(full=True)
    assert (after.hours_made, answer(after)) == (2, answer(before))


def test_a_snapshot_of_ninety_days_and_ten_brokers_is_small(lab: Labs) -> None:
    """It is written after each batch, and holds no topics."""
    brokers = {
        f"east-broker-{n}.east-broker-headless.pulsar.svc.cluster.local:8080": BrokerHour(
            expected=60, answered=60, cost=10**13, told=60, cpu=30_000_000
        )
        for n in range(10)
    }
    hour = HourState(
        digest="0" * 64,
        batch="20260302T000000Z-01234567-00001",
        samples=60_000_000,
        cost=10**14,
        expected=600,
        answered=600,
        announced=60_000_000,
        rounds=60,
        brokers=brokers,
    )
    days = {n: DayState(batch=hour.batch, digest=hour.digest) for n in range(90)}
    snapshot = Snapshot(hours=dict.fromkeys(range(24 * 90), hour), days=days, quiet=days)
    assert len(snapshot.model_dump_json()) < 4_500_000
    tables = lab().tables
    tables.publish(snapshot)
    assert tables.load("") == snapshot


def test_old_hours_leave_the_tables(lab: Labs) -> None:
    one = lab()
    one.record(0, 1)
    one.run()
    one.record(9 * 24, 9 * 24 + 1, **DAYS)
    outcome = one.run(NOW + timedelta(days=1))
    assert len(outcome.snapshot.hours) == 1


def examples() -> dict[str, str]:
    """Python of docs/sizing.md by the second word of its fence."""
    found = re.findall(r"^```python (\w+)\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert [name for name, _ in found] == ["tables", "spark", "duckdb", "polars"]
    return dict(found)


def test_the_examples_of_the_docs_read_the_tables(lab: Labs) -> None:
    one = lab()
    one.record(0, 2)
    outcome = one.run()
    told: dict[str, Any] = {"root": str(one.root), "spark": one.spark}
    code = examples()
    exec(code["tables"], told)
    costs: dict[str, list[tuple[str, int]]] = {}
    exec(code["spark"], told)
    costs["spark"] = [(row[0], row[1]) for row in told["busiest"].collect()]
    exec(code["polars"], told)
    costs["polars"] = told["busiest"].rows()
    assert costs["spark"] == costs["polars"]
    assert len(costs["spark"]) == 10
    exec(code["duckdb"], told)
    percentiles = dict(told["percentiles"].fetchall())
    tables, snapshot = outcome.job.tables, outcome.snapshot
    read = tables.read(one.spark, WEIGHTS, [tables.batch(WEIGHTS, snapshot.weights)]).toArrow().to_pylist()
    assert {row["topic"]: row["uncapped"] for row in read} == {
        topic: floor(value * 1.2 + 0.5) for topic, value in percentiles.items()
    }
