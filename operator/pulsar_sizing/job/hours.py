"""From rows to the state of one hour: histograms and sums of every topic, duplicates counted once.

A topic may be there twice for one sample: it changed its broker between two answers, or a file was written twice. To
remove that by grouping all rows by topic and time would cost more than all the rest, so it is only looked for: each
group keeps, beside its count, a bit for every half minute in which it has a sample. Count and bits agree exactly when
no two samples share a half minute. Topics where they do not (almost none) are counted again, slowly and exactly.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from pulsar_sizing.job.rows import LARGEST, SLOTS_A_MASK, SUMMED

MASKS: Final = ("seen_first", "seen_last")


def grouped(rows: DataFrame) -> DataFrame:
    """One row a topic, unit, reason and bucket."""
    half = F.lit(SLOTS_A_MASK)
    return (
        rows.withColumns(
            {
                "seen_first": F.expr(f"if(slot < {SLOTS_A_MASK}, shiftleft(1L, slot), 0L)"),
                "seen_last": F.when(F.col("slot") >= half, F.expr(f"shiftleft(1L, slot - {SLOTS_A_MASK})")).otherwise(
                    F.lit(0).cast("long")
                ),
            }
        )
        .groupBy("topic", "unit", "reason", "bucket")
        .agg(
            F.count(F.lit(1)).alias("count"),
            *(F.bit_or(name).alias(name) for name in MASKS),
            *(F.sum(name).alias(name) for name in SUMMED),
            *(F.max(name).alias(name) for name in LARGEST),
        )
    )


def suspects(groups: DataFrame) -> DataFrame:
    """Topics and units in which two samples may be of the same time."""
    seen = groups.filter(F.col("reason").isNull()).groupBy("topic", "unit")
    bits = F.bit_count(F.col("seen_first")) + F.bit_count(F.col("seen_last"))
    return (
        seen.agg(F.sum("count").alias("count"), *(F.bit_or(name).alias(name) for name in MASKS))
        .filter(F.col("count") > bits)
        .select("topic", "unit")
    )


def once(rows: DataFrame) -> DataFrame:
    """Of measured rows of the same topic and time the one with the highest cost.

    A topic that just moved is reported by both brokers, and the one that lost it still tells old, decaying rates.
    """
    amounts = [*SUMMED, *LARGEST, "bucket", "slot"]
    best = F.max(F.struct("cost", *(name for name in amounts if name != "cost"))).alias("best")
    return (
        rows.groupBy("topic", "unit", "sample_time")
        .agg(best)
        .select("topic", "unit", F.lit(None).cast("string").alias("reason"), "sample_time", "best.*")
    )


def counted_again(groups: DataFrame, rows: DataFrame, found: DataFrame) -> DataFrame:
    """The groups with those of the suspects replaced by exact ones; `rows` are the measured rows of their units."""
    again = rows.filter(F.col("reason").isNull()).join(found, on=["topic", "unit"], how="left_semi")
    kept = groups.filter(F.col("reason").isNotNull()).unionByName(
        groups.filter(F.col("reason").isNull()).join(found, on=["topic", "unit"], how="left_anti")
    )
    return kept.unionByName(again.transform(once).transform(grouped))


def totals(groups: DataFrame) -> DataFrame:
    """Rows and cost by unit and reason: a handful of rows."""
    return groups.groupBy("unit", "reason").agg(F.sum("count").alias("count"), F.sum("cost").alias("cost"))


def histograms(groups: DataFrame) -> DataFrame:
    """State: one row a topic, hour of day, day and bucket."""
    return groups.filter(F.col("reason").isNull()).select(
        "topic",
        (F.col("unit") % F.lit(24)).alias("hour_of_day"),
        F.date_from_unix_date((F.col("unit") / F.lit(24)).cast("int")).alias("day"),
        "bucket",
        "count",
        "unit",
    )


def summaries(groups: DataFrame) -> DataFrame:
    """State for reports: one row a topic and hour, sums of its samples and the largest backlog and storage."""
    return (
        groups.filter(F.col("reason").isNull())
        .groupBy("topic", "unit")
        .agg(
            F.sum("count").alias("samples"),
            *(F.sum(name).alias(name) for name in SUMMED),
            *(F.max(name).alias(name) for name in LARGEST),
        )
        .select(
            "topic",
            (F.col("unit") % F.lit(24)).alias("hour_of_day"),
            F.date_from_unix_date((F.col("unit") / F.lit(24)).cast("int")).alias("day"),
            "samples",
            *SUMMED,
            *LARGEST,
            "unit",
        )
    )
