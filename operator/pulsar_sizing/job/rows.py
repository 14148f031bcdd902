"""Rows of recorded traffic: read with an explicit schema, judged, and turned into exact integers.

All amounts are added as integers (bytes, messages in thousandths), because the sum of floating-point numbers depends on
the order in which Spark happens to add them, and the same traffic must give the same answer to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses
from pyspark.sql import types as T  # noqa: N812

from pulsar_operator.balance.model.load import CostModel
from pulsar_sizing.job.histogram import Transform, bucket
from pulsar_sizing.schema import TRAFFIC_COLUMNS

HOUR_MS: Final = 3_600_000
SLOT_MS: Final = 30_000
"""Two samples of a topic within this time are looked at closely (see hours.py); the collector's are a minute apart."""
SLOTS_A_MASK: Final = 60
LARGEST_RATE: Final = 1e12
"""A second; more is a broken counter, and sums of it would leave the range of 64 bits."""

BAD_NUMBER: Final = "row_bad_number"
WRONG_HOUR: Final = "row_wrong_hour"
WRONG_POSITION: Final = "row_wrong_position"
UNKNOWN_NAMESPACE: Final = "row_unknown_namespace"

RATES: Final = ("messages_in", "messages_out", "bytes_in", "bytes_out")
COUNTS: Final = ("producers", "consumers", "backlog", "storage_bytes")
SUMMED: Final = ("messages_in", "messages_out", "bytes_in", "bytes_out", "sessions", "cost")
"""Amounts of a row that are added up; messages in thousandths a second."""
LARGEST: Final = ("backlog", "storage_bytes")
"""Amounts of which the largest is kept."""

_TYPES: Final[dict[str, T.DataType]] = {
    "timestamp[ms, UTC]": T.TimestampType(),
    "string": T.StringType(),
    "int32": T.IntegerType(),
    "int64": T.LongType(),
    "float64": T.DoubleType(),
}
TRAFFIC_SCHEMA: Final = T.StructType(
    [T.StructField(column.name, _TYPES[column.type]) for column in TRAFFIC_COLUMNS]
    + [T.StructField("day", T.DateType()), T.StructField("hour", T.IntegerType())]
)


def read_traffic(spark: SparkSession, folder: str, paths: Sequence[str]) -> DataFrame:
    """The rows of explicit files below the folder of a cluster; day and hour come from their folders."""
    return spark.read.schema(TRAFFIC_SCHEMA).option("basePath", folder).parquet(*paths)


def unit() -> Column:
    """The hour of a file's folder as hours since 1970 (int)."""
    return F.unix_date("day") * F.lit(24) + F.col("hour")


def judged(rows: DataFrame) -> DataFrame:
    """Adds ``unit`` and ``reason``: why a row does not count, null if it does.

    A number that is null, negative, NaN or beyond all reason; a time outside of the folder's hour; a position that is
    not the CRC-32 of the name; a namespace that is not the one in the name.
    """
    rates = [F.col(name) for name in RATES]
    counts = [F.col(name).cast("double") for name in COUNTS]
    # A null makes the sum null. NaN is greater than everything and a negative rate is less than 0.
    known = reduce(add, [*rates, *counts]).isNotNull()
    in_range = (F.least(*rates, *counts) >= 0) & (F.greatest(*rates) <= LARGEST_RATE)
    in_hour = F.floor(F.unix_millis("sample_time") / F.lit(HOUR_MS)) == unit()
    in_place = F.crc32("topic") == F.col("position")
    domain = F.when(F.startswith("topic", F.lit("non-")), F.lit("non-persistent://")).otherwise(F.lit("persistent://"))
    named = F.startswith("topic", F.concat(domain, F.col("namespace"), F.lit("/")))
    reason = (
        F.when(~_surely(known & in_range), BAD_NUMBER)
        .when(~_surely(in_hour), WRONG_HOUR)
        .when(~_surely(in_place), WRONG_POSITION)
        .when(~_surely(named), UNKNOWN_NAMESPACE)
    )
    return rows.withColumns({"unit": unit(), "reason": reason})


def accepted(rows: DataFrame) -> DataFrame:
    """Only the rows that count, of judged ones."""
    return rows.filter(F.col("reason").isNull())


def measured(model: CostModel) -> Transform:
    """From judged rows to exact integers: what a sample adds to its topic and hour, and its bucket.

    Rejected rows keep their unit and reason alone, so that they fall into one group each.
    """

    def transform(rows: DataFrame) -> DataFrame:
        counts = F.col("reason").isNull()
        return rows.select(
            F.when(counts, F.col("topic")).alias("topic"),
            "unit",
            "reason",
            F.when(counts, bucket(_cost(model))).alias("bucket"),
            F.expr(f"unix_millis(sample_time) div {SLOT_MS} % {2 * SLOTS_A_MASK}").cast("int").alias("slot"),
            F.col("sample_time"),
            _whole(F.col("messages_in") * 1000).alias("messages_in"),
            _whole(F.col("messages_out") * 1000).alias("messages_out"),
            _whole(F.col("bytes_in")).alias("bytes_in"),
            _whole(F.col("bytes_out")).alias("bytes_out"),
            _sessions().cast("long").alias("sessions"),
            _whole(_cost(model)).alias("cost"),
            "backlog",
            "storage_bytes",
        )

    return transform


def bucketed(model: CostModel) -> Transform:
    """From rows that are known to count, judged or not: topic, unit and bucket. Reads seven columns instead of all."""

    def transform(rows: DataFrame) -> DataFrame:
        return rows.select("topic", unit().alias("unit"), bucket(_cost(model)).alias("bucket"))

    return transform


def _sessions() -> Column:
    return F.col("producers") + F.col("consumers")


def _cost(model: CostModel) -> Column:
    return (
        F.col("bytes_in") * model.byte_in
        + F.col("bytes_out") * model.byte_out
        + F.col("messages_in") * model.message_in
        + F.col("messages_out") * model.message_out
        + _sessions() * model.session
        + F.lit(model.topic)
    )


def _surely(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))


def _whole(amount: Column) -> Column:
    # F.round of a double goes through BigDecimal and costs more than all the rest. Null for what is no number:
    # those rows are rejected, but Spark may compute this for them all the same.
    return (amount + F.lit(0.5)).try_cast("long")
