"""Rows of landing files: which of them count and why others do not, and that amounts become exact whole numbers."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.spark.traffic import save, traffic_table
from pulsar_operator.balance.model.load import CostModel, Load
from pulsar_sizing.job.histogram import LN_GAMMA
from pulsar_sizing.job.landing import (
    BAD_NUMBER,
    UNKNOWN_NAMESPACE,
    WRONG_HOUR,
    WRONG_POSITION,
    Reading,
    judged,
    named,
)
from pulsar_sizing.layout import hour_folder
from pulsar_sizing.schema import TRAFFIC
from pulsar_sizing.store import Store

HOUR = datetime(2026, 3, 2, 7, tzinfo=UTC)
UNIT = int(HOUR.timestamp()) // 3600
TOPIC = "persistent://acme/shop/orders-partition-3"
OLD_NAME = "persistent://acme/us/shop/orders"


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
    ("name with a cluster", row(OLD_NAME, namespace="acme/us/shop"), None),
    ("idle", row(bytes_in=0.0, bytes_out=0.0, messages_in=0.0, messages_out=0.0), None),
    ("last millisecond", row(sample_time=HOUR + timedelta(milliseconds=3_599_999)), None),
    ("letters of two bytes", row("persistent://acme/shop/é/c"), None),
    ("null rate", row(messages_in=None), BAD_NUMBER),
    ("negative rate", row(bytes_out=-0.5), BAD_NUMBER),
    ("NaN", row(bytes_in=math.nan), BAD_NUMBER),
    ("NaN beside a negative", row(bytes_in=math.nan, bytes_out=-1.0), BAD_NUMBER),
    ("infinite", row(bytes_in=math.inf), BAD_NUMBER),
    ("beyond reason", row(messages_out=2e12), BAD_NUMBER),
    ("negative backlog", row(backlog=-1), BAD_NUMBER),
    ("null sessions", row(producers=None), BAD_NUMBER),
    ("no time", row(sample_time=None), WRONG_HOUR),
    ("an hour late", row(sample_time=HOUR + timedelta(hours=1)), WRONG_HOUR),
    ("the day before", row(sample_time=HOUR - timedelta(days=1)), WRONG_HOUR),
    ("no topic", row(None), WRONG_POSITION),
    ("wrong position", row(position=17), WRONG_POSITION),
    ("no position", row(position=None), WRONG_POSITION),
    ("other namespace", row(namespace="acme/other"), UNKNOWN_NAMESPACE),
    ("namespace that is a prefix", row(namespace="acme/sho"), UNKNOWN_NAMESPACE),
    ("no namespace", row(namespace=None), UNKNOWN_NAMESPACE),
]


def found(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Judged rows."""
    judged_rows: list[dict[str, Any]] = named(judged(traffic_table(rows), UNIT, CostModel())).to_pylist()
    return judged_rows


@pytest.mark.parametrize("name, case, reason", CASES, ids=[name for name, *_ in CASES])
def test_every_dirty_row_has_its_reason(name: str, case: dict[str, Any], reason: str | None) -> None:
    other = row("persistent://acme/shop/other")
    assert [each["reason"] for each in found([other, case, other])] == [None, reason, None]


def test_all_dirty_rows_together_have_their_reasons() -> None:
    with np.errstate(all="raise"):
        rows = found([case for _, case, _ in CASES])
    assert [each["reason"] for each in rows] == [reason for *_, reason in CASES], "and no sum of what is no number"


def test_a_row_becomes_exact_integers() -> None:
    rows = found([row(messages_in=1.2345, bytes_in=10.6, sample_time=HOUR + timedelta(seconds=5)), row(bytes_in=-1.0)])
    cost = CostModel().cost(Load(1.2345, 100.0, 10.6, 100.0, topics=1, sessions=4))
    assert rows[0] == {
        "unit": UNIT,
        "reason": None,
        "topic": TOPIC,
        "namespace": "acme/shop",
        "broker": "b-0:8080",
        "bundle": "0x00000000_0xffffffff",
        "position": crc32(TOPIC.encode()),
        "time": UNIT * 3_600_000 + 5000,
        "messages_in": 1235,
        "messages_out": 100_000,
        "bytes_in": 11,
        "bytes_out": 100,
        "sessions": 4,
        "cost": round(cost),
        "backlog": 2,
        "storage_bytes": 2,
        "bucket": math.ceil(math.log(cost) / LN_GAMMA),
    }


def test_tasks_read_files_and_only_the_round_that_is_asked_for(tmp_path: Path) -> None:
    content = [row(sample_time=HOUR + timedelta(minutes=minute), backlog=minute) for minute in (0, 1, 1, 2)]
    folder = hour_folder(TRAFFIC, "demo", "east", HOUR)
    (tmp_path / folder).mkdir(parents=True)
    for number, part in enumerate((content[:2], content[2:])):
        save(traffic_table(part), tmp_path / f"{folder}/{number}.parquet")
    names = [{"path": f"{folder}/{number}.parquet", "unit": UNIT} for number in range(2)]
    batches = pa.Table.from_pylist(names).to_batches()
    place = Store(str(tmp_path)).place
    for time, wanted in ((None, [0, 1, 1, 2]), (UNIT * 3_600_000 + 60_000, [1, 1]), (5, [])):
        tables = Reading(place, CostModel(), time).tables(batches)
        assert [each for table in tables for each in table["backlog"].to_pylist()] == wanted
