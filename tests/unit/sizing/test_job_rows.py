"""Rows of an hour: what is rejected and why, what counts once, and that all else is added up exactly."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from benchmarks.spark.traffic import traffic_table
from pulsar_operator.balance.model.load import CostModel, Load
from pulsar_sizing.job import rows
from pulsar_sizing.job.histogram import LN_GAMMA

HOUR = datetime(2026, 3, 2, 7, tzinfo=UTC)
UNIT = int(HOUR.timestamp()) // 3600
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


OLD_NAME = "persistent://acme/us/shop/orders"
CASES: list[tuple[str, dict[str, Any], str | None]] = [
    ("plain", row(), None),
    ("non-persistent", row(TOPIC.replace("persistent", "non-persistent")), None),
    ("name with a cluster", row(OLD_NAME, namespace="acme/us/shop"), None),
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


def reduced(content: list[dict[str, Any]], last_round: datetime | None = None) -> rows.Reduced:
    at = None if last_round is None else int(last_round.timestamp() * 1000)
    return rows.reduced(traffic_table(content), UNIT, CostModel(), at)


@pytest.mark.parametrize("name, case, reason", CASES, ids=[name for name, *_ in CASES])
def test_every_dirty_row_has_its_reason(name: str, case: dict[str, Any], reason: str | None) -> None:
    other = row("persistent://acme/shop/other")
    found = reduced([other, case])
    assert found.rejected == ({reason: 1} if reason else {})
    assert found.samples == (1 if reason else 2)
    assert set(found.topics["topic"].to_pylist()) == {other["topic"], *([] if reason else [case["topic"]])}


def test_all_dirty_rows_together_are_counted() -> None:
    found = reduced([case for _, case, _ in CASES])
    reasons = [reason for *_, reason in CASES if reason]
    assert found.rejected == {reason: reasons.count(reason) for reason in set(reasons)}


def test_a_row_becomes_exact_integers() -> None:
    found = reduced([row(messages_in=1.2345, bytes_in=10.6)])
    cost = CostModel().cost(Load(1.2345, 100.0, 10.6, 100.0, topics=1, sessions=4))
    assert found.topics.to_pylist() == [
        {
            "topic": TOPIC,
            "position": crc32(TOPIC.encode()),
            "hour_of_day": 7,
            "samples": 1,
            "messages_in": 1235,
            "messages_out": 100_000,
            "bytes_in": 11,
            "bytes_out": 100,
            "sessions": 4,
            "cost": round(cost),
            "backlog": 2,
            "storage_bytes": 2,
            "buckets": [math.ceil(math.log(cost) / LN_GAMMA)],
            "counts": [1],
        }
    ]
    assert found.costs == {"b-0:8080": round(cost)}


@pytest.mark.parametrize(
    "seconds, samples",
    [([0, 60, 120, 3540], 4), ([0, 0, 60], 2), ([0, 10, 60], 3), ([3599, 3599, 3599], 1)],
)
def test_two_samples_of_a_time_count_once(seconds: list[int], samples: int) -> None:
    other = "persistent://acme/shop/other"
    content = [
        row(sample_time=HOUR + timedelta(seconds=s), bytes_in=1000.0 * (n + 1), broker=f"b-{n}")
        for n, s in enumerate(seconds)
    ]
    found = reduced([*content, row(other)])
    counts = {each["topic"]: each for each in found.topics.to_pylist()}
    assert (counts[TOPIC]["samples"], sum(counts[TOPIC]["counts"])) == (samples, samples)
    assert counts[other]["samples"] == 1
    highest = {s: 1000 * (n + 1) for n, s in enumerate(seconds)}
    assert counts[TOPIC]["bytes_in"] == sum(highest.values()), "the row with the highest cost is kept"
    assert (found.samples, found.duplicates) == (samples + 1, len(seconds) - samples)


def test_rows_in_any_order_come_to_the_same() -> None:
    rng = np.random.default_rng(3)
    content = [
        row(f"persistent://acme/shop/t-{n % 7}", sample_time=HOUR + timedelta(seconds=n // 7), bytes_in=float(n * n))
        | {"broker": f"b-{n % 3}"}
        for n in range(70)
    ]
    last = HOUR + timedelta(seconds=9)
    wanted = reduced(content, last)
    mixed = reduced([content[n] for n in rng.permutation(70).tolist()], last)
    assert mixed.topics == wanted.topics
    assert mixed.costs == wanted.costs
    assert wanted.topics["position"].to_pylist() == sorted(wanted.topics["position"].to_pylist())
    places = {(r["broker"], r["topics"]) for r in wanted.placement.to_pylist()}
    assert places == {("b-0", 3), ("b-1", 2), ("b-2", 2)}, "the last round's, whatever was before"
