"""The kernels of the tables, without Spark: rows added up, histograms merged."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_sizing.job import merging
from pulsar_sizing.job.hourly import DUPLICATE, aggregate, packed
from pulsar_sizing.job.landing import MAXIMA, SUMS, UNKNOWN_NAMESPACE, WRONG_POSITION

UNIT = 400_000
ROWS = pa.schema(
    [
        ("unit", pa.int64()),
        ("reason", pa.string()),
        ("topic", pa.string()),
        ("namespace", pa.string()),
        ("broker", pa.string()),
        ("position", pa.int64()),
        ("time", pa.int64()),
        *((name, pa.int64()) for name in (*SUMS, *MAXIMA)),
        ("bucket", pa.int64()),
    ]
)


def row(topic: str | None, time: int, cost: int, broker: str | None = "a", **more: Any) -> dict[str, Any]:
    amounts = dict.fromkeys((*SUMS, *MAXIMA), cost)
    names = {"topic": topic, "namespace": "a/b", "position": crc32(str(topic).encode()), "broker": broker}
    keys = {"unit": UNIT, "time": time, "bucket": cost} | names
    return keys | amounts | more


def added(rows: list[dict[str, Any]], batches: int = 1) -> list[dict[str, Any]]:
    parts = np.array_split(np.arange(len(rows)), batches)
    tables = [pa.Table.from_pylist([rows[n] for n in part], ROWS) for part in parts if len(part)]
    # Each part as a task of its own, and all rows of the same topics come together.
    sent = [batch for table in tables for batch in packed([encoded(table)])]
    return pa.Table.from_batches(list(aggregate(sent))).to_pylist()


def encoded(table: Any) -> Any:
    """Names as codes, as they are read."""
    for name in ("reason", "topic", "namespace", "broker"):
        table = table.set_column(table.column_names.index(name), name, table[name].dictionary_encode())
    return table


@st.composite
def recordings(draw: st.DrawFn) -> list[dict[str, Any]]:
    many = draw(st.integers(1, 40))
    return [
        row(
            draw(st.sampled_from([f"persistent://a/b/t{n}" for n in range(3)])),
            draw(st.integers(0, 5)),
            draw(st.integers(1, 50)),
            draw(st.sampled_from(["a", "b", None])),
            unit=UNIT + draw(st.integers(0, 1)),
            reason=draw(st.sampled_from([None, None, None, "row_bad_number"])),
            backlog=draw(st.integers(0, 2)),
            **draw(st.sampled_from([{}, {}, {}, {"position": 5}, {"namespace": "a/c"}])),
        )
        for _ in range(many)
    ]


@given(recordings(), st.integers(1, 5))
def test_rows_in_any_order_come_to_what_they_come_to_one_by_one(rows: list[dict[str, Any]], batches: int) -> None:
    for each in rows:
        wrong = WRONG_POSITION if each["position"] == 5 else UNKNOWN_NAMESPACE if each["namespace"] != "a/b" else None
        each["expected"] = each.get("reason") or wrong
    rejected: Counter[Any] = Counter((each["unit"], each["expected"]) for each in rows if each["expected"])
    best: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for each in rows:
        if not each["expected"]:
            best[each["unit"], each["topic"], each["time"]].append(each)
    wanted: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for (unit, topic, _), found in best.items():
        # The highest cost, then the largest amounts, then the last broker by name.
        top = max(found, key=lambda each: (each["cost"], each["backlog"], each["broker"] or ""))
        wanted[unit, topic, top["broker"]].append(top)
        if len(found) > 1:
            rejected[unit, DUPLICATE] += len(found) - 1
    made = added(rows, batches)
    assert Counter({(m["unit"], m["reason"]): m["samples"] for m in made if m["reason"]}) == rejected
    sound = {(m["unit"], m["topic"], m["broker"]): m for m in made if not m["reason"]}
    assert sound.keys() == wanted.keys()
    for key, parts in wanted.items():
        found = sound[key]
        assert found["samples"] == len(parts)
        assert found["cost"] == sum(each["cost"] for each in parts)
        assert found["backlog"] == max(each["backlog"] for each in parts)
        assert dict(zip(found["buckets"], found["counts"], strict=True)) == Counter(each["bucket"] for each in parts)
        assert found["buckets"] == sorted(found["buckets"])
    assert ordered(added(rows[::-1], batches)) == ordered(made), "neither order nor batches make a difference"


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["unit"], str(row["reason"]), str(row["topic"]), str(row["broker"])))


def histogram(topic: str, day: int, counts: dict[int, int]) -> dict[str, Any]:
    buckets = sorted(counts)
    return {
        "day": day,
        "topic": topic,
        "position": len(topic),
        "samples": sum(counts.values()),
        "buckets": buckets,
        "counts": [counts[bucket] for bucket in buckets],
    }


@pytest.mark.parametrize("least", [1, 3, 1000])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["t", "topic"]),
            st.integers(0, 2),
            st.dictionaries(st.integers(0, 900), st.integers(1, 5), min_size=1),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_histograms_of_a_topic_and_day_are_added_up(least: int, parts: list[tuple[str, int, dict[int, int]]]) -> None:
    wanted: dict[Any, Counter[int]] = defaultdict(Counter)
    merger = merging.Merger(least)
    for topic, day, counts in parts:
        wanted[topic, day].update(counts)
        merger.add(pa.Table.from_pylist([histogram(topic, day, counts)], merging.SCHEMA))
    found = merger.table().to_pylist()
    assert {(row["topic"], row["day"]): row for row in found} == {
        (topic, day): histogram(topic, day, counts) for (topic, day), counts in wanted.items()
    }
    assert len(found) == len(wanted)
    assert merger.rows <= max(least, 3 * len(wanted)) + 1, "memory follows topics"
