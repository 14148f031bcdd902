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
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from pulsar_sizing.job.cells import MOST_CELLS, Cells, folded
from pulsar_sizing.job.costs import Factors, factors_for
from pulsar_sizing.job.daily import TASK_TOPICS
from pulsar_sizing.job.merging import SCHEMA, Merger
from pulsar_sizing.job.snapshot import DAILY, NAMESPACES, QUIET, WEIGHTS, Snapshot, Tables
from pulsar_sizing.job.weights import NAMESPACE, PARTITION, SHARE_OF_ADVICE, topic_weights

compute: Any = pyarrow.compute
"""pyarrow has no annotations; calls of this module are not type-checked."""

CELLS_SCHEMA: Final = "namespace string, position bigint, weight bigint, topics bigint"
_WEIGHED: Final = "topic string, position bigint, busy boolean, own bigint, times double"
_WEIGHED_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("position", pa.int64()),
        ("busy", pa.bool_()),
        ("own", pa.int64()),
        ("times", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Question:
    """How topics are weighed."""

    percentile: float
    growth: float
    factors: Factors
    topics: int
    """Approximate number of topics."""


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
    spark: SparkSession, tables: Tables, snapshot: Snapshot, busy: Sequence[int], quiet: Sequence[int], ask: Question
) -> DataFrame:
    """One row a topic, with the columns of WEIGHTS, and `busy`, `own` and `times` for `capped`.

    `busy` and `quiet` are days (since 1970) with busy and with other hours. `own` is the weight by the topic's traffic,
    and `times` what was learned.
    """
    daily = tables.read(spark, DAILY, tables.days(snapshot, DAILY, busy)).withColumn("busy", F.lit(True))
    others = tables.read(spark, QUIET, tables.days(snapshot, QUIET, quiet)).withColumn("busy", F.lit(False))
    rows = _histograms(daily).unionByName(_histograms(others))
    parts = max(1, -(-ask.topics // TASK_TOPICS))
    weighed = rows.repartition(parts, "topic").mapInArrow(partial(_weighed, ask), _WEIGHED)
    return weighed.withColumn("namespace", F.regexp_extract("topic", NAMESPACE, 1))


def caps(spark: SparkSession, tables: Tables, snapshot: Snapshot, busy: Sequence[int], ask: Question) -> DataFrame:
    """Returns a row (namespace, cap) for each namespace: the weight of all its topics together in the busy hours."""
    rows = tables.read(spark, NAMESPACES, tables.days(snapshot, NAMESPACES, busy))
    rows = rows.withColumnRenamed("namespace", "topic").withColumn("position", F.lit(0)).withColumn("busy", F.lit(True))
    weighed = _histograms(rows).repartition("topic").mapInArrow(partial(_weighed, ask), _WEIGHED)
    return weighed.select(F.col("topic").alias("namespace"), F.col("own").alias("cap"))


def capped(weighed: DataFrame, most: DataFrame) -> DataFrame:
    """The table of weights from `weigh` and `caps`.

    Where the topics of a namespace that busy hours have weigh more than its cap, they are scaled down to it, by one
    factor, and rounded down. What was learned counts afterwards.
    """
    totals = weighed.where("busy").groupBy("namespace").agg(F.sum("own").alias("total"))
    over = totals.join(most, on="namespace", how="inner").where("total > cap")
    share = F.when(F.col("busy") & F.col("total").isNotNull(), F.floor(F.col("own") * (F.col("cap") / F.col("total"))))
    rows = weighed.join(F.broadcast(over), on="namespace", how="left")
    return rows.select(
        "topic",
        F.regexp_replace("topic", PARTITION.pattern, "").alias("base"),
        "namespace",
        "position",
        _grown(F.coalesce(share, "own")).alias("weight"),
        _grown(F.col("own")).alias("uncapped"),
    )


def _histograms(rows: DataFrame) -> DataFrame:
    """Returns the columns that `_weighed` reads, with one day for all, so that days are added up."""
    return rows.select(F.lit(0).cast("bigint").alias("day"), *SCHEMA.names[1:], "busy")


def _grown(weight: Column) -> Column:
    """Returns a weight times its learned factor, rounded."""
    return F.floor(weight * F.col("times") + 0.5).cast("bigint")


def _weighed(ask: Question, batches: Iterator[Any]) -> Iterator[Any]:
    """The kernel behind `weigh` and `caps`: percentiles of merged histograms."""
    busy, quiet = Merger(), Merger()
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        busy.add(rows.filter(rows["busy"]))
        quiet.add(rows.filter(compute.invert(rows["busy"])))
    found = topic_weights(busy.table(), quiet.table(), ask.percentile, ask.growth)
    times = factors_for(found.topics, ask.factors)
    columns = [found.topics, *map(pa.array, (found.positions, found.busy, found.weights, times))]
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
    positions = weights.select("namespace", "position", "weight")
    # Sent to the tasks with the function.
    points, most = {name: tuple(each) for name, each in walls.items()}, MOST_CELLS

    def kernel(rows: pa.Table) -> pa.Table:
        return _folded(points, most, rows)

    found = positions.groupBy("namespace").applyInArrow(kernel, CELLS_SCHEMA).orderBy("namespace", "position")
    rows: list[dict[str, Any]] = found.toArrow().to_pylist()
    return rows


def _folded(walls: Mapping[str, Sequence[int]], most: int, rows: Any) -> Any:
    """The kernel of cells: those of a namespace, few enough for the driver."""
    namespace = rows["namespace"][0].as_py()
    positions, keys, topics = np.unique(rows["position"].to_numpy(), return_inverse=True, return_counts=True)
    weights = np.zeros(len(positions), np.int64)
    np.add.at(weights, keys, rows["weight"].to_numpy())
    found = folded(Cells(positions, weights, topics), walls.get(namespace, ()), most)
    names = pa.array(np.full(len(found), namespace))
    return pa.table(
        {
            "namespace": names.cast(pa.string()),
            "position": pa.array(found.positions, pa.int64()),
            "weight": pa.array(found.weights, pa.int64()),
            "topics": pa.array(found.topics, pa.int64()),
        }
    )
