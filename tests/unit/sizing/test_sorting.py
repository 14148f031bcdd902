"""Rows of an hour in order of position: none lost, none twice, in memory or put aside."""

from __future__ import annotations

import itertools
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pulsar_sizing import sorting
from pulsar_sizing.arrow import table_schema
from pulsar_sizing.schema import MARKERS, TRAFFIC
from pulsar_sizing.sorting import in_order
from pulsar_sizing.store import Store
from tests.support.sizing_store import HOUR, rows_of


def tables(topics: int, rounds: int) -> list[pa.Table]:
    rng = np.random.default_rng(1)
    positions = np.sort(rng.integers(0, 1 << 32, topics))
    found = []
    for n in range(rounds):
        table = rows_of("b:8080", HOUR + timedelta(minutes=n), topics)
        mixed = table.set_column(table.schema.get_field_index("position"), table.schema.field("position"), [positions])
        found.append(mixed.take(pa.array(rng.permutation(topics))))
    return found


@pytest.mark.parametrize("most", [10_000, 700, 90, 7])
def test_all_rows_come_in_order_and_a_topic_is_in_one_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(sorting, "ROW_GROUP_ROWS", 40)
    store = Store(str(tmp_path))
    given = tables(topics=100, rounds=9)
    groups = list(in_order(store, table_schema(TRAFFIC), iter(given), 900, most))
    together = pa.concat_tables(groups)
    wanted = pa.concat_tables(given).sort_by([(name, "ascending") for name in sorting.ORDER])
    assert together == wanted
    ends = [(group["position"][0].as_py(), group["position"][-1].as_py()) for group in groups]
    assert all(last < first for (_, last), (first, _) in itertools.pairwise(ends))
    assert not list((tmp_path / "_tmp").glob("*")), "what was put aside is gone"


def test_what_was_put_aside_goes_when_the_sorting_fails(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    found = in_order(store, table_schema(TRAFFIC), iter(tables(topics=100, rounds=9)), 900, 90)
    next(found)
    assert list((tmp_path / "_tmp").glob("*"))
    found.close()  # type: ignore[attr-defined]
    assert not list((tmp_path / "_tmp").glob("*"))


def test_markers_have_no_position(tmp_path: Path) -> None:
    schema = table_schema(MARKERS)
    times = [HOUR + timedelta(minutes=n) for n in (2, 0, 1)]
    rows = [{"sample_time": at, "broker": "b", "answered": True, "topics": 1, "error": None} for at in times]
    found = list(in_order(Store(str(tmp_path)), schema, [pa.Table.from_pylist(rows, schema)], 3, 1))
    assert [each["sample_time"].to_pylist() for each in found] == [sorted(times)]
