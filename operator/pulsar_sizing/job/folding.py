"""The quick way to the hourly table: the files of one broker and hour are added up round by round, without a shuffle.

A file of the collector has each topic once, and the file of the next round mostly has the same topics in the same
order. So a task adds up whole columns, and its rows are rows of the hourly table. What a task cannot decide alone is
left to hourly.py, by position: a topic that two brokers report at overlapping times, a sample that occurs twice, a row
with a wrong number or name. Both ways give the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from pulsar_sizing.job import hourly, landing
from pulsar_sizing.job.landing import Reading
from pulsar_sizing.job.round_sums import CONFLICT, SCHEMA, RoundSums, one_round

LEAST_ROWS: Final = 1 << 21
"""Rows of a batch from which its files are folded: fewer are shuffled, with fewer queries."""
MOST_CONFLICTS: Final = 100_000
"""Positions of conflicts in an hour that the driver collects; an hour with more is made by hourly.py."""
FOLD_ROWS: Final = 1 << 20
"""Rows, about, that one task folds at least."""
OUTPUT_ROWS: Final = 1 << 15
"""Rows of one Arrow batch that a task returns."""
GROUPS: Final = "unit bigint, paths array<string>"
FOLDED: Final = f"{hourly.RESULT}, first bigint, last bigint"
"""Columns of hourly.RESULT, and the first and last sample time of each row. Rows with the reason CONFLICT have a
position that hourly.py must make, or null for all positions of the hour."""


@contextmanager
def aggregated(
    spark: SparkSession, paths: Mapping[int, Sequence[str]], reading: Reading, rows: int, parts: int
) -> Iterator[DataFrame]:
    """Yields the rows of landing files as hourly.RESULT. `rows` is how many they have; see hourly.aggregated."""
    if rows < LEAST_ROWS:
        yield hourly.aggregated(landing.files(spark, paths, parts), reading, parts)
        return
    groups = [(unit, list(each)) for unit in sorted(paths) for each in by_broker(paths[unit])]
    tasks = max(1, min(len(groups), rows // FOLD_ROWS))
    dealt = spark.createDataFrame(groups, GROUPS).repartitionByRange(tasks, "paths")
    folded = dealt.mapInArrow(lambda batches: fold(reading, batches), FOLDED).persist(StorageLevel.DISK_ONLY)
    try:
        yield _completed(spark, folded, paths, reading, parts)
    finally:
        folded.unpersist()


def by_broker(paths: Iterable[str]) -> Iterator[Sequence[str]]:
    """Yields the files of each broker in the order of their rounds, by what layout.sample_file names them."""
    for _, each in groupby(sorted(paths), lambda path: path.rsplit("-", 2)[0]):
        yield tuple(each)


def fold(reading: Reading, batches: Iterable[Any]) -> Iterator[Any]:
    """Yields rows of FOLDED from rows of GROUPS: the kernel for ``mapInArrow``."""
    for batch in batches:
        for unit, paths in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            for table in _fold(reading, unit, paths):
                yield from table.to_batches(OUTPUT_ROWS)


def _fold(reading: Reading, unit: int, paths: Sequence[str]) -> Iterator[Any]:
    """Yields the rows of the files of one broker and hour."""
    sums: RoundSums | None = None
    for path in paths:
        rows = reading.rounds(path)
        if not rows.num_rows:
            continue
        broker = one_round(rows)
        if broker is None and sums is None:
            # Files with many rounds, as an older collector's compaction wrote them.
            yield pa.Table.from_pylist([{"unit": unit, "reason": CONFLICT}], SCHEMA)
            return
        if sums is None or (broker is not None and broker != sums.broker):
            if sums is not None:
                yield sums.table()
            sums = RoundSums(unit, broker or "", reading.model)
        sums.add(rows)
    if sums is not None:
        yield sums.table()


def _completed(
    spark: SparkSession, folded: DataFrame, paths: Mapping[int, Sequence[str]], reading: Reading, parts: int
) -> DataFrame:
    """Returns folded rows as hourly.RESULT, with those of conflicts made by hourly.py."""
    sound = folded.where("reason is null").drop("first", "last")
    positions = conflicts(folded)
    counts = positions.groupBy("unit").agg(F.count("*").alias("n"), F.count("position").alias("known")).collect()
    if not counts:
        return sound
    some = [row["unit"] for row in counts if row["n"] == row["known"] <= MOST_CONFLICTS]
    whole = [row["unit"] for row in counts if row["unit"] not in some]
    listed = positions.where(F.col("unit").isin(some)).collect() if some else []
    pairs = sorted((int(row["unit"]), int(row["position"])) for row in listed)
    by_unit = {
        unit: np.array([position for _, position in each]) for unit, each in groupby(pairs, lambda pair: pair[0])
    }
    again = landing.files(spark, {row["unit"]: paths[row["unit"]] for row in counts}, parts)
    made = hourly.aggregated(again, replace(reading, positions=by_unit), parts)
    kept = sound.where(~F.col("unit").isin(whole)) if whole else sound
    if pairs:
        dropped = F.broadcast(spark.createDataFrame(pairs, "unit bigint, position bigint"))
        kept = kept.join(dropped, on=["unit", "position"], how="left_anti").select(made.columns)
    return kept.unionByName(made)


def conflicts(folded: DataFrame) -> DataFrame:
    """Returns the positions (unit, position) that fold cannot decide; a null position is all of the hour."""
    times = (F.max("first").alias("latest_first"), F.min("last").alias("earliest_last"))
    brokers = (F.min("broker").alias("a"), F.max("broker").alias("b"), F.min("position").alias("position"))
    topics = folded.where("reason is null").groupBy("unit", "topic").agg(F.count("*").alias("n"), *times, *brokers)
    # Two brokers one after the other have a row each: the topic moved between two rounds.
    shared = topics.where("n > 2 or (n = 2 and (a = b or latest_first <= earliest_last))")
    left = folded.where("reason is not null")
    return shared.select("unit", "position").unionByName(left.select("unit", "position")).distinct()
