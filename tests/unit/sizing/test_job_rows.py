"""Dirty rows: what is rejected and why, and what counts once."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.spark.traffic import save, traffic_table
from pulsar_operator.balance.model.load import CostModel, Load
from pulsar_sizing.job import hours, rows
from pulsar_sizing.job.histogram import LN_GAMMA
from pulsar_sizing.store import spark_path

HOUR = datetime(2026, 3, 2, 7, tzinfo=UTC)
TOPIC = "persistent://acme/shop/orders-partition-3"


def row(topic: str | None = TOPIC, **changes: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "sample_time": HOUR,
        "broker": "b-0:8080",
        "namespace": "acme/shop",
        "bundle": "0x00000000_0xffffffff",
        "topic": topic,
        "position": crc32((topic or "").encode()),
        **dict.fromkeys(("messages_in", "messages_out", "bytes_in", "bytes_out"), 100.0),
        **dict.fromkeys(("producers", "consumers", "subscriptions", "backlog", "storage_bytes"), 2),
    }
    return plain | changes


CASES: list[tuple[str, dict[str, Any], str | None]] = [
    ("plain", row(), None),
    ("non-persistent", row(TOPIC.replace("persistent", "non-persistent")), None),
    ("idle", row(bytes_in=0.0, bytes_out=0.0, messages_in=0.0, messages_out=0.0), None),
    ("last millisecond", row(sample_time=HOUR + timedelta(milliseconds=3_599_999)), None),
    ("null rate", row(messages_in=None), rows.BAD_NUMBER),
    ("negative rate", row(bytes_out=-0.5), rows.BAD_NUMBER),
    ("NaN", row(bytes_in=math.nan), rows.BAD_NUMBER),
    ("NaN beside a negative", row(bytes_in=math.nan, bytes_out=-1.0), rows.BAD_NUMBER),
    ("infinite", row(bytes_in=math.inf), rows.BAD_NUMBER),
    ("beyond reason", row(messages_out=2e12), rows.BAD_NUMBER),
    ("negative backlog", row(backlog=-1), rows.BAD_NUMBER),
    ("null sessions", row(producers=None), rows.BAD_NUMBER),
    ("no time", row(sample_time=None), rows.WRONG_HOUR),
    ("an hour late", row(sample_time=HOUR + timedelta(hours=1)), rows.WRONG_HOUR),
    ("the day before", row(sample_time=HOUR - timedelta(days=1)), rows.WRONG_HOUR),
    ("no topic", row(None), rows.WRONG_POSITION),
    ("wrong position", row(position=17), rows.WRONG_POSITION),
    ("no position", row(position=None), rows.WRONG_POSITION),
    ("other namespace", row(namespace="acme/other"), rows.UNKNOWN_NAMESPACE),
    ("namespace that is a prefix", row(namespace="acme/sho"), rows.UNKNOWN_NAMESPACE),
    ("no namespace", row(namespace=None), rows.UNKNOWN_NAMESPACE),
]


def read(spark: Any, folder: Path, content: list[dict[str, Any]]) -> Any:
    path = folder / f"day={HOUR:%Y-%m-%d}" / f"hour={HOUR:%H}" / "x.parquet"
    save(traffic_table(content), path)
    return rows.read_traffic(spark, spark_path(str(folder)), [spark_path(str(path))]).transform(rows.judged)


def test_every_dirty_row_has_its_reason(spark: Any, tmp_path: Path) -> None:
    content = [case | {"broker": name} for name, case, _ in CASES]
    judged = read(spark, tmp_path, content).persist()
    found = {r["broker"]: r["reason"] for r in judged.select("broker", "reason").collect()}
    assert found == {name: reason for name, _, reason in CASES}
    groups = judged.transform(rows.measured(CostModel())).transform(hours.grouped)
    totals = {r["reason"]: r["count"] for r in groups.transform(hours.totals).collect()}
    assert totals == {reason: sum(r == reason for _, _, r in CASES) for reason in {r for _, _, r in CASES}}


def test_a_row_becomes_exact_integers(spark: Any, tmp_path: Path) -> None:
    judged = read(spark, tmp_path, [row(messages_in=1.2345, bytes_in=10.6)])
    found = judged.transform(rows.measured(CostModel())).collect()[0]
    cost = CostModel().cost(Load(1.2345, 100.0, 10.6, 100.0, topics=1, sessions=4))
    assert (found["messages_in"], found["bytes_in"], found["sessions"]) == (1235, 11, 4)
    assert found["cost"] == round(cost)
    assert found["bucket"] == math.ceil(math.log(cost) / LN_GAMMA)


@pytest.mark.parametrize(
    "seconds, suspected, samples",
    [
        ([0, 60, 120, 3540], False, 4),
        ([0, 0, 60], True, 2),
        ([0, 10, 60], True, 3),
        ([3599, 3599, 3599], True, 1),
    ],
)
def test_two_samples_of_a_time_count_once(
    spark: Any, tmp_path: Path, seconds: list[int], suspected: bool, samples: int
) -> None:
    other = "persistent://acme/shop/other"
    content = [
        row(sample_time=HOUR + timedelta(seconds=s), bytes_in=1000.0 * (n + 1), broker=f"b-{n}")
        for n, s in enumerate(seconds)
    ]
    measured = read(spark, tmp_path, [*content, row(other)]).transform(rows.measured(CostModel())).persist()
    groups = measured.transform(hours.grouped).persist()
    found = groups.transform(hours.suspects)
    assert [r["topic"] for r in found.collect()] == [TOPIC] * suspected
    again = hours.counted_again(groups, measured, found).persist()
    counts = {r["topic"]: r for r in again.groupBy("topic").agg(F.sum("count").alias("n"), F.sum("bytes_in")).collect()}
    assert counts[TOPIC]["n"] == samples
    assert counts[other]["n"] == 1
    highest = {s: 1000 * (n + 1) for n, s in enumerate(seconds)}
    assert counts[TOPIC]["sum(bytes_in)"] == sum(highest.values()), "the row with the highest cost is kept"
