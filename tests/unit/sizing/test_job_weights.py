"""Weights, cells and today's bundles: what the planner gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_operator.balance.model.ranges import LAST_BOUNDARY
from pulsar_sizing.job import weights
from pulsar_sizing.job.cells import Cells, folded
from pulsar_sizing.job.conclude import Today, bundle_weights, today
from pulsar_sizing.job.histogram import GAMMA, values_of
from pulsar_sizing.job.hours import BrokerHour, HourState
from pulsar_sizing.job.merging import SCHEMA


def hour(cost: int, rounds: int = 60, **brokers: tuple[int, int, int]) -> HourState:
    """`brokers`: expected, answered and cost; one that answered always with all the cost where none is given."""
    told = {name: BrokerHour(expected=e, answered=a, cost=c) for name, (e, a, c) in brokers.items()}
    told = told or {"a": BrokerHour(expected=rounds, answered=rounds, cost=cost)}
    answered = sum(each.answered for each in told.values())
    return HourState(digest="", samples=1, cost=cost, rounds=rounds, answered=answered, brokers=told)


@pytest.mark.parametrize(
    "hours, count, busiest",
    [
        ({}, 3, ()),
        ({1: hour(10), 2: hour(30), 3: hour(20), 4: hour(5)}, 3, (1, 2, 3)),
        ({1: hour(10), 25: hour(50), 2: hour(20)}, 1, (1,)),
        ({1: hour(10), 2: hour(11, rounds=120)}, 1, (1,)),
        ({1: hour(10), 2: hour(8, a=(60, 30, 8))}, 1, (2,)),
        ({1: hour(100, a=(60, 60, 90), b=(60, 60, 10)), 2: hour(95, a=(60, 60, 95), b=(60, 0, 0))}, 1, (2,)),
        ({1: hour(100, a=(60, 60, 90), b=(60, 60, 10)), 2: hour(85, a=(60, 60, 85), b=(60, 0, 0))}, 1, (1,)),
        ({1: hour(100, a=(60, 60, 90), b=(60, 60, 10)), 2: hour(12, a=(60, 0, 0), b=(60, 60, 12))}, 1, (2,)),
        ({1: hour(100, a=(60, 60, 90), b=(60, 60, 10)), 2: hour(55, a=(60, 30, 46), b=(60, 60, 9))}, 1, (2,)),
        ({1: hour(10, a=(60, 60, 10)), 2: hour(6, a=(60, 60, 6), b=(60, 0, 0))}, 1, (2,)),
        ({3: hour(10), 2: hour(10)}, 1, (2,)),
        ({1: HourState(digest=""), 2: hour(1)}, 3, (2,)),
    ],
    ids=[
        "none",
        "order",
        "mean over days",
        "mean over rounds",
        "rounds missing",
        "a small broker away",
        "an hour that was quieter",
        "the large broker away",
        "half of the large one",
        "a broker never seen",
        "tie",
        "empty hour",
    ],
)
def test_the_busiest_hours_of_the_cluster(hours: dict[int, HourState], count: int, busiest: tuple[int, ...]) -> None:
    assert weights.busiest_hours(hours, count) == busiest


def state_rows(*rows: tuple[str, dict[int, int]]) -> Any:
    columns = {
        "day": [0] * len(rows),
        "topic": [topic for topic, _ in rows],
        "position": [crc32(topic.encode()) for topic, _ in rows],
        "samples": [sum(counts.values()) for _, counts in rows],
        "buckets": [list(counts) for _, counts in rows],
        "counts": [list(counts.values()) for _, counts in rows],
    }
    return pa.table(columns, schema=SCHEMA)


def test_a_topic_weighs_its_percentile_in_the_busy_hours_or_in_the_newest() -> None:
    busy = state_rows(("a", {100: 9}), ("b", {0: 5}), ("a", {100: 10, 200: 1}))
    newest = state_rows(("a", {300: 9}), ("new", {150: 9}))
    found = weights.topic_weights(busy, newest, 95.0, 2.0)
    value = {n: 2 * GAMMA**n / (GAMMA + 1) for n in (100, 150, 200)}
    assert found.topics.to_pylist() == ["a", "b", "new"]
    assert found.weights.tolist() == [round(2 * value[100]), 0, round(2 * value[150])]
    assert found.positions.tolist() == [crc32(name.encode()) for name in ("a", "b", "new")]
    assert weights.topic_weights(busy, newest, 100.0, 1.0).weights[0] == round(value[200])
    assert weights.topic_weights(state_rows(), newest, 50.0, 1.0).topics.to_pylist() == ["a", "new"]
    assert weights.topic_weights(state_rows(), state_rows(), 50.0, 1.0).topics.to_pylist() == []


NAMES = [
    f"{domain}://acme/{namespace}/{topic}"
    for domain in ("persistent", "non-persistent")
    for namespace in ("shop", "till")
    for topic in ("a", "b-partition-0", "b-partition-1", "é/c")
]
COUNTS = st.dictionaries(st.integers(0, 700), st.integers(1, 9), max_size=4)
ROWS = st.lists(st.tuples(st.sampled_from(NAMES), COUNTS), max_size=20)


@given(ROWS, ROWS, st.floats(0, 100))
def test_topics_weigh_what_they_weigh_one_by_one(
    busy: list[tuple[str, dict[int, int]]], newest: list[tuple[str, dict[int, int]]], percentile: float
) -> None:
    samples: dict[str, list[int]] = {}
    known = {topic for topic, _ in busy}
    for topic, counts in [*busy, *(row for row in newest if row[0] not in known)]:
        samples.setdefault(topic, []).extend(bucket for bucket, count in counts.items() for _ in range(count))
    wanted = {topic: weight_of(sorted(held), percentile / 100) for topic, held in samples.items()}

    found = weights.topic_weights(*(state_rows(*map(ascending, rows)) for rows in (busy, newest)), percentile, 1.2)
    assert dict(zip(found.topics.to_pylist(), found.weights.tolist(), strict=True)) == wanted


def ascending(row: tuple[str, dict[int, int]]) -> tuple[str, dict[int, int]]:
    """As histograms are written."""
    return row[0], dict(sorted(row[1].items()))


def weight_of(buckets: list[int], share: float) -> int:
    bucket = buckets[floor(share * (len(buckets) - 1))] if buckets else 0
    cost = float(values_of(np.array([bucket]))[0])
    return floor(cost * 1.2 + 0.5)


def cells_of(content: Mapping[str, int]) -> Cells:
    """One cell a topic, by position."""
    rows = sorted((crc32(name.encode()), weight) for name, weight in content.items())
    positions, weights_ = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Cells(positions, weights_, np.ones(len(rows), np.int64))


def test_cells_are_few_and_lose_nothing() -> None:
    most = 32
    names = [f"persistent://acme/big/t-{n}" for n in range(400)]
    content = {name: 1000 if n % 100 == 0 else 1 + n % 3 for n, name in enumerate(names)}
    walls = (0, 1 << 30, 1 << 31, 3 << 30, LAST_BOUNDARY)
    single = cells_of(content)
    assert folded(single, walls, 400) == single, "few enough: as they are"
    check(folded(single, walls, most), content, walls, most)


def check(cells: Cells, content: Mapping[str, int], walls: Sequence[int], most: int) -> None:
    big = list(zip(cells.positions.tolist(), cells.weights.tolist(), cells.topics.tolist(), strict=True))
    assert len(big) <= most
    assert sum(weight for _, weight, _ in big) == sum(content.values())
    assert sum(topics for *_, topics in big) == len(content)
    positions = {crc32(name.encode()): weight for name, weight in content.items()}
    hot = {position for position, weight in positions.items() if weight == 1000}
    assert {position for position, weight, topics in big if topics == 1 and weight == 1000} == hot
    starts = [position for position, *_ in big]
    assert set(starts) <= positions.keys(), "a cell lies at its first topic"
    for (start, weight, _), end in zip(big, [*starts[1:], 1 << 32], strict=True):
        held = [position for position in positions if start <= position < end]
        assert sum(positions[position] for position in held) == weight, "a cell reaches to the next one"
        assert len({sum(position >= wall for wall in walls) for position in held}) == 1


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
