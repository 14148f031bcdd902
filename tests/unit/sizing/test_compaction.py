"""compaction.py: hours become one file, old ones go, and a reader sees the same whatever was killed."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pulsar_sizing import layout
from pulsar_sizing.arrow import table_schema
from pulsar_sizing.compaction import Policy, maintain
from pulsar_sizing.schema import TRAFFIC
from pulsar_sizing.store import REPLACES, Store, StoreError, live_files
from tests.fakes.killed import Killed
from tests.fakes.killed_filesystem import KilledFileSystem
from tests.support.sizing_store import AT_ONCE, BROKERS, HOUR, NOW, add, files, fill, now, rows_of, seen


def test_compaction_makes_one_file_and_later_removes_the_others(tmp_path: Path) -> None:
    store = fill(tmp_path)
    before = seen(tmp_path)
    report = maintain(store, "i", now())
    assert (report.hours, report.rows, report.deleted) == (1, 12, 0)
    assert len(files(tmp_path)) == 5 and seen(tmp_path) == before
    (path,) = live_files(str(tmp_path), "i", "c", HOUR, NOW)
    assert set(json.loads(pq.read_metadata(path).metadata[REPLACES])) == {
        Path(p).name for p in files(tmp_path) if not layout.is_compacted(p)
    }
    early = maintain(store, "i", now() + timedelta(minutes=55))
    assert (early.hours, early.deleted) == (0, 0), "readers may still hold the old list"
    late = maintain(store, "i", now() + timedelta(minutes=62))
    assert (late.hours, late.deleted) == (0, 4)
    assert len(files(tmp_path)) == 1 and seen(tmp_path) == before


def test_an_open_hour_is_left_alone(tmp_path: Path) -> None:
    store = fill(tmp_path)
    ends = HOUR + timedelta(hours=1)
    assert maintain(store, "i", ends + timedelta(minutes=4)).hours == 0
    assert maintain(store, "i", ends + timedelta(minutes=5)).hours == 1


def test_a_late_sample_counts_beside_the_compacted_file_and_is_merged(tmp_path: Path) -> None:
    store = fill(tmp_path)
    maintain(store, "i", now(), AT_ONCE)
    add(store, "late:1", HOUR + timedelta(minutes=5))
    expected = seen(tmp_path)
    assert sum(expected.values()) == 15 and set(expected.values()) == {1}
    for _ in range(3):
        maintain(store, "i", now() + timedelta(minutes=1), AT_ONCE)
        assert seen(tmp_path) == expected
    assert len(files(tmp_path)) == 1


def test_a_file_merged_twice_takes_its_sources_with_it(tmp_path: Path) -> None:
    store = fill(tmp_path)
    maintain(store, "i", now())
    add(store, "late:1", HOUR + timedelta(minutes=5))
    expected = seen(tmp_path)
    for minutes in (0, 30, 90, 91):
        maintain(store, "i", now() + timedelta(minutes=minutes))
        assert seen(tmp_path) == expected
    assert len(files(tmp_path)) == 1


def test_a_replaced_sample_that_is_written_again_does_not_count_twice(tmp_path: Path) -> None:
    store = fill(tmp_path)
    expected = seen(tmp_path)
    for _ in range(3):
        maintain(store, "i", now() + timedelta(minutes=1), AT_ONCE)
        add(store, BROKERS[0], HOUR)
        assert seen(tmp_path) == expected
    add(store, "late:1", HOUR + timedelta(minutes=5))
    maintain(store, "i", now() + timedelta(minutes=1), AT_ONCE)
    add(store, BROKERS[0], HOUR)
    assert {k: v for k, v in seen(tmp_path).items() if "late" not in k[0]} == expected


def test_two_compactions_that_saw_the_hour_at_different_moments(tmp_path: Path) -> None:
    early, later = tmp_path / "early", tmp_path / "later"
    store = fill(tmp_path / "root")
    expected = None
    for root in (early, later):
        copy(tmp_path / "root", root)
        maintain(Store(str(root)), "i", now())
        add(store, "late:1", HOUR + timedelta(minutes=5))
        expected = seen(tmp_path / "root")
    for root in (early, later):
        for path in files(root):
            if layout.is_compacted(path):
                (tmp_path / "root" / path).write_bytes((root / path).read_bytes())
    assert len([p for p in files(tmp_path / "root") if layout.is_compacted(p)]) == 2
    assert seen(tmp_path / "root") == expected
    maintain(store, "i", now() + timedelta(minutes=1), AT_ONCE)
    assert seen(tmp_path / "root") == expected and len(files(tmp_path / "root")) == 1


def copy(source: Path, target: Path) -> None:
    for path in files(source):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_bytes((source / path).read_bytes())


def test_compactions_that_overlap_are_an_error_and_not_a_guess(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="overlap"):
        layout.covered({"a": frozenset("12"), "b": frozenset("23")}, ["a", "b"])
    assert layout.covered({"a": frozenset("12"), "b": frozenset("3")}, ["1", "3", "4", "a", "b"]) == {"1", "3"}


def test_a_damaged_file_stays_and_is_reported(tmp_path: Path) -> None:
    store = fill(tmp_path)
    hour = (tmp_path / files(tmp_path)[0]).parent
    (hour / "cut-00000000.parquet").write_bytes((tmp_path / files(tmp_path)[0]).read_bytes()[:-20])
    (hour / "foreign-00000000.parquet").parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"other": [1]}), hour / "foreign-00000000.parquet")
    for expected in (1, 0):
        report = maintain(store, "i", now(), AT_ONCE)
        assert report.hours == expected and len(report.unreadable) == 2 and not report.failed
    live = [Path(p).name for p in live_files(str(tmp_path), "i", "c", HOUR, NOW)]
    assert live[:2] == ["cut-00000000.parquet", "foreign-00000000.parquet"] and layout.is_compacted(live[2])


def test_a_column_that_came_later_is_null_in_older_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = fill(tmp_path)
    wider = table_schema(TRAFFIC).append(pa.field("more", pa.int64()))
    monkeypatch.setattr("pulsar_sizing.compaction.table_schema", lambda table: wider)
    assert maintain(store, "i", now()).hours == 1
    (path,) = live_files(str(tmp_path), "i", "c", HOUR, NOW)
    assert pq.read_table(path, partitioning=None).column("more").null_count == 12
    monkeypatch.undo()
    add(store, "late:1", HOUR + timedelta(minutes=5))
    assert maintain(store, "i", now()).unreadable == [path], "an older program must not drop a newer one's column"


def test_a_compacted_file_that_does_not_say_what_it_replaces(tmp_path: Path) -> None:
    store = fill(tmp_path)
    hour = (tmp_path / files(tmp_path)[0]).parent
    pq.write_table(rows_of("h:1", HOUR), hour / "hour-x.compacted.parquet")
    with pytest.raises(StoreError, match="does not say which files it replaces"):
        seen(tmp_path)
    report = maintain(store, "i", now())
    assert report.hours == 0 and len(report.failed) == 1


def test_days_past_retention_go(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for days in (0, 1, 2, 3):
        add(store, "h:1", NOW - timedelta(days=days))
    assert maintain(store, "i", NOW, Policy(retention_days=2)).days == 1
    assert len(files(tmp_path)) == 3


def test_leftovers_of_killed_writers_go_after_an_hour(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    (tmp_path / "_tmp").mkdir()
    for name, age in (("old", 3700), ("young", 60)):
        (tmp_path / "_tmp" / name).write_text("x")
        os.utime(tmp_path / "_tmp" / name, (now().timestamp() - age,) * 2)
    assert maintain(store, "i", now()).leftovers == 1 and files(tmp_path) == ["_tmp/young"]


def points(writes: list[str]) -> list[int]:
    """Where to kill: at every write, but of a run of bytes into one file the first, a middle and the last."""
    chosen: list[int] = []
    for name, run in groupby(range(len(writes)), key=lambda at: writes[at]):
        at = list(run)
        chosen += sorted({at[0], at[len(at) // 2], at[-1]}) if name == "write" else at
    return chosen


@pytest.mark.parametrize("after", [False, True])
def test_an_upload_killed_at_any_write_is_there_whole_or_not_at_all(tmp_path: Path, after: bool) -> None:
    def act(store: Store) -> None:
        add(store, BROKERS[0], HOUR)

    undisturbed = KilledFileSystem()
    act(Store(str(tmp_path / "undisturbed"), filesystem=undisturbed.filesystem()))
    assert {"move", "write", "close"} <= set(undisturbed.writes)
    outcomes = set()
    for point in points(undisturbed.writes):
        root = tmp_path / str(point)
        with pytest.raises(Killed):
            act(Store(str(root), filesystem=KilledFileSystem(point, after=after).filesystem()))
        outcomes.add(len(seen(root)))
        act(Store(str(root)))
        assert sorted(seen(root).values()) == [1, 1, 1]
        Store(str(root)).clean_temporary(now() + timedelta(hours=2))
        assert len(files(root)) == 1
    assert outcomes == ({0, 3} if after else {0})


def prepare_hour(root: Path) -> None:
    fill(root)


def prepare_late(root: Path) -> None:
    store = fill(root)
    maintain(store, "i", now())
    add(store, "late:1", HOUR + timedelta(minutes=5))


def prepare_sweep(root: Path) -> None:
    prepare_late(root)
    maintain(Store(str(root)), "i", now())


@pytest.mark.parametrize("prepare", [prepare_hour, prepare_late, prepare_sweep])
@pytest.mark.parametrize("after", [False, True])
def test_upkeep_killed_at_any_write_never_changes_what_a_reader_sees(tmp_path: Path, prepare: Any, after: bool) -> None:
    later = now() + timedelta(minutes=30)
    prepare(tmp_path / "start")
    expected = seen(tmp_path / "start")
    assert set(expected.values()) == {1}

    def act(store: Store) -> None:
        maintain(store, "i", later, AT_ONCE)

    copy(tmp_path / "start", tmp_path / "watched")
    watching = KilledFileSystem(watch=lambda: check(seen(tmp_path / "watched"), expected))
    act(Store(str(tmp_path / "watched"), filesystem=watching.filesystem()))
    assert len(watching.writes) >= 6
    for point in points(watching.writes):
        root = tmp_path / str(point)
        copy(tmp_path / "start", root)
        with pytest.raises(Killed):
            act(Store(str(root), filesystem=KilledFileSystem(point, after=after).filesystem()))
        assert seen(root) == expected, f"killed at write {point}, {watching.writes[point]}"
        for _ in range(3):
            maintain(Store(str(root)), "i", later, AT_ONCE)
            assert seen(root) == expected
        Store(str(root)).clean_temporary(now() + timedelta(hours=2))
        assert len(files(root)) == 1


def check(found: Counter[Any], expected: Counter[Any]) -> None:
    assert found == expected
