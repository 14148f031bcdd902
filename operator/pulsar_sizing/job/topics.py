"""Weights of all topics by Spark, and of them what the planner needs: a bounded answer for the driver.

Collected is: of each namespace its total, its heaviest topic and at most cells.MOST_CELLS cells; fewer hot topics than
twice the brokers, with their partitions. The weights themselves stay in a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from pulsar_sizing.job.cells import MOST_CELLS, Cells, folded
from pulsar_sizing.job.costs import Factors, applied
from pulsar_sizing.job.daily import TASK_TOPICS
from pulsar_sizing.job.merging import SCHEMA, Merger
from pulsar_sizing.job.snapshot import DAILY, HOURLY, WEIGHTS, Snapshot, Tables
from pulsar_sizing.job.weights import PARTITION, SHARE_OF_ADVICE, topic_weights

compute: Any = pyarrow.compute
"""pyarrow has no annotations; calls of this module are not type-checked."""

NAMESPACE: Final = "://([^/]*/[^/]*)/"
CELLS_SCHEMA: Final = "namespace string, position bigint, weight bigint, topics bigint"
_WEIGHED: Final = "topic string, position bigint, weight bigint"
_WEIGHED_SCHEMA: Final = pa.schema([("topic", pa.string()), ("position", pa.int64()), ("weight", pa.int64())])


@dataclass(frozen=True)
class Question:
    """How topics are weighed."""

    percentile: float
    growth: float
    factors: Factors


@dataclass(frozen=True)
class Heaviest:
    """All topics, as far as the planner needs them; rows by name of the column."""

    namespaces: list[dict[str, Any]]
    """namespace, topic (the heaviest, of equals the last by name), weight (its), total, topics; by namespace."""
    cells: list[dict[str, Any]]
    """namespace, position, weight, topics; by namespace and position."""
    hot: list[tuple[str, int]]
    """Topics near or above a broker's share, with all their partitions."""


def weigh(
    spark: SparkSession,
    tables: Tables,
    snapshot: Snapshot,
    days: Sequence[int],
    newest: int,
    topics: int,
    ask: Question,
) -> DataFrame:
    """One row a topic of the days (since 1970) or of the newest hour: topic, base, namespace, position, weight.

    `topics` is about how many there are. A topic that the busy hours of no day have takes its percentile in the newest
    hour.
    """
    daily = tables.read(spark, DAILY, tables.days(snapshot, days)).withColumn("busy", F.lit(True))
    hourly = tables.read(spark, HOURLY, tables.hours(snapshot, HOURLY, [newest])).withColumn("busy", F.lit(False))
    # Days are added up.
    columns = [F.lit(0).cast("bigint").alias("day"), *SCHEMA.names[1:], "busy"]
    rows = daily.select(columns).unionByName(hourly.select(columns))
    parts = max(1, -(-topics // TASK_TOPICS))
    weighed = rows.repartition(parts, "topic").mapInArrow(partial(_weighed, ask), _WEIGHED)
    return weighed.select(
        "topic",
        F.regexp_replace("topic", PARTITION.pattern, "").alias("base"),
        F.regexp_extract("topic", NAMESPACE, 1).alias("namespace"),
        "position",
        "weight",
    )


def _weighed(ask: Question, batches: Iterator[Any]) -> Iterator[Any]:
    """The kernel behind `weigh`: percentiles of merged histograms."""
    busy, newest = Merger(), Merger()
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        busy.add(rows.filter(rows["busy"]))
        newest.add(rows.filter(compute.invert(rows["busy"])))
    found = applied(topic_weights(busy.table(), newest.table(), ask.percentile, ask.growth), ask.factors)
    columns = [found.topics, pa.array(found.positions), pa.array(found.weights)]
    yield from pa.table(columns, schema=_WEIGHED_SCHEMA).to_batches()


def heaviest(
    spark: SparkSession, tables: Tables, batch: str, walls: Mapping[str, Sequence[int]], brokers: int
) -> Heaviest:
    """What the planner needs of the weights that a batch wrote. `walls` are today's boundaries by namespace."""
    weights = tables.read(spark, WEIGHTS, [tables.batch(WEIGHTS, batch)])
    top = F.max(F.struct("weight", "topic"))
    totals = weights.groupBy("namespace").agg(
        F.sum("weight").alias("total"), F.count("*").alias("topics"), top.alias("top")
    )
    namespaces = [
        {
            "namespace": row["namespace"],
            "topic": row["top"]["topic"],
            "weight": row["top"]["weight"],
            "total": row["total"],
            "topics": row["topics"],
        }
        for row in sorted(totals.collect(), key=lambda row: str(row["namespace"]))
    ]
    limit = SHARE_OF_ADVICE * sum(row["total"] for row in namespaces) / max(brokers, 1)
    hot = weights.where(F.col("weight") > limit).select("topic", "weight", "base").collect()
    bases = {row["base"] for row in hot}
    if bases - {row["topic"] for row in hot}:
        hot = weights.where(F.col("base").isin(sorted(bases))).select("topic", "weight").collect()
    return Heaviest(namespaces, _cells(weights, walls), sorted((row["topic"], row["weight"]) for row in hot))


def _cells(weights: DataFrame, walls: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
    positions = weights.groupBy("namespace", "position").agg(
        F.sum("weight").alias("weight"), F.count("*").alias("topics")
    )
    # Sent to the tasks with the function.
    points, most = {name: tuple(each) for name, each in walls.items()}, MOST_CELLS

    def kernel(rows: pa.Table) -> pa.Table:
        return _folded(points, most, rows)

    found = positions.groupBy("namespace").applyInArrow(kernel, CELLS_SCHEMA).orderBy("namespace", "position")
    rows: list[dict[str, Any]] = found.toArrow().to_pylist()
    return rows


def _folded(walls: Mapping[str, Sequence[int]], most: int, rows: Any) -> Any:
    """The kernel of cells: those of a namespace, few enough for the driver."""
    rows = rows.sort_by("position")
    namespace = rows["namespace"][0].as_py()
    cells = Cells(*(rows[name].to_numpy() for name in ("position", "weight", "topics")))
    found = folded(cells, walls.get(namespace, ()), most)
    names = pa.array(np.full(len(found), namespace))
    return pa.table(
        {
            "namespace": names.cast(pa.string()),
            "position": pa.array(found.positions, pa.int64()),
            "weight": pa.array(found.weights, pa.int64()),
            "topics": pa.array(found.topics, pa.int64()),
        }
    )
