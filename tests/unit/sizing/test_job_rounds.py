"""Loads by round and broker: which rows count, for whom, and that pieces of an hour add up to the whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.spark.traffic import traffic_table
from pulsar_operator.balance.model.load import CostModel, Load
from pulsar_operator.balance.model.ranges import LAST_BOUNDARY
from pulsar_sizing.job.conclude import Today
from pulsar_sizing.job.rounds import Rounds, owners_of, rounds

HOUR = datetime(2026, 3, 2, 7, tzinfo=UTC)
UNIT = int(HOUR.timestamp()) // 3600
START = UNIT * 3_600_000
BROKERS = ("b-0", "b-1", "b-2")
TOPIC = "persistent://acme/shop/orders"
AT = crc32(TOPIC.encode())
LAST = "persistent://acme/shop/ppqqpqqpqqppqpqqqqppppppqpqqpqpqpppppppp"
"""A topic at the last position."""
COST = round(CostModel().cost(Load(100.0, 100.0, 100.0, 100.0, topics=1, sessions=4)))


def row(topic: str = TOPIC, **changes: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "sample_time": HOUR,
        "broker": "b-0",
        "namespace": "acme/shop",
        "bundle": "0x00000000_0xffffffff",
        "topic": topic,
        "position": crc32(topic.encode()),
        **dict.fromkeys(("messages_in", "messages_out", "bytes_in", "bytes_out"), 100.0),
        **dict.fromkeys(("producers", "consumers", "subscriptions", "backlog", "storage_bytes"), 2),
    }
    return plain | changes


def loads(content: list[dict[str, Any]], recommended: dict[str, Today]) -> Rounds:
    return rounds(traffic_table(content), UNIT, CostModel(), owners_of(BROKERS, recommended))


def bundles(*points: int, owners: tuple[str | None, ...]) -> Today:
    return Today((0, *points, LAST_BOUNDARY), owners)


OTHER = bundles(owners=("b-2",))
CASES: list[tuple[str, dict[str, Any], dict[str, Today], tuple[int | None, int | None]]] = [
    ("nothing recommended", row(), {}, (0, 0)),
    ("in the only bundle", row(), {"acme/shop": bundles(owners=("b-1",))}, (0, 1)),
    ("at a lower bound", row(), {"acme/shop": bundles(AT, owners=("b-1", "b-2"))}, (0, 2)),
    ("below an upper bound", row(), {"acme/shop": bundles(AT + 1, owners=("b-1", "b-2"))}, (0, 1)),
    ("in an idle bundle", row(), {"acme/shop": bundles(AT, owners=("b-1", None))}, (0, 0)),
    ("the second namespace", row(), {"acme/a": OTHER, "acme/shop": bundles(AT, owners=("b-2", "b-1"))}, (0, 1)),
    ("the first of two", row(), {"acme/shop": bundles(AT, owners=("b-2", "b-1")), "acme/z": OTHER}, (0, 1)),
    ("another namespace alone", row(), {"acme/a": OTHER}, (0, 0)),
    ("a broker that is not asked for", row(broker="b-9"), {"acme/shop": bundles(owners=("b-1",))}, (3, 1)),
    ("no broker", row(broker=None), {}, (3, 3)),
    ("a wrong position", row(position=17), {}, (None, None)),
    ("a negative rate", row(bytes_in=-1.0), {}, (None, None)),
    ("an hour late", row(sample_time=HOUR + timedelta(hours=1)), {}, (None, None)),
    ("another namespace's topic", row(namespace="acme/a"), {"acme/a": OTHER}, (None, None)),
]


@pytest.mark.parametrize("name, case, recommended, wanted", CASES, ids=[name for name, *_ in CASES])
def test_a_row_counts_for_its_broker_and_its_owner(
    name: str, case: dict[str, Any], recommended: dict[str, Today], wanted: tuple[int | None, int | None]
) -> None:
    found = loads([case], recommended)
    assert found.times.tolist() == ([] if wanted[0] is None else [START])
    for side, broker in zip(found.loads.sum(axis=1).tolist(), wanted, strict=True):
        assert side == [COST * (number == broker) for number in range(len(BROKERS) + 1)]


def test_the_last_position_is_in_the_last_bundle() -> None:
    assert crc32(LAST.encode()) == LAST_BOUNDARY
    recommended = {"acme/shop": bundles(LAST_BOUNDARY - 1, owners=("b-1", "b-2")), "acme/z": bundles(owners=("b-0",))}
    assert loads([row(LAST)], recommended).loads[1, 0].tolist() == [0, 0, COST, 0]


ROWS = st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 3), st.integers(0, 10**6))


@given(st.lists(ROWS, min_size=1, max_size=30), st.lists(st.integers(0, 2), min_size=30, max_size=30))
def test_pieces_of_an_hour_add_up_to_the_whole(content: list[tuple[int, int, int, int]], piece: list[int]) -> None:
    table = [
        row(f"{TOPIC}-{topic}", sample_time=HOUR + timedelta(minutes=time), broker=f"b-{broker}", bytes_in=float(rate))
        for topic, time, broker, rate in content
    ]
    recommended = {"acme/shop": bundles(1 << 31, owners=("b-1", "b-2"))}
    whole = loads(table, recommended)
    parts = [
        loads([each for each, number in zip(table, piece, strict=False) if number == wanted], recommended)
        for wanted in range(3)
    ]
    for order in (parts, parts[::-1]):
        together = reduce(Rounds.plus, order)
        assert together.times.tolist() == whole.times.tolist()
        assert np.array_equal(together.loads, whole.loads)
    assert whole.times.tolist() == sorted({START + 60_000 * time for _, time, *_ in content})


def test_damage_and_loss_are_not_forgotten() -> None:
    sound = loads([row()], {})
    bad = Rounds(sound.times[:0], sound.loads[:, :0], frozenset({"x"}))
    gone = Rounds(sound.times[:0], sound.loads[:, :0], frozenset({"y"}), "z")
    found = sound.plus(bad).plus(gone).above([0.0] * 3)
    assert (found.damaged, found.vanished) == ({"x", "y"}, "z")
    assert sound.plus(bad).loads.tolist() == bad.plus(sound).loads.tolist() == sound.loads.tolist()


@pytest.mark.parametrize("limit, rounds_above", [(COST - 0.5, 2), (float(COST), 1), (2.0 * COST, 0)])
def test_above_is_more_than_the_limit(limit: float, rounds_above: int) -> None:
    minute = timedelta(minutes=1)
    content = [row(), row(sample_time=HOUR + minute), row(TOPIC + "-1", sample_time=HOUR + minute, broker="b-0")]
    content.append(row(sample_time=HOUR + 2 * minute, broker="b-9"))
    found = loads(content, {"acme/shop": bundles(owners=("b-1",))}).above([limit] * 3)
    assert found.times == (START, START + 60_000, START + 120_000)
    assert found.now == (rounds_above, 0, 0)
    # The row of the broker that is not asked for comes to b-1 as well.
    assert found.recommended == (0, {2: 3, 1: 1, 0: 0}[rounds_above], 0)
