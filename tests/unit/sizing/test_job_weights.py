"""Weights, cells and today's bundles: what the planner gets."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest

from pulsar_operator.balance.model.ranges import LAST_BOUNDARY
from pulsar_sizing.job import weights
from pulsar_sizing.job.conclude import Today, bundle_weights, today
from pulsar_sizing.job.state import HourState

HISTOGRAM = "topic string, bucket int, count long"


def hour(cost: int, rounds: int = 60, expected: int = 60, answered: int = 60) -> HourState:
    return HourState(digest="", samples=1, cost=cost, rounds=rounds, expected=expected, answered=answered)


@pytest.mark.parametrize(
    "hours, count, busiest",
    [
        ({}, 3, ()),
        ({1: hour(10), 2: hour(30), 3: hour(20), 4: hour(5)}, 3, (1, 2, 3)),
        ({1: hour(10), 25: hour(50), 2: hour(20)}, 1, (1,)),
        ({1: hour(10), 2: hour(11, rounds=120, expected=120, answered=120)}, 1, (1,)),
        ({1: hour(10), 2: hour(8, answered=30)}, 1, (2,)),
        ({3: hour(10), 2: hour(10)}, 1, (2,)),
        ({1: HourState(digest=""), 2: hour(1)}, 3, (2,)),
    ],
    ids=["none", "order", "mean over days", "mean over rounds", "missing brokers", "tie", "empty hour"],
)
def test_the_busiest_hours_of_the_cluster(hours: dict[int, HourState], count: int, busiest: tuple[int, ...]) -> None:
    assert weights.busiest_hours(hours, count) == busiest


def test_a_topic_weighs_its_percentile_in_the_busy_hours_or_in_the_newest(spark: Any) -> None:
    busy = spark.createDataFrame([("a", 100, 9), ("a", 100, 10), ("a", 200, 1), ("b", 0, 5)], HISTOGRAM)
    newest = spark.createDataFrame([("a", 300, 9), ("new", 150, 9)], HISTOGRAM)
    found = dict(busy.transform(weights.topic_weights(newest, 95.0, 2.0)).collect())
    value = {n: 2 * weights_value(n) for n in (100, 150)}
    assert found == {"a": round(value[100]), "b": 0, "new": round(value[150])}
    found = dict(busy.transform(weights.topic_weights(newest, 100.0, 1.0)).collect())
    assert found["a"] == round(weights_value(200))


def weights_value(number: int) -> float:
    from pulsar_sizing.job.histogram import GAMMA

    return float(2 * GAMMA**number / (GAMMA + 1))


def test_cells_are_few_and_lose_nothing(spark: Any) -> None:
    most = 32
    names = [f"persistent://acme/big/t-{n}" for n in range(400)]
    loads = {name: 1000 if n % 100 == 0 else 1 + n % 3 for n, name in enumerate(names)}
    few = {f"persistent://acme/few/t-{n}": n for n in range(5)}
    frame = spark.createDataFrame(list((loads | few).items()), "topic string, weight long")
    walls = {"acme/big": (0, 1 << 30, 1 << 31, 3 << 30, LAST_BOUNDARY), "acme/few": (0, 1 << 31, LAST_BOUNDARY)}
    found = frame.transform(weights.cells(weights.boundary_rows(spark, walls), most)).collect()
    small = {(r["position"], r["weight"], r["topics"]) for r in found if r["namespace"] == "acme/few"}
    assert small == {(crc32(name.encode()), weight, 1) for name, weight in few.items()}
    alone = spark.createDataFrame(list(few.items()), "topic string, weight long")
    known = alone.transform(weights.cells(weights.boundary_rows(spark, walls), most, largest=len(few))).collect()
    assert {(r["position"], r["weight"], r["topics"]) for r in known} == small, "known to be small: the same, sooner"
    big = sorted((r["position"], r["weight"], r["topics"]) for r in found if r["namespace"] == "acme/big")
    assert len(big) <= most
    assert sum(weight for _, weight, _ in big) == sum(loads.values())
    assert sum(topics for *_, topics in big) == len(names)
    positions = {crc32(name.encode()): weight for name, weight in loads.items()}
    hot = {position for position, weight in positions.items() if weight == 1000}
    assert {position for position, weight, topics in big if topics == 1 and weight == 1000} == hot
    starts = [position for position, *_ in big]
    assert set(starts) <= positions.keys(), "a cell lies at its first topic"
    for (start, weight, _), end in zip(big, [*starts[1:], 1 << 32], strict=True):
        held = [position for position in positions if start <= position < end]
        assert sum(positions[position] for position in held) == weight, "a cell reaches to the next one"
        assert len({sum(position >= wall for wall in walls["acme/big"]) for position in held}) == 1


def test_hot_topics_come_with_all_their_partitions(spark: Any) -> None:
    loads = {"p-partition-0": 90, "p-partition-1": 1, "q-partition-0": 5, "r": 100, "p": 3}
    frame = spark.createDataFrame(
        [(f"persistent://acme/shop/{name}", weight) for name, weight in loads.items()], "topic string, weight long"
    )
    found = {row["topic"].rpartition("/")[2] for row in frame.transform(weights.related_to_hot(50.0)).collect()}
    assert found == {"p-partition-0", "p-partition-1", "r", "p"}
    top = frame.transform(weights.hottest).collect()
    assert [tuple(row) for row in top] == [("acme/shop", "persistent://acme/shop/r", 100, 199, 5)]


def placed(bundle: str, broker: str = "a", topics: int = 1) -> dict[str, Any]:
    return {"namespace": "acme/shop", "bundle": bundle, "broker": broker, "topics": topics}


@pytest.mark.parametrize(
    "rows, boundaries, owners",
    [
        ([placed("0x00000000_0xffffffff")], (0, LAST_BOUNDARY), ("a",)),
        (
            [placed("0x00000000_0x40000000"), placed("0x80000000_0xffffffff", "b")],
            (0, 1 << 30, 1 << 31, LAST_BOUNDARY),
            ("a", None, "b"),
        ),
        (
            [placed("0x00000000_0xffffffff", "z", 2), placed("0x00000000_0xffffffff", "b", 5)],
            (0, LAST_BOUNDARY),
            ("b",),
        ),
        (
            [placed("nonsense"), placed("0x80000000_0x40000000"), placed("0x00000000_0xffffffff")],
            (0, LAST_BOUNDARY),
            ("a",),
        ),
    ],
    ids=["one", "gap", "on its way", "no range"],
)
def test_todays_bundles(
    rows: list[dict[str, Any]], boundaries: tuple[int, ...], owners: tuple[str | None, ...]
) -> None:
    assert today(rows) == {"acme/shop": Today(boundaries, owners)}


def test_weights_of_bundles_follow_the_ranges() -> None:
    from pulsar_operator.balance.sizing.result import CellWeight

    cells = [
        CellWeight(position=p, weight=w) for p, w in [(0, 1), ((1 << 31) - 1, 2), (1 << 31, 4), (LAST_BOUNDARY, 8)]
    ]
    assert bundle_weights(cells, ("0x00000000", "0x80000000", "0xffffffff")) == [3, 12]
