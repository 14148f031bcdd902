"""From the state to what the planner needs: a weight for every topic, cells for every namespace, today's bundles.

**Weight of a topic**: the wanted percentile of its cost in the busiest hours of the day of the cluster as a whole
(three by default), grown by the wanted factor. A cluster must be balanced when it is busy: then a hot broker has no
room left. At its quiet hours any placement has room, so a topic that is busy only then must not push others apart at
the peak; its small price for existing still spreads it. Percentiles of all hours together would instead mix day and
night, and percentiles of each topic's own busiest hour would add up peaks that never meet. A topic with no sample in
those hours (it is new) takes its percentile in the newest hour. A sample in which a topic was not seen says nothing:
its broker may not have answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses
from pyspark.sql import types as T  # noqa: N812

from pulsar_sizing.job.histogram import Transform, merged, quantile
from pulsar_sizing.job.state import HourState
from pulsar_sizing.store import spark_paths

BUSY_HOURS: Final = 3
MOST_CELLS: Final = 4096
"""Of a namespace, as long as it has at most a quarter as many bundles today."""
HISTOGRAM_SCHEMA: Final = T.StructType(
    [
        T.StructField("topic", T.StringType()),
        T.StructField("bucket", T.IntegerType()),
        T.StructField("count", T.LongType()),
    ]
)
_NAME: Final = r"^(?:non-)?persistent://([^/]+/[^/]+)/"
_PARTITION: Final = r"-partition-\d+$"


def busiest_hours(hours: Mapping[int, HourState], count: int = BUSY_HOURS) -> tuple[int, ...]:
    """Hours of the day at which the cluster costs most, ascending: mean cost of all topics over all rounds.

    Rounds in which brokers did not answer are scaled up by the share that did. Keys are hours since 1970.
    """
    cost: dict[int, float] = {}
    rounds: dict[int, float] = {}
    for unit, hour in hours.items():
        if hour.samples and hour.answered and hour.rounds:
            cost[unit % 24] = cost.get(unit % 24, 0.0) + hour.cost * hour.expected / hour.answered
            rounds[unit % 24] = rounds.get(unit % 24, 0.0) + hour.rounds
    order = sorted(cost, key=lambda hour: (-cost[hour] / rounds[hour], hour))
    return tuple(sorted(order[:count]))


def read_histograms(spark: SparkSession, addresses: Sequence[str]) -> DataFrame:
    """Rows of the state."""
    if not addresses:
        return spark.createDataFrame([], HISTOGRAM_SCHEMA)
    return spark.read.schema(HISTOGRAM_SCHEMA).parquet(*spark_paths(addresses))


def topic_weights(newest: DataFrame, percentile: float, growth: float) -> Transform:
    """From histograms of the busy hours: topic and weight, in whole byte-equivalents per second.

    `newest` are those of the newest hour, for topics that the busy hours do not know.
    """

    def of(histograms: DataFrame) -> DataFrame:
        return histograms.transform(merged(["topic"])).transform(quantile(["topic"], percentile / 100))

    def transform(busy: DataFrame) -> DataFrame:
        known = of(busy)
        new = of(newest.join(known, on="topic", how="left_anti"))
        weight = F.floor(F.col("cost") * F.lit(growth) + F.lit(0.5)).cast("long").alias("weight")
        return known.unionByName(new).select("topic", weight)

    return transform


def namespace_of(topic: Column) -> Column:
    """``tenant/namespace`` of a full topic name."""
    return F.regexp_extract(topic, _NAME, 1)


def hottest(weights: DataFrame) -> DataFrame:
    """The heaviest topic of every namespace, and the namespace's weight and topics."""
    return (
        weights.select(namespace_of(F.col("topic")).alias("namespace"), "topic", "weight")
        .groupBy("namespace")
        .agg(F.max(F.struct("weight", "topic")).alias("top"), F.sum("weight").alias("total"), F.count("*").alias("n"))
        .select("namespace", "top.topic", "top.weight", "total", F.col("n").alias("topics"))
    )


def related_to_hot(limit: float) -> Transform:
    """From weights those of topics of which one partition weighs more than the limit, with all their partitions."""

    def transform(weights: DataFrame) -> DataFrame:
        named = weights.withColumn("base", F.regexp_replace("topic", _PARTITION, ""))
        hot = named.filter(F.col("weight") > F.lit(limit)).select("base").distinct()
        return named.join(hot, on="base", how="left_semi").select("topic", "weight")

    return transform


