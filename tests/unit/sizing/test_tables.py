"""The tables that the job writes: killed at any batch, late data, days that are made again, other readers."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import polars as pl
import pytest

from pulsar_operator.balance.model.load import CostModel
from pulsar_sizing.job.histogram import LN_GAMMA, RELATIVE_ERROR
from pulsar_sizing.job.snapshot import ABANDONED, DAILY, HOURLY, WEIGHTS, Tables
from tests.fakes.killed import Killed

Labs = Callable[..., Any]
Answer = Callable[[Any], dict[str, Any]]
NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)


class Counted:
    """Calls of a method of Tables, and a kill right after one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, kill_at: int = -1) -> None:
        self.calls: list[tuple[Any, ...]] = []
        real = getattr(Tables, name)

        def call(tables: Tables, *args: Any) -> Any:
            found = real(tables, *args)
            self.calls.append(args)
            if len(self.calls) - 1 == kill_at:
                raise Killed
            return found

        monkeypatch.setattr(Tables, name, call)


@pytest.mark.parametrize("name", ["write", "publish"])
def test_runs_that_are_killed_repeat_one_batch_each_and_give_the_same_answer(
    lab: Labs, answer: Answer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Killed after each write before its snapshot, or after each snapshot, until a run comes to its end."""
    undisturbed, one = lab("undisturbed"), lab("killed")
    for each in (undisturbed, one):
        each.record(0, 2)
    wanted = answer(undisturbed.run(batch_hours=1))
    made: Counter[int] = Counter()
    for kills in range(5):
        published = one.tables.load(one.parameters).hours
        with monkeypatch.context() as patch:
            last = kills == 4
            writes = Counted(patch, "write", kills if name == "write" and not last else -1)
            if name == "publish" and not last:
                Counted(patch, "publish", 0)
            try:
                outcome = one.run(batch_hours=1)
            except Killed:
                outcome = None
        assert {unit: hour for unit, hour in one.tables.load(one.parameters).hours.items() if unit in published} == (
            published
        ), "what was published stays"
        made["hours"] += sum(1 for args in writes.calls if args[1] == HOURLY)
        if outcome is not None:
            break
    assert outcome is not None
    assert answer(outcome) == wanted
    assert kills >= 3, "hours, a day, weights"
    assert made["hours"] <= 2 + (kills if name == "write" else 0)


def test_hours_and_days_are_made_again_when_their_data_changes(
    lab: Labs, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = lab()
    one.record(0, 30, days=2)
    first = one.run()
    assert (first.hours_made, len(first.snapshot.days)) == (30, 1)
    again = one.run()
    assert (again.hours_made, answer(again)) == (0, answer(first))
    assert again.snapshot.days == first.snapshot.days
    # A late file in a quiet hour leaves the days as they are, one in a busy hour makes its day again.
    day = first.result.from_time
    busy = first.busy_hours[0]
    for hour, changed in ((next(h for h in range(24) if h not in first.busy_hours), False), (busy, True)):
        held = next(path for path in one.files() if f"day={day:%Y-%m-%d}/hour={hour:02d}" in str(path))
        shutil.copy(held, held.with_name("late-" + held.name))
        before = one.tables.load(one.parameters)
        outcome = one.run()
        assert outcome.hours_made == 1
        assert outcome.result.rejected["row_duplicate"] > 0
        first_day = min(before.days)
        assert (outcome.snapshot.days[first_day] != before.days[first_day]) is changed
    assert outcome.result.namespaces == first.result.namespaces


def test_folders_that_no_snapshot_names_are_deleted(lab: Labs) -> None:
    one = lab()
    one.record(0, 1)
    one.run()
    one.record(1, 2)
    one.run()
    last = one.run(now=NOW + ABANDONED + timedelta(minutes=1))
    for table in (HOURLY, DAILY):
        found = {path.name.partition("=")[2] for path in (one.root / one.tables.folder / table).iterdir()}
        assert found <= last.snapshot.batches()
    assert len(list((one.root / one.tables.folder).glob("snapshot-*.json"))) == 2


def test_other_engines_read_what_the_snapshot_names(lab: Labs) -> None:
    """A late file made an hour again: the folder of before is still there, and must not count."""
    one = lab()
    rows = one.record(0, 2)
    one.run()
    held = one.files()[0]
    shutil.copy(held, held.with_name("late-" + held.name))
    outcome = one.run()
    assert outcome.result.samples == rows
    folder = one.root / one.tables.folder
    newest = max(folder.glob("snapshot-*.json"))
    hours = json.loads(newest.read_text())["hours"]
    paths = [f"{folder}/hourly/batch={h['batch']}/rejected=false/unit={u}/*.parquet" for u, h in hours.items()]
    all_paths = list((folder / "hourly").rglob("rejected=false/unit=*/*.parquet"))
    assert len({path.parent for path in all_paths}) > len(paths), "the folder of before is there"
    cost = sum(hour["cost"] for hour in hours.values())
    assert duckdb.sql(f"select sum(samples)::bigint, sum(cost)::bigint from read_parquet({paths})").fetchall() == [
        (rows, cost)
    ]
    found = pl.scan_parquet(paths).select(pl.col("samples", "cost").sum()).collect().row(0)
    assert found == (rows, cost)


def test_the_histogram_of_duckdb_is_the_same(lab: Labs) -> None:
    """Buckets by the formula of docs/sizing.md from the landing files, and the exact percentile within 2 %."""

    one = lab()
    one.record(0, 2)
    outcome = one.run()
    model = CostModel()
    cost = (
        f"bytes_in * {model.byte_in} + bytes_out * {model.byte_out} + messages_in * {model.message_in}"
        f" + messages_out * {model.message_out} + (producers + consumers) * {model.session} + {model.topic}"
    )
    landing = f"read_parquet('{one.root}/traffic/**/*.parquet', hive_partitioning = true)"
    bucket = f"ceil(ln(greatest({cost}, 1)) / {LN_GAMMA!r})::int"
    wanted = duckdb.sql(f"select topic, {bucket} as bucket, count(*) from {landing} group by all").fetchall()
    tables, snapshot = outcome.job.tables, outcome.snapshot
    hourly = tables.read(one.spark, HOURLY, tables.hours(snapshot, HOURLY, snapshot.hours)).toArrow().to_pylist()
    found: dict[tuple[str, int], int] = {}
    for row in hourly:
        for bucket, count in zip(row["buckets"], row["counts"], strict=True):
            found[row["topic"], bucket] = found.get((row["topic"], bucket), 0) + count
    assert found == {(topic, bucket): count for topic, bucket, count in wanted}
    rank = "list_sort(list(cost))[1 + floor(0.95 * (count(*) - 1))::int]"
    exact = duckdb.sql(f"select topic, {rank} from (select topic, {cost} as cost from {landing}) group by topic")
    read = tables.read(one.spark, WEIGHTS, [tables.batch(WEIGHTS, snapshot.weights)]).toArrow().to_pylist()
    weights = {row["topic"]: row["uncapped"] for row in read}
    for topic, value in exact.fetchall():
        assert weights.pop(topic) == pytest.approx(1.2 * value, rel=RELATIVE_ERROR, abs=1)
    assert not weights
