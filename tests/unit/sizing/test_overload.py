"""The owner that is recommended for a row: the kernel behind the minutes above 85 %."""

from __future__ import annotations

from zlib import crc32

import pyarrow as pa
import pytest

from pulsar_operator.balance.model.ranges import LAST_BOUNDARY
from pulsar_sizing.job.conclude import Today
from pulsar_sizing.job.overload import loads_of, owners_of

BROKERS = ("b-0", "b-1", "b-2")
TOPIC = "persistent://acme/shop/orders"
AT = crc32(TOPIC.encode())


def bundles(*points: int, owners: tuple[str | None, ...]) -> Today:
    return Today((0, *points, LAST_BOUNDARY), owners)


SHOP, OTHER = "acme/shop", bundles(owners=("b-2",))
CASES: list[tuple[str, int, str | None, dict[str, Today], str | None]] = [
    ("nothing recommended", AT, "b-0", {}, "b-0"),
    ("in the only bundle", AT, "b-0", {SHOP: bundles(owners=("b-1",))}, "b-1"),
    ("at a lower bound", AT, "b-0", {SHOP: bundles(AT, owners=("b-1", "b-2"))}, "b-2"),
    ("below an upper bound", AT, "b-0", {SHOP: bundles(AT + 1, owners=("b-1", "b-2"))}, "b-1"),
    ("in an idle bundle", AT, "b-0", {SHOP: bundles(AT, owners=("b-1", None))}, "b-0"),
    ("the second namespace", AT, "b-0", {"acme/a": OTHER, SHOP: bundles(AT, owners=("b-2", "b-1"))}, "b-1"),
    ("the first of two", AT, "b-0", {SHOP: bundles(AT, owners=("b-2", "b-1")), "acme/z": OTHER}, "b-1"),
    ("another namespace alone", AT, "b-0", {"acme/a": OTHER}, "b-0"),
    ("a broker that is not asked for", AT, "b-9", {SHOP: bundles(owners=("b-1",))}, "b-1"),
    ("no broker", AT, None, {}, None),
    ("the last position", LAST_BOUNDARY, "b-0", {SHOP: bundles(AT, owners=("b-1", "b-2")), "acme/z": OTHER}, "b-2"),
]


@pytest.mark.parametrize("name, position, broker, today, wanted", CASES, ids=[name for name, *_ in CASES])
def test_a_row_counts_for_the_owner_of_its_bundle(
    name: str, position: int, broker: str | None, today: dict[str, Today], wanted: str | None
) -> None:
    rows = pa.table(
        {
            "time": [1, 1, 2],
            "reason": pa.array([None, None, "row_bad_number"]).dictionary_encode(),
            "broker": pa.array([broker] * 3, pa.string()).dictionary_encode(),
            "namespace": pa.array([SHOP] * 3).dictionary_encode(),
            "position": [position] * 3,
            "cost": [7, 8, 9],
        }
    )
    (found,) = loads_of(owners_of(BROKERS, today), [rows])
    assert found.to_pylist() == [{"time": 1, "broker": broker, "recommended": wanted, "cost": 15}]
