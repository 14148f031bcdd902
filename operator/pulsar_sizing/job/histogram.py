"""Histograms of costs that can be merged, with a bounded relative error.

Buckets are logarithmic, as in DDSketch (Masson, Rim, Lee: "DDSketch", VLDB 2019): bucket i > 0 holds the costs in
(GAMMA^(i-1), GAMMA^i] and answers with 2 * GAMMA^i / (GAMMA + 1), which is within RELATIVE_ERROR of all of them. Bucket
0 holds costs of at most one byte a second and answers 0. A histogram is rows of (keys, bucket, count): merging is
adding counts, so it is exact, associative and commutative, and a quantile of merged histograms has the same error as
one of all values together. `percentile_approx` has none of this: its state cannot be kept between runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

RELATIVE_ERROR: Final = 0.02
GAMMA: Final = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
LN_GAMMA: Final = math.log(GAMMA)

Transform = Callable[[DataFrame], DataFrame]


def bucket(cost: Column) -> Column:
    """Bucket (int) of a cost that is finite and >= 0."""
    return F.ceil(F.log(F.greatest(cost, F.lit(1.0))) / F.lit(LN_GAMMA)).cast("int")


def bucket_value(number: Column) -> Column:
    """The cost that a bucket answers with."""
    middle = F.pow(F.lit(GAMMA), number) * F.lit(2 / (GAMMA + 1))
    return F.when(number > 0, middle).otherwise(F.lit(0.0))


def merged(by: Sequence[str]) -> Transform:
    """One histogram for each value of the keys: the sum of all that are there."""

    def transform(histograms: DataFrame) -> DataFrame:
        return histograms.groupBy(*by, "bucket").agg(F.sum("count").alias("count")).select(*by, "bucket", "count")

    return transform


def quantile(by: Sequence[str], share: float) -> Transform:
    """From merged histograms the cost (column ``cost``) of each key that `share` of the values do not exceed.

    The value at index floor(share * (n - 1)) of the n sorted ones, as NumPy's method "lower". Raises ValueError unless
    0 <= share <= 1.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}: must be between 0 and 1")

    def transform(histograms: DataFrame) -> DataFrame:
        running = Window.partitionBy(*by).orderBy("bucket").rowsBetween(Window.unboundedPreceding, Window.currentRow)
        everything = Window.partitionBy(*by).rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
        reached = histograms.select(
            *by,
            "bucket",
            F.sum("count").over(running).alias("reached"),
            F.floor((F.sum("count").over(everything) - 1) * F.lit(share)).alias("index"),
        ).filter(F.col("reached") > F.col("index"))
        lowest = reached.groupBy(*by).agg(F.min("bucket").alias("bucket"))
        return lowest.select(*by, bucket_value(F.col("bucket")).alias("cost"))

    return transform
