"""Folding the files of a broker gives the same hourly rows as a shuffle, or reports what it cannot decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.spark.traffic import save, traffic_table
from pulsar_operator.balance.model.load import CostModel
from pulsar_sizing.job import folding, hourly, landing
from pulsar_sizing.job.landing import BAD_NUMBER, Reading
from pulsar_sizing.job.round_sums import CONFLICT
from pulsar_sizing.layout import hour_folder, sample_file
from pulsar_sizing.schema import TRAFFIC
from pulsar_sizing.store import Store

HOUR = datetime(2026, 3, 2, 7, tzinfo=UTC)
UNIT = int(HOUR.timestamp()) // 3600
FOLDER = hour_folder(TRAFFIC, "demo", "east", HOUR)

Row = dict[str, Any]


def name(number: int) -> str:
    return f"persistent://acme/shop/orders-{number}"


def row(topic: str | None, minute: int, rate: float = 100.0, **changes: Any) -> Row:
    plain: Row = {
        "sample_time": HOUR + timedelta(minutes=minute),
        "broker": "b-0:8080",
        "namespace": "acme/shop",
        "bundle": "0x00000000_0xffffffff",
        "topic": topic,
        "position": crc32((topic or "").encode()),
        **dict.fromkeys(("messages_in", "messages_out", "bytes_in", "bytes_out"), rate),
        **dict.fromkeys(("producers", "consumers", "subscriptions", "backlog", "storage_bytes"), round(rate)),
    }
    return plain | changes


class Recording:
    """Landing files below a root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths: list[str] = []

    def add(self, minute: int, rows: Sequence[Row], *, file: str = "b-0:8080") -> None:
        """Write the file of one broker and round."""
        path = f"{FOLDER}/{sample_file(file, HOUR + timedelta(minutes=minute))}"
        save(traffic_table(rows), self.root / path)
        self.paths.append(path)

    @property
    def reading(self) -> Reading:
        """How tasks read its files."""
        return Reading(Store(str(self.root)).place, CostModel())


def shuffled(recording: Recording) -> list[Row]:
    """What hourly.py makes of all rows."""
    listed = pa.record_batch([pa.array(recording.paths), pa.array([UNIT] * len(recording.paths))], ["path", "unit"])
    packed = list(hourly.packed(recording.reading.tables([listed])))
    return ordered(pa.Table.from_batches(list(hourly.aggregate(packed)), hourly.SCHEMA).to_pylist())


def folded(recording: Recording) -> list[Row]:
    """What fold makes of all files."""
    groups = list(folding.by_broker(recording.paths))
    listed = pa.record_batch([pa.array([UNIT] * len(groups)), pa.array(groups)], ["unit", "paths"])
    rows: list[Row] = pa.Table.from_batches(list(folding.fold(recording.reading, [listed]))).to_pylist()
    return rows


def ordered(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: tuple(str(row[key]) for key in ("unit", "reason", "topic", "broker")))


ODD: dict[str, Row] = {
    "NaN": {"bytes_in": math.nan},
    "wrong position": {"position": 5},
    "position of another topic": {"position": crc32(name(0).encode())},
    "no position": {"position": None},
    "other namespace": {"namespace": "acme/other"},
    "no namespace": {"namespace": None},
    "no topic": {"topic": None},
    "other broker": {"broker": "b-1:8080"},
    "no broker": {"broker": None},
    "next hour": {"sample_time": HOUR + timedelta(hours=1)},
    "no time": {"sample_time": None},
}

topics_of_rounds = st.lists(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([1.0, 40.0, 1e6])), min_size=1, max_size=6),
    min_size=1,
    max_size=5,
)
places = st.tuples(st.integers(0, 4), st.integers(0, 5))
odd_rows = st.dictionaries(places, st.sampled_from(list(ODD.values())), max_size=2)


@given(topics_of_rounds, odd_rows)
def test_rows_without_a_conflict_are_those_of_a_shuffle(
    tmp_path_factory: pytest.TempPathFactory,
    rounds: list[list[tuple[int, float]]],
    changes: dict[tuple[int, int], Row],
) -> None:
    recording = Recording(tmp_path_factory.mktemp("root"))
    for minute, each in enumerate(rounds):
        rows = [row(name(topic), minute, rate) for topic, rate in each]
        rows = [one | changes.get((minute, number), {}) for number, one in enumerate(rows)]
        recording.add(minute, rows)
    made = folded(recording)
    conflicts = {each["position"] for each in made if each["reason"] == CONFLICT}
    assert {each["reason"] for each in made} <= {None, CONFLICT}
    if None in conflicts:
        # All of the hour is left to the shuffle.
        return
    wanted = [each for each in shuffled(recording) if each["reason"] is None and each["position"] not in conflicts]
    found = [
        {key: value for key, value in each.items() if key not in ("first", "last")}
        for each in made
        if each["reason"] is None and each["position"] not in conflicts
    ]
    assert ordered(found) == wanted


