"""What the driver gets of a table of weights: totals, cells, hot topics with all their partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from pulsar_sizing.job import topics
from pulsar_sizing.job.snapshot import COLUMNS, WEIGHTS, Tables
from pulsar_sizing.job.weights import partitioned_name
from pulsar_sizing.store import Store

SHOP, TILL = "acme/shop", "acme/till"
HOT = f"persistent://{SHOP}/h.t+"
WEIGHED = {
    **{f"persistent://{SHOP}/quiet-{n}": 10 for n in range(20)},
    f"{HOT}-partition-0": 500,
    f"{HOT}-partition-1": 7,
    f"{HOT}-partition-x": 8,
    HOT: 9,
    f"persistent://{SHOP}/hot+": 30,
    f"non-persistent://{TILL}/b": 40,
    f"persistent://{TILL}/a": 40,
    f"persistent://{TILL}/idle": 0,
}


def heaviest(spark: Any, root: Path, brokers: int, walls: dict[str, tuple[int, ...]] | None = None) -> Any:
    tables = Tables(Store(str(root)), "demo", "east")
    rows = [
        (topic, partitioned_name(topic), "/".join(topic.split("/")[2:4]), crc32(topic.encode()), weight, weight)
        for topic, weight in WEIGHED.items()
    ]
    tables.write(spark.createDataFrame(rows, COLUMNS[WEIGHTS]), WEIGHTS, "run")
    return topics.heaviest(spark, tables, "run", walls or {}, brokers)


def test_a_hot_topic_comes_with_all_its_partitions(spark: Any, tmp_path: Path) -> None:
    found = heaviest(spark, tmp_path, 3)
    names = (HOT, f"{HOT}-partition-0", f"{HOT}-partition-1")
    assert found.hot == sorted((name, WEIGHED[name]) for name in names)
    mine = {namespace: {t: w for t, w in WEIGHED.items() if f"://{namespace}/" in t} for namespace in (SHOP, TILL)}
    assert found.namespaces == [
        {
            "namespace": namespace,
            "topic": max((weight, topic) for topic, weight in each.items())[1],
            "weight": max(each.values()),
            "total": sum(each.values()),
            "topics": len(each),
        }
        for namespace, each in mine.items()
    ]
    assert [(row["namespace"], row["position"], row["weight"], row["topics"]) for row in found.cells] == [
        (namespace, position, weight, 1)
        for namespace, each in mine.items()
        for position, weight in sorted((crc32(topic.encode()), weight) for topic, weight in each.items())
    ]


def test_nothing_is_hot_where_no_topic_has_half_of_a_share(spark: Any, tmp_path: Path) -> None:
    tables = Tables(Store(str(tmp_path)), "demo", "east")
    rows = [(f"t{n}", f"t{n}", SHOP, n, 10, 10) for n in range(4)]
    tables.write(spark.createDataFrame(rows, COLUMNS[WEIGHTS]), WEIGHTS, "run")
    assert topics.heaviest(spark, tables, "run", {}, 2).hot == []


def test_cells_are_few_and_never_cross_a_boundary_of_today(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "MOST_CELLS", 8)
    walls = {SHOP: (0, 1 << 30, 1 << 31, 3 << 30, (1 << 32) - 1)}
    cells = [row for row in heaviest(spark, tmp_path, 3, walls).cells if row["namespace"] == SHOP]
    mine = {crc32(topic.encode()): weight for topic, weight in WEIGHED.items() if f"://{SHOP}/" in topic}
    assert len(cells) < len(mine)
    assert sum(row["weight"] for row in cells) == sum(mine.values())
    assert sum(row["topics"] for row in cells) == len(mine)
    starts = [row["position"] for row in cells]
    for row, end in zip(cells, [*starts[1:], 1 << 32], strict=True):
        held = [position for position in mine if row["position"] <= position < end]
        assert sum(mine[position] for position in held) == row["weight"]
        assert len({sum(position >= wall for wall in walls[SHOP]) for position in held}) == 1
