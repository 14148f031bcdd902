"""Hours that are covered: those with nearly all the samples that they should have."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pulsar_sizing.arrow import table_schema
from pulsar_sizing.job.hours import HourState, coverage
from pulsar_sizing.job.inventory import markers
from pulsar_sizing.schema import MARKERS
from pulsar_sizing.store import Store
from tests.support.sizing_store import HOUR


def hour(rounds: int, answered: int | None = None, due: int = 0) -> HourState:
    """Two brokers in so many rounds."""
    told = 2 * rounds if answered is None else answered
    return HourState(digest="", expected=2 * rounds, answered=told, rounds=rounds, due=due)


@pytest.mark.parametrize(
    ("hours", "wanted"),
    [
        ([], 0),
        ([hour(60, due=120)] * 3, 3),
        ([hour(48, due=120), hour(47, due=120)], 1),
        ([hour(60, answered=96, due=120), hour(60, answered=95, due=120)], 1),
        ([hour(1, due=120)], 0),
        ([hour(60)] * 30, 30),
        ([hour(60)] * 30 + [hour(47), hour(48)], 31),
        ([hour(1)] * 10 + [hour(60)] * 5, 5),
        ([HourState(digest="")], 0),
    ],
    ids=[
        "none",
        "whole",
        "collector away",
        "broker away",
        "one minute",
        "old",
        "old, away",
        "old, mostly away",
        "empty",
    ],
)
def test_an_hour_is_covered_with_nearly_all_its_samples(hours: list[HourState], wanted: int) -> None:
    found = coverage(dict(enumerate(hours, 500_000)), 0.8, 24)
    assert (found.covered, found.required) == (wanted, 24)
    assert len(found.shares) == sum(hour.expected > 0 for hour in hours)
    assert coverage(dict(enumerate(hours)), 0.0, 24).covered == len(found.shares)


@pytest.mark.parametrize(
    ("intervals", "due"), [((60.0, 60.0), 120), ((60.0, 30.0), 120), ((None, None), 0), ((900.0, None), 8)]
)
def test_markers_tell_how_many_samples_are_due(tmp_path: Path, intervals: tuple[Any, Any], due: int) -> None:
    rows = [
        {
            "sample_time": HOUR + timedelta(minutes=minute),
            "broker": broker,
            "answered": True,
            "topics": 3,
            "interval_seconds": interval,
        }
        for minute, interval in enumerate(intervals)
        for broker in ("a:8080", "b:8080")
    ]
    pq.write_table(pa.Table.from_pylist(rows, table_schema(MARKERS)), tmp_path / "m.parquet")  # type: ignore[no-untyped-call]
    assert markers(Store(str(tmp_path)), ["m.parquet"]).due == due