def dirty(root: Path) -> Recording:
    """An hour of two brokers, with everything that the two ways treat differently."""
    recording = Recording(root)
    for minute in range(8):
        first = [row(name(n), minute, 100.0 + n + minute) for n in range(20)]
        second = [row(name(n), minute, 10.0 + n, broker="b-1:8080") for n in range(20, 30)]
        if minute > 3:
            # 3 moves and both report it at times, 4 moves between two rounds, 5 is created and 6 deleted.
            first = [one for one in first if one["topic"] != name(4)]
            second += [row(name(4), minute, broker="b-1:8080"), row(name(6), minute, broker="b-1:8080")]
        if minute > 1:
            second += [row(name(3), minute, 5000.0, broker="b-1:8080")]
        if minute == 5:
            first = first[::-1]
            first[2] |= ODD["NaN"]
            first[3] |= ODD["other namespace"]
            second[0] |= ODD["wrong position"]
            second[1] |= ODD["no topic"]
            second.append(second[2])
        if minute > 5:
            first.append(row(name(31), minute))
        recording.add(minute, first)
        recording.add(minute, second, file="b-1:8080")
    recording.add(3, [row(name(n), 3, 1e6) for n in range(5)], file="b-0:8080-again")
    return recording


@pytest.mark.parametrize("most", [folding.MOST_CONFLICTS, 3])
def test_a_shuffle_makes_conflicts(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(folding, "LEAST_ROWS", 0)
    monkeypatch.setattr(folding, "MOST_CONFLICTS", most)
    recording = dirty(tmp_path)
    paths = {UNIT: recording.paths}
    with folding.aggregated(spark, paths, recording.reading, 1000, 2) as made:
        found = ordered(made.toArrow().to_pylist())
    wanted = shuffled(recording)
    assert totals(found) == totals(wanted)
    assert [each for each in found if each["reason"] is None] == [each for each in wanted if each["reason"] is None]
    assert {each["reason"] for each in wanted} >= {None, BAD_NUMBER, hourly.DUPLICATE}


def totals(rows: list[Row]) -> dict[Any, int]:
    """Rows that do not count, by reason: each task counts those that it has."""
    found: dict[Any, int] = {}
    for each in rows:
        if each["reason"] is not None:
            key = each["unit"], each["reason"]
            found[key] = found.get(key, 0) + each["samples"]
    return found


def test_an_hour_without_conflicts_is_read_once(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "LEAST_ROWS", 0)
    monkeypatch.setattr(landing, "files", pytest.fail)
    recording = Recording(tmp_path)
    for minute in range(3):
        recording.add(minute, [row(name(n), minute) for n in range(9)])
        # One topic moves between two rounds.
        second = [row(name(n), minute, broker="b-1:8080") for n in range(9 + minute, 19)]
        recording.add(minute, second, file="b-1:8080")
    recording.add(3, [row(name(n), 3) for n in range(10)])
    with folding.aggregated(spark, {UNIT: recording.paths}, recording.reading, 1000, 2) as made:
        found = ordered(made.toArrow().to_pylist())
    assert found == shuffled(recording)


def test_a_file_with_many_rounds_leaves_its_hour_to_the_shuffle(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    recording.add(0, [row(name(n), minute) for minute in range(3) for n in range(2)])
    assert [(each["reason"], each["position"]) for each in folded(recording)] == [(CONFLICT, None)]


def test_positions_restrict_what_is_read(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    for minute in range(3):
        recording.add(minute, [row(name(n), minute) for n in range(9)])
    some = sorted(crc32(name(n).encode()) for n in (2, 7))
    reading = Reading(recording.reading.place, CostModel(), positions={UNIT: np.array(some, np.int64)})
    listed = pa.record_batch([pa.array(recording.paths), pa.array([UNIT] * 3)], ["path", "unit"])
    rows = [each for table in reading.tables([listed]) for each in table.to_pylist()]
    assert sorted(each["topic"] for each in rows) == sorted([name(2), name(7)] * 3)
