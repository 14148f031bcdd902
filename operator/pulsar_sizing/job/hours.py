"""From rows to the state of one hour: sums and buckets of every topic, duplicates counted once.

Sums are one group a topic and hour, a sixtieth of the rows, so little goes through a shuffle. Buckets would be one
group for every other row: noise spreads the sixty samples of an hour over about thirty buckets of 4 %, and grouping
by them cost ten times all the rest. So each sample is written as it is read, a row (topic, bucket, 1). Those who read a
histogram add counts up anyway.

A topic may be there twice for one sample: it changed its broker between two answers, or a file was written twice. To
remove that by grouping all rows by topic and time would cost more than all the rest, so it is only looked for: each
group keeps, beside its count, a bit for every half minute in which it has a sample. Count and bits agree exactly when
no two samples share a half minute. Topics where they do not (almost none) are counted again, slowly and exactly.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from pulsar_sizing.job.rows import LARGEST, SLOTS_A_MASK, SUMMED, accepted

MASKS: Final = ("seen_first", "seen_last")


def grouped(rows: DataFrame) -> DataFrame:
    """One row a topic, unit and reason, of measured rows."""
    return (
        rows.withColumns(
            {
                "seen_first": F.expr(f"if(slot < {SLOTS_A_MASK}, shiftleft(1L, slot), 0L)"),
                "seen_last": F.expr(f"if(slot < {SLOTS_A_MASK}, 0L, shiftleft(1L, slot - {SLOTS_A_MASK}))"),
            }
        )
        .groupBy("topic", "unit", "reason")
        .agg(
            F.count(F.lit(1)).alias("count"),
            *(F.bit_or(name).alias(name) for name in MASKS),
            *(F.sum(name).alias(name) for name in SUMMED),
            *(F.max(name).alias(name) for name in LARGEST),
        )
    )


def suspects(groups: DataFrame) -> DataFrame:
    """Topics and units in which two samples may be of the same time."""
    return groups.filter(_suspected()).select("topic", "unit")


def _suspected() -> Column:
    bits = F.bit_count(F.col("seen_first")) + F.bit_count(F.col("seen_last"))
    return F.col("reason").isNull() & (F.col("count") > bits)


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


def without_duplicates(rows: DataFrame, found: DataFrame) -> DataFrame:
    """Measured rows that count, those of the suspects once; `rows` are the measured rows of some units."""
    good = rows.transform(accepted)
    suspected = good.join(found, on=["topic", "unit"], how="left_semi").transform(once)
    return good.join(found, on=["topic", "unit"], how="left_anti").unionByName(suspected)


def counted_again(groups: DataFrame, rows: DataFrame, found: DataFrame) -> DataFrame:
    """The groups with those of the suspects replaced by exact ones; `rows` are the measured rows of their units."""
    again = rows.transform(accepted).join(found, on=["topic", "unit"], how="left_semi")
    # Rejected rows have no topic, so that nothing in `found` equals theirs.
    kept = groups.join(found, on=["topic", "unit"], how="left_anti")
    return kept.unionByName(again.transform(once).transform(grouped))


def totals(groups: DataFrame) -> DataFrame:
    """Rows, cost and number of suspects by unit and reason: a handful of rows."""
    return groups.groupBy("unit", "reason").agg(
        F.sum("count").alias("count"), F.sum("cost").alias("cost"), F.count_if(_suspected()).alias("suspects")
    )


def histograms(rows: DataFrame) -> DataFrame:
    """State: one row a sample that counts. Rows of the same topic and bucket are to be added up."""
    return rows.select("topic", "bucket", F.lit(1).cast("long").alias("count"), "unit")


def summaries(groups: DataFrame) -> DataFrame:
    """State for reports: one row a topic and hour, sums of its samples and the largest backlog and storage."""
    return groups.transform(accepted).select(
        "topic",
        (F.col("unit") % F.lit(24)).alias("hour_of_day"),
        F.date_from_unix_date((F.col("unit") / F.lit(24)).cast("int")).alias("day"),
        F.col("count").alias("samples"),
        *SUMMED,
        *LARGEST,
        "unit",
    )