def boundary_rows(spark: SparkSession, boundaries: Mapping[str, Sequence[int]]) -> DataFrame:
    """Today's boundaries as rows (namespace, position)."""
    pairs = [(namespace, point) for namespace, points in sorted(boundaries.items()) for point in points]
    table = pa.table(
        {
            "namespace": pa.array([namespace for namespace, _ in pairs], pa.string()),
            "position": pa.array([point for _, point in pairs], pa.int64()),
        }
    )
    return spark.createDataFrame(table)


def cells(boundaries: DataFrame, most: int = MOST_CELLS, *, largest: int | None = None) -> Transform:
    """From weights: namespace, position, weight, topics; few enough for the driver.

    A namespace of at most `most` positions keeps them all. In a larger one the positions that weigh at least
    4 / `most` of it stay alone; the others are merged with their neighbours, never across a hot position or a boundary
    of today, into cells lighter than twice that. A merged cell lies at its first position. `largest` is the number of
    topics of the largest namespace where it is known: if no more than `most`, the rest need not even be planned.
    """

    def transform(weights: DataFrame) -> DataFrame:
        positions = (
            weights.select(
                namespace_of(F.col("topic")).alias("namespace"), F.crc32("topic").alias("position"), "weight"
            )
            .groupBy("namespace", "position")
            .agg(F.sum("weight").alias("weight"), F.count("*").alias("topics"))
        )
        if largest is not None and largest <= most:
            return positions
        sizes = positions.groupBy("namespace").agg(
            F.count("*").alias("positions"), F.greatest(F.sum("weight") * 4 / most, F.lit(1.0)).alias("quantum")
        )
        sized = positions.join(sizes, on="namespace", how="inner")
        small = sized.filter(F.col("positions") <= most)
        large = sized.filter(F.col("positions") > most)
        return small.select("namespace", "position", "weight", "topics").unionByName(
            large.transform(_folded(boundaries))
        )

    return transform


def _folded(boundaries: DataFrame) -> Transform:
    def transform(large: DataFrame) -> DataFrame:
        namespaces = large.select("namespace", "quantum").distinct()
        walls = boundaries.join(namespaces, on="namespace", how="inner").select(
            "namespace",
            "position",
            "quantum",
            F.lit(0).cast("long").alias("weight"),
            F.lit(0).cast("long").alias("topics"),
        )
        hot = F.col("weight") >= F.col("quantum")
        # A boundary belongs to the bundle above it: it comes before a topic at the same position.
        along = (
            Window.partitionBy("namespace")
            .orderBy("position", "topics")
            .rowsBetween(Window.unboundedPreceding, Window.currentRow)
        )
        wall = (F.col("topics") == 0).cast("long")
        # Two steps at a hot position: one begins its own cell, one begins the cell behind it.
        step = F.when(hot, 2).otherwise(wall).cast("long")
        cold = F.when(hot, 0).otherwise(F.col("weight"))
        return (
            large.select("namespace", "position", "quantum", "weight", "topics")
            .unionByName(walls)
            .withColumns({"steps": F.sum(step).over(along), "run": F.sum(cold).over(along), "hot": hot})
            .filter(F.col("topics") > 0)
            .select(
                "namespace",
                "position",
                "weight",
                "topics",
                F.when(F.col("hot"), F.col("steps") - 1).otherwise(F.col("steps")).alias("segment"),
                F.when(F.col("hot"), F.lit(0)).otherwise(F.floor(F.col("run") / F.col("quantum"))).alias("part"),
            )
            .groupBy("namespace", "segment", "part")
            .agg(F.min("position").alias("position"), F.sum("weight").alias("weight"), F.sum("topics").alias("topics"))
            .select("namespace", "position", "weight", "topics")
        )

    return transform


def placement(judged: DataFrame) -> DataFrame:
    """From accepted rows of one round: which broker reports which bundle, and with how many topics."""
    return (
        judged.select("namespace", "bundle", "broker", "topic")
        .groupBy("namespace", "bundle", "broker")
        .agg(F.count("*").alias("topics"))
        .select("namespace", "bundle", "broker", "topics")
    )
